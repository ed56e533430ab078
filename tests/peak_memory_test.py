#!/usr/bin/env python3
"""The most memory that a server ever has, from its start to work at its limits, against what the
plan says: the model's file, the KV cache, activations and workspace, and 64 MiB.

    peak_memory_test.py PROGRAM SOURCE_DIR [MODEL [FLAG...]]

With a model: prints the numbers for it, and the time to the first 200 of /ready, instead of
testing.
"""

import http.client
import json
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest

sys.argv, extra = sys.argv[:3], sys.argv[3:]

from cli_support import PROGRAM, SMOLLM2, STORIES, needs, run  # noqa: E402

SLACK = 64 << 20


def files_bytes(model):
    model = pathlib.Path(model)
    if model.is_file():
        return model.stat().st_size
    return sum(path.stat().st_size for path in model.glob("*.safetensors"))


def status_bytes(pid, key):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) << 10
    raise KeyError(key)


def port_of(server):
    """Where it listens, as its log says."""
    log = ""
    for line in server.stderr:
        log += line
        found = re.search(r"serving .* on http://\S+:(\d+)$", line)
        if found:
            threading.Thread(target=server.stderr.read, daemon=True).start()
            return int(found[1])
    raise AssertionError(f"the end of the server's log before its address: {log}")


def wait_until_ready(server, port, start):
    while time.monotonic() < start + 120:
        assert server.poll() is None, server.returncode
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.002)
    raise TimeoutError("the server does not become ready")


def complete(port, prompt):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/v1/completions",
                       json.dumps({"prompt": prompt, "max_tokens": 4, "ignore_eos": True}),
                       {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()


def measure(model, *flags):
    """Peak and plan of one server, in bytes."""
    inspected = run("inspect", "--model", model, "--json", *flags)
    assert inspected.returncode == 0, inspected.stderr
    plan = json.loads(inspected.stdout)["memory_plan"]
    start = time.monotonic()
    server = subprocess.Popen([PROGRAM, "serve", "--model", str(model), "--port", "0",
                               *flags],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        port = port_of(server)
        wait_until_ready(server, port, start)
        seconds = time.monotonic() - start
        at_start = status_bytes(server.pid, "VmHWM")
        for i in range(3):
            complete(port, [(i * 31 + p * p) % 300 for p in range(300)])
        return {"ready_seconds": seconds,
                "at_start": at_start,
                "peak": status_bytes(server.pid, "VmHWM"),
                "files": files_bytes(model),
                "plan": plan}
    finally:
        server.terminate()
        server.wait(timeout=120)
        server.stderr.close()


def allowed(found):
    plan = found["plan"]
    return (found["files"] + plan["kv_cache_bytes"] + plan["activation_bytes"]
            + plan["workspace_bytes"] + SLACK)


def report(found):
    mib = 1 << 20
    plan = found["plan"]
    print(f"ready after {found['ready_seconds']:.2f} s; peak {found['peak'] / mib:.1f} MiB "
          f"({found['at_start'] / mib:.1f} when ready), allowed {allowed(found) / mib:.1f}, "
          f"planned {plan['total_bytes'] / mib:.1f}: files {found['files'] / mib:.1f}, weights "
          f"{plan['weight_bytes'] / mib:.1f}, KV cache {plan['kv_cache_bytes'] / mib:.1f}, "
          f"activations {plan['activation_bytes'] / mib:.1f}, "
          f"workspace {plan['workspace_bytes'] / mib:.1f}")


class PeakMemory(unittest.TestCase):
    @needs(SMOLLM2)
    def test_is_the_file_the_pool_the_activations_and_64_mib(self):
        found = measure(SMOLLM2, "--prefault", "--max-num-seqs", "8", "--max-model-len", "2048")
        report(found)
        self.assertLessEqual(found["peak"], allowed(found))
        # What was planned is there: the bound above is no loose one.
        self.assertGreaterEqual(found["peak"], 0.95 * found["plan"]["total_bytes"])

    @needs(SMOLLM2)
    def test_loading_never_holds_file_and_weights_whole(self):
        found = measure(SMOLLM2, "--max-num-seqs", "1", "--max-model-len", "512")
        report(found)
        plan = found["plan"]
        self.assertLessEqual(found["at_start"],
                             plan["weight_bytes"] + plan["table_bytes"] + SLACK)

    @needs(STORIES)
    def test_quantizing_at_load_holds_no_second_form(self):
        for quantization in ("int8", "int4"):
            found = measure(STORIES, "--prefault", "--quantization", quantization,
                            "--max-num-seqs", "8")
            self.assertLessEqual(found["peak"], allowed(found))


if __name__ == "__main__":
    if extra:
        report(measure(*extra))
    else:
        unittest.main(argv=sys.argv[:1])

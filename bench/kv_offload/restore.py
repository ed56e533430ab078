#!/usr/bin/env python3
"""What a prompt costs that comes back from --kv-offload-path, beside computing it and beside reading the same bytes.

    bench/kv_offload/restore.py PROGRAM MODEL [--tokens 8192] [--rounds 5] [--folder DIR] [--json] [-- FLAGS...]

Two prompts of so many tokens push each other out of a KV cache that has room for one. Each is computed once, then comes back
from the files in turn: the time to the answer's one token, less that of the same request while its blocks are still in the
prefix cache. In each round the files are read once by themselves, as large pieces one after another. The system's own copy
of the files is dropped before each reading (posix_fadvise; a virtual disk may still have one of its own). At the end the
server is killed (SIGKILL), started again, and asked once more. Every answer must have the tokens of the first.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

PIECE = 4 << 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_health(process, url, said=lambda: ""):
    """Until the server answers; `said`: what to tell of one that ends before."""
    while True:
        try:
            urllib.request.urlopen(url + "/health", timeout=30).close()
            return
        except OSError:  # nobody listens, or 503 while it loads
            if process.poll() is not None:
                raise SystemExit(f"{pathlib.Path(sys.argv[0]).stem}: the server did not start" + said()) from None
            time.sleep(0.05)


class Server:
    def __init__(self, options, folder, cache_bytes):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [options.program, "serve", options.model, "--port", port, "--max-model-len", options.tokens + 2,
                   "--max-num-seqs", 2, "--kv-offload-path", folder, "--kv-offloading-size", options.size,
                   "--kv-cache-memory-bytes", cache_bytes, *options.flags]
        self.process = subprocess.Popen([str(each) for each in command], stdout=subprocess.DEVNULL)
        await_health(self.process, self.url)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read().decode()

    def metric(self, name):
        found = re.search(r"^" + re.escape(name) + r"(?:\{[^}]*\})? ([0-9.e+]+)$", self.get("/metrics"), re.M)
        return float(found.group(1)) if found else 0.0

    def event(self, event):
        found = re.search(r"^quire_kv_offload_blocks_total\{[^}]*event=\"%s\"[^}]*\} ([0-9.e+]+)$" % event,
                          self.get("/metrics"), re.M)
        return float(found.group(1)) if found else 0.0

    def settle(self):
        """Waits until what has left the cache is in the files."""
        while self.event("written") + self.event("dropped") < self.event("offloaded"):
            time.sleep(0.02)

    def ask(self, prompt):
        """Seconds, how many tokens were found, and the answer."""
        body = {"prompt": prompt, "max_tokens": 1, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        begin = time.perf_counter()
        with urllib.request.urlopen(request, timeout=3600) as answer:
            result = json.load(answer)
        seconds = time.perf_counter() - begin
        return seconds, result["usage"]["prompt_tokens_details"]["cached_tokens"], result["choices"][0]["token_ids"]

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait()


def drop_copy(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_rate(path, size):
    """Bytes/s of reading so much of a file, piece by piece."""
    drop_copy(path)
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        buffer, done, begin = bytearray(PIECE), 0, time.perf_counter()
        while done < size:
            count = file.readinto(buffer)
            if count == 0:
                break
            done += count
        return done / (time.perf_counter() - begin)


def prompt_of(num_tokens, which):
    return [3 + (i * i * 7 + i * 3 + which * 13) % 1000 for i in range(num_tokens)]


def report(result, as_json):
    if as_json:
        print(json.dumps(result, indent=1))
        return
    for name, value in result.items():
        print(f"{name:<26} {value:,.4g}" if isinstance(value, float) else f"{name:<26} {value:,}")


def arguments(doc, server, tokens, of_tokens=None):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=tokens, help=of_tokens)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=pathlib.Path, help="on the disk to be measured (default: the temporary folder)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("flags", nargs="*", help=f"further flags of {server}, after --")
    return parser


def main():
    parser = arguments(__doc__, "quire serve", 8192, "a multiple of 16")
    parser.add_argument("--size", type=float, default=2, help="GiB of the disk")
    options = parser.parse_args()
    plan = json.loads(subprocess.run([options.program, "plan", options.model, "--input-len", "1", "--output-len", "1",
                                      "--json"], stdout=subprocess.PIPE, check=True).stdout)
    token_bytes = plan["kv_bytes_per_token"]
    # So that a prompt of a whole number of blocks and one token more fills the cache.
    cache_bytes = int(token_bytes * (options.tokens + 16))
    prompts = [prompt_of(options.tokens + 1, which) for which in (1, 2)]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        server = Server(options, folder, cache_bytes)
        firsts, computed = [], []
        for prompt in prompts:
            seconds, _, answer = server.ask(prompt)
            computed.append(seconds)
            firsts.append(answer)
        server.settle()
        blocks = next(pathlib.Path(folder).glob("*/blocks"))
        restored, found, rates, speeds = [], [], [], []
        for k in range(2 * options.rounds):
            which = k % 2
            drop_copy(blocks)
            read_before = server.metric('quire_kv_offload_bytes_total{direction="read"}')
            seconds, cached, answer = server.ask(prompts[which])
            again, _, _ = server.ask(prompts[which])
            if answer != firsts[which]:
                raise SystemExit("restore: another answer than before")
            server.settle()
            size = cached * token_bytes
            restored.append(seconds)
            found.append(cached)
            speeds.append(size / (seconds - again))
            rates.append(read_rate(blocks, size))
            print(f"restored {cached} tokens, {size / 1e6:.1f} MB: {seconds:.3f} s (again {again:.3f} s), {speeds[-1] / 1e6:.0f} MB/s; "
                  f"the disk {rates[-1] / 1e6:.0f} MB/s", file=sys.stderr)
        server.end(signal.SIGKILL)
        drop_copy(blocks)
        server = Server(options, folder, cache_bytes)
        after, cached_after, answer = server.ask(prompts[0])
        if answer != firsts[0]:
            raise SystemExit("restore: another answer after the restart")
        server.end(signal.SIGTERM)
    result = {"tokens": options.tokens, "bytes_per_token": token_bytes, "computed_s": statistics.median(computed),
              "restored_s": statistics.median(restored), "found_tokens": min(found),
              "times_sooner": statistics.median(computed) / statistics.median(restored),
              "restore_bytes_per_s": statistics.median(speeds), "disk_bytes_per_s": statistics.median(rates),
              "share_of_disk": statistics.median(s / r for s, r in zip(speeds, rates)),
              "after_kill_s": after, "after_kill_found_tokens": cached_after}
    report(result, options.json)


if __name__ == "__main__":
    main()

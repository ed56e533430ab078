#!/usr/bin/env python3
"""What hostile schemas cost those who are answered meanwhile: the times between tokens of 16 streams, by turns with and
without clients that send one schema of tests/hostile_schemas.py after the other.

    scripts/measure_hostile_schemas.py PROGRAM [--pairs 11] [--senders 2] [SERVE_FLAG...]

Starts `PROGRAM serve` and loads it by `PROGRAM bench serve`. Prints each pair, and the medians of the pairs' ratios.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import threading
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench" / "peers"), str(ROOT / "tests")]
from engines import free_port, running_server  # noqa: E402
from hostile_schemas import HOSTILE  # noqa: E402

STREAMS = ("--backend", "openai-chat", "--num-prompts", "16", "--max-concurrency", "16", "--random-input-len", "32",
           "--random-output-len", "128", "--ignore-eos", "--seed", "1", "--extra-body", '{"temperature": 0}', "--json")
NEVER_SEEN = itertools.count(1)  # what was refused before is refused at once


class Senders:
    """Clients that each wait for an answer and send the next schema; a context manager that stops them."""

    def __init__(self, url, count):
        self.url, self.answered, self.stopping = url, 0, False
        self.threads = [threading.Thread(target=self.send, args=(i * 7,)) for i in range(count)]

    def send(self, first):
        schemas = list(HOSTILE.values())
        for i in itertools.count(first):
            if self.stopping:
                return
            schema = f'{schemas[i % len(schemas)][:-1]}, "$comment": "{next(NEVER_SEEN)}"}}'
            body = f'{{"prompt": "a", "max_tokens": 1, "structured_outputs": {{"json": {schema}}}}}'
            request = urllib.request.Request(self.url + "/v1/completions", body.encode(),
                                             {"Content-Type": "application/json"})
            try:
                urllib.request.urlopen(request).read()
            except urllib.error.HTTPError as error:
                error.read()
            self.answered += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        for thread in self.threads:
            thread.join()


def between_tokens(program, url):
    """Milliseconds: p50 and p99."""
    run = subprocess.run([program, "bench", "serve", "--base-url", url, *STREAMS], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (level,) = json.loads(run.stdout)["levels"]
    assert level["failed"] == 0
    return level["itl_ms"]["p50"], level["itl_ms"]["p99"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--senders", type=int, default=2)
    arguments, flags = parser.parse_known_args()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running_server([arguments.program, "serve", "--port", port, *flags], url + "/ready"):
        between_tokens(arguments.program, url)
        ratios = []
        for pair in range(arguments.pairs):
            without = between_tokens(arguments.program, url)
            with Senders(url, arguments.senders) as senders:
                beside = between_tokens(arguments.program, url)
            ratios.append([b / a for a, b in zip(without, beside)])
            print(f"pair {pair}: p50 {without[0]:.2f} and {beside[0]:.2f} ms, p99 {without[1]:.2f} and {beside[1]:.2f} ms, "
                  f"{senders.answered} schemas answered", flush=True)
    for name, each in zip(("p50", "p99"), zip(*ratios)):
        print(f"{name}: {statistics.median(each):.3f} times ({min(each):.3f} to {max(each):.3f})")


if __name__ == "__main__":
    main()

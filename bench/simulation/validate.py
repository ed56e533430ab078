#!/usr/bin/env python3
"""Simulated runs against real ones on this machine: throughput within 10%, p50 TTFT and TPOT within 15%.

    bench/simulation/validate.py PROGRAM [--model MODEL] [--threads N] [--output FILE]

Needs a machine where nothing else runs: it calibrates (quire bench calibrate), then runs five workloads for real
(quire bench throughput, one engine in process, no prefix cache) and simulated with the costs so found, and prints both
numbers of each. The exit code is 1 where one is off by more.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

# Prompt, output, requests, at once. Real loads are closed: so many at once, one after another.
WORKLOADS = [(32, 64, 8, 8), (128, 128, 8, 8), (512, 32, 8, 8), (256, 64, 16, 16), (64, 16, 32, 32)]


def call(*args):
    result = subprocess.run([str(each) for each in args], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--model", default=None)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    model = [options.model] if options.model else []
    threads = ["--threads", options.threads] if options.threads else []
    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        costs = pathlib.Path(folder) / "costs.json"
        print("calibrated:", json.dumps(call(options.program, "bench", "calibrate", *model, *threads, "--output", costs,
                                             "--json")))
        for prompt, output, count, at_once in WORKLOADS:
            lengths = ["--input-len", prompt, "--output-len", output]
            real = call(options.program, "bench", "throughput", *model, *threads, *lengths, "--num-prompts", count,
                        "--concurrency", at_once, "--no-enable-prefix-caching", "--json")
            real = real.get("levels", [real])[0]
            made = call(options.program, "simulate", *model, *lengths, "--num-requests", count, "--qps", 0,
                        "--length-spread", "fixed", "--max-num-seqs", at_once, "--device", "xeon-8480", "--step-cost",
                        costs, "--no-enable-prefix-caching", "--json")["runs"][0]
            pairs = {"tokens_per_s": (real["output_tokens_per_s"], made["output_tokens_per_s"], 0.10),
                     "ttft_s": (real["ttft_s"]["p50"], made["ttft_s"]["p50"], 0.15),
                     "tpot_s": (real["tpot_s"]["p50"], made["tpot_s"]["p50"], 0.15)}
            for name, (measured, simulated, most) in pairs.items():
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

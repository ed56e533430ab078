#!/usr/bin/env python3
"""Simulated runs against real ones on this machine: throughput within 10%, p50 TTFT and TPOT within 15%.

    bench/simulation/validate.py PROGRAM [--model MODEL] [--threads N] [--rounds N] [--output FILE]

Needs a machine where nothing else runs. Each round calibrates (quire bench calibrate), then runs five workloads for
real (quire bench throughput, one engine in process, no prefix cache) and simulated with the costs so found. Calibration
leaves out what others slowed down, and others only ever slow down, so the fastest of three real runs counts. A machine's
pace changes within minutes, so the two numbers of a round belong together: what is judged is the median over the rounds
of simulated / real, and all rounds are printed. The exit code is 1 where one is off by more.
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
REAL_RUNS = 3
MOST = {"tokens_per_s": 0.10, "ttft_s": 0.15, "tpot_s": 0.15}  # how far off a simulated number may be
# Tokens of a step: the two commands have different defaults.
COMMON = ["--no-enable-prefix-caching", "--max-num-batched-tokens", 512, "--json"]


def call(*args):
    result = subprocess.run([str(each) for each in args], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout)


def numbers(run):
    """What is compared of a run, real or simulated: tokens/s, p50 TTFT and p50 TPOT."""
    run = run.get("levels", [run])[0]
    return {"tokens_per_s": run["output_tokens_per_s"], "ttft_s": run["ttft_s"]["p50"], "tpot_s": run["tpot_s"]["p50"]}


def parser_of(description):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--model", default=None)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path)
    return parser


def engine_flags(options):
    return [*(["--model", options.model] if options.model else []),
            *(["--threads", options.threads] if options.threads else [])]


def measure_round(options, costs):
    """Yields (workload, real, simulated) after calibrating into the file `costs`."""
    model = [options.model] if options.model else []
    call(options.program, "bench", "calibrate", *engine_flags(options), "--output", costs, "--json")
    for workload in WORKLOADS:
        prompt, output, count, at_once = workload
        lengths = ["--input-len", prompt, "--output-len", output]
        runs = [numbers(call(options.program, "bench", "throughput", *engine_flags(options), *lengths, "--num-prompts",
                             count, "--concurrency", at_once, *COMMON)) for _ in range(REAL_RUNS)]
        real = max(runs, key=lambda each: each["tokens_per_s"])
        simulated = call(options.program, "simulate", *model, *lengths, "--num-requests", count, "--qps", 0,
                         "--length-spread", "fixed", "--max-num-seqs", at_once, "--device", "xeon-8480", "--step-cost",
                         costs, *COMMON)["runs"][0]
        yield workload, real, numbers(simulated)


def judge(rounds):
    """Prints a line for each workload and number, and returns them."""
    rows = []
    for at, (prompt, output, count, at_once) in enumerate(WORKLOADS):
        for name, most in MOST.items():
            pairs = [(each[at][1][name], each[at][2][name]) for each in rounds]
            ratios = [simulated / real - 1 for real, simulated in pairs]
            off = statistics.median(ratios)
            rows.append({"prompt": prompt, "output": output, "requests": count, "at_once": at_once, "what": name,
                         "real": statistics.median(real for real, _ in pairs),
                         "simulated": statistics.median(simulated for _, simulated in pairs),
                         "off": off, "rounds": ratios, "most": most})
            print(f"{prompt:>5} in {output:>4} out {count:>3} requests  {name:<13} real {rows[-1]['real']:10.4f}  "
                  f"simulated {rows[-1]['simulated']:10.4f}  {off:+.1%} ({', '.join(f'{each:+.1%}' for each in ratios)})"
                  f"{'  TOO FAR' if abs(off) > most else ''}")
    return rows


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
            rounds.append(list(measure_round(options, pathlib.Path(folder) / "costs.json")))
    rows = judge(rounds)
    if options.output:
        options.output.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(abs(row["off"]) > row["most"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

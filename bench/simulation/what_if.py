#!/usr/bin/env python3
"""What a recorded run says of another setting, against a real run with that setting.

    bench/simulation/what_if.py PROGRAM [--model MODEL] [--threads N] [--repeat N] [--output FILE] [--only PART] [--keep FOLDER]

For each of some settings it serves a load with an event log, again with the setting changed, in turns, and asks
`quire simulate --event-log` of the first log what the change would do, with the costs of steps that `quire bench calibrate`
has found at the start. Printed are the change that was measured and the
one that was simulated, of throughput and of the medians of the times; each is the median of the repeated pairs. The exit
code is 1 where a change of more than 10% has the other direction, or the simulated one leads to a value that is off by
more than 20%. Best on a machine where nothing else runs: the load average is printed with the numbers.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from validate import call, engine_flags, parser_of

SMALL = 0.10  # a change that is smaller than this has no direction
MOST = 0.20
METRICS = {"tokens_per_s": lambda run: run["output_tokens_per_s"], "ttft_s": lambda run: run["ttft_s"]["p50"],
           "tpot_s": lambda run: run["tpot_s"]["p50"], "latency_s": lambda run: run["latency_s"]["p50"]}
RANDOM = ["--dataset-name", "random", "--num-prompts", 16, "--input-len", 96, "--output-len", 32]
PREFIX = ["--dataset-name", "prefix", "--num-prompts", 16, "--num-prefixes", 2, "--prefix-len", 256, "--suffix-len", 32,
          "--output-len", 32]
# A name, the load, the flags of both servers, the change.
SETTINGS = [
    ("fewer sequences at once", RANDOM, {"--max-num-seqs": 8}, {"--max-num-seqs": 2}),
    ("no prefix caching", PREFIX, {"--max-num-seqs": 4}, {"--no-enable-prefix-caching": None}),
    ("smaller steps", RANDOM, {"--max-num-seqs": 8}, {"--max-num-batched-tokens": 12}),
    ("short outputs first", [*RANDOM, "--random-range-ratio", 0.9], {"--max-num-seqs": 2},
     {"--scheduling-policy": "shortest"}),
]


def words(flags):
    return [str(word) for flag in flags.items() for word in flag if word is not None]


@contextlib.contextmanager
def server(program, log, *flags):
    """`quire serve` with an event log, and its address."""
    said = log.with_suffix(".output")
    command = [program, "serve", "--host", "127.0.0.1", "--port", 0, "--event-log", log, *flags]
    with said.open("w") as output:
        process = subprocess.Popen([str(each) for each in command], stdout=output, stderr=subprocess.STDOUT)
    try:
        while not is_ready(address := re.search(r"http://127\.0\.0\.1:\d+", said.read_text())):
            if process.poll() is not None:
                raise SystemExit(f"the server ended: {said.read_text()}")
            time.sleep(0.05)
        yield address[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def is_ready(address):
    with contextlib.suppress(OSError):
        return address is not None and urllib.request.urlopen(f"{address[0]}/ready", timeout=5).status == 200
    return False


def record(program, log, load, flags):
    with server(program, log, *flags) as address:
        call(program, "bench", "serve", "--json", "--base-url", address, "--ignore-eos", "--num-warmups", 1, *load)


def run(stack):
    parser = parser_of(__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the event logs and the costs, which stay there")
    parser.add_argument("--only", help="a part of the name of the settings to run")
    options = parser.parse_args()
    common = engine_flags(options)
    rows, failed = [], 0
    folder = options.keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    folder.mkdir(exist_ok=True)
    costs = folder / "costs.json"
    call(options.program, "bench", "calibrate", *common, "--output", costs, "--json")
    for number, (name, load, flags, change) in enumerate(SETTINGS):
        if options.only and options.only not in name:
            continue
        pairs = []
        for i in range(options.repeat):
            before, after = (folder / f"{which}-{number}-{i}" for which in ("before", "after"))
            record(options.program, before, load, [*common, *words(flags)])
            record(options.program, after, load, [*common, *words({**flags, **change})])
            told = call(options.program, "simulate", "--json", "--event-log", before, "--step-cost", costs, *words(change))
            pairs.append((told["recorded"], call(options.program, "simulate", "--json", "--event-log", after)["recorded"],
                          told["simulated"], told["runs"][0]))
        share = statistics.median(pair[3]["recorded_step_share"] for pair in pairs)
        print(f"{name} ({' '.join(words(change))}), load average {os.getloadavg()[0]:.1f}, "
              f"{share:.0%} of the simulated time in steps as the log has them")
        for metric, value in METRICS.items():
            before, after, same, changed = (statistics.median(value(pair[i]) for pair in pairs) for i in range(4))
            real = statistics.median(value(pair[1]) / value(pair[0]) for pair in pairs) - 1
            simulated = statistics.median(value(pair[3]) / value(pair[2]) for pair in pairs) - 1
            off = (1 + simulated) / (1 + real) - 1
            wrong_way = abs(real) > SMALL and real * simulated < 0
            bad = wrong_way or abs(off) > MOST
            failed += bad
            rows.append({"setting": name, "what": metric, "recorded": before, "changed": after, "same_simulated": same,
                         "changed_simulated": changed, "real": real, "simulated": simulated, "off": off})
            print(f"  {metric:<13} recorded {before:9.4f}  changed {after:9.4f}  real {real:+8.1%}   "
                  f"simulated {same:9.4f} and {changed:9.4f}  {simulated:+8.1%}   off {off:+.1%}{'  TOO FAR' if bad else ''}")
        sys.stdout.flush()
    if options.output:
        options.output.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    with contextlib.ExitStack() as opened:
        sys.exit(run(opened))

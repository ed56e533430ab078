#!/usr/bin/env python3
"""Quire beside its peers on this machine: the same model, the same work, alternating runs.

  bench/peers/compare.py [--only llama.cpp openvino] [--rows decode1 prefill512] [--models bf16 q8] [--repeats 3]
                         [--json FILE] [--wrap PROGRAM] [--models-dir DIR] [--venvs DIR] [--quire PROGRAM]

Prints, for each row, model and peer, the medians of both with their spread (lowest and highest run), Quire's share of
what the machine allows, and the ratio of the medians. Each run is a process of its own; within a pair the engines take
turns at going first. What the machine allows comes from `quire bench limits` right before and after each run of Quire
that it bounds: the lower of read bandwidth and the F32 rate. Models that are missing are made; peers that are missing
are named (scripts/install_peers.sh installs them). `--wrap` names a program that is put before each run, one that
quietens the machine, say; where a server is measured, before each run of the load client.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

import engines
import models
from rows import ROWS


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    peers = [name for name in engines.ENGINES if name != "quire"]
    parser.add_argument("--only", nargs="+", choices=peers, default=[name for name in peers if name not in engines.OWN],
                        metavar="PEER", help=", ".join(peers))
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--models", nargs="+", choices=models.MODELS, default=list(models.MODELS), metavar="MODEL",
                        help=", ".join(models.MODELS))
    parser.add_argument("--repeats", type=int, default=3, help="pairs of runs (3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all runs here")
    parser.add_argument("--wrap", type=shlex.split, default=[], metavar="PROGRAM")
    parser.add_argument("--models-dir", type=pathlib.Path, default=models.REPOSITORY / "models")
    parser.add_argument("--venvs", type=pathlib.Path, default=models.REPOSITORY / ".venvs")
    parser.add_argument("--quire", type=pathlib.Path, default=models.REPOSITORY / "build/release/quire")
    parser.add_argument("--quire-args", type=shlex.split, default=[], help="further flags of Quire's engine")
    parser.add_argument("--run", nargs=3, metavar=("ENGINE", "MODEL", "ROW"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in ("models_dir", "venvs", "quire"):
        setattr(options, name, getattr(options, name).resolve())
    return options


def run_once(options):
    """The one run of `--run`, as JSON."""
    engine, model, row = options.run
    path = models.path_of(model, engine, options.models_dir)
    try:
        flags = models.MODELS[model].flags.get(engine, ())
        result = engines.ENGINES[engine](options, path, flags).measure(ROWS[row])
    except (engines.RunFailed, subprocess.TimeoutExpired) as error:
        sys.exit(str(error))
    print(json.dumps(result))


def run_wrapped(options, engine, model, row):
    """One run in a process of its own. Of a row of serving, which is long, the engine wraps the parts that are timed."""
    outside, inside = ([], options.wrap) if ROWS[row].kind == "serve" else (options.wrap, [])
    command = [*outside, sys.executable, "-B", __file__, "--run", engine, model, row, "--wrap=" + shlex.join(inside),
               "--threads", str(options.threads), "--models-dir", str(options.models_dir), "--venvs", str(options.venvs), "--quire",
               str(options.quire), "--quire-args=" + shlex.join(options.quire_args)]
    return json.loads(engines.run_program(command, timeout=1800).splitlines()[-1])


def machine_limits(options):
    report = json.loads(engines.run_program(
        [*options.wrap, options.quire, "bench", "limits", "--json", "--threads", options.threads]))
    most = report["by_threads"][-1]
    def best(*kinds):
        return max(most[kind] or 0 for kind in ("f32_flop_per_s", *kinds))
    return {"processor": report["processor"], "isa_level": report["isa_level"], "threads": most["threads"],
            "read_bytes_per_s": most["read_bytes_per_s"]["best"],
            "bf16_per_s": best("bf16_dot_flop_per_s", "bf16_tile_flop_per_s"),
            "int8_per_s": best("int8_dot_op_per_s", "int8_tile_op_per_s")}


def summary(runs):
    values = [run["value"] for run in runs]
    result = {"median": statistics.median(values), "low": min(values), "high": max(values), "runs": runs}
    for name in ("ttft_p50_s", "ttft_share", "gap_p99_s"):
        if name in runs[0]:
            result[name] = statistics.median(run[name] for run in runs)
    if "limit" in runs[0]:
        shares = [run["value"] / run["limit"] for run in runs]
        result["share"] = {"median": statistics.median(shares), "low": min(shares), "high": max(shares)}
    if "note" in runs[0]:
        result["note"] = runs[0]["note"]
    return result


def run_quire(options, model, row, peer):
    """A run of Quire; of a row that the machine bounds, between two looks at it, whose memory others may share. Beside
    itself Quire needs no such look."""
    if not ROWS[row].has_limit or peer in engines.OWN:
        return run_wrapped(options, "quire", model, row)
    before = machine_limits(options)
    run = run_wrapped(options, "quire", model, row)
    after = machine_limits(options)
    between = {name: (before[name] + after[name]) / 2 for name in ("read_bytes_per_s", "bf16_per_s", "int8_per_s")}
    return run | {"limit": models.limit(ROWS[row], model, between), "read_bytes_per_s": between["read_bytes_per_s"]}


def compare(options, model, row, peer):
    """Alternating runs of Quire and the peer. A run that fails ends the pair with its message."""
    runs = {"quire": [], peer: []}
    for repeat in range(options.repeats):
        for engine in (("quire", peer), (peer, "quire"))[repeat % 2]:
            runs[engine].append(run_quire(options, model, row, peer) if engine == "quire" else
                                run_wrapped(options, engine, model, row))
            print(f"{model} {row} {engine}: {runs[engine][-1]['value']:.2f} {ROWS[row].unit}", file=sys.stderr)
    ours, theirs = summary(runs["quire"]), summary(runs[peer])
    ratio = ours["median"] / theirs["median"]
    return {"model": model, "row": row, "peer": peer, "quire": ours, "theirs": theirs,
            "ratio": 1 / ratio if ROWS[row].lower_is_better else ratio}


def cell(result):
    digits = 2 if result["median"] < 10 else 1
    text = f"{result['median']:.{digits}f} ({result['low']:.{digits}f} to {result['high']:.{digits}f})"
    if "ttft_p50_s" in result:
        text += f"; TTFT {result['ttft_p50_s']:.2f} s"
    if "ttft_share" in result:
        text += f", {result['ttft_share']:.2f} of the prompts alone"
    if "gap_p99_s" in result:
        text += f"; gaps p99 {result['gap_p99_s']:.2f} s"
    return text + (f"; {result['note']}" if "note" in result else "")


def table_line(result):
    row, model = ROWS[result["row"]], models.MODELS[result["model"]]
    if "error" in result:
        return f"| {row.title} | {model.title} | | | {result['peer']} | {result['error'].splitlines()[0]} | |"
    share = result["quire"].get("share")
    share = "" if share is None else f"{share['median']:.0%} ({share['low']:.0%} to {share['high']:.0%})"
    return (f"| {row.title}, {row.unit} | {model.title} | {cell(result['quire'])} | {share} | {result['peer']} | "
            f"{cell(result['theirs'])} | {result['ratio']:.2f} |")


def main():
    options = parse_arguments()
    if options.run:
        return run_once(options)
    present = [peer for peer in options.only if engines.is_installed(peer, options.venvs)]
    for peer in options.only:
        if peer not in present:
            print(f"{peer} is not installed; install it with: scripts/install_peers.sh {peer}", file=sys.stderr)
    if not present:
        return 66
    machine = machine_limits(options)
    print(f"{machine['processor']}, level {machine['isa_level']}, {machine['threads']} threads, read "
          f"{machine['read_bytes_per_s'] / 1e9:.1f} GB/s; products: BF16 {machine['bf16_per_s'] / 1e9:.0f}, quantized "
          f"{machine['int8_per_s'] / 1e9:.0f} GOP/s\n")
    print("| work | model | Quire, median (spread) | of limit | peer | its median (spread) | ratio |")
    print("|---|---|---|---|---|---|---|", flush=True)
    results = []
    for model in options.models:
        for row in options.rows:
            for peer in present:
                if models.path_of(model, peer, options.models_dir) is None:
                    continue
                if ROWS[row].kind not in engines.ENGINES[peer].kinds:
                    continue
                for engine in ("quire", peer):
                    models.make_missing(model, engine, options.models_dir, options.quire, options.venvs)
                try:
                    result = compare(options, model, row, peer)
                except (engines.RunFailed, subprocess.TimeoutExpired) as error:
                    print(error, file=sys.stderr)
                    result = {"model": model, "row": row, "peer": peer, "error": str(error).strip().splitlines()[-1]}
                results.append(result)
                print(table_line(result), flush=True)
                if options.json:
                    options.json.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")
    return 1 if any("error" in result for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Encoding speed on one thread: Quire beside Hugging Face `tokenizers`, in one run, alternating.

  bench/peers/tokenizers.py [--rounds 5] BUILD_FOLDER MODEL.gguf...

Needs the load_benchmark program of a release build, and Python with `tokenizers` and `gguf` (those of
scripts/make_goldens.sh). The text is the project's own sources and the first 150 files of Python's standard
library. Both get the whole text in one call; CPU seconds are compared, so that a busy machine counts less.
Prints the medians in MB/s and their ratio, after checking that both give the same number of ids.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "scripts" / "goldens")]
sys.path = [folder for folder in sys.path if pathlib.Path(folder).resolve() != ROOT / "bench" / "peers"]

import tokenizers  # noqa: E402

import tokenizer as goldens  # noqa: E402


def source_text():
    library = sorted(pathlib.Path(os.__file__).parent.glob("*.py"))[:150]
    files = sorted((ROOT / "src").rglob("*.cpp")) + sorted((ROOT / "src").rglob("*.h")) + library
    return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"


def quire_run(program, model, text_file):
    env = {**os.environ, "QUIRE_BENCHMARK_MODEL": str(model), "QUIRE_BENCHMARK_TEXT": text_file}
    out = subprocess.run([program, "--benchmark_filter=BM_Encode", "--benchmark_format=json"], env=env,
                         check=True, capture_output=True, text=True).stdout
    result = json.loads(out)["benchmarks"][0]
    return result["cpu_time"] / 1e3, int(result["ids"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    program = args.build / "src" / "load" / "load_benchmark"
    text = source_text()
    size = len(text.encode())
    print(f"{processor()}; tokenizers {tokenizers.__version__}; {size} bytes of source code; "
          f"median of {args.rounds} rounds")
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt", newline="") as file:
        file.write(text)
        file.flush()
        for model in args.models:
            peer = tokenizers.Tokenizer.from_str(json.dumps(goldens.from_gguf(model)))
            ours, theirs = [], []
            for _ in range(args.rounds):
                seconds, ids = quire_run(program, model, file.name)
                ours.append(size / seconds / 1e6)
                start = time.process_time()
                peer_ids = len(peer.encode(text, add_special_tokens=False).ids)
                theirs.append(size / (time.process_time() - start) / 1e6)
                assert ids == peer_ids, f"{model.name}: {ids} ids, the peer has {peer_ids}"
            a, b = statistics.median(ours), statistics.median(theirs)
            print(f"{model.name}: Quire {a:.1f} MB/s, tokenizers {b:.1f} MB/s, ratio {a / b:.1f} ({ids} ids)")


if __name__ == "__main__":
    main()

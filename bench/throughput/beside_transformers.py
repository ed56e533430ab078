#!/usr/bin/env python3
"""Offline requests beside Hugging Face transformers, on the same device: how fast many are, and how fast one after the other.

  bench/throughput/beside_transformers.py [--device cuda|cpu] [--requests 256] [--one-by-one 4] [--batch 64] [--rounds 3]
                                          [--input-len 128] [--output-len 128] [--quire PROGRAM] MODEL

MODEL: a folder of safetensors. `quire bench throughput` serves all requests at once; transformers generates for them
one by one, of which `--one-by-one` are timed, and in static batches of `--batch`, greedy and in BF16. The engines take
turns. Prints output tokens per second, medians with the lowest and the highest, and the ratios. The Python that runs
this needs torch and transformers.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--one-by-one", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--input-len", type=int, default=128)
    parser.add_argument("--output-len", type=int, default=128)
    parser.add_argument("--quire", type=pathlib.Path, default=REPOSITORY / "build/release/quire")
    return parser.parse_args()


def throughput(options):
    """Tokens per second of all requests at once."""
    command = [options.quire, "bench", "throughput", options.model, "--device", options.device, "--json",
               "--num-prompts", options.requests, "--concurrency", options.requests, "--max-num-seqs", options.requests,
               "--input-len", options.input_len, "--output-len", options.output_len, "--max-num-batched-tokens", 2048]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout)["output_tokens_per_s"]


class Transformers:
    def __init__(self, options):
        import torch
        import transformers

        transformers.utils.logging.set_verbosity_error()
        self.torch, self.options = torch, options
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            options.model, dtype=torch.bfloat16).to(options.device).eval()
        self.model.generation_config.eos_token_id = None

    def generate(self, count, batch):
        """Tokens per second of `count` requests, `batch` at once."""
        options, torch = self.options, self.torch
        prompts = torch.randint(1000, 30000, (count, options.input_len), device=options.device)
        begin = time.perf_counter()
        for first in range(0, count, batch):
            with torch.inference_mode():
                tokens = self.model.generate(prompts[first:first + batch], do_sample=False,
                                             attention_mask=torch.ones_like(prompts[first:first + batch]),
                                             min_new_tokens=options.output_len, max_new_tokens=options.output_len)
            if tokens.shape[1] != options.input_len + options.output_len:
                sys.exit(f"transformers gave {tokens.shape[1] - options.input_len} tokens, not {options.output_len}")
        if options.device == "cuda":
            torch.cuda.synchronize()
        return count * options.output_len / (time.perf_counter() - begin)


def main():
    options = parse_arguments()
    if not options.model.is_dir():
        sys.exit(f"{options.model} is no folder of a model; `quire bench make-model --shape tinyllama-1.1b --output DIR` "
                 "writes one")
    peer = Transformers(options)
    peer.generate(1, 1)  # warms up
    rates = {"quire": [], "one by one": [], "static batches": []}
    for _ in range(options.rounds):
        rates["quire"].append(throughput(options))
        rates["one by one"].append(peer.generate(options.one_by_one, 1))
        rates["static batches"].append(peer.generate(options.requests, options.batch))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        print(f"{name:<16} {medians[name]:10,.0f} tokens/s ({min(values):,.0f} to {max(values):,.0f})")
    print(f"quire / one by one: {medians['quire'] / medians['one by one']:.1f}; "
          f"quire / static batches of {options.batch}: {medians['quire'] / medians['static batches']:.1f}")


main()

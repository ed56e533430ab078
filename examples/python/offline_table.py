"""The offline table: one data set of 300 prompts (text to SQL) at several sizes of the batch, beside a static
batch of transformers with the same checkpoint.

    offline_table.py --model MODEL [--sizes 1 2 4 8 16 32] [--prompts 300] [--max-tokens 24] [--threads N] [--plot table.png]

A size is Quire's max_num_seqs, and the number of prompts that transformers pads to one length and runs until the
last of them is done. Both are greedy, and Quire's tokens are compared with those of `quire generate --input`.
transformers and torch are needed for its column (--no-transformers leaves it out), matplotlib for the plot.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time
from typing import Any

from quire import LLM, SamplingParams

DATA = pathlib.Path(__file__).parent / "text_to_sql.jsonl"


def read_prompts(count: int) -> list[str]:
    with DATA.open(encoding="utf-8") as lines:
        prompts = [json.loads(line)["prompt"] for line in lines]
    step = max(1, len(prompts) // count)
    return prompts[::step][:count]


def run_quire(args: argparse.Namespace, size: int, prompts: list[str]) -> tuple[float, list[list[int]]]:
    """Seconds of the whole set, and each prompt's tokens."""
    params = SamplingParams(temperature=0, max_tokens=args.max_tokens, stop=["\n"])
    settings: dict[str, Any] = {"max_model_len": args.max_model_len, "dtype": args.dtype, "threads": args.threads}
    with LLM(args.model, max_num_seqs=size, **settings) as llm:
        llm.generate(prompts[:1], params, use_tqdm=False)
        begin = time.perf_counter()
        outputs = llm.generate(prompts, params, use_tqdm=False)
        seconds = time.perf_counter() - begin
    return seconds, [output.outputs[0].token_ids for output in outputs]


class Transformers:
    """The same checkpoint in torch, a static batch at a time."""

    def __init__(self, args: argparse.Namespace) -> None:
        import torch
        import transformers

        if args.threads is not None:
            torch.set_num_threads(args.threads)
        folder: str = args.model
        options: dict[str, Any] = {}
        dtype: Any = {"float32": torch.float32, "bfloat16": torch.bfloat16}.get(args.dtype, "auto")
        if args.model.endswith(".gguf"):
            path = pathlib.Path(args.model)
            folder, options = str(path.parent), {"gguf_file": path.name}
            if dtype == "auto":
                dtype = torch.float32
            if hasattr(transformers, "GgufConfig"):  # faster than with weights that stay packed
                options["quantization_config"] = transformers.GgufConfig(dequantize=True)
        file = {"gguf_file": options["gguf_file"]} if options else {}
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left", **file)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **options).eval()
        self.max_tokens = args.max_tokens

    def run(self, size: int, prompts: list[str]) -> float:
        """Seconds of the whole set."""
        import torch

        begin = time.perf_counter()
        for start in range(0, len(prompts), size):
            batch = self.tokenizer(prompts[start : start + size], return_tensors="pt", padding=True)
            with torch.inference_mode():
                self.model.generate(
                    **batch,
                    max_new_tokens=self.max_tokens,
                    do_sample=False,
                    pad_token_id=self.tokenizer.pad_token_id,
                    stop_strings=["\n"],
                    tokenizer=self.tokenizer,
                )
        return time.perf_counter() - begin


def tokens_of_the_program(args: argparse.Namespace, prompts: list[str]) -> list[list[int]]:
    """What the command line gives for the same prompts."""
    command = [sys.executable, "-m", "quire", "generate", "--input", "-", "--dtype", args.dtype]
    # Without the model's own penalties, which SamplingParams(...) in Python is without, too.
    command += ["--max-model-len", str(args.max_model_len), "--generation-config", "vllm"]
    command += ["--model", args.model] if args.model else []
    fields = {"temperature": 0, "max_tokens": args.max_tokens, "stop": ["\n"]}
    lines = "".join(json.dumps({"prompt": prompt, **fields}) + "\n" for prompt in prompts)
    done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line)["outputs"][0]["token_ids"] for line in done.stdout.splitlines()]


def draw(path: str, sizes: list[int], columns: dict[str, dict[int, float]], count: int) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, seconds in columns.items():
        axes.plot(sizes, [count / seconds[size] for size in sizes], marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_xlabel("requests at once")
    axes.set_ylabel("prompts a second")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="a folder or .gguf file, which transformers reads, too")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--prompts", type=int, default=300)
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--max-model-len", type=int, default=512)
    parser.add_argument("--threads", type=int, help="of both (default: their own choice)")
    parser.add_argument("--dtype", default="auto", choices=["auto", "float32", "bfloat16"])
    parser.add_argument("--no-transformers", action="store_true")
    parser.add_argument("--plot", help="where to draw it")
    args = parser.parse_args()

    prompts = read_prompts(args.prompts)
    columns: dict[str, dict[int, float]] = {"Quire": {}}
    other = None if args.no_transformers else Transformers(args)
    if other is not None:
        columns["transformers"] = {}
    tokens = tokens_of_the_program(args, prompts)
    for size in args.sizes:  # one after the other at each size, so that both meet the same machine
        columns["Quire"][size], given = run_quire(args, size, prompts)
        if given != tokens:
            raise SystemExit(f"at {size} the tokens are not those of the command line")
        if other is not None:
            columns["transformers"][size] = other.run(size, prompts)
        told = ", ".join(f"{name} {seconds[size]:.2f} s" for name, seconds in columns.items())
        print(f"{size:3} at once: {told}", flush=True)

    print(f"\n{len(prompts)} prompts; at every size the tokens of the command line")
    print("| at once | " + " | ".join(f"{name}, s" for name in columns) + " | times as fast |")
    print("|---|" + "---|" * (len(columns) + 1))
    for size in args.sizes:
        times = [seconds[size] for seconds in columns.values()]
        ratio = f"{times[1] / times[0]:.1f}" if len(times) > 1 else ""
        print(f"| {size} | " + " | ".join(f"{each:.2f}" for each in times) + f" | {ratio} |")
    if args.plot:
        draw(args.plot, args.sizes, columns, len(prompts))


if __name__ == "__main__":
    main()

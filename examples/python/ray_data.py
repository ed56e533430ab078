"""Many prompts through Ray Data: each worker has an engine of its own, which continues batches.

    pip install "ray[data]"
    ray_data.py [--model MODEL] [--workers 1] [--threads N] [--prompts 32]
"""

import argparse
import json
import pathlib
from typing import Any

import numpy as np
import ray.data

from quire import LLM, SamplingParams

DATA = pathlib.Path(__file__).parent / "text_to_sql.jsonl"


class Continue:
    """A worker. Its model is loaded once, when the worker starts."""

    def __init__(self, model: str, threads: int) -> None:
        self.llm = LLM(model, threads=threads)
        self.params = SamplingParams(temperature=0, max_tokens=24, stop=["\n"])

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        outputs = self.llm.generate([str(prompt) for prompt in batch["prompt"]], self.params, use_tqdm=False)
        return {
            "id": batch["id"],
            "query": np.array(["SELECT" + output.outputs[0].text for output in outputs], dtype=object),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="default: the bundled one")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0, help="of each worker; 0: as many as there are cores")
    parser.add_argument("--prompts", type=int, default=32)
    args = parser.parse_args()

    # As many cores as its engine has threads are a worker's, so that workers do not share them.
    ray.init(log_to_driver=False)
    threads = args.threads or int(ray.cluster_resources()["CPU"]) // args.workers
    with DATA.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines][: args.prompts]
    done = ray.data.from_items(rows).map_batches(
        Continue,
        fn_constructor_args=(args.model, threads),
        batch_size=32,
        num_cpus=threads,
        compute=ray.data.ActorPoolStrategy(size=args.workers),
    )
    queries = {row["id"]: row["query"] for row in done.iter_rows()}
    for row in rows:
        print(f"{row['id']}: {queries[row['id']]}")


if __name__ == "__main__":
    main()

"""Final hidden states of tiny checkpoints, as the reference gives them: what embeddings are made of.

Row i is the last hidden state (after the last norm) of the last token of the first LENGTHS[i] tokens
of the family's golden prompt. The checkpoints are those of families.py.
"""

import json

import torch
from transformers import AutoModel

from common import DATA, versions, write_floats, write_json

FAMILIES = ("llama", "qwen3", "gemma3")
LENGTHS = (1, 2, 17, 40, 96)


@torch.inference_mode()
def last_states(model, prompt):
    rows = [model(input_ids=torch.tensor([prompt[:n]])).last_hidden_state[0, -1] for n in LENGTHS]
    return torch.stack(rows).float().contiguous()


def main():
    for family in FAMILIES:
        folder = DATA / "families" / family
        prompt = json.loads((folder / "goldens.json").read_text("utf-8"))["prompt_token_ids"]
        model = AutoModel.from_pretrained(folder / "hf", dtype=torch.float32).eval()
        write_floats(DATA / "pooling" / f"{family}.bin", last_states(model, prompt))
    write_json(DATA / "pooling" / "goldens.json", {**versions(), "lengths": list(LENGTHS)})


if __name__ == "__main__":
    main()

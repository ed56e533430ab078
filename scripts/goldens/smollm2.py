"""tests/data/smollm2/greedy.json: 64 greedy tokens of SmolLM2-135M-Instruct for each of 40 prompts.

The reference is transformers on the bundled GGUF file, weights dequantized to float32.
"""

import pathlib
import sys

import tokenizers
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from common import DATA, ROOT, greedy, sha256_of, versions, write_json
from smollm2_prompts import PROMPTS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from fetch_model import SMOLLM2  # noqa: E402

COUNT = 64


def load_tokenizer():
    tokenizer = AutoTokenizer.from_pretrained(SMOLLM2.target.parent, gguf_file=SMOLLM2.target.name)
    # The loader gives every `gpt2` vocabulary GPT-2's own pattern. `tokenizer.ggml.pre = smollm`
    # means: each digit alone first, then that pattern, as in the model's published tokenizer.json.
    tokenizer.backend_tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
    ])
    return tokenizer


def main():
    tokenizer = load_tokenizer()
    model = AutoModelForCausalLM.from_pretrained(
        SMOLLM2.target.parent, gguf_file=SMOLLM2.target.name, dtype=torch.float32)
    model.eval()
    entries = []
    for name, kind, prompt in PROMPTS:
        entry = {"name": name, "kind": kind}
        if isinstance(prompt, str):
            text = prompt
            entry["text"] = text
        else:
            text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
            entry["messages"] = prompt
            entry["rendered"] = text
        entry["prompt_token_ids"] = tokenizer(text, add_special_tokens=True).input_ids
        entry |= greedy(model, entry["prompt_token_ids"], COUNT)
        entry["output_text"] = tokenizer.decode(
            entry["tokens"], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        print(f"{name}: {len(entry['prompt_token_ids'])} tokens: {entry['output_text'][:70]!r}",
              flush=True)
        entries.append(entry)
    write_json(DATA / "smollm2" / "greedy.json", {
        "model": str(SMOLLM2.target.relative_to(ROOT)), "sha256": sha256_of(SMOLLM2.target),
        **versions(), "prompts": entries})


if __name__ == "__main__":
    main()

"""tests/data/gemma3_270m/greedy.json: 64 greedy tokens of Gemma 3 270M (base) for each of 40 prompts.

The reference is transformers on the GGUF file that scripts/fetch_model.py fetches, weights
dequantized to float32. The prompts are SmolLM2's as plain text, and two that are longer than the
model's attention window of 512 tokens.
"""

import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from common import DATA, ROOT, greedy, sha256_of, versions, write_json
from smollm2_prompts import LIGHTHOUSE, PROMPTS, RING_BUFFER

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from fetch_model import GEMMA3  # noqa: E402

COUNT = 64


def texts():
    for name, _, prompt in PROMPTS[:38]:
        yield name, prompt if isinstance(prompt, str) else "\n".join(m["content"] for m in prompt)
    yield "past-the-window", "\n\n".join([LIGHTHOUSE, RING_BUFFER, LIGHTHOUSE])
    yield "twice-past-the-window", "\n\n".join([LIGHTHOUSE] * 4)


def main():
    tokenizer = AutoTokenizer.from_pretrained(GEMMA3.target.parent, gguf_file=GEMMA3.target.name)
    model = AutoModelForCausalLM.from_pretrained(
        GEMMA3.target.parent, gguf_file=GEMMA3.target.name, dtype=torch.float32)
    model.eval()
    config = model.config.get_text_config()
    print(config)
    assert config.sliding_window == 512 and len(config.layer_types) == 18
    entries = []
    for name, text in texts():
        entry = {"name": name, "text": text}
        entry["prompt_token_ids"] = tokenizer(text, add_special_tokens=True).input_ids
        assert entry["prompt_token_ids"][0] == config.bos_token_id
        entry |= greedy(model, entry["prompt_token_ids"], COUNT)
        entry["output_text"] = tokenizer.decode(
            entry["tokens"], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        print(f"{name}: {len(entry['prompt_token_ids'])} tokens: {entry['output_text'][:70]!r}",
              flush=True)
        entries.append(entry)
    longest = max(len(entry["prompt_token_ids"]) for entry in entries) + COUNT
    assert longest > 2 * config.sliding_window
    write_json(DATA / "gemma3_270m" / "greedy.json", {
        "model": str(GEMMA3.target.relative_to(ROOT)), "sha256": sha256_of(GEMMA3.target),
        **versions(), "prompts": entries})


if __name__ == "__main__":
    main()

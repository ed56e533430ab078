"""tests/data/stories260k: logits of the 260K-parameter Llama over a 200-token prompt, in float32.

tokens.json holds the prompt: the start token and its greedy continuation. logits.bin holds the logits
at each of its positions, 200 x 512 little-endian float32.
"""

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from common import DATA, ROOT, all_logits, greedy, versions, write_floats, write_json

MODEL = ROOT.parent / "shared" / "models" / "stories260k"


def main():
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    start = [tokenizer.bos_token_id]
    continuation = greedy(model, start, 200)
    text = tokenizer.decode(continuation["tokens"], clean_up_tokenization_spaces=False)
    expected = MODEL.with_suffix(".expected.txt").read_text(encoding="utf-8")
    assert text.strip() == expected.strip(), "the greedy text is not the published one"
    prompt = start + continuation["tokens"][:-1]
    logits = all_logits(model, prompt)
    assert logits.argmax(-1).tolist() == continuation["tokens"]
    write_json(DATA / "stories260k" / "tokens.json",
               {**versions(), "shape": list(logits.shape), "prompt_token_ids": prompt,
                "greedy_token_ids": continuation["tokens"]})
    write_floats(DATA / "stories260k" / "logits.bin", logits)


if __name__ == "__main__":
    main()

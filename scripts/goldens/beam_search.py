"""tests/data/beam_search/cases.json: what transformers' generate(num_beams=...) finds.

The model is tests/data/tiny_llama/hf. Its outputs end seldom, so most cases have ids of their own that
end one, taken from what the search of the same prompt meets without them. Every case runs in float32
and in float64; one that depends on the difference is left out.
"""

import itertools

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from common import DATA, versions, write_json

TEXTS = ["The quick brown fox", "pages and pages; 1234 tokens!", "it's the dog's", "naïve café",
         "There is no prefill phase and no decode phase"]
MAX_TOKENS = 20


@torch.inference_mode()
def search(model, prompt, width, length_penalty, early_stopping, eos):
    found = model.generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        num_beams=width, num_return_sequences=width, do_sample=False, max_new_tokens=MAX_TOKENS,
        length_penalty=length_penalty, early_stopping=early_stopping, eos_token_id=eos, pad_token_id=0,
        return_dict_in_generate=True, output_scores=True)
    outputs = []
    for row in found.sequences[:, len(prompt):].tolist():
        ends = [place for place, token in enumerate(row) if token in eos]
        outputs.append(row[:ends[0] + 1] if ends else row)
    return outputs, [round(score, 5) for score in found.sequences_scores.tolist()]


def main():
    folder = DATA / "tiny_llama" / "hf"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    models = [AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
              for dtype in (torch.float32, torch.float64)]
    own_eos = models[0].generation_config.eos_token_id
    cases, num_left_out = [], 0
    for text in TEXTS:
        prompt = tokenizer(text)["input_ids"]
        # Tokens of which some come late in the outputs.
        met, _ = search(models[0], prompt, 4, 1.0, False, own_eos)
        extra = sorted({met[0][7], met[1][3], met[3][12]})
        for width, penalty, early, stop in itertools.product(
                (2, 4), (0.0, 1.0, 2.0, -1.0), (False, True, "never"), ([], extra)):
            if penalty == -1.0 and (width == 2 or early is True):
                continue
            eos = sorted(set(own_eos) | set(stop))
            results = [search(model, prompt, width, penalty, early, eos) for model in models]
            if results[0][0] != results[1][0]:
                num_left_out += 1
                continue
            cases.append({"prompt_token_ids": prompt, "beam_width": width, "length_penalty": penalty,
                          "early_stopping": early, "stop_token_ids": [i for i in eos if i not in own_eos],
                          "outputs": results[0][0], "scores": results[0][1]})
    print(f"{len(cases)} cases, {num_left_out} left out")
    lengths = {len(output) for case in cases for output in case["outputs"]}
    assert len(lengths) > 5 and num_left_out < len(cases) // 4, (lengths, num_left_out)
    write_json(DATA / "beam_search" / "cases.json",
               {"made_with": versions(), "max_tokens": MAX_TOKENS, "cases": cases})


if __name__ == "__main__":
    main()

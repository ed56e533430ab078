"""tests/data/sampling: the distributions that transformers' logits processors make of random logits.

cases.json: logits ([vocab_size] each), and for each case its sampling parameters, prompt, output so far,
and the tokens that can be drawn with their probabilities. The processors run in float64 and in vLLM's
order: allowed ids, bad words, logit bias, min_tokens, penalties, temperature, min_p, top_k, top_p.
transformers has no presence and frequency penalty: they follow the formula of OpenAI's API reference.
"""

import torch
from transformers.generation import logits_process as hf

from common import DATA, versions, write_json

VOCAB_SIZE = 64
EOS = [3, 17]

# (name, parameters). Of each, one case for each row of logits.
CASES = [
    ("nothing", {}),
    ("temperature", {"temperature": 0.6}),
    ("high temperature", {"temperature": 3.5}),
    ("top_k", {"top_k": 7}),
    ("top_k of one", {"top_k": 1}),
    ("top_k beyond the vocabulary", {"top_k": 1000}),
    ("top_p", {"top_p": 0.85}),
    ("small top_p", {"top_p": 0.05}),
    ("top_p close to one", {"top_p": 0.999}),
    ("min_p", {"min_p": 0.08}),
    ("min_p of one", {"min_p": 1.0}),
    ("repetition_penalty", {"repetition_penalty": 1.7}),
    ("repetition_penalty below one", {"repetition_penalty": 0.6}),
    ("presence_penalty", {"presence_penalty": 1.25}),
    ("negative presence_penalty", {"presence_penalty": -1.5}),
    ("frequency_penalty", {"frequency_penalty": 0.75}),
    ("logit_bias", {"logit_bias": [[0, 4.5], [9, -100.0], [31, -2.25]]}),
    ("allowed_token_ids", {"allowed_token_ids": [2, 3, 5, 8, 13, 21, 34, 55]}),
    ("bad words", {"bad_words_token_ids": [[4], [40, 41], [11, 12, 20], [7, 13, 20]]}),
    ("min_tokens", {"min_tokens": 12, "stop_token_ids": [5, 60]}),
    ("min_tokens reached", {"min_tokens": 8, "stop_token_ids": [5, 60]}),
    ("min_tokens, ignore_eos", {"min_tokens": 12, "stop_token_ids": [5], "ignore_eos": True}),
    ("temperature, top_k, top_p", {"temperature": 1.4, "top_k": 12, "top_p": 0.7}),
    ("temperature, min_p, top_p", {"temperature": 1.8, "min_p": 0.1, "top_p": 0.8}),
    ("min_p, top_k", {"min_p": 0.02, "top_k": 9}),
    ("all penalties", {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.4}),
    ("allowed, penalties, top_p", {"allowed_token_ids": list(range(0, 64, 3)), "frequency_penalty": 0.9,
                                   "repetition_penalty": 1.2, "top_p": 0.75}),
    ("everything", {"allowed_token_ids": list(range(0, 58)), "bad_words_token_ids": [[6], [12, 20]],
                    "logit_bias": [[8, 1.5], [15, -0.5]], "min_tokens": 20, "stop_token_ids": [10],
                    "repetition_penalty": 1.15, "presence_penalty": 0.3, "frequency_penalty": 0.2,
                    "temperature": 1.3, "min_p": 0.01, "top_k": 25, "top_p": 0.9}),
]
PROMPT = [1, 5, 9, 33, 9, 62]
OUTPUT = [8, 15, 8, 40, 33, 8, 7, 15, 11, 12]


def processors(params):
    """Before and after the penalties of the output, which transformers lacks."""
    before, after = [], []
    if "allowed_token_ids" in params:
        before.append(hf.PrefixConstrainedLogitsProcessor(lambda *_: params["allowed_token_ids"], 1))
    if "bad_words_token_ids" in params:
        before.append(hf.NoBadWordsLogitsProcessor(params["bad_words_token_ids"]))
    if "logit_bias" in params:
        before.append(hf.SequenceBiasLogitsProcessor([[[i], b] for i, b in params["logit_bias"]]))
    if "min_tokens" in params:
        ends = params.get("stop_token_ids", []) + ([] if params.get("ignore_eos") else EOS)
        before.append(hf.MinNewTokensLengthLogitsProcessor(len(PROMPT), params["min_tokens"], ends))
    if "repetition_penalty" in params:
        before.append(hf.RepetitionPenaltyLogitsProcessor(params["repetition_penalty"]))
    if "temperature" in params:
        after.append(hf.TemperatureLogitsWarper(params["temperature"]))
    if "min_p" in params:
        after.append(hf.MinPLogitsWarper(params["min_p"]))
    if "top_k" in params:
        after.append(hf.TopKLogitsWarper(params["top_k"]))
    if "top_p" in params:
        after.append(hf.TopPLogitsWarper(params["top_p"]))
    return before, after


def run(steps, scores):
    # Bad words may stand in the output alone, as in vLLM; the others look at the whole text.
    for step in steps:
        words = isinstance(step, hf.NoBadWordsLogitsProcessor)
        scores = step(torch.tensor([OUTPUT if words else PROMPT + OUTPUT]), scores)
    return scores


def distribution(logits, params):
    before, after = processors(params)
    scores = run(before, logits.unsqueeze(0).clone())
    counts = torch.bincount(torch.tensor(OUTPUT), minlength=VOCAB_SIZE)
    scores = scores - params.get("frequency_penalty", 0.0) * counts
    scores = scores - params.get("presence_penalty", 0.0) * (counts > 0)
    return torch.softmax(run(after, scores)[0], -1)


def random_logits(generator, scale):
    """Distinct multiples of 1/4096: exact in float32 and in the file."""
    while True:
        logits = torch.round(torch.randn(VOCAB_SIZE, generator=generator) * scale * 4096) / 4096
        if len(set(logits.tolist())) == VOCAB_SIZE:
            return logits.double()


def main():
    generator = torch.Generator().manual_seed(20)
    rows = [random_logits(generator, scale) for scale in (1.0, 2.5, 6.0)]
    cases = []
    for name, params in CASES:
        for index, logits in enumerate(rows):
            probabilities = distribution(logits, params)
            kept = torch.nonzero(probabilities > 0).flatten().tolist()
            cases.append({"name": name, "logits": index, "params": params, "kept": kept,
                          "probabilities": [float(f"{probabilities[i]:.9g}") for i in kept]})
    write_json(DATA / "sampling" / "cases.json",
               {**versions(), "vocab_size": VOCAB_SIZE, "eos_token_ids": EOS,
                "prompt_token_ids": PROMPT, "output_token_ids": OUTPUT,
                "logits": [row.tolist() for row in rows], "cases": cases})


if __name__ == "__main__":
    main()

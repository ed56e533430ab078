#!/usr/bin/env python3
"""Completions with the openai client: one answer, several of them, with a seed and logprobs."""

import openai

from common import arguments

args = arguments(__doc__).parse_args()
client = openai.OpenAI(base_url=args.base_url, api_key=args.api_key)
model = args.model or client.models.list().data[0].id
print(f"model: {model}")

completion = client.completions.create(model=model, prompt="The capital of Japan is",
                                       max_tokens=16, temperature=0)
print(f"completion: {completion.choices[0].text!r}")
print(f"usage: {completion.usage.prompt_tokens} + {completion.usage.completion_tokens} tokens")

several = client.completions.create(model=model, prompt="Once upon a time", max_tokens=12,
                                    temperature=0.8, top_p=0.95, n=3, seed=7)
for choice in several.choices:
    print(f"choice {choice.index}: {choice.text!r}")

likely = client.completions.create(model=model, prompt="One, two, three,", max_tokens=3,
                                   temperature=0, logprobs=2)
logprobs = likely.choices[0].logprobs
for token, top in zip(logprobs.tokens, logprobs.top_logprobs):
    print(f"token {token!r}: {top}")

batch = client.completions.create(model=model, prompt=["Red is a", "Paris is a"], max_tokens=8,
                                  temperature=0)
for choice in batch.choices:
    print(f"prompt {choice.index}: {choice.text!r}")

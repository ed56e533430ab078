#!/usr/bin/env python3
"""A chat with the openai client, token by token as it comes."""

import openai

from common import arguments

parser = arguments(__doc__)
parser.add_argument("--max-tokens", type=int, default=48)
parser.add_argument("question", nargs="?", default="What is the capital of Japan?")
args = parser.parse_args()
client = openai.OpenAI(base_url=args.base_url, api_key=args.api_key)
model = args.model or client.models.list().data[0].id

stream = client.chat.completions.create(
    model=model,
    messages=[{"role": "system", "content": "You are a helpful assistant."},
              {"role": "user", "content": args.question}],
    max_tokens=args.max_tokens, temperature=0, stream=True, stream_options={"include_usage": True})
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
        if choice.finish_reason:
            print(f"\nfinish reason: {choice.finish_reason}")
    if chunk.usage:
        print(f"usage: {chunk.usage.prompt_tokens} + {chunk.usage.completion_tokens} tokens")

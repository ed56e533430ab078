#!/usr/bin/env python3
"""The Responses API with the openai client: an answer, a question that follows it, a stream."""

import openai

from common import arguments

parser = arguments(__doc__)
parser.add_argument("--max-tokens", type=int, default=32)
args = parser.parse_args()
client = openai.OpenAI(base_url=args.base_url, api_key=args.api_key)
model = args.model or client.models.list().data[0].id
common = {"model": model, "max_output_tokens": args.max_tokens, "temperature": 0}

first = client.responses.create(input="What is the capital of Japan?",
                                instructions="Answer in one sentence.", **common)
print(f"answer: {first.output_text}")
second = client.responses.create(input="And of France?", previous_response_id=first.id, **common)
print(f"then: {second.output_text}")

print("stream: ", end="")
with client.responses.create(input="Count from one to five.", stream=True, **common) as events:
    for event in events:
        if event.type == "response.output_text.delta":
            print(event.delta, end="", flush=True)
        elif event.type in ("response.completed", "response.incomplete"):
            print(f"\n{event.type}: {event.response.usage.output_tokens} tokens")

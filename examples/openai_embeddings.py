#!/usr/bin/env python3
"""Embeddings with the openai client: which of some sentences is nearest to a question."""

import openai

from common import arguments

QUESTION = "What is the capital of Japan?"
SENTENCES = ["Tokyo is the capital of Japan.", "Bread is made of flour.", "The sky is blue."]

args = arguments(__doc__).parse_args()
client = openai.OpenAI(base_url=args.base_url, api_key=args.api_key)
model = args.model or client.models.list().data[0].id

answer = client.embeddings.create(model=model, input=[QUESTION, *SENTENCES])
question, *sentences = (item.embedding for item in answer.data)
print(f"{len(question)} dimensions, {answer.usage.total_tokens} tokens")
for sentence, vector in zip(SENTENCES, sentences):
    similarity = sum(a * b for a, b in zip(question, vector))  # the vectors have length 1
    print(f"similarity {similarity:+.3f}: {sentence}")

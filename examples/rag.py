#!/usr/bin/env python3
"""Retrieval-augmented generation: a question is answered from the passage that is nearest to it.

One server embeds the passages and writes the answers. openai_embeddings.py explains PROMPT and the mean.
"""

import math

import openai

from common import arguments

PROMPT = 'The text "{}" is about the topic of'
ASK = """Text: The bakery sells bread from six in the morning.
Question: What does the bakery sell?
Answer: The bakery sells bread.

Text: {}
Question: {}
Answer:"""
PASSAGES = [
    "The library is open from nine to seven, and on Saturdays until noon.",
    "Parking costs two euros an hour in the garage behind the town hall.",
    "The swimming pool is closed in July, when its water is changed.",
    "Glass and paper are collected on the first Monday of each month.",
    "The mayor is elected every five years; the next election is in May.",
    "Dogs have to be on a lead in the park and are not allowed on the playground.",
]
QUESTIONS = ["When is the pool closed?", "When is glass collected?", "How much is parking a car?"]


def embed(texts):
    answer = client.embeddings.create(model=model, input=[PROMPT.format(text) for text in texts])
    return [item.embedding for item in answer.data]


def less(vector, mean):
    """The vector without the mean, of length 1 again."""
    rest = [a - b for a, b in zip(vector, mean)]
    return [a / math.hypot(*rest) for a in rest]


parser = arguments(__doc__)
parser.add_argument("questions", nargs="*", default=QUESTIONS)
args = parser.parse_args()
client = openai.OpenAI(base_url=args.base_url, api_key=args.api_key)
model = args.model or client.models.list().data[0].id

vectors = embed(PASSAGES)
mean = [sum(values) / len(values) for values in zip(*vectors)]
vectors = [less(vector, mean) for vector in vectors]
for question, vector in zip(args.questions, embed(args.questions)):
    vector = less(vector, mean)
    passage = max(zip(vectors, PASSAGES), key=lambda pair: sum(a * b for a, b in zip(vector, pair[0])))[1]
    answer = client.completions.create(
        model=model, max_tokens=40, temperature=0, stop=["\n"], prompt=ASK.format(passage, question))
    print(f"question: {question}\npassage: {passage}\nanswer: {answer.choices[0].text.strip()}\n")

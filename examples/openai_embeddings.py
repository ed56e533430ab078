#!/usr/bin/env python3
"""Embeddings with the openai client: which of eight sentences a question is about.

A chat model is not trained for embeddings: of a plain sentence its last hidden state says mostly how the
sentence ends. Two things make it useful, with no other model. The sentence is put into a prompt whose next
word would be its topic, and what all vectors have in common is taken away.
"""

import math

import openai

from common import arguments

PROMPT = 'The sentence "{}" is about the topic of'
SENTENCES = [
    "The central bank raised interest rates to slow inflation.",
    "The striker scored twice and the team won the cup final.",
    "Add salt to the boiling water before the pasta goes in.",
    "The telescope photographed a galaxy ten billion light years away.",
    "Doctors advise patients to finish the whole course of antibiotics.",
    "Heavy rain flooded the valley and the roads were closed.",
    "The violinist played the concerto without looking at the score.",
    "The new processor has eight cores and a larger cache.",
]
QUESTIONS = ["How do I cook spaghetti?", "Who won the football match?", "What medicine should I take?",
             "money and the economy", "space and the stars", "classical music"]


def embed(client, model, texts):
    answer = client.embeddings.create(model=model, input=[PROMPT.format(text) for text in texts])
    return [item.embedding for item in answer.data]


def less(vector, mean):
    """The vector without the mean, of length 1 again."""
    rest = [a - b for a, b in zip(vector, mean)]
    return [a / math.hypot(*rest) for a in rest]


args = arguments(__doc__).parse_args()
client = openai.OpenAI(base_url=args.base_url, api_key=args.api_key)
model = args.model or client.models.list().data[0].id

sentences = embed(client, model, SENTENCES)
mean = [sum(values) / len(values) for values in zip(*sentences)]
sentences = [less(vector, mean) for vector in sentences]
print(f"{len(mean)} dimensions, {len(SENTENCES)} sentences")
for question, vector in zip(QUESTIONS, embed(client, model, QUESTIONS)):
    vector = less(vector, mean)
    ranked = sorted(((sum(a * b for a, b in zip(vector, other)), sentence)
                     for other, sentence in zip(sentences, SENTENCES)), reverse=True)
    print(f"\n{question}")
    for similarity, sentence in ranked[:2]:
        print(f"  {similarity:+.2f}  {sentence}")

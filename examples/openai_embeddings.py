#!/usr/bin/env python3
"""Embeddings with the openai client: which of sixteen sentences a question is about.

A model that was trained for embeddings takes texts as they are, and the server pools its hidden states as
the model says. A chat model was not: of a plain sentence its last hidden state says mostly how the sentence
ends. Two things make it useful, with no other model. The sentence is put into a prompt whose next word would
be its topic, and what all vectors have in common is taken away.
"""

import math

import openai

from common import arguments

PROMPT = 'The text "{}" is about the topic of'
ABOUT = {  # a question: the sentence that it is about
    "How do I cook spaghetti?": "Add salt to the boiling water before the pasta goes in.",
    "Who won the football match?": "The striker scored twice and the team won the cup final.",
    "What medicine should I take?": "Doctors advise patients to finish the whole course of antibiotics.",
    "money and the economy": "The central bank raised interest rates to slow inflation.",
    "space and the stars": "The telescope photographed a galaxy ten billion light years away.",
    "classical music": "The violinist played the concerto without looking at the score.",
    "Is my computer fast enough?": "The new processor has eight cores and a larger cache.",
    "animals of the sea": "The whale dived and came up for air after an hour.",
    "When does my train leave?": "The train to Berlin leaves from platform nine at noon.",
    "courts and crime": "The jury found the defendant guilty of fraud.",
    "agriculture": "The farmer harvested wheat and stored the grain in the barn.",
    "school": "The teacher corrected the pupils' homework over the weekend.",
    "art and colours": "The painter mixed blue and yellow to get green.",
    "politics and elections": "The parliament voted on the new tax law.",
    "Will there be a storm?": "A hurricane is expected to hit the coast on Friday.",
    "Was there a flood?": "Heavy rain flooded the valley and the roads were closed.",
}


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

sentences = list(ABOUT.values())
vectors = embed(client, model, sentences)
mean = [sum(values) / len(values) for values in zip(*vectors)]
vectors = [less(vector, mean) for vector in vectors]
print(f"{len(mean)} dimensions, {len(sentences)} sentences")
right = 0
for (question, expected), vector in zip(ABOUT.items(), embed(client, model, ABOUT)):
    vector = less(vector, mean)
    ranked = sorted(((sum(a * b for a, b in zip(vector, other)), sentence)
                     for other, sentence in zip(vectors, sentences)), reverse=True)
    right += ranked[0][1] == expected
    print(f"\n{question}")
    for similarity, sentence in ranked[:2]:
        print(f"  {similarity:+.2f}  {sentence}")
print(f"\nthe right sentence first: {right} of {len(ABOUT)}")

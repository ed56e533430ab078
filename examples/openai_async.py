#!/usr/bin/env python3
"""Several requests at once with the openai client's asynchronous form, streamed and not."""

import asyncio

import openai

from common import arguments

QUESTIONS = ["What is the capital of Japan?", "Name a color.", "How many days has a week?"]


async def ask(client, model, question, max_tokens):
    answer = await client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": question}], max_tokens=max_tokens,
        temperature=0)
    return answer.choices[0].message.content


async def tell(client, model, max_tokens):
    pieces = []
    stream = await client.completions.create(model=model, prompt="Once upon a time",
                                             max_tokens=max_tokens, temperature=0, stream=True)
    async for chunk in stream:
        pieces.append(chunk.choices[0].text)
    return "".join(pieces)


async def main():
    parser = arguments(__doc__)
    parser.add_argument("--max-tokens", type=int, default=24)
    args = parser.parse_args()
    async with openai.AsyncOpenAI(base_url=args.base_url, api_key=args.api_key) as client:
        model = args.model or (await client.models.list()).data[0].id
        *answers, story = await asyncio.gather(
            *(ask(client, model, question, args.max_tokens) for question in QUESTIONS),
            tell(client, model, args.max_tokens))
    for question, answer in zip(QUESTIONS, answers):
        print(f"question: {question}\nanswer: {answer}")
    print(f"story: {story}")


asyncio.run(main())

"""Three requests at once in an event loop; what each says is printed as it comes."""

import asyncio
import sys

from quire import AsyncEngineArgs, AsyncLLMEngine, RequestOutputKind, SamplingParams

QUESTIONS = ["The capital of Japan is", "Red, green and", "Water boils at"]


async def follow(engine: AsyncLLMEngine, number: int, question: str) -> str:
    params = SamplingParams(temperature=0, max_tokens=16, output_kind=RequestOutputKind.DELTA)
    text = ""
    async for output in engine.generate(question, params, request_id=f"request-{number}"):
        text += output.outputs[0].text
        print(f"{number}: {output.outputs[0].text!r}")
    return text


async def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else ""
    engine = AsyncLLMEngine.from_engine_args(AsyncEngineArgs(model=model))
    answers = await asyncio.gather(
        *(follow(engine, number, question) for number, question in enumerate(QUESTIONS))
    )
    for question, answer in zip(QUESTIONS, answers):
        print(f"{question!r} -> {answer!r}")
    engine.shutdown()


asyncio.run(main())

"""The first text: four prompts at once, continued by the model in this process."""

import sys

from quire import LLM, SamplingParams

PROMPTS = [
    "The capital of Japan is",
    "Red, green and",
    "Water boils at",
    "Once upon a time, there was a",
]

model = sys.argv[1] if len(sys.argv) > 1 else ""  # the bundled one
with LLM(model) as llm:
    for output in llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=24)):
        print(f"{output.prompt!r} -> {output.outputs[0].text!r}")
    (answer,) = llm.chat(
        [{"role": "user", "content": "What is the capital of Japan?"}],
        SamplingParams(temperature=0, max_tokens=64),
    )
    print(answer.outputs[0].text)

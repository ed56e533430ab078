"""Outputs that are data: a JSON object of a schema, and one of two words.

    structured.py [MODEL]
"""

import json
import sys

from quire import LLM, SamplingParams, StructuredOutputsParams

CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 30},
        "is_capital": {"type": "boolean"},
    },
    "required": ["city", "is_capital"],
    "additionalProperties": False,
}

model = sys.argv[1] if len(sys.argv) > 1 else ""  # the bundled one
with LLM(model) as llm:
    for question, constraint in (
        ("Tokyo is the capital of Japan. Say so by JSON.", StructuredOutputsParams(json=CITY)),
        ("Is a whale a fish? Answer yes or no.", StructuredOutputsParams(choice=["yes", "no"])),
    ):
        params = SamplingParams(temperature=0, max_tokens=120, structured_outputs=constraint)
        (output,) = llm.chat([{"role": "user", "content": question}], params, use_tqdm=False)
        text = output.outputs[0].text
        print(json.loads(text) if constraint.json is not None else text)

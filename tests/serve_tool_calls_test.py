#!/usr/bin/env python3
"""Calls that a real model has to make, SmolLM2, of the functions that ../shared's sample of MaskBench has
(BFCL, Glaive), by each dialect's grammar: all that end in time parse, and their arguments are valid by
`jsonschema`.

    serve_tool_calls_test.py PROGRAM SOURCE_DIR [--count N]

N answers (4), the dialects in turn: required, of a named function, and `auto` with strict functions.
"""

import concurrent.futures
import json
import random
import sys
import tempfile

import jsonschema
from cli_support import SMOLLM2, SOURCE
from serve_support import Server
from tool_calls_data_test import DIALECTS, functions

TEMPLATE = """{%- if tools %}{{ tools | tojson }}
{% endif %}{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}{%- if tool_calls %}{% endif %}"""
STREAMS = 16


def request(known, chosen, number):
    """Two functions to choose from, and how."""
    tools = [{"type": "function", "function": {"name": name, "parameters": parameters, "strict": True}}
             for name, parameters in chosen.sample(known, 2)]
    names = [tool["function"]["name"] for tool in tools]
    choice = ("required", {"type": "function", "function": {"name": names[0]}}, "auto")[number % 3]
    return {"messages": [{"role": "user", "content": f"Call {' or '.join(names)} for me, please."}],
            "tools": tools, "tool_choice": choice, "max_tokens": 160, "seed": number, "temperature": 1.0}


def wrong(body, answer):
    """What is wrong with the answer to a request; None: nothing."""
    message = answer["choices"][0]["message"]
    if not message.get("tool_calls"):
        return None if body["tool_choice"] == "auto" else "no call"
    if message["content"] and body["tool_choice"] != "auto":
        return "text beside the calls"
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body["tools"]}
    for call in message.get("tool_calls"):
        try:
            schema = schemas[call["function"]["name"]]
            jsonschema.Draft202012Validator(schema).validate(json.loads(call["function"]["arguments"]))
        except (KeyError, ValueError, jsonschema.ValidationError) as error:
            return str(error)[:500]
    return None


def main():
    count = int(sys.argv[4]) if sys.argv[3:4] == ["--count"] else 4
    path = SOURCE.parent / "shared" / "data" / "maskbench" / "sample.jsonl.gz"
    for needed in (path, SMOLLM2):
        if not needed.exists():
            print(f"{needed} is not there: skipped")
            return 77
    known = [each for each in functions(path) if len(json.dumps(each[1])) < 400]
    chosen = random.Random(2)
    numbers = {dialect: list(range(i, count, len(DIALECTS))) for i, dialect in enumerate(DIALECTS)}
    ended = called = refused = 0
    failed = []
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write(TEMPLATE)
        template.flush()
        for dialect, mine in numbers.items():
            if not mine:
                continue
            with (Server("--chat-template", template.name, "--tool-call-parser", dialect,
                         "--max-num-seqs", STREAMS, simulate=None) as server,
                  concurrent.futures.ThreadPoolExecutor(STREAMS) as pool):
                bodies = [request(known, chosen, number) for number in mine]
                replies = pool.map(lambda body: server.post("/v1/chat/completions", body, timeout=1800), bodies)
                for body, reply in zip(bodies, replies):
                    if reply.status != 200:
                        refused += 1
                        print(f"{dialect}: refused: {reply.body[:300]}")
                    elif reply.json["choices"][0]["finish_reason"] != "length":
                        ended += 1
                        called += len(reply.json["choices"][0]["message"].get("tool_calls") or [])
                        if reason := wrong(body, reply.json):
                            failed.append(f"{dialect}: {reason}\n{json.dumps(body)}\n{reply.body}")
    print(*failed, sep="\n")
    print(f"{count} answers: {ended} ended in time with {called} calls, {refused} requests refused, "
          f"{len(failed)} answers that fail to parse or validate")
    return 1 if failed or refused * 10 > count or ended * 4 < count else 0


if __name__ == "__main__":
    sys.exit(main())

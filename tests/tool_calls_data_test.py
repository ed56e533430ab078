#!/usr/bin/env python3
"""Calls of the functions that ../shared's sample of MaskBench has (BFCL, Glaive), made of random tokens
under each dialect's grammar: all of them parse, and their arguments are valid by `jsonschema`.

    tool_calls_data_test.py WALK_CALLS SOURCE_DIR [--count N]

N answers (60) over all dialects, each with five functions to choose from.
"""

import gzip
import json
import pathlib
import random
import re
import subprocess
import sys

import jsonschema

DIALECTS = ("hermes", "qwen3_coder", "seed_oss", "minimax_m2", "minimax", "glm45", "llama3_json",
            "pythonic", "llama4_pythonic", "lfm2", "olmo3", "mistral", "deepseek_v3", "deepseek_v31",
            "kimi_k2", "openai", "granite", "phi4_mini_json", "cohere_command3", "gemma4",
            "functiongemma", "functionary", "internlm", "longcat")


def functions(path):
    found = []
    for line in gzip.open(path, "rt", encoding="utf-8"):
        case = json.loads(line)
        schema = case["schema"]
        if case["name"].startswith("BFCL_"):
            for one in schema.get("anyOf", [schema]):
                found += one.get("properties", {}).items()
        elif case["name"].startswith("Glaiveai2K_"):
            found.append((case["name"], schema))
    return [(re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:100], parameters) for name, parameters in found
            if isinstance(parameters, dict) and parameters.get("type") == "object"]


def main():
    program, source = sys.argv[1], pathlib.Path(sys.argv[2])
    count = int(sys.argv[4]) if sys.argv[3:4] == ["--count"] else 60
    path = source.parent / "shared" / "data" / "maskbench" / "sample.jsonl.gz"
    if not path.exists():
        print(f"{path} is not there: skipped")
        return 77
    known = functions(path)
    chosen = random.Random(1)
    cases = []
    for i in range(count):
        tools = {name: parameters for name, parameters in chosen.sample(known, 5)}
        cases.append({"dialect": DIALECTS[i % len(DIALECTS)], "seed": i, "functions": [
            {"name": name, "parameters": parameters} for name, parameters in tools.items()]})
    run = subprocess.run([program], input="\n".join(map(json.dumps, cases)).encode(), capture_output=True)
    if run.returncode != 0:
        raise SystemExit(run.stderr.decode())
    answers = [json.loads(line) for line in run.stdout.decode().split("\n") if line]
    assert len(answers) == len(cases)
    ended, calls, refused, wrong = 0, 0, 0, []
    for case, answer in zip(cases, answers):
        if "error" in answer:
            refused += 1
            print("refused:", answer["error"]["message"][:300])
            continue
        if not answer["ended"]:
            continue
        ended += 1
        schemas = {function["name"]: function["parameters"] for function in case["functions"]}
        try:
            assert answer["calls"] and not answer["content"], "no call, or text beside it"
            for call in answer["calls"]:
                jsonschema.Draft202012Validator(schemas[call["name"]]).validate(json.loads(call["arguments"]))
                calls += 1
        except (AssertionError, KeyError, ValueError, jsonschema.ValidationError) as error:
            wrong.append((case["dialect"], answer["text"], str(error)[:500]))
    for dialect, text, error in wrong:
        print(f"{dialect}: {error}\n{text}\n")
    print(f"{count} answers: {ended} ended in time with {calls} calls, {refused} lists of functions refused, "
          f"{len(wrong)} answers that fail to parse or validate")
    return 1 if wrong or refused * 10 > count or ended * 3 < count else 0


if __name__ == "__main__":
    sys.exit(main())

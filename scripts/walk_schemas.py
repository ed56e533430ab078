#!/usr/bin/env python3
"""Random texts under the masks of JSON Schemas, validated by the `jsonschema` package.

    walk_schemas.py FOLLOW_SCHEMAS MASKBENCH_GZ [--vocabulary FILE] [--every N] [--walks N]

Needs a Python with jsonschema[format-nongpl]. Prints what is not valid and, at the end, how many texts
were made; exits with 1 if one was not valid. FILE as tests/follow_schemas.cpp reads it.
"""

import argparse
import gzip
import json
import subprocess
import sys

import jsonschema


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("schemas")
    parser.add_argument("--vocabulary")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--walks", type=int, default=20)
    arguments = parser.parse_args()
    with gzip.open(arguments.schemas, "rt") as lines:
        entries = [json.loads(line) for line in lines][::arguments.every]
    flags = ["--walks", str(arguments.walks)]
    if arguments.vocabulary:
        flags += ["--vocabulary", arguments.vocabulary]
    lines = "\n".join(json.dumps({"schema": e["schema"], "texts": []}) for e in entries)
    run = subprocess.run([arguments.program, *flags], input=lines, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    texts = wrong = 0
    for entry, line in zip(entries, run.stdout.splitlines(), strict=True):
        kind = jsonschema.validators.validator_for(entry["schema"],
                                                   default=jsonschema.Draft202012Validator)
        validator = kind(entry["schema"], format_checker=kind.FORMAT_CHECKER)
        for text in json.loads(line).get("walks", []):
            texts += 1
            try:
                validator.validate(json.loads(text))
            except (jsonschema.ValidationError, ValueError) as error:
                wrong += 1
                print(f"{entry['name']}: {text[:200]}: {str(error)[:300]}")
    print(f"{len(entries)} schemas, {texts} texts, {wrong} not valid")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

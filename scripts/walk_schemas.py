#!/usr/bin/env python3
"""Random texts under the masks of JSON Schemas, validated by the `jsonschema` package.

    walk_schemas.py FOLLOW_SCHEMAS DATA [--vocabulary FILE] [--every N] [--walks N] [--seed N]

DATA: ../shared/data, of which all schemas of the JSON Schema test suite (2020-12) and of MaskBench are walked. Needs a
Python with jsonschema[format-nongpl] and regress (ECMA-262's regular expressions). Prints what is not valid and, at the end, how many texts were made; exits with 1
if one was not valid. FILE as tests/follow_schemas.cpp reads it; scripts/write_vocabulary.py makes one.
"""

import argparse
import decimal
import functools
import gzip
import json
import pathlib
import re
import subprocess
import sys

import jsonschema
import jsonschema._keywords
import jsonschema._utils
import referencing
import regress

# Schemas of the suite that say of `format` that it is a remark.
REMARKS = ("format.json", "optional/format-assertion.json")


def suite(data):
    folder = data / "json_schema" / "tests" / "draft2020-12"
    for path in sorted(folder.rglob("*.json")):
        name = str(path.relative_to(folder))
        if name not in REMARKS:
            for group in json.loads(path.read_text()):
                yield f"{name}: {group['description']}", group["schema"]


def maskbench(data):
    with gzip.open(data / "maskbench" / "sample.jsonl.gz", "rt") as lines:
        for line in lines:
            entry = json.loads(line)
            yield entry["name"], entry["schema"]


@functools.cache
def ecma_regex(pattern):
    try:
        return regress.Regex(pattern, "u")
    except regress.RegressError:
        return regress.Regex(pattern)  # what the standard's annex B allows besides


class EcmaSearch:
    """In place of `re` for jsonschema, whose patterns would be Python's otherwise."""

    @staticmethod
    def search(pattern, text):
        return ecma_regex(pattern).find(text)


jsonschema._keywords.re = jsonschema._utils.re = EcmaSearch
decimal.getcontext().prec = 2000


def exact(text, whole_numbers_with_a_point):
    """JSON whose numbers are what they say, to the last digit."""
    def number(digits):
        value = decimal.Decimal(digits)
        whole = whole_numbers_with_a_point and value == value.to_integral_value()
        return int(value) if whole else value
    return json.loads(text, parse_float=number)


def has_known_second(check, text):
    """Of a time: `check`, with second 60 taken for 59 where it is 23:59 in UTC."""
    leap = isinstance(text, str) and re.search(r"(\d\d):(\d\d):60(\.\d+)?(?:[Zz]|([-+])(\d\d):(\d\d))$", text, re.ASCII)
    if not leap:
        return check(text)
    hour, minute, _, sign, hours, minutes = leap.groups()
    ahead = (int(hours) * 60 + int(minutes)) * (1 if sign == "+" else -1) if sign else 0
    at_end = (int(hour) * 60 + int(minute) - ahead) % 1440 == 1439
    seconds = leap.start() + len("23:59:")
    return at_end and check(text[:seconds] + "59" + text[seconds + 2:])


def validator_of(schema):
    """And whether 1.0 is an integer for it."""
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    formats = jsonschema.FormatChecker()
    formats.checkers = {**kind.FORMAT_CHECKER.checkers,
                        "regex": (lambda text: not isinstance(text, str) or bool(ecma_regex(text)),
                                  regress.RegressError),
                        # jsonschema knows no leap seconds, which RFC 3339 and the suite have at the end of a day in UTC.
                        **{name: (functools.partial(has_known_second, kind.FORMAT_CHECKER.checkers[name][0]), ())
                           for name in ("time", "date-time") if name in kind.FORMAT_CHECKER.checkers},
                        # jsonschema takes a 0 that a digit follows for a leading one, as in "105".
                        "relative-json-pointer": (lambda text: not isinstance(text, str) or bool(
                            re.fullmatch(r"(0|[1-9][0-9]*)(#|(/([^~/]|~[01])*)*)", text, re.DOTALL)), ())}
    with_a_point = kind is not jsonschema.Draft4Validator
    # Nothing is fetched.
    return kind(exact(json.dumps(schema), with_a_point), format_checker=formats,
                registry=referencing.Registry()), with_a_point


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--vocabulary")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--walks", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    entries = [*suite(arguments.data), *maskbench(arguments.data)][::arguments.every]
    flags = ["--walks", str(arguments.walks), "--seed", str(arguments.seed)]
    if arguments.vocabulary:
        flags += ["--vocabulary", arguments.vocabulary]
    lines = "\n".join(json.dumps({"schema": schema, "texts": []}) for _, schema in entries)
    run = subprocess.run([arguments.program, *flags], input=lines, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    texts = wrong = walked = 0
    for (name, schema), line in zip(entries, run.stdout.rstrip("\n").split("\n"), strict=True):
        validator, with_a_point = validator_of(schema)
        walks = json.loads(line).get("walks", [])
        walked += bool(walks)
        for text in walks:
            texts += 1
            try:
                validator.validate(exact(text, with_a_point))
            except (jsonschema.ValidationError, ValueError) as error:
                wrong += 1
                print(f"{name}: {text[:200]}: {str(error)[:300]}")
    print(f"{len(entries)} schemas, {walked} of them with {texts} texts, {wrong} not valid")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

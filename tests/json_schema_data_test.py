#!/usr/bin/env python3
"""JSON Schema against the schemas and instances of ../shared: the official suite (draft 2020-12) and
the sample of MaskBench. Every valid instance is accepted in each of several spellings, every invalid
one is not; what is refused is refused by keyword, and how often is counted.

    json_schema_data_test.py FOLLOW_SCHEMAS SOURCE_DIR [--verbose]
"""

import collections
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

PROGRAM = sys.argv[1]
SHARED = pathlib.Path(sys.argv[2]).parent / "shared" / "data"
VERBOSE = "--verbose" in sys.argv

# What is refused: by keyword, how many schemas of the suite. 23 refer to schemas elsewhere, of which
# nothing is fetched.
SUITE_REFUSED = 30
MASKBENCH_REFUSED = 14

# Files of the suite whose tests contradict what is asserted here: `format` as a remark.
REMARKS = ("format.json", "optional/format-assertion.json")


def spellings(data):
    """An instance as texts: compact, with blanks, on lines, with and without escapes."""
    return list(dict.fromkeys([
        json.dumps(data, separators=(",", ":"), ensure_ascii=False),
        json.dumps(data),
        json.dumps(data, indent=2, ensure_ascii=False),
    ]))


def follow(cases, *flags):
    """cases: [(schema, [text])]; the program's answer to each."""
    lines = "\n".join(json.dumps({"schema": schema, "texts": texts}) for schema, texts in cases)
    run = subprocess.run([PROGRAM, *flags], input=lines, capture_output=True, text=True)
    if run.returncode != 0:
        raise AssertionError(run.stderr)
    return [json.loads(line) for line in run.stdout.splitlines()]


class Outcome:
    def __init__(self):
        self.compiled = 0
        self.refused = collections.Counter()
        self.wrongly_accepted = []
        self.wrongly_rejected = []
        self.instances = 0

    def keyword(self, message):
        found = re.match(r"JSON Schema: (\S+) at", message)
        return found.group(1) if found else message.split(";")[0][:80]

    def __str__(self):
        return (f"{self.compiled} compiled, {sum(self.refused.values())} refused "
                f"{dict(self.refused)}, {self.instances} instances, "
                f"{len(self.wrongly_accepted)} wrongly accepted {self.wrongly_accepted[:20]}, "
                f"{len(self.wrongly_rejected)} wrongly rejected {self.wrongly_rejected[:20]}")


def check(cases, *flags):
    """cases: [(name, schema, [(instance, valid)])]"""
    outcome = Outcome()
    texts = [[spellings(data) for data, _ in tests] for _, _, tests in cases]
    answers = follow([(schema, [t for group in groups for t in group])
                      for (_, schema, _), groups in zip(cases, texts)], *flags)
    assert len(answers) == len(cases), "an answer is missing"
    for (name, _, tests), groups, answer in zip(cases, texts, answers):
        if "error" in answer:
            message = answer["error"]["message"]
            valid = sum(valid for _, valid in tests)
            if "no value is valid" in message or "no text fits" in message:
                outcome.compiled += 1
                outcome.instances += len(tests)
                if valid:
                    outcome.wrongly_rejected.append((name, "nothing is valid"))
                continue
            outcome.refused[outcome.keyword(message)] += 1
            if VERBOSE:
                print(f"{name}: {answer['error']['code']} {message[:300]}")
            continue
        outcome.compiled += 1
        accepted = iter(answer["accepted"])
        for (data, valid), group in zip(tests, groups):
            outcome.instances += 1
            got = [next(accepted) for _ in group]
            short = json.dumps(data)[:100]
            if valid and not all(got):
                outcome.wrongly_rejected.append((name, short))
            if not valid and any(got):
                outcome.wrongly_accepted.append((name, short))
    return outcome


class Suite(unittest.TestCase):
    def cases(self, select):
        folder = SHARED / "json_schema" / "tests" / "draft2020-12"
        cases = []
        for path in sorted(folder.rglob("*.json")):
            name = str(path.relative_to(folder))
            if not select(name):
                continue
            for group in json.loads(path.read_text()):
                cases.append((f"{name}: {group['description']}", group["schema"],
                              [(t["data"], t["valid"]) for t in group["tests"]]))
        return cases

    def test_suite(self):
        outcome = check(self.cases(lambda name: name not in REMARKS), "--order", "free")
        print("suite:", outcome)
        self.assertEqual(outcome.wrongly_accepted, [])
        self.assertEqual(outcome.wrongly_rejected, [])
        self.assertLessEqual(sum(outcome.refused.values()), SUITE_REFUSED)

    def test_format_as_a_remark(self):
        outcome = check(self.cases(lambda name: name in REMARKS), "--order", "free", "--no-format")
        print("format as a remark:", outcome)
        self.assertEqual(outcome.wrongly_rejected, [])


class MaskBench(unittest.TestCase):
    def test_sample(self):
        cases = []
        with gzip.open(SHARED / "maskbench" / "sample.jsonl.gz", "rt") as lines:
            for line in lines:
                entry = json.loads(line)
                cases.append((entry["name"], entry["schema"],
                              [(t["data"], t["valid"]) for t in entry["tests"]]))
        outcome = check(cases, "--order", "free")
        print("maskbench:", outcome)
        self.assertEqual(outcome.wrongly_accepted, [])
        self.assertEqual(outcome.wrongly_rejected, [])
        self.assertLessEqual(sum(outcome.refused.values()), MASKBENCH_REFUSED)


if __name__ == "__main__":
    if not SHARED.is_dir():
        print(f"skipped: no {SHARED}")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    unittest.main(argv=[sys.argv[0]] + [a for a in sys.argv[3:] if a != "--verbose"])

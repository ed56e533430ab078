#!/usr/bin/env python3
"""Schemas that want to take all time and memory: each ends within two seconds of the processor and 64 MiB, compiled or with
an error that has a name.

    grammar_hostile_test.py FOLLOW_SCHEMAS
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

PROGRAM = sys.argv[1]
MOST_SECONDS = 2.0
MOST_BYTES = 64 << 20
SMALL = {"type": "boolean"}


def follow(line):
    """The answer, the processor's seconds and the most memory of a process of its own."""
    with subprocess.Popen([PROGRAM, "--request-limits"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        run.stdin.write(line + "\n")
        run.stdin.flush()
        answer = json.loads(run.stdout.readline())
        status = pathlib.Path(f"/proc/{run.pid}/status").read_text()
        times = pathlib.Path(f"/proc/{run.pid}/stat").read_text().rpartition(")")[2].split()
    # User's and system's, of fields 14 and 15.
    seconds = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    most = int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024
    return answer, seconds, most


def case(schema):
    return schema if isinstance(schema, str) else json.dumps({"schema": schema, "texts": []})


def nested(depth):
    return '{"schema": ' + '{"items": ' * depth + "true" + "}" * depth + ', "texts": []}'


HOSTILE = {
    "exponential oneOf": {"allOf": [{"oneOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]},
                                               {"properties": {f"c{i}": {"minimum": i}}}]} for i in range(40)]},
    "not of anyOf of allOf": {"not": {"anyOf": [{"allOf": [{"required": [f"x{i}", f"y{j}"]} for j in range(12)]}
                                                for i in range(40)]}},
    "deep nesting": nested(200),
    "recursion with nothing between": {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]},
                                                                      "b": {"allOf": [{"$ref": "#/$defs/a"}]}}},
    "recursion without an end": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}},
    "huge enum": {"enum": [f"value {i * 7919 % 1000003}" for i in range(200_000)]},
    "enum of objects": {"enum": [{"k": i, "v": [i, str(i)]} for i in range(20_000)]},
    "catastrophic regex": {"type": "string", "pattern": "^(a|b|ab)*c(a|b){200}(x+x+)+y$"},
    "exponential regex": {"type": "string", "pattern": "^(a|b)*a(a|b){40}$"},
    "large counts": {"type": "string", "pattern": "^((.{1,90}){1,90}){1,90}$", "maxLength": 900_000},
    "many patterns": {"patternProperties": {f"^(?:.*{chr(97 + i)}){{3}}": SMALL for i in range(24)}},
    "all names": {"type": "object", "minProperties": 500, "properties": {f"n{i}": SMALL for i in range(1000)}},
    "unevaluated": {"anyOf": [{"properties": {f"p{i}": SMALL}} for i in range(60)], "unevaluatedProperties": False},
    "multiples": {"allOf": [{"multipleOf": n} for n in (4093, 4091, 4079, 4073)]},
    "many multiples": {"allOf": [{"anyOf": [{"multipleOf": 1409}, {"multipleOf": 700 + i}]} for i in range(400)]},
    "many bounds and multiples": {"not": {"enum": [i / 7 for i in range(20_000)]},
                                  "anyOf": [{"multipleOf": 1409}, {"multipleOf": 0.1373}]},
    "many contains": {"allOf": [{"contains": {"const": i}, "maxContains": 90} for i in range(4)]},
    "10 MB": {"enum": ["x" * 1000 + str(i) for i in range(10_000)]},
}
# What no limit should let through.
REFUSED = ("exponential oneOf", "recursion with nothing between", "recursion without an end", "huge enum",
           "exponential regex", "large counts", "many multiples", "10 MB")
NAMES = ("limit max_", "JSON Schema: ", "no value is valid", "no text fits")


class Hostile(unittest.TestCase):
    def test_each_ends_within_the_limits(self):
        _, least_seconds, least_bytes = follow(case(SMALL))
        for name, schema in HOSTILE.items():
            with self.subTest(name):
                answer, seconds, most = follow(case(schema))
                error = answer.get("error")
                print(f"{name}: {seconds - least_seconds:.2f} s, {(most - least_bytes) / 2**20:.1f} MiB, "
                      f"{error['message'][:100] if error else 'compiled'}")
                if error:
                    self.assertTrue(any(part in error["message"] for part in NAMES), error["message"])
                else:
                    self.assertNotIn(name, REFUSED)
                self.assertLess(seconds - least_seconds, MOST_SECONDS)
                self.assertLess(most - least_bytes, MOST_BYTES)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])

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

from hostile_schemas import HOSTILE, SMALL

PROGRAM = sys.argv[1]
MOST_SECONDS = 2.0
MOST_BYTES = 64 << 20


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
    return f'{{"schema": {schema}, "texts": []}}'


# What no limit should let through.
REFUSED = ("exponential oneOf", "recursion with nothing between", "recursion without an end", "huge enum",
           "exponential regex", "large counts", "many multiples", "10 MB")
NAMES = ("limit max_", "JSON Schema: ", "no value is valid", "no text fits")


class Hostile(unittest.TestCase):
    def test_each_ends_within_the_limits(self):
        _, least_seconds, least_bytes = follow(case(json.dumps(SMALL)))
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

"""Runs of `quire bench serve` and their reports."""

import json
import os
import subprocess
import unittest

from cli_support import PROGRAM
from serve_support import TIMEOUT

COUNTS = ("completed", "failed", "unfinished", "not_sent")
PERCENTILES = ["mean", "p50", "p90", "p95", "p99"]


def command(*flags):
    return [str(each) for each in (PROGRAM, "bench", "serve", *flags)]


def bench(*flags, env=None):
    return subprocess.run(command(*flags), capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, **(env or {})})


class ReportTest(unittest.TestCase):
    def report(self, *flags, code=0, env=None):
        """The --json report of a run; every request has to be in it once."""
        result = bench("--json", *flags, env=env)
        self.assertEqual(result.returncode, code, result.stderr)
        report = json.loads(result.stdout)
        for level in report["levels"]:
            self.assertEqual(sum(level[each] for each in COUNTS), level["num_prompts"], level)
            self.assertEqual(sum(each["count"] for each in level["failures"]), level["failed"])
        return report

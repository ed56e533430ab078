#!/usr/bin/env python3
"""Tests of test_table.py: reports of a ctest run and of test programs become a table."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

import test_table

JUNIT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="x" tests="4">
  <testcase name="core.Pool.A" classname="core.Pool.A" time="0.1" status="run"/>
  <testcase name="core.Pool.B" classname="core.Pool.B" time="0.1" status="fail"/>
  <testcase name="core.Pool.C" classname="core.Pool.C" time="0" status="notrun"/>
  <testcase name="kernels.part_0" classname="kernels.part_0" time="1" status="run"/>
  <testcase name="cli" classname="cli" time="1" status="run"/>
</testsuite>
"""
# ctest lists the commands of programs that are there.
CTEST = """
add_test(core.Pool.A "{0}/core_test" "--gtest_filter=Pool.A")
add_test(core.Pool.B "{0}/core_test" "--gtest_filter=Pool.B")
add_test(core.Pool.C "{0}/core_test" "--gtest_filter=Pool.C")
add_test(kernels.part_0 "{0}/kernels_test")
add_test(cli "{1}" "-B" "/tests/cli_test.py" "{0}/quire")
"""


class TestTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, name, sanitizers):
        build = self.folder / name
        (build / "reports").mkdir(parents=True)
        (build / "CMakeCache.txt").write_text(f"A:BOOL=ON\nQUIRE_SANITIZE:STRING={sanitizers}\nB:STRING=x\n")
        return build

    def gtest_report(self, build, program, results):
        tests = [{"name": str(i), "result": result} for i, result in enumerate(results)]
        (build / "reports" / f"{program}.json").write_text(
            json.dumps({"testsuites": [{"name": "Suite", "testsuite": tests}]}))

    def table(self, *builds):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            self.assertEqual(test_table.main([str(build) for build in builds]), 0)
        return output.getvalue().splitlines()

    def test_counts_what_ran(self):
        release = self.build("release", "")
        (release / "reports" / "ctest.xml").write_text(JUNIT)
        for program in ("core_test", "kernels_test"):
            (release / program).touch(0o755)
        self.gtest_report(release, "kernels_test.part_0", ["COMPLETED", "SKIPPED"])
        self.gtest_report(release, "kernels_test.part_1", ["COMPLETED", "COMPLETED"])
        (release / "CTestTestfile.cmake").write_text(CTEST.format(release, sys.executable))
        asan = self.build("asan", "address,undefined")
        self.gtest_report(asan, "core_test", ["COMPLETED", "SKIPPED", "COMPLETED"])
        self.gtest_report(asan, "nn_test", ["COMPLETED"])
        self.assertEqual(self.table(release, asan), [
            "| tests of | release: optimized | asan: assertions, address, undefined |",
            "|---|---:|---:|",
            "| `cli_test.py` | 1 |  |",
            "| `core_test` | 2 | 2 |",
            "| `kernels_test` | 3 |  |",
            "| `nn_test` |  | 1 |",
            "| all | 6 | 3 |"])

    def test_a_build_without_reports_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "run its tests first"):
            self.table(self.build("asan", "thread"))
        build = self.build("tsan", "thread")
        (build / "reports").rmdir()
        with self.assertRaisesRegex(SystemExit, "run its tests first"):
            self.table(build)


if __name__ == "__main__":
    unittest.main()

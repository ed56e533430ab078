#!/usr/bin/env python3
"""Prints which tests ran, and what looked on: a table in Markdown.

    scripts/test_table.py BUILD_DIR...

Each build has left what its tests reported in BUILD_DIR/reports: *.xml of ctest (--output-junit) and
*.json of test programs (--gtest_output; of a part of one, PROGRAM.PART.json). Which sanitizers a
build has is in its CMakeCache.txt; with any of them it has assertions, which base_test verifies.
Skipped tests do not count.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree


def sanitizers_of(build):
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    return re.search(r"^QUIRE_SANITIZE:\w+=(.*)$", cache, re.MULTILINE).group(1)


def programs_of(build):
    """{name of a test as ctest has it: name of the program or script that it runs}"""
    listed = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], check=True,
                            capture_output=True, text=True).stdout
    programs = {}
    for test in json.loads(listed)["tests"]:
        words = [pathlib.Path(word).name for word in test.get("command", [])]
        scripts = [word for word in words if word.endswith(".py")]
        programs[test["name"]] = scripts[0] if scripts else words[0] if words else test["name"]
    return programs


def from_ctest(path, build, reported):
    """Of programs that have not `reported` for themselves."""
    programs = programs_of(build)
    counts = collections.Counter()
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        program = programs[case.get("name")]
        if case.get("status") in ("run", "fail") and program not in reported:
            counts[program] += 1
    return counts


def from_gtest(path):
    report = json.loads(path.read_text(encoding="utf-8"))
    ran = sum(test["result"] == "COMPLETED" for suite in report["testsuites"]
              for test in suite["testsuite"])
    return collections.Counter({path.stem.partition(".")[0]: ran})


def counts_of(build):
    """{program: number of its tests that ran}"""
    reports = build / "reports"
    counts = sum(map(from_gtest, sorted(reports.glob("*.json"))), collections.Counter())
    reported = set(counts)
    for path in sorted(reports.glob("*.xml")):
        counts += from_ctest(path, build, reported)
    if not counts:
        sys.exit(f"test_table: nothing is reported in {build / 'reports'}; run its tests first")
    return counts


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    columns = {}
    for build in map(pathlib.Path, arguments):
        sanitizers = sanitizers_of(build)
        watched = f"assertions, {sanitizers.replace(',', ', ')}" if sanitizers else "optimized"
        columns[f"{build.name}: {watched}"] = counts_of(build)
    print("| tests of | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for program in sorted(set().union(*columns.values())):
        numbers = [counts[program] for counts in columns.values()]
        print(f"| `{program}` | " + " | ".join(str(number or "") for number in numbers) + " |")
    print("| all | " + " | ".join(str(counts.total()) for counts in columns.values()) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

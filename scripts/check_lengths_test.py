"""Tests of check_lengths.py on small trees made for them."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_lengths  # noqa: E402


def function(name, lines):
    """A definition of so many lines, with a loop, whose closing brace is not in the first column."""
    body = ["  for (;;) {", "  }"] + ["  step();"] * (lines - 5)
    return "\n".join([f"Status {name}(int a,", *body, "", "}"]).replace("(int a,", "(int a) {") + "\n"


class CheckLengthsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def test_a_file_may_have_450_lines_and_no_more(self):
        for top in ("src/core", "tests/support", "bench/load"):
            self.write(f"{top}/a.cpp", "int x;\n" * 450)
            self.write(f"{top}/b.h", "int x;\n" * 451)
        problems = check_lengths.check(self.root, {})
        self.assertEqual(len(problems), 3, problems)
        self.assertTrue(problems[0].startswith("src/core/b.h:451: the file has 451 lines"), problems)

    def test_other_kinds_of_files_may_be_long(self):
        self.write("tests/data/answers.json", "let x;\n" * 1000)
        self.assertEqual(check_lengths.check(self.root, {}), [])

    def test_a_named_function_stays_under_60_lines(self):
        text = "Status A::schedule(int);\n\n" + function("A::schedule", 59)
        self.write("src/core/a.cpp", text)
        self.assertEqual(check_lengths.check(self.root, {"src/core/a.cpp": ["A::schedule"]}), [])
        self.write("src/core/a.cpp", function("B::schedule", 20) + function("A::schedule", 60))
        problems = check_lengths.check(self.root, {"src/core/a.cpp": ["A::schedule"]})
        self.assertEqual(problems, ["src/core/a.cpp:1: A::schedule has 60 lines; it stays under 60"])

    def test_a_named_function_that_has_gone_is_said(self):
        self.write("src/core/a.cpp", "// A::schedule() was here\nvoid f() {\n  A::schedule(1);\n}\n")
        problems = check_lengths.check(self.root, {"src/core/a.cpp": ["A::schedule"]})
        self.assertEqual(len(problems), 1, problems)
        self.assertIn("A::schedule is not here", problems[0])
        problems = check_lengths.check(self.root, {"src/core/gone.cpp": ["A::schedule"]})
        self.assertIn("A::schedule is not here", problems[0])

    def test_the_projects_own_functions_are_found(self):
        root = pathlib.Path(__file__).resolve().parent.parent
        for name, functions in check_lengths.SHORT_FUNCTIONS.items():
            text = (root / name).read_text(encoding="utf-8")
            for each in functions:
                self.assertIsNotNone(check_lengths.function_lines(text, each), each)


if __name__ == "__main__":
    unittest.main()

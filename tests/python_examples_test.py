"""The programs of examples/python that need no other package: each ends well and says what it is for.

    python_examples_test.py BUILD/python SOURCE_DIR [TEST...]
"""

import os
import re
import subprocess
import sys
import unittest

from python_support import PACKAGE, SMOLLM2, SOURCE, TINY, main, needs

EXAMPLES = SOURCE / "examples/python"
WITH_OTHER_PACKAGES = {"ray_data", "ray_serve"}  # docs/clients.md has how they are run


def run_example(name, *arguments):
    """What it prints."""
    done = subprocess.run([sys.executable, "-B", str(EXAMPLES / name), *map(str, arguments)], text=True, timeout=300,
                          env=dict(os.environ, PYTHONPATH=str(PACKAGE)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


class Examples(unittest.TestCase):
    def test_every_example_has_a_test(self):
        names = {path.stem for path in EXAMPLES.glob("*.py")}
        tested = {name.removeprefix("test_") for name in dir(type(self)) if name.startswith("test_")}
        self.assertEqual(names - tested, WITH_OTHER_PACKAGES)

    @needs(SMOLLM2)
    def test_first(self):
        out = run_example("first.py", SMOLLM2)
        self.assertTrue(out.endswith("The capital of Japan is Tokyo.\n"), out)

    def test_async_three(self):
        out = run_example("async_three.py", TINY)
        self.assertEqual(len(re.findall(r"(?m)^'.*' -> '.*'$", out)), 3, out)

    def test_logits_processor(self):
        self.assertIn("with the rule", run_example("logits_processor.py", TINY))

    @needs(SMOLLM2)
    def test_structured(self):
        out = run_example("structured.py", SMOLLM2).splitlines()
        self.assertRegex(out[0], r"^\{'city': '.*', 'is_capital': (True|False)\}$")
        self.assertIn(out[1], ("yes", "no"))

    def test_make_text_to_sql(self):
        run_example("make_text_to_sql.py", "--check")

    @needs(SMOLLM2)
    def test_offline_table(self):
        out = run_example("offline_table.py", "--model", SMOLLM2, "--sizes", 1, 4, "--prompts", 8, "--max-tokens", 8,
                          "--no-transformers")
        self.assertIn("8 prompts; at every size the tokens of the command line", out)
        self.assertEqual(len(re.findall(r"(?m)^\| [14] \| [\d.]+ \|", out)), 2, out)

    @needs(SMOLLM2)
    def test_prefix_caching(self):
        out = run_example("prefix_caching.py", "--model", SMOLLM2)
        rows = re.findall(r"(?m)^(cold|warm) .*\? +(\d+) +(\d+) +[\d.]+ ms$", out)
        self.assertEqual([each[0] for each in rows], ["cold"] * 4 + ["warm"] * 4, out)
        for kind, prompt, cached in rows:
            self.assertEqual(int(cached) > 1000, kind == "warm", out)
            self.assertGreater(int(prompt), 1000)
        # A machine that is busy makes both slower, and the one no more than the other.
        self.assertGreater(float(re.search(r"warm is ([\d.]+) times sooner", out)[1]), 3)


if __name__ == "__main__":
    main()

"""What comes with the package beside the engine: the program, types.

    python_program_test.py BUILD/python SOURCE_DIR [TEST...]
"""

import importlib.util
import json
import os
import subprocess
import sys
import unittest

from python_support import PACKAGE, SOURCE, main, python

import quire


class Program(unittest.TestCase):
    def test_every_command_comes_along(self):
        done = python("import sys; sys.argv = ['quire', 'generate', '--schema']; import quire.__main__")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("max_tokens", json.loads(done.stdout)["properties"])

    def test_the_server_as_a_module(self):
        done = python("""
import sys, runpy
sys.argv = ["api_server", "--help"]
runpy.run_module("quire.entrypoints.openai.api_server", run_name="__main__")
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--port", done.stdout)


class Types(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_the_package_and_its_examples_are_clean(self):
        examples = sorted(map(str, (SOURCE / "examples/python").glob("*.py")))
        for what in (["-p", "quire"], examples):
            done = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", "--cache-dir",
                 str(PACKAGE / ".mypy_cache"), *what],
                cwd=SOURCE, env=dict(os.environ, MYPYPATH=str(SOURCE / "python")), stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_help_reads_well(self):
        import pydoc
        shown = pydoc.render_doc(quire.LLM)
        for word in ("generate", "max_model_len", "close"):
            self.assertIn(word, shown)
        shown = pydoc.render_doc(quire.serve)
        for word in ("api_key", "shutdown_timeout", "UnavailableError"):
            self.assertIn(word, shown)
        self.assertIn("top_p: Sample among", pydoc.render_doc(quire.SamplingParams))


if __name__ == "__main__":
    main()

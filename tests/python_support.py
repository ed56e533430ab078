"""What the tests of the Python package share.

Each is started as  python_*_test.py BUILD/python SOURCE_DIR [TEST...]; the package is taken from the build tree.
"""

import os
import pathlib
import subprocess
import sys
import unittest

PACKAGE = pathlib.Path(sys.argv[1])
SOURCE = pathlib.Path(sys.argv[2])
TINY = SOURCE / "tests/data/tiny_llama/hf"
SMOLLM2 = SOURCE / "models/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf"
sys.path.insert(0, str(PACKAGE))


def needs(path):
    def decorate(test):
        def wrapper(self):
            if not path.exists():
                if os.environ.get("CI"):
                    self.fail(f"{path} is missing")
                self.skipTest(f"{path} is not there (see README)")
            test(self)
        return wrapper
    return decorate


def python(program, *arguments, timeout=120, **options):
    """Runs a program of Python's with the package; its CompletedProcess."""
    environment = dict(os.environ, PYTHONPATH=str(PACKAGE), PYTHONUNBUFFERED="1")
    return subprocess.run([sys.executable, "-B", "-c", program, *map(str, arguments)], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, **options)


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

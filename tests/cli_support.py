"""What the tests of the program share: where it lies, how it is run.

Each test program is started as  cli_*_test.py PROGRAM SOURCE_DIR.
"""

import json
import os
import pathlib
import subprocess
import sys

PROGRAM = sys.argv[1]
SOURCE = pathlib.Path(sys.argv[2])
TINY = SOURCE / "tests/data/tiny_llama"
SHARED = SOURCE / "../shared"
STORIES = SHARED / "models/stories260k"
STORIES_TEXT = SHARED / "models/stories260k.expected.txt"
SMOLLM2 = SOURCE / "models/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf"


def run(*args, text_input=None, **options):
    if "stdout" not in options:
        options["stdout"] = subprocess.PIPE
    return subprocess.run([PROGRAM, *map(str, args)], input=text_input, stderr=subprocess.PIPE,
                          text=True, timeout=240, **options)


def told(errors):
    """The lines of standard error but those of the plan, and of what takes its time."""
    return [line for line in errors.strip().splitlines()
            if not line.startswith(("info: memory: ", "loading: ", "generating: "))]


def facts(*command):
    """What `quire completion json` says of a command ("bench", "core"), or of the program."""
    found = json.loads(run("completion", "json").stdout)
    for word in command:
        found = next(each for each in found["commands"] if each["name"].endswith(" " + word))
    return found


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

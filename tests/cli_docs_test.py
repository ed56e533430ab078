"""What README.md and the pages for readers say of the program, held to the program itself.

    cli_docs_test.py PROGRAM SOURCE_DIR
"""

import pathlib
import re
import subprocess
import sys
import unittest

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
PAGES = [SOURCE / "README.md", *(SOURCE / "docs" / f"{name}.md" for name in ("commands", "operators", "python"))]


def help_of(*command):
    return subprocess.run([PROGRAM, *command, "--help"], check=True, text=True, stdout=subprocess.PIPE).stdout


def commands_of(text):
    return re.findall(r"^  ([a-z][a-z-]*) {2,}", text.partition("Subcommands:")[2], re.M)


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = commands_of(help_of())
        cls.bench = commands_of(help_of("bench"))
        cls.helps = {(name,): help_of(name) for name in cls.commands}
        cls.helps |= {("bench", name): help_of("bench", name) for name in cls.bench}

    def test_commands_and_their_flags(self):
        seen = 0
        for page in PAGES:
            # A command begins a line of a block, or is code in a sentence.
            for line in re.findall(r"^quire ([a-z][^\n#]*)", page.read_text(), re.M) + re.findall(
                    r"`quire ([a-z][^`]*)`", page.read_text()):
                words = line.split()
                command = tuple(words[:2]) if words[0] == "bench" and len(words) > 1 else (words[0],)
                self.assertIn(command, [*self.helps, ("bench",)], f"{page.name}: quire {line}")
                for flag in re.findall(r"(?<!\S)--[a-z][a-z-]*", line):
                    if flag != "--help":
                        self.assertRegex(self.helps[command], rf"{flag}(?![a-z-])", f"{page.name}: quire {line}")
                        seen += 1
        self.assertGreater(seen, 20)

    def test_every_flag_that_is_named_exists(self):
        known = "\n".join(self.helps.values())
        for page in PAGES:
            for flag in re.findall(r"`(--[a-z][a-z-]*)", page.read_text()):
                self.assertRegex(known, rf"{flag}(?![a-z-])", page.name)

    def test_families(self):
        registry = (SOURCE / "src/models/registry.cpp").read_text()
        families = re.findall(r'ModelFamily\{"(\w+)"', registry)
        row = re.search(r"^\| Families of models \| (\d+) ", (SOURCE / "README.md").read_text(), re.M)
        self.assertEqual(int(row[1]), len(families))
        table = (SOURCE / "docs/architecture.md").read_text()
        self.assertEqual(set(re.findall(r"^\| `(\w+ForCausalLM)`", table.partition("## Families")[2], re.M)), set(families))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

"""What README.md and the pages for readers say of the program, held to the program itself.

    cli_docs_test.py PROGRAM SOURCE_DIR
"""

import json
import re
import sys
import unittest

from cli_support import SOURCE, facts

sys.path.insert(0, str(SOURCE / "scripts"))
import page_answers  # noqa: E402

PAGES = [SOURCE / "README.md", *(SOURCE / "docs" / f"{name}.md" for name in (
    "beam_search", "clients", "commands", "deployment", "event_log", "getting_models", "operators", "performance",
    "planning", "python", "speculation", "tools"))]


def flags_of(command):
    return {name for flag in command["flags"] for name in flag["names"] + flag["negated"]}


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.flags = {}  # of each command, ("bench", "core") and the like
        for command in facts()["commands"]:
            for each in [command, *command["commands"]]:
                cls.flags[tuple(each["name"].split()[1:])] = flags_of(each)

    def test_commands_and_their_flags(self):
        seen = 0
        for page in PAGES:
            # A command begins a line of a block, or is code in a sentence.
            for line in re.findall(r"^quire ([a-z][^\n#]*)", page.read_text(), re.M) + re.findall(
                    r"`quire ([a-z][^`]*)`", page.read_text()):
                words = line.split()
                command = tuple(words[:2]) if words[0] == "bench" and len(words) > 1 else (words[0],)
                self.assertIn(command, self.flags, f"{page.name}: quire {line}")
                for flag in re.findall(r"(?<!\S)--[a-z][a-z-]*", line):
                    if flag != "--help":
                        self.assertIn(flag, self.flags[command], f"{page.name}: quire {line}")
                        seen += 1
        self.assertGreater(seen, 20)

    def test_every_flag_that_is_named_exists(self):
        known = set().union(*self.flags.values())
        for page in PAGES:
            for flag in re.findall(r"`(--[a-z][a-z-]*)", page.read_text()):
                self.assertIn(flag, known, page.name)

    def test_the_pages_suggestions_are_those_whose_answers_were_read(self):
        """A new suggestion needs a new run of scripts/page_answers.py, and someone who reads it."""
        answers = json.loads((SOURCE / "tests/data/page_answers.json").read_text())
        self.assertEqual({mode: list(texts) for mode, texts in answers.items()}, page_answers.suggestions())
        for mode, texts in answers.items():
            for text, given in texts.items():
                self.assertEqual([each["seed"] for each in given], list(page_answers.SEEDS))
                for each in given:
                    self.assertTrue(each["answer"].strip(), text)
                    if mode == "chat":  # one that goes on for ever says the same again and again
                        self.assertEqual(each["finish_reason"], "stop", text)

    def test_the_readme_answers_first_things_first(self):
        text = (SOURCE / "README.md").read_text()
        self.assertEqual(re.findall(r"^## (.*)$", text, re.M),
                         ["Install", "The first answer", "Beside others", "What runs", "Questions", "Where to go next"])
        before = text.partition("## Install")[0]
        self.assertEqual(re.findall(r"^!\[[^]]+\]\((.*)\)$", before, re.M), ["docs/page-playground.png", "docs/performance/serving.svg"])

    def test_families(self):
        registry = (SOURCE / "src/models/registry.cpp").read_text()
        families = re.findall(r'ModelFamily\{"(\w+)"', registry)
        row = re.search(r"^\| Families of models \| (\d+) ", (SOURCE / "README.md").read_text(), re.M)
        self.assertEqual(int(row[1]), len(families))
        table = (SOURCE / "docs/architecture.md").read_text()
        named = re.findall(r"^\| (`[^|]+) \|", table.partition("## Families")[2], re.M)
        self.assertEqual(set(re.findall(r"`(\w+(?:ForCausalLM|LMHeadModel))`", "\n".join(named))), set(families))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

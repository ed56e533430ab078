#!/usr/bin/env python3
"""What a text must be, by every flag of `quire generate` and every field of its input lines, on a tiny model whose own
texts are none of it.

    cli_structured_test.py PROGRAM SOURCE_DIR
"""

import json
import pathlib
import re
import tempfile
import unittest

from cli_support import TINY, run

MODEL = ("--model", TINY / "hf", "--temperature", 1, "--max-tokens", 60)
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
GBNF = 'root ::= "red" | "blue"'
LARK = 'start: "red" | "blue"'
TAG = {"type": "structural_tag", "format": {"type": "sequence", "elements": [
    {"type": "const_string", "value": "<f>"}, {"type": "json_schema", "json_schema": SCHEMA}]}}


def is_object(text):
    return isinstance(json.loads(text)["ok"], bool)


def is_colour(text):
    return text in ("red", "blue")


def is_tagged(text):
    return text.startswith("<f>") and is_object(text[3:])


# An object of any kind need not end in so few tokens.
def begins_an_object(text):
    return text.lstrip().startswith("{")


class Flags(unittest.TestCase):
    def generate(self, *flags):
        result = run("generate", *MODEL, "--prompt", "the cat", "--seed", 3, *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.removesuffix("\n")

    def test_each_holds(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {name: pathlib.Path(folder, name) for name in ("schema", "gbnf", "lark")}
            for name, text in (("schema", json.dumps(SCHEMA)), ("gbnf", GBNF), ("lark", LARK)):
                files[name].write_text(text)
            for flags, holds in ((["--json-schema", json.dumps(SCHEMA)], is_object),
                                 (["--json-schema", files["schema"]], is_object),
                                 (["--json-object"], begins_an_object),
                                 (["--regex", "(red|blue)"], is_colour),
                                 (["--choice", "red", "--choice", "blue"], is_colour),
                                 (["--grammar", files["gbnf"]], is_colour),
                                 (["--grammar", files["lark"]], is_colour),
                                 (["--structured-outputs", json.dumps({"structural_tag": json.dumps(TAG)})], is_tagged)):
                text = self.generate(*flags)
                self.assertTrue(holds(text), (flags, text))

    def test_a_text_ends_in_time(self):
        list_of_words = ["--regex", "[a-z]+(, [a-z]+)*[.]", "--max-tokens", 12]
        self.assertRegex(self.generate(*list_of_words, "--ensure-close"), r"\A[a-z]+(, [a-z]+)*[.]\Z")

    def test_what_is_wrong_is_said_before_the_model_is_loaded(self):
        for flags, word in ((["--json-schema", '{"type": "integr"}'], "integr"), (["--regex", "a(b"], "column 4"),
                            (["--regex", "a", "--choice", "b"], "structured_outputs"),
                            (["--grammar", "/nowhere/at/all"], "--grammar")):
            result = run("generate", "--model", "/nowhere/at/all", "--prompt", "x", *flags)
            self.assertEqual(result.returncode, 64, flags)
            self.assertIn(word, result.stderr)


class Lines(unittest.TestCase):
    def test_each_field_holds(self):
        format_of = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
        cases = [({"structured_outputs": {"json": SCHEMA}}, is_object),
                 ({"structured_outputs": {"json": json.dumps(SCHEMA), "disable_any_whitespace": True}}, is_object),
                 ({"structured_outputs": {"regex": "(red|blue)"}}, is_colour),
                 ({"structured_outputs": {"choice": ["red", "blue"]}}, is_colour),
                 ({"structured_outputs": {"grammar": GBNF}}, is_colour),
                 ({"structured_outputs": {"grammar": LARK}}, is_colour),
                 ({"structured_outputs": {"json_object": True}}, begins_an_object),
                 ({"structured_outputs": {"structural_tag": json.dumps(TAG)}}, is_tagged),
                 ({"response_format": format_of}, is_object), ({"response_format": {"type": "json_object"}}, begins_an_object),
                 ({"response_format": TAG}, is_tagged), ({"json_schema": SCHEMA}, is_object),
                 ({"regex": "(red|blue)"}, is_colour), ({"grammar": GBNF}, is_colour), ({"ebnf": GBNF}, is_colour),
                 ({"structural_tag": json.dumps(TAG)}, is_tagged), ({"guided_json": SCHEMA}, is_object),
                 ({"guided_json": SCHEMA, "guided_whitespace_pattern": " ?"}, is_object),
                 ({"guided_regex": "(red|blue)"}, is_colour), ({"guided_choice": ["red", "blue"]}, is_colour),
                 ({"guided_grammar": GBNF}, is_colour)]
        lines = "".join(json.dumps({"prompt": "the cat", "seed": i, **fields}) + "\n" for i, (fields, _) in enumerate(cases))
        result = run("generate", *MODEL, "--input", "-", text_input=lines)
        self.assertEqual(result.returncode, 0, result.stderr)
        records = sorted(map(json.loads, result.stdout.splitlines()), key=lambda record: record["id"])
        self.assertEqual(len(records), len(cases))
        for (fields, holds), record in zip(cases, records):
            text = record["outputs"][0]["text"]
            self.assertTrue(holds(text), (fields, text))

    def test_what_is_wrong_ends_its_line_alone(self):
        lines = [{"prompt": "a", "regex": "a(b"}, {"prompt": "a", "regex": "abc"}, {"prompt": "a", "regex": "a", "grammar": "b"}]
        result = run("generate", *MODEL, "--input", "-", text_input="".join(json.dumps(each) + "\n" for each in lines))
        records = sorted(map(json.loads, result.stdout.splitlines()), key=lambda record: record["line"] if "line" in record else record["id"])
        self.assertIn("column 4", records[0]["error"]["message"])
        self.assertEqual(records[1]["outputs"][0]["text"], "abc")
        self.assertTrue(re.search("grammar|regex", records[2]["error"]["message"]))


if __name__ == "__main__":
    unittest.main(argv=[__file__])

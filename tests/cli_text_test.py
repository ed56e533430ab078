#!/usr/bin/env python3
"""`quire tokenize`, `detokenize` and `template`.

    cli_text_test.py PROGRAM SOURCE_DIR
"""

import json
import pathlib
import re
import sys
import tempfile
import unittest

from cli_support import SHARED, TINY, needs, run

MODEL = TINY / "hf"
GPT2 = SHARED / "data/tokenizers/ggml-vocab-gpt-2.gguf"
LLAMA = SHARED / "data/tokenizers/ggml-vocab-llama-spm.gguf"
SEPARATOR = "\n__ggml_vocab_test__\n"


def lines_of(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def jsonl(*records):
    return "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records)


class Tokenize(unittest.TestCase):
    def test_tokens_stand_above_their_ids(self):
        text = "the cat\nsat"
        result = run("tokenize", "--model", MODEL, "--text", text)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = result.stdout.splitlines()
        ids = json.loads(run("tokenize", "--model", MODEL, "--text", text,
                             "--json").stdout)["token_ids"]
        shown_ids = " ".join(rows[1:-1:2]).split()
        self.assertEqual([int(i.rstrip("*")) for i in shown_ids], ids)
        self.assertIn("↵", rows[0])
        self.assertTrue(rows[-1].startswith(f"{len(ids)} tokens"), rows[-1])
        # Each piece begins in the column of its id.
        for above, below in zip(rows[0:-1:2], rows[1:-1:2]):
            for match in re.finditer(r"\S+", below):
                self.assertNotEqual(above[match.start()], " ", (above, below))
        self.assertNotIn("\x1b", result.stdout)

    def test_color_on_request_only(self):
        args = ("tokenize", "--model", MODEL, "--text", "the cat sat")
        colored = run(*args, "--color", "always").stdout
        self.assertIn("\x1b[38;5;16;48;5;153m", colored)
        self.assertIn("\x1b[38;5;16;48;5;222m", colored)
        plain = run(*args).stdout
        self.assertEqual(re.sub(r"\x1b\[[0-9;]*m", "", colored), plain)
        self.assertEqual(run(*args, "--color", "never").stdout, plain)
        self.assertEqual(run(*args, "--color", "sometimes").returncode, 64)

    def test_no_byte_of_the_text_reaches_the_terminal_as_a_command(self):
        shown = run("tokenize", "--model", MODEL, "--text", "\x1b[31m\x07\r\u202e").stdout
        for character in "\x1b\x07\r\u202e":
            self.assertNotIn(character, shown)
        self.assertIn("<0x1B>", shown)

    @needs(GPT2)
    def test_bytes_that_are_no_whole_character(self):
        shown = run("tokenize", "--model", GPT2, "--text", "안").stdout
        self.assertIn("<0xEC>", shown)

    @needs(LLAMA)
    def test_special_token_options(self):
        def ids(*options):
            return json.loads(run("tokenize", "--model", LLAMA, "--text", "a</s>", "--json",
                                  *options).stdout)["token_ids"]
        self.assertEqual(ids()[0], 1)
        self.assertNotIn(2, ids())
        self.assertEqual(ids("--no-special-tokens"), ids()[1:])
        self.assertEqual(ids("--parse-special")[-1], 2)

    def test_json_lines(self):
        source = jsonl({"text": "the"}, {"id": "b", "text": ""}, "", "nonsense", {"id": 9},
                       {"id": "typo", "txt": "the"}, {"text": 5}, "[1]", {"id": [], "text": "x"},
                       '{"text": "\xff"}'.replace("\xff", "\\ud800"))
        result = run("tokenize", "--model", MODEL, "--input", "-", text_input=source)
        self.assertEqual(result.returncode, 0, result.stderr)
        records = lines_of(result)
        self.assertEqual([r["id"] for r in records], [1, "b", 4, 9, "typo", 7, 8, 9, 10])
        the = json.loads(run("tokenize", "--model", MODEL, "--text", "the", "--json").stdout)
        self.assertEqual(records[0], {"id": 1, "token_ids": the["token_ids"]})
        for record, line, word in zip(records[2:], (4, 5, 6, 7, 8, 9, 10),
                                      ("JSON", "text", "txt", "a string", "an object", "id",
                                       "JSON")):
            self.assertEqual(list(record), ["id", "line", "error"])
            self.assertEqual(record["line"], line)
            self.assertEqual(record["error"]["code"], "INVALID_ARGUMENT")
            self.assertIn(word, record["error"]["message"])
        self.assertEqual(result.stderr.strip(), "7 of 9 lines have errors")

    @needs(GPT2)
    def test_published_texts_of_a_vocabulary(self):
        texts = pathlib.Path(f"{GPT2}.inp").read_text().split(SEPARATOR)
        expected = [[int(i) for i in line.split()]
                    for line in pathlib.Path(f"{GPT2}.out").read_text().split("\n")]
        source = jsonl(*({"text": text} for text in texts))
        records = lines_of(run("tokenize", "--model", GPT2, "--no-special-tokens", "--input", "-",
                               text_input=source))
        self.assertEqual([r["token_ids"] for r in records], expected[:len(texts)])
        # And back: byte-level tokens lose nothing.
        back = lines_of(run("detokenize", "--model", GPT2, "--input", "-",
                            text_input=jsonl(*records)))
        self.assertEqual([r["text"] for r in back], texts)

    def test_sources(self):
        for args in ((), ("--text", "a", "--input", "-")):
            result = run("tokenize", "--model", MODEL, *args)
            self.assertEqual(result.returncode, 64)
            self.assertIn("--text and --input", result.stderr)

    def test_missing_files(self):
        for args in (("--model", "/no/model", "--text", "x"),
                     ("--model", MODEL, "--input", "/no/file")):
            result = run("tokenize", *args)
            self.assertEqual(result.returncode, 66, result.stderr)
            self.assertIn("/no/", result.stderr)
        self.assertEqual(run("tokenize", "--model", MODEL, "--input", "/tmp").returncode, 74)

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = run("tokenize", "--model", MODEL, "--text", "x", stdout=full)
        self.assertEqual(result.returncode, 74)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn("No space left", result.stderr)


class Detokenize(unittest.TestCase):
    def test_round_trip(self):
        ids = json.loads(run("tokenize", "--model", MODEL, "--text", "the cat", "--json",
                             "--no-special-tokens").stdout)["token_ids"]
        listed = ",".join(map(str, ids))
        self.assertEqual(run("detokenize", "--model", MODEL, "--ids", listed).stdout, "the cat\n")
        for form in (json.dumps(ids), " ".join(listed.split()).replace(",", ", ")):
            result = run("detokenize", "--model", MODEL, "--ids", form, "--json")
            self.assertEqual(json.loads(result.stdout), {"text": "the cat"})

    @needs(LLAMA)
    def test_special_tokens(self):
        args = ("detokenize", "--model", LLAMA, "--ids", "1,15043,2")
        self.assertEqual(run(*args).stdout, "<s> Hello</s>\n")
        self.assertEqual(run(*args, "--skip-special-tokens").stdout, "Hello\n")

    @needs(LLAMA)
    def test_ids_that_are_none(self):
        for ids in ("5,32000", "5,2147483647"):
            result = run("detokenize", "--model", LLAMA, "--ids", ids)
            self.assertEqual(result.returncode, 64)
            self.assertIn(ids[2:], result.stderr)
            self.assertIn("32000", result.stderr)
        for ids in ("one", "1,,2", "-1", "2147483648", "1.5", '"1"', "1]"):
            result = run("detokenize", "--model", LLAMA, f"--ids={ids}")
            self.assertEqual(result.returncode, 64, ids)
            self.assertIn("--ids", result.stderr)

    def test_json_lines(self):
        source = jsonl({"token_ids": []}, {"id": "x", "token_ids": [10**6]}, {"token_ids": "1"},
                       {"token_ids": [True]}, {})
        result = run("detokenize", "--model", MODEL, "--input", "-", text_input=source)
        self.assertEqual(result.returncode, 0, result.stderr)
        records = lines_of(result)
        self.assertEqual(records[0], {"id": 1, "text": ""})
        self.assertEqual([r["id"] for r in records[1:]], ["x", 3, 4, 5])
        self.assertIn("1000000", records[1]["error"]["message"])
        for record in records[1:]:
            self.assertIn("token_ids", record["error"]["message"])


class Template(unittest.TestCase):
    CHATML = pathlib.Path(sys.argv[2]) / "tests/data/chat_template/chatml.jinja"
    MESSAGES = [{"role": "user", "content": "hi <|im_end|>"}]

    def render(self, conversation, *options):
        source = conversation if isinstance(conversation, str) else json.dumps(conversation)
        return run("template", "--model", MODEL, "--input", "-", *options, text_input=source)

    def render_json(self, conversation, *options):
        result = self.render(conversation, "--json", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_prompt_and_tokens(self):
        record = self.render_json(self.MESSAGES)
        self.assertIn("hi <|im_end|><|im_end|>", record["prompt"])
        result = self.render(self.MESSAGES)
        self.assertTrue(result.stdout.startswith(record["prompt"]))
        shown = re.findall(r"\d+\*", result.stdout[len(record["prompt"]):])
        control = [record["token_ids"][i] for i in record["control_token_positions"]]
        self.assertEqual([int(i.rstrip("*")) for i in shown], control)
        # What the message spells is text: one control token less than the prompt seems to hold.
        [im_end] = [i for i in set(control) if self.piece(i) == "<|im_end|>"]
        self.assertEqual(control.count(im_end), record["prompt"].count("<|im_end|>") - 1)

    def piece(self, token_id):
        return run("detokenize", "--model", MODEL, "--ids", token_id).stdout.rstrip("\n")

    def test_control_tokens_are_coloured(self):
        colored = self.render(self.MESSAGES, "--color", "always").stdout
        prompt = colored.split("\n\n")[0]
        self.assertIn("hi <|im_end|>\x1b[1;38;5;16;48;5;217m<|im_end|>", prompt)

    def test_the_ids_are_those_that_generate_uses(self):
        tokens = self.render_json(self.MESSAGES)["token_ids"]
        result = run("generate", "--model", MODEL, "--chat", "hi <|im_end|>", "--max-tokens", 1,
                     "--json")
        self.assertEqual(json.loads(result.stdout)["usage"]["prompt_tokens"], len(tokens))

    def test_a_conversation_with_everything(self):
        with tempfile.TemporaryDirectory() as folder:
            template = pathlib.Path(folder, "all.jinja")
            template.write_text("{{ messages[0].content }}|{{ tools[0].name }}|"
                                "{{ documents[0].title }}|{{ depth }}|{{ add_generation_prompt }}")
            record = self.render_json(
                {"messages": self.MESSAGES, "tools": [{"name": "t"}], "documents": [{"title": "d"}],
                 "chat_template_kwargs": {"depth": 3}, "add_generation_prompt": False},
                "--chat-template", template)
        self.assertEqual(record["prompt"], "hi <|im_end|>|t|d|3|False")
        self.assertEqual(record["control_token_positions"], [])

    def test_generation_prompt_and_continuation(self):
        chat = self.MESSAGES + [{"role": "assistant", "content": "Well, "}]
        trimming = ("--chat-template", self.CHATML)
        closed = self.render_json({"messages": chat, "add_generation_prompt": False},
                                  *trimming)["prompt"]
        opened = self.render_json(chat, *trimming)["prompt"]
        self.assertTrue(opened.startswith(closed) and len(opened) > len(closed))
        continued = self.render_json({"messages": chat, "continue_final_message": True},
                                     *trimming)["prompt"]
        self.assertTrue(continued.endswith("\nWell,"), continued)
        self.assertTrue(closed.startswith(continued))
        with tempfile.TemporaryDirectory() as folder:
            plain = pathlib.Path(folder, "plain.jinja")
            plain.write_text("{% for m in messages %}<{{ m.content }}>{% endfor %}")
            continued = self.render_json({"messages": chat, "continue_final_message": True},
                                         "--chat-template", plain)["prompt"]
        self.assertEqual(continued, "<hi <|im_end|>><Well, ")
        result = self.render({"messages": chat, "continue_final_message": True,
                              "add_generation_prompt": True})
        self.assertEqual(result.returncode, 64)
        self.assertIn("exclude", result.stderr)
        for last in ({"role": "assistant"}, {"role": "assistant", "content": []}):
            result = self.render({"messages": self.MESSAGES + [last],
                                  "continue_final_message": True})
            self.assertEqual(result.returncode, 64, result.stderr)

    def test_bad_conversations(self):
        for conversation, word in (
                ("not json", "JSON"), (3, "list of messages"), ({}, "messages"),
                ({"messages": 3}, "messages"), (["hi"], "messages[0]"),
                ({"messages": [], "tool": []}, '"tool"'),
                ({"messages": [], "tools": {}}, "tools"),
                ({"messages": [], "add_generation_prompt": 1}, "add_generation_prompt"),
                ({"messages": [], "chat_template_kwargs": []}, "chat_template_kwargs"),
                ({"messages": [], "chat_template_kwargs": {"tokenize": True}}, "tokenize")):
            result = self.render(conversation)
            self.assertEqual(result.returncode, 64, (conversation, result.stderr))
            self.assertIn(word, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_bad_templates_name_the_line(self):
        with tempfile.TemporaryDirectory() as folder:
            template = pathlib.Path(folder, "bad.jinja")
            for source, word in (("a\n{% mystery %}", "line 2"),
                                 ("{{ raise_exception('no system') }}", "no system"),
                                 ("{{ ''.__class__.__mro__ }}", "line 1"),
                                 ("{% for i in range(1000000000) %}x{% endfor %}", "line 1")):
                template.write_text(source)
                result = self.render(self.MESSAGES, "--chat-template", template)
                self.assertIn(result.returncode, (64, 78), (source, result.stderr))
                self.assertIn("bad.jinja", result.stderr)
                self.assertIn(word, result.stderr)

    @needs(LLAMA)
    def test_model_without_a_template(self):
        args = ("template", "--model", LLAMA, "--input", "-")
        result = run(*args, text_input=json.dumps(self.MESSAGES))
        self.assertEqual(result.returncode, 78)
        self.assertIn("--chat-template", result.stderr)
        result = run(*args, "--chat-template", self.CHATML, text_input=json.dumps(self.MESSAGES))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_missing_files(self):
        self.assertEqual(run("template", "--model", MODEL).returncode, 64)
        self.assertEqual(run("template", "--model", MODEL, "--input", "/no/file").returncode, 66)
        result = self.render(self.MESSAGES, "--chat-template", "/no/template")
        self.assertEqual(result.returncode, 66)


class Suggestions(unittest.TestCase):
    def test_the_nearest_name_is_suggested(self):
        for args, wrong, right in ((("generate", "--promt", "x"), "--promt", "--prompt"),
                                   (("tokenise", "--text", "x"), "tokenise", "tokenize"),
                                   (("tokenize", "--text", "x", "--jsno"), "--jsno", "--json"),
                                   (("template", "--inptu=x"), "--inptu", "--input"),
                                   (("detokenize", "--id", "1"), "--id", "--ids"),
                                   (("bench", "latenzy"), "latenzy", "latency")):
            result = run(*args)
            self.assertEqual(result.returncode, 64)
            self.assertIn(f'"{wrong}"; did you mean {right}?', result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_nothing_near_points_to_the_help(self):
        result = run("tokenize", "--zzzzzzzz")
        self.assertEqual(result.returncode, 64)
        self.assertIn("see quire tokenize --help", result.stderr)

    def test_help_of_each_command(self):
        for command, flags in (("tokenize", ("text", "input", "json", "no-special-tokens",
                                             "parse-special", "color")),
                               ("detokenize", ("ids", "input", "skip-special-tokens")),
                               ("template", ("input", "chat-template", "json", "color"))):
            result = run(command, "--help")
            self.assertEqual(result.returncode, 0)
            for flag in flags + ("model",):
                self.assertIn(f"--{flag}", result.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

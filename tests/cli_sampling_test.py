#!/usr/bin/env python3
"""What sampling starts from: the model's own recommendation, a conversation's, the API's.

    cli_sampling_test.py PROGRAM SOURCE_DIR
"""

import dataclasses
import json
import shutil
import struct
import subprocess
import sys
import unittest
import urllib.request

from cli_chat_support import Terminal, WithFolder, chat
from cli_support import SMOLLM2, SOURCE, TINY, needs, run

sys.path.insert(0, str(SOURCE / "scripts"))
import fetch_model  # noqa: E402

GGUF = TINY / "tiny_llama_f32.gguf"
PAGE_AND_CHAT = {"temperature": 0.7, "top_p": 0.95, "min_p": 0.05}


def with_keys(source, target, **values):
    """A GGUF file with further keys: numbers, and a text that keeps the data where it is aligned."""
    data = source.read_bytes()
    magic, version, num_tensors, num_keys = struct.unpack_from("<4sIQQ", data)

    def key(name):
        return struct.pack("<Q", len(name)) + name.encode()

    added = b""
    for name, value in values.items():
        kind, form = (5, "<i") if isinstance(value, int) else (6, "<f")
        added += key(f"general.sampling.{name}") + struct.pack("<I", kind) + struct.pack(form, value)
    padding = key("test.padding") + struct.pack("<IQ", 8, 0)
    missing = -(len(added) + len(padding)) % 32
    padding = key("test.padding") + struct.pack("<IQ", 8, missing) + b"x" * missing
    header = struct.pack("<4sIQQ", magic, version, num_tensors, num_keys + len(values) + 1)
    target.write_bytes(header + added + padding + data[24:])


class Defaults(WithFolder):
    def sampling(self, model, *args):
        """The sampling parameters that the page is told of, by name."""
        address = self.serve("--model", model, *args)
        with urllib.request.urlopen(f"{address}/page/info") as response:
            return {each["name"]: each for each in json.load(response)["sampling"]}

    def starts(self, listed):
        return {name: listed[name]["start"] for name in PAGE_AND_CHAT}

    def test_a_model_that_says_nothing(self):
        listed = self.sampling(GGUF)
        self.assertEqual(self.starts(listed), PAGE_AND_CHAT)
        # What a request of the API gets that says nothing either.
        self.assertEqual({name: listed[name]["default"] for name in PAGE_AND_CHAT},
                         {"temperature": 1, "top_p": 1, "min_p": 0})
        terminal = Terminal("--model", GGUF, columns=200)
        self.addCleanup(terminal.close)
        terminal.expect("temperature 0.7, top_p 0.95, min_p 0.05 (the model recommends nothing)")

    def test_keys_of_a_gguf_file(self):
        file = self.folder / "keys.gguf"
        with_keys(GGUF, file, temp=0.3, top_k=7, top_p=0.85)
        listed = self.sampling(file)
        for name, value in (("temperature", 0.3), ("top_k", 7), ("top_p", 0.85)):
            self.assertEqual((listed[name]["default"], listed[name]["start"],
                              listed[name]["source"]), (value, value, "generation_config"))
        self.assertEqual(self.starts(listed)["min_p"], 0)
        self.assertEqual(self.sampling(file, "--generation-config", "vllm")["temperature"]["default"],
                         1)

    def test_a_key_out_of_range(self):
        file = self.folder / "keys.gguf"
        with_keys(GGUF, file, temp=-1.5)
        result = run("generate", "--model", file, "--prompt", "x")
        self.assertEqual(result.returncode, 65)
        self.assertIn("general.sampling.", result.stderr)
        self.assertIn("temperature", result.stderr)

    def test_a_file_beside_a_gguf_file_goes_before_its_keys(self):
        file = self.folder / "keys.gguf"
        with_keys(GGUF, file, temp=0.3, top_k=7)
        (self.folder / "generation_config.json").write_text('{"temperature": 0.2, "top_p": 0.9}')
        listed = self.sampling(file)
        self.assertEqual([listed[name]["default"] for name in ("temperature", "top_p", "top_k")],
                         [0.2, 0.9, 0])
        terminal = Terminal("--model", file, columns=200)
        self.addCleanup(terminal.close)
        terminal.expect("temperature 0.2, top_p 0.9 (as the model recommends)")

    def test_generate_answers_as_chat_does(self):
        for model in (GGUF, TINY / "hf"):
            args = ["--model", model, "--max-tokens", 24, "--ignore-eos", "--seed", 11,
                    "--chat-template", self.template()]
            asked = run("generate", "--chat", "the cat", *args)
            self.assertEqual(asked.returncode, 0, asked.stderr)
            self.assertEqual(asked.stdout, chat(*args, lines=["the cat"]).stdout)
            same = run("generate", "--chat", "the cat", *args, "--temperature", 0.7,
                       "--top-p", 0.95, "--min-p", 0.05)
            self.assertEqual(asked.stdout, same.stdout)
            self.assertNotEqual(asked.stdout, run("generate", "--chat", "the cat", *args,
                                                  "--temperature", 1, "--top-p", 1,
                                                  "--min-p", 0).stdout)

    def template(self):
        file = self.folder / "template.jinja"
        file.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
        return file

    def test_set_shows_and_changes(self):
        args = ["--model", TINY / "hf", "--max-tokens", 6]
        result = chat(*args, lines=["/set", "/set temperature 0", "/set max_tokens 4", "the cat"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("temperature 0.7, top_p 0.95, min_p 0.05, max_tokens 6 (", result.stderr)
        self.assertIn("temperature 0, top_p 0.95", result.stderr)
        self.assertEqual(result.stdout, run("generate", "--chat", "the cat", "--model", TINY / "hf",
                                            "--max-tokens", 4, "--temperature", 0).stdout)
        for line, word in [("/set temprature 1", "did you mean temperature?"),
                           ("/set temperature", "a name and a value"), ("/set top_p 2", "top_p"),
                           ("/set top_k x", "not a count"), ("/set n 2", "no place")]:
            result = chat(*args, lines=[line])
            self.assertEqual(result.returncode, 64, line)
            self.assertIn(word, result.stderr)

    @needs(SMOLLM2)
    def test_the_bundled_model_as_its_authors_say(self):
        file = self.folder / SMOLLM2.name
        file.symlink_to(SMOLLM2.resolve())
        fetch_model.write_generation_config(
            dataclasses.replace(fetch_model.SMOLLM2, target=file))
        terminal = Terminal("--model", file, columns=200)
        self.addCleanup(terminal.close)
        terminal.expect("temperature 0.2, top_p 0.9 (as the model recommends)")


class FirstCall(WithFolder):
    """What `quire serve` suggests to try works for the model that it serves."""

    def try_it(self, *args):
        command = self.serve_until(r"try(?:, with your key for KEY)?: (curl .*)$", *args)
        return command, subprocess.run(["sh", "-c", command.replace("KEY", "sesame") + " -sf --noproxy '*'"],
                                       stdout=subprocess.PIPE, text=True, timeout=120)

    def test_with_a_key(self):
        command, result = self.try_it("--model", TINY / "hf", "--api-key", "sesame")
        self.assertIn("Bearer KEY", command)
        self.assertNotIn("sesame", command)
        self.assertEqual(json.loads(result.stdout)["object"], "chat.completion")

    def test_with_and_without_a_chat_template(self):
        command, result = self.try_it("--model", TINY / "hf")
        self.assertIn("/v1/chat/completions", command)
        self.assertEqual(json.loads(result.stdout)["object"], "chat.completion")
        bare = self.folder / "bare"
        shutil.copytree(TINY / "hf", bare)
        (bare / "chat_template.jinja").unlink(missing_ok=True)
        config = json.loads((bare / "tokenizer_config.json").read_text())
        config.pop("chat_template", None)
        (bare / "tokenizer_config.json").write_text(json.dumps(config))
        command, result = self.try_it("--model", bare)
        self.assertIn("/v1/completions", command)
        self.assertEqual(json.loads(result.stdout)["object"], "text_completion")
        refused = run("generate", "--model", bare, "--chat", "x")
        self.assertEqual(refused.returncode, 78)
        self.assertIn("--chat-template FILE", refused.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

"""Every program of examples/ against one server: it ends well and prints what it is for.

    serve_examples_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest
import urllib.request

from cli_support import PROGRAM, SMOLLM2, SOURCE
from serve_support import (PYTHON, TIMEOUT, ServerTest, free_port, main, need_model, wait_until)

EXAMPLES = SOURCE / "examples"
ENVIRONMENT = {**os.environ, "no_proxy": "*", "QUIRE": PROGRAM}
ENVIRONMENT.pop("QUIRE_API_KEY", None)


def has_ended(pid):
    """Whether a process that is no child of ours is gone, or waits to be collected by its parent."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except FileNotFoundError:
        return True


class ExamplesTest(ServerTest):
    flags = ("--max-model-len", 1024, "--served-model-name", "a-model")
    simulate = 1

    def run_example(self, name, *args):
        command = [EXAMPLES / name]
        if name.endswith(".py"):
            command = [PYTHON, "-B", EXAMPLES / name, "--base-url", self.server.url + "/v1"]
        result = subprocess.run([str(each) for each in [*command, *args]], text=True, timeout=TIMEOUT,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout


class Examples(ExamplesTest):
    def test_every_example_has_a_test(self):
        names = {path.stem for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh")}
        tested = {name.removeprefix("test_") for name in dir(type(self)) if name.startswith("test_")}
        self.assertEqual(names - tested - {"common", "nohup_start"}, set())

    def test_curl(self):
        out = self.run_example("curl.sh", self.server.url)
        self.assertIn("model: a-model", out)
        self.assertIn('"object":"text_completion"', out)
        self.assertIn('"object":"chat.completion"', out)
        self.assertIn('"object":"chat.completion.chunk"', out)
        self.assertTrue(out.rstrip().endswith("data: [DONE]"))

    def test_openai_completions(self):
        out = self.run_example("openai_completions.py")
        self.assertIn("usage: 5 + 16 tokens", out)
        self.assertEqual(len(re.findall(r"^choice \d: ", out, re.M)), 3)
        self.assertEqual(len(re.findall(r"^token ", out, re.M)), 3)
        self.assertEqual(len(re.findall(r"^prompt \d: ", out, re.M)), 2)

    def test_openai_chat_stream(self):
        out = self.run_example("openai_chat_stream.py", "--max-tokens", 8)
        self.assertRegex(out, r"finish reason: length\nusage: \d+ \+ 8 tokens\n$")

    def test_openai_async(self):
        out = self.run_example("openai_async.py", "--max-tokens", 8)
        self.assertEqual(out.count("answer: "), 3)
        self.assertIn("story: ", out)

    def test_openai_embeddings(self):
        out = self.run_example("openai_embeddings.py")
        self.assertTrue(out.startswith("576 dimensions, 16 sentences\n"), out)
        self.assertEqual(len(re.findall(r"^  [+-]\d\.\d\d  ", out, re.M)), 32)

    def test_text_to_sql(self):
        out = self.run_example("text_to_sql.py")
        self.assertEqual(len(re.findall(r"^question: .*\nquery: SELECT", out, re.M)), 5)

    def test_rag(self):
        out = self.run_example("rag.py")
        self.assertEqual(len(re.findall(r"^question: .*\npassage: .+\nanswer: ", out, re.M)), 3)

    def test_openai_responses(self):
        out = self.run_example("openai_responses.py", "--max-tokens", 16)
        self.assertRegex(out, r"(?s)answer: .*then: .*stream: .*response\.incomplete: 16 tokens\n$")

    def test_openai_batch(self):
        out = self.run_example("openai_batch.py")
        self.assertIn("status: completed, 3 of 3 done", out)
        self.assertEqual(re.findall(r"^question-\d", out, re.M),
                         ["question-0", "question-1", "question-2"])

    def test_aiohttp_concurrent(self):
        out = self.run_example("aiohttp_concurrent.py", "--max-tokens", 8)
        self.assertEqual(len(re.findall(r"^request \d: status 200, ", out, re.M)), 10)
        for size in (1, 2, 4, 8, 16):
            self.assertRegex(out, rf"batch of {size}: [\d.]+ s, {size} of {size} succeeded")

    def test_stream_benchmark(self):
        out = self.run_example("stream_benchmark.py", "--max-tokens", 8)
        self.assertIn("requests: 100, 10 in flight, ", out)
        self.assertRegex(out, r"latency: mean [\d.]+ s, p50 [\d.]+ s, p99 [\d.]+ s")
        self.assertRegex(out, r"TTFT: mean [\d.]+ s")
        tokens = int(re.search(r"throughput: (\d+) tokens", out).group(1))
        self.assertTrue(100 < tokens <= 800, tokens)


class WithTheModel(ExamplesTest):
    """What examples/README.md says that one should see."""
    simulate = None

    # What the best sentence of each question is about, in a word of it. Of the last one another, about
    # a hurricane, is as near.
    RANKED = ("pasta", "striker", "antibiotics", "inflation", "galaxy", "violinist", "processor", "whale",
              "train", "jury", "wheat", "homework", "painter", "parliament", "hurricane", "flooded")

    def test_embeddings_rank_the_right_sentence_first(self):
        out = self.run_example("openai_embeddings.py")
        blocks = out.split("\n\n")
        for block, word in zip(blocks[1:-1], self.RANKED, strict=True):
            (best, sentence), (second, other) = re.findall(r"^  ([+-]\d\.\d\d)  (.*)$", block, re.M)
            if word == "flooded":
                self.assertIn(word, sentence + other)
            else:
                self.assertIn(word, sentence)
                self.assertGreater(float(best), float(second) + 0.05, block)
        self.assertRegex(blocks[-1], r"^the right sentence first: 1[56] of 16\n$")

    def test_text_to_sql(self):
        out = self.run_example("text_to_sql.py")
        self.assertIn("query: SELECT title FROM books WHERE price < 10\nrows: Emma, Persuasion\n", out)
        self.assertIn("rows: Ulysses, Dubliners\n", out)

    def test_rag(self):
        out = self.run_example("rag.py")
        # How it goes on is the processor's arithmetic: "in July", or "when the water is changed".
        self.assertIn("answer: The pool is closed ", out)
        self.assertEqual(re.findall(r"^passage: (\w+ \w+)", out, re.M), ["The swimming", "Glass and", "Parking costs"])


class InTheBackground(unittest.TestCase):
    def test_nohup_start(self):
        need_model()
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            command = [EXAMPLES / "nohup_start.sh", SMOLLM2, port, "--simulate-step-ms", 1]
            started = subprocess.run([str(each) for each in command], text=True, timeout=TIMEOUT,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     env=ENVIRONMENT, cwd=folder)
            self.assertEqual(started.returncode, 0, started.stderr)
            pid = int(started.stdout)
            try:
                url = f"http://127.0.0.1:{port}/v1/models"
                with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                    self.assertEqual(json.load(answer)["data"][0]["max_model_len"], 256)
            finally:
                os.kill(pid, signal.SIGTERM)
            wait_until(lambda: has_ended(pid), "the server ends")


if __name__ == "__main__":
    main()

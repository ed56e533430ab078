#!/usr/bin/env python3
"""`quire bench make-model`: the model that it writes loads and generates, the same in both formats.

    cli_bench_make_model_test.py PROGRAM SOURCE_DIR
"""

import json
import pathlib
import sys
import tempfile
import unittest

from cli_support import run


class BenchMakeModel(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return str(pathlib.Path(self.folder.name, name))

    def make(self, output, *args):
        return run("bench", "make-model", "--shape", "smollm-135m", "--output", self.path(output), *args)

    def test_both_formats_are_one_model(self):
        for output, args in (("hf", ()), ("model.gguf", ("--format", "gguf"))):
            result = self.make(output, "--encoding", "bf16", *args)
            self.assertEqual(result.returncode, 0, result.stderr)
        texts = []
        for output in ("hf", "model.gguf"):
            facts = json.loads(run("inspect", "--json", "--model", self.path(output)).stdout)
            self.assertEqual(facts["num_layers"], 30)
            self.assertEqual(facts["hidden_size"], 576)
            self.assertEqual(facts["vocab_size"], 49152)
            self.assertTrue(facts["tie_word_embeddings"])
            result = run("generate", "--model", self.path(output), "--prompt", "the rain in spain", "--max-tokens", "8",
                         "--temperature", "0", "--max-model-len", "64")
            self.assertEqual(result.returncode, 0, result.stderr)
            texts.append(result.stdout)
        self.assertEqual(texts[0], texts[1])
        self.assertGreater(len(texts[0].strip()), 8)

    def test_says_what_is_wrong(self):
        self.assertEqual(self.make("model.gguf", "--format", "gguf", "--encoding", "q4_1").returncode, 0)
        for output, args, message in (
                ("model.gguf", ("--format", "gguf"), "exists already"),
                ("a", ("--encoding", "q4_1"), "--format gguf has more"),
                ("a", ("--shape", "smollm-1b"), "not a known shape"),
                ("no/a", (), "cannot")):
            result = self.make(output, *args)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(message, result.stderr)
        self.assertEqual([each.name for each in pathlib.Path(self.folder.name).iterdir()], ["model.gguf"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

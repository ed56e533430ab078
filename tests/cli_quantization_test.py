#!/usr/bin/env python3
"""`--quantization`: what it takes, what it refuses, and that the plan counts it.

    cli_quantization_test.py PROGRAM SOURCE_DIR
"""

import json
import sys
import unittest

from cli_support import STORIES, TINY, needs, run


def weight_bytes(model, quantization):
    result = run("inspect", "--model", model, "--quantization", quantization, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["memory_plan"]["weight_bytes"]


def matrices(model):
    """(name, rows, columns) of every matrix."""
    report = json.loads(run("inspect", "--model", model, "--json").stdout)
    return [(tensor["name"], *tensor["shape"]) for tensor in report["tensors"]
            if len(tensor["shape"]) == 2]


class Quantization(unittest.TestCase):
    @needs(STORIES)
    def test_the_plan_counts_the_bytes_of_the_codes(self):
        """Rows here are multiples of 16; the down projections' 172 columns are no whole groups of
        32, so they keep their floats."""
        saved8 = saved4 = 0
        for name, rows, columns in matrices(STORIES):
            if columns % 32 != 0:
                continue
            panels = -(-rows // 16)
            bytes8 = panels * (16 * columns + 64)
            groups = columns // 32
            bytes4 = panels * (groups * 256 + -(-groups // 4) * 64)
            saved8 += panels * 16 * columns * 4 - bytes8
            saved4 += panels * 16 * columns * 4 - (bytes8 if "embed" in name else bytes4)
        plain = weight_bytes(STORIES, "none")
        # Matrices that are packed as one do without padding of their own.
        self.assertAlmostEqual(weight_bytes(STORIES, "int8"), plain - saved8, delta=0.02 * plain)
        self.assertAlmostEqual(weight_bytes(STORIES, "int4"), plain - saved4, delta=0.02 * plain)
        self.assertLess(weight_bytes(STORIES, "int4"), weight_bytes(STORIES, "int8"))

    @needs(STORIES)
    def test_both_tell_a_story(self):
        texts = set()
        for quantization in ("none", "int8", "int4"):
            result = run("generate", "--model", STORIES, "--quantization", quantization,
                         "--prompt", "Once upon a time", "--max-tokens", "24", "--temperature", "0")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(result.stdout.strip())
            texts.add(result.stdout)
        self.assertGreaterEqual(len(texts), 1)

    def test_a_quantized_checkpoint_is_refused_by_its_encoding(self):
        for quantization in ("int8", "int4"):
            result = run("generate", "--model", TINY / "tiny_llama_q4_1.gguf", "--quantization",
                         quantization, "--prompt", "a", "--max-tokens", "1")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(f"--quantization {quantization}", result.stderr)
            self.assertIn("Q4_1", result.stderr)
            self.assertIn("F32, F16 or BF16", result.stderr)

    def test_other_methods_are_refused_and_gguf_means_none(self):
        result = run("inspect", "--model", TINY / "hf", "--quantization", "awq")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("--quantization awq", result.stderr)
        self.assertIn("int8", result.stderr)
        self.assertEqual(weight_bytes(TINY / "tiny_llama_q4_1.gguf", "GGUF"),
                         weight_bytes(TINY / "tiny_llama_q4_1.gguf", "none"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

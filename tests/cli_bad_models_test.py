#!/usr/bin/env python3
"""Model files that are broken, inconsistent or not supported.

    cli_bad_models_test.py PROGRAM SOURCE_DIR
"""

import json
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest

from cli_support import TINY, run


class BadModels(unittest.TestCase):
    """One line that says what, where and what to do, and the right exit code."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def refuse(self, model, code, *words):
        for command in (["inspect"], ["generate", "--prompt", "x"]):
            result = run(*command, "--model", model)
            self.assertEqual(result.returncode, code, result.stderr)
            # Weights are read after the plan of the memory was printed.
            lines = [line for line in result.stderr.strip().splitlines()
                     if not line.startswith("memory: ")]
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertEqual(result.stdout, "")
            for word in words:
                self.assertIn(word, lines[0])

    def hugging_face(self, **changes):
        model = self.path / "model"
        shutil.copytree(TINY / "hf", model)
        config = json.loads((model / "config.json").read_text())
        for key, value in changes.items():
            if value is None:
                del config[key]
            else:
                config[key] = value
        (model / "config.json").write_text(json.dumps(config))
        return model

    def test_missing_file(self):
        self.refuse(self.path / "no.gguf", 66, "no.gguf")

    def test_folder_with_no_model(self):
        self.refuse(self.path, 66, str(self.path), "model.safetensors")

    def test_truncated_gguf(self):
        whole = (TINY / "tiny_llama_q4_0.gguf").read_bytes()
        broken = self.path / "broken.gguf"
        broken.write_bytes(whole[:len(whole) - 1000])
        self.refuse(broken, 65, "broken.gguf", "truncated")

    def test_wrong_magic(self):
        wrong = self.path / "wrong.gguf"
        wrong.write_bytes(b"ABCD" + bytes(100))
        self.refuse(wrong, 65, "wrong.gguf")

    def test_unknown_architecture(self):
        self.refuse(self.hugging_face(architectures=["MysteryForCausalLM"]), 65,
                    "MysteryForCausalLM", "LlamaForCausalLM")

    def test_unknown_tensor_type(self):
        data = bytearray((TINY / "tiny_llama_f32.gguf").read_bytes())
        name = b"output_norm.weight"
        at = data.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)
        dims = struct.unpack_from("<I", data, at)[0]
        struct.pack_into("<I", data, at + 4 + 8 * dims, 999)
        model = self.path / "type.gguf"
        model.write_bytes(data)
        self.refuse(model, 65, "output_norm.weight", "999")

    def test_config_without_a_needed_key(self):
        self.refuse(self.hugging_face(hidden_size=None), 65, "config.json", "hidden_size")

    def test_config_with_a_value_of_another_type(self):
        self.refuse(self.hugging_face(num_hidden_layers="two"), 65, "num_hidden_layers",
                    "an integer")

    def test_unsupported_value_is_named(self):
        self.refuse(self.hugging_face(hidden_act="gelu"), 64, "hidden_act", "gelu")

    def test_quantization_config_is_not_read_as_dense(self):
        self.refuse(self.hugging_face(quantization_config={"quant_method": "mystery"}), 64,
                    "quantization_config", "mystery")

    def test_shape_that_the_config_does_not_say(self):
        self.refuse(self.hugging_face(intermediate_size=96), 65, "shape", "96")

    def test_missing_shard(self):
        model = self.hugging_face()
        shard = sorted(model.glob("model-*.safetensors"))[1]
        shard.unlink()
        self.refuse(model, 66, shard.name)

    def test_pickle_is_refused(self):
        model = self.hugging_face()
        for file in model.glob("model*"):
            file.unlink()
        (model / "pytorch_model.bin").write_bytes(b"PK")
        self.refuse(model, 65, "safetensors")

    def test_weights_that_are_not_finite(self):
        model = self.path / "nan.gguf"
        data = bytearray((TINY / "tiny_llama_f32.gguf").read_bytes())
        data[-4:] = struct.pack("<f", float("nan"))
        model.write_bytes(data)
        result = run("generate", "--model", model, "--prompt", "x")
        self.assertEqual(result.returncode, 65, result.stderr)
        self.assertIn("not finite", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

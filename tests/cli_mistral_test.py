#!/usr/bin/env python3
"""Folders as Mistral AI writes them: params.json, consolidated safetensors with the names of its own
transformer, rows of queries and keys in pairs. The tiny checkpoints of its families, brought into
that form, go on as they do in Hugging Face layout, whose logits the reference has.

    cli_mistral_test.py PROGRAM SOURCE_DIR
"""

import json
import pathlib
import re
import shutil
import struct
import sys
import tempfile
import unittest

from cli_support import SOURCE, run, told

FAMILIES = SOURCE / "tests/data/families"
NAMES = ((r"^model\.embed_tokens\.", "tok_embeddings."), (r"^lm_head\.", "output."),
         (r"^model\.norm\.", "norm."), (r"^model\.layers\.", "layers."),
         (r"\.input_layernorm\.", ".attention_norm."), (r"\.post_attention_layernorm\.", ".ffn_norm."),
         (r"\.self_attn\.([qkvo])_proj\.", r".attention.w\1."), (r"\.mlp\.gate_proj\.", ".feed_forward.w1."),
         (r"\.mlp\.down_proj\.", ".feed_forward.w2."), (r"\.mlp\.up_proj\.", ".feed_forward.w3."),
         (r"\.block_sparse_moe\.", ".feed_forward."))
PARAMS = {"dim": "hidden_size", "n_layers": "num_hidden_layers", "hidden_dim": "intermediate_size",
          "n_heads": "num_attention_heads", "n_kv_heads": "num_key_value_heads", "norm_eps": "rms_norm_eps",
          "vocab_size": "vocab_size", "sliding_window": "sliding_window"}
MIXTURE = {"num_experts": "num_local_experts", "num_experts_per_tok": "num_experts_per_tok"}


def read_tensors(path):
    data = path.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    head = json.loads(data[8:8 + size])
    head.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[8 + size:][slice(*entry["data_offsets"])])
            for name, entry in head.items()}


def write_tensors(path, tensors):
    head, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def in_pairs(data, rows, head_dim):
    """Rows of a head that turn together, which Hugging Face has half a head apart, side by side."""
    width, half = len(data) // rows, head_dim // 2
    order = [head + pair + side * half for head in range(0, rows, head_dim) for pair in range(half)
             for side in (0, 1)]
    return b"".join(data[row * width:(row + 1) * width] for row in order)


class Mistral(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def make(self, family, shards=1):
        source, target = FAMILIES / family / "hf", self.folder / family
        target.mkdir()
        config = json.loads((source / "config.json").read_text())
        head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        params = {"head_dim": head_dim, "max_seq_len": config["max_position_embeddings"],
                  **{own: config[theirs] for own, theirs in PARAMS.items()}}
        if "num_local_experts" in config:
            params["moe"] = {own: config[theirs] for own, theirs in MIXTURE.items()}
        (target / "params.json").write_text(json.dumps(params))
        tensors = {}
        for name, (dtype, shape, data) in read_tensors(source / "model.safetensors").items():
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                data = in_pairs(data, shape[0], head_dim)
            for pattern, own in NAMES:
                name = re.sub(pattern, own, name)
            tensors[name] = (dtype, shape, data)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(source / file, target)
        if shards == 1:
            write_tensors(target / "consolidated.safetensors", tensors)
            return target
        weight_map = {}
        for shard in range(shards):
            file = f"consolidated-{shard + 1:05}-of-{shards:05}.safetensors"
            part = dict(list(tensors.items())[shard::shards])
            write_tensors(target / file, part)
            weight_map |= dict.fromkeys(part, file)
        (target / "consolidated.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        return target

    def texts(self, model):
        result = run("generate", "--model", model, "--prompt", "the quick brown", "--max-tokens", 40,
                     "--temperature", 0, "--ignore-eos", "--dtype", "float32")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(len(result.stdout), 20)
        return result.stdout

    def test_the_same_as_in_hugging_face_layout(self):
        for family, shards in (("mistral", 1), ("mixtral", 3)):
            self.assertEqual(self.texts(self.make(family, shards)), self.texts(FAMILIES / family / "hf"), family)

    def test_hugging_face_layout_goes_first(self):
        model = self.make("mistral")
        shutil.copy(FAMILIES / "mistral/hf/model.safetensors", model)
        shutil.copy(FAMILIES / "mistral/hf/config.json", model)
        (model / "params.json").write_text("{}")
        self.texts(model)

    def refuse(self, model, code, *words):
        result = run("inspect", "--model", model)
        self.assertEqual(result.returncode, code, result.stderr)
        lines = told(result.stderr)
        self.assertEqual(len(lines), 1, result.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def test_what_is_not_read_is_refused_by_name(self):
        model = self.make("mistral")
        whole = json.loads((model / "params.json").read_text())
        for changed, code, words in (({"vision_encoder": {}}, 64, ("vision_encoder", "Hugging Face layout")),
                                     ({"yarn": {"factor": 4}}, 64, ("yarn",)),
                                     ({"use_biases": True}, 64, ("use_biases",)),
                                     ({"causal": False}, 64, ("causal",)),
                                     ({"moe": {"num_experts": 4, "route_every_n": 2}}, 64, ("moe", "route_every_n")),
                                     ({"moe": {"num_experts": 4}}, 65, ("num_experts_per_tok",)),
                                     ({"sliding_window": [16, None]}, 65, ("sliding_window",)),
                                     ({"dim": None}, 65, ("params.json", "dim")),
                                     ({"norm_eps": "small"}, 65, ("norm_eps",)),
                                     ({"n_heads": 0}, 65, ("params.json",)),
                                     ({"n_layers": 3}, 65, ("layers.2.",)),
                                     ({"hidden_dim": 96}, 65, ("shape", "96"))):
            (model / "params.json").write_text(json.dumps({**whole, **changed}))
            self.refuse(model, code, *words)
        (model / "params.json").write_text("[]")
        self.refuse(model, 65, "params.json", "an object")
        (model / "params.json").unlink()
        self.refuse(model, 66, "no params.json")

    def test_a_missing_shard(self):
        model = self.make("mixtral", 3)
        (model / "consolidated-00002-of-00003.safetensors").unlink()
        self.refuse(model, 66, "consolidated-00002-of-00003.safetensors", "consolidated.safetensors.index.json")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

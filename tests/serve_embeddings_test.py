"""How /v1/embeddings pools: as the model's folder says, or the command line.

    serve_embeddings_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import json
import math
import pathlib
import shutil
import struct
import tempfile
import unittest

from cli_support import SOURCE, run
from serve_support import Server, main

TINY = SOURCE / "tests/data/families/llama/hf"
GGUF = SOURCE / "tests/data/families/llama/model.gguf"
PROMPT = [5, 40, 7, 7, 91, 23, 60, 11, 2, 19, 35, 8]
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
           {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
NORMALIZE = {"idx": 2, "name": "2", "path": "2_Normalize",
             "type": "sentence_transformers.models.Normalize"}
DENSE = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}


def embed(server, *inputs, **fields):
    answer = server.post("/v1/embeddings", {"input": list(inputs), **fields})
    assert answer.status == 200, answer.body
    return [item["embedding"] for item in answer.json["data"]]


class EmbeddingsTest(unittest.TestCase):
    def folder(self, pooling, *modules):
        """The tiny model as a folder of sentence-transformers."""
        temporary = tempfile.TemporaryDirectory(prefix="quire-embeddings-")
        self.addCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name, "model")
        shutil.copytree(TINY, folder)
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
        (folder / "modules.json").write_text(json.dumps([*MODULES, *modules]))
        return folder

    def serve(self, model, *flags):
        server = Server("--max-num-batched-tokens", 5, *flags, model=model, simulate=None)
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def refuse(self, server, *texts):
        answer = server.post("/v1/embeddings", {"input": [PROMPT]})
        self.assertEqual(answer.status, 400, answer.body)
        for text in texts:
            self.assertIn(text, answer.json["error"]["message"])
        self.assertNotIn(b"/quire-embeddings-", answer.body)
        self.assertEqual(server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1}).status, 200)

    def expect_close(self, vector, expected):
        for a, b in zip(vector, expected, strict=True):
            self.assertAlmostEqual(a, b, places=5)


class Pooling(EmbeddingsTest):
    def test_the_mean_of_what_each_token_has(self):
        last = self.serve(TINY)
        self.assertNotIn("embeddings:", last.log())
        states = embed(last, *(PROMPT[:i + 1] for i in range(len(PROMPT))), normalize=False)
        mean = self.serve(self.folder({"pooling_mode_mean_tokens": True}))
        self.assertIn("embeddings: mean pooling, not normalized (1_Pooling/config.json)", mean.log())
        expected = [math.fsum(column) / len(PROMPT) for column in zip(*states)]
        # Its modules do not normalize, and a request may.
        vector, = embed(mean, PROMPT)
        self.expect_close(vector, expected)
        self.expect_close(embed(mean, PROMPT, normalize=True)[0],
                          [value / math.hypot(*vector) for value in vector])
        # In a batch, and once the prefix cache has it, it is the same to the bit.
        self.assertEqual(embed(mean, PROMPT[:3], PROMPT, PROMPT), embed(mean, PROMPT[:3], *[PROMPT] * 2))
        self.assertEqual(embed(mean, PROMPT[3:], PROMPT)[1], vector)

        cls = self.serve(TINY, "--pooling-type", "cls")
        self.assertIn("embeddings: cls pooling, normalized (--pooling-type)", cls.log())
        self.assertEqual(embed(cls, PROMPT, normalize=False), states[:1])
        self.assertEqual(embed(self.serve(TINY, "--pooling-type", "LAST"), PROMPT), embed(last, PROMPT))

    def test_modules_that_normalize(self):
        server = self.serve(self.folder({"pooling_mode": "lasttoken"}, NORMALIZE))
        self.assertEqual(embed(server, PROMPT), embed(self.serve(TINY), PROMPT))

    def test_what_cannot_be_done_is_refused_and_text_is_not(self):
        folder = self.folder({"pooling_mode_max_tokens": True})
        server = self.serve(folder)
        self.refuse(server, "1_Pooling/config.json: pooling_mode_max_tokens", "--pooling-type")
        self.assertIn("/v1/embeddings is refused: 1_Pooling/config.json", server.log())
        self.assertEqual(len(embed(self.serve(folder, "--pooling-type", "mean"), PROMPT)), 1)
        folder = self.folder({"pooling_mode": "mean"}, DENSE)
        self.refuse(self.serve(folder), "modules.json", "sentence_transformers.models.Dense")
        self.refuse(self.serve(folder, "--pooling-type", "mean"), "modules.json", "Dense")


    def test_the_key_of_a_gguf_file(self):
        whole = GGUF.read_bytes()
        magic, version, tensors, keys = struct.unpack("<4sIQQ", whole[:24])
        plain = embed(self.serve(GGUF), PROMPT)
        for number, flag in ((1, "mean"), (2, "cls"), (3, "last"), (4, None)):
            with self.subTest(number):
                u32 = struct.pack("<Q18sII", 18, b"llama.pooling_type", 4, number)
                # Tensors stay where they lie by the alignment of 32 bytes: 34 of this key, 30 of another.
                other = struct.pack("<Q1sIQ9s", 1, b"x", 8, 9, b"123456789")
                temporary = tempfile.NamedTemporaryFile(suffix=".gguf", prefix="quire-embeddings-")
                self.addCleanup(temporary.close)
                temporary.write(struct.pack("<4sIQQ", magic, version, tensors, keys + 2) + u32 + other + whole[24:])
                temporary.flush()
                server = self.serve(temporary.name)
                if flag is None:
                    self.refuse(server, "llama.pooling_type is 4 (rank)", "--pooling-type")
                    continue
                self.assertIn(f"embeddings: {flag} pooling, normalized (llama.pooling_type)", server.log())
                vector = embed(server, PROMPT)
                self.assertEqual(vector, embed(self.serve(GGUF, "--pooling-type", flag), PROMPT))
                self.assertEqual(vector == plain, flag == "last")


class VllmFlags(EmbeddingsTest):
    def test_the_json_of_a_pooler_config(self):
        expected = embed(self.serve(TINY, "--pooling-type", "mean"), PROMPT, normalize=False)
        for flags in (["--pooler-config", '{"pooling_type": "MEAN", "normalize": false}'],
                      ["--override-pooler-config", '{"seq_pooling_type": "MEAN", "use_activation": false}']):
            self.assertEqual(embed(self.serve(TINY, *flags), PROMPT), expected)
        dotted = self.serve(TINY, "--pooler_config.pooling_type", "MEAN")
        self.assertEqual(embed(dotted, PROMPT, normalize=False), expected)

    def test_what_it_cannot_be(self):
        for flags in (["--pooling-type", "max"], ["--pooler-config", '{"pooling_type": "ALL"}'],
                      ["--pooler-config", '{"step_tag_id": 3}'], ["--override-pooler-config", "MEAN"]):
            result = run("serve", TINY, "--port", 0, *flags)
            self.assertEqual(result.returncode, 64, result.stderr)
            self.assertIn("pooling" if "ALL" in flags[1] else flags[0], result.stdout + result.stderr)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Model files that are broken, inconsistent, hostile or not supported: one line that says what,
where and what to do, and the right exit code.

    cli_bad_models_test.py PROGRAM SOURCE_DIR

Every kind of incident that a model file has caused, and the tests that try it (here as files given
to the program; those of src/ go through more variants of the same on the reader alone):

  GGUF string length, dims, array, n_tensors, n_kv    test_gguf_counts_beyond_the_file
    overflow (CVE-2024-23496 and family)                GgufMetadata.*BeyondTheFile*, Gguf.*
  summed tensor sizes wrap (CVE-2025-53630,           test_gguf_sizes_that_overflow
    CVE-2026-27940)                                     Gguf.OffsetThatWrapsIsRefused
  dims x type overflow (CVE-2026-33298)               test_gguf_sizes_that_overflow
                                                        Gguf.ExabyteTensorIsRefused
  general.alignment of 0, 0x80000000, another type,   test_gguf_alignment
    no power of two                                     Gguf.Alignment*
  negative tensor type, giant strings or arrays,      test_unknown_tensor_type,
    duplicate keys                                      test_gguf_counts_beyond_the_file,
                                                        test_gguf_duplicate_keys
  token text too long; byte tokens <0x-1>, <0xZZ>     test_gguf_tokens
    (CVE-2025-49847)                                    TokenizerTest (src/text)
  offset + size past the end (CVE-2026-7482)          test_gguf_offset_past_the_end,
                                                        test_truncated_gguf
  4-byte file; zero counts; missing keys; division    test_tiny_files,
    by zero (CVE-2024-39720, CVE-2025-0312, -0317)      test_gguf_hyperparameters,
                                                        test_config_hyperparameters
  gzip bomb; unbounded allocation (CVE-2024-12886,    test_compressed_files_are_not_unpacked,
    CVE-2025-0315)                                      test_json_files_over_their_limit
  malicious SentencePiece model (CVE-2026-1260)       test_sentencepiece_model_is_not_read
  safetensors: header over cap, entries, holes,       test_safetensors_headers
    overlaps, wrong dtype or shape                      Safetensors.* (src/weights)
  auto_map that runs code; pickles (CVE-2026-22807)   test_model_code_is_not_run,
                                                        test_pickle_is_refused
  chat template that reaches host objects             test_template_that_reaches_for_the_host
    (CVE-2026-5760)
  truncated or missing shard, index naming an         test_truncated_shard, test_missing_shard,
    absent tensor, shape that the config does not       test_index_naming_an_absent_tensor,
    say, NaN weights, unknown quant_method              test_shape_that_the_config_does_not_say,
                                                        test_weights_that_are_not_finite,
                                                        test_quantization_methods
"""

import gzip
import json
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from cli_support import PROGRAM, TINY, run, told

U32, I32, STRING, ARRAY, U64 = 4, 5, 8, 9, 10


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def header(num_tensors=0, num_keys=0, body=b""):
    return b"GGUF" + struct.pack("<IQQ", 3, num_tensors, num_keys) + body


class BadModels(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def refuse(self, model, code, *words):
        for command in (["inspect"], ["generate", "--prompt", "x"]):
            result = run(*command, "--model", model)
            self.assertEqual(result.returncode, code, result.stderr)
            lines = told(result.stderr)  # weights are read after the plan of the memory was printed
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertEqual(result.stdout, "")
            for word in words:
                self.assertIn(word, lines[0])

    def gguf(self, data, name="bad.gguf"):
        file = self.path / name
        file.write_bytes(data)
        return file

    def tiny_gguf(self):
        return bytearray((TINY / "tiny_llama_f32.gguf").read_bytes())

    def value_at(self, data, key):
        """The offset of a key's value type."""
        return data.index(text(key)) + 8 + len(key)

    def tensor_at(self, data, name):
        """The offset of a tensor's number of dimensions; they, type and offset follow."""
        return data.index(text(name)) + 8 + len(name)

    def hugging_face(self, **changes):
        model = self.path / "model"
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(TINY / "hf", model)
        config = json.loads((model / "config.json").read_text())
        for key, value in changes.items():
            if value is None:
                del config[key]
            else:
                config[key] = value
        (model / "config.json").write_text(json.dumps(config))
        return model

    # Files that are not there, or something else.

    def test_missing_file(self):
        self.refuse(self.path / "no.gguf", 66, "no.gguf")

    def test_folder_with_no_model(self):
        self.refuse(self.path, 66, str(self.path), "model.safetensors")

    def test_wrong_magic(self):
        self.refuse(self.gguf(b"ABCD" + bytes(100)), 65, "bad.gguf")

    def test_tiny_files(self):
        for data in (b"", b"GGUF", b"GG", b"GGUF\3\0\0\0", bytes(4)):
            self.refuse(self.gguf(data), 65, "bad.gguf")
        model = self.hugging_face()
        shard = sorted(model.glob("model-*.safetensors"))[0]
        for data in (b"", bytes(4), bytes(8)):
            shard.write_bytes(data)
            self.refuse(model, 65, shard.name)

    def test_pickle_is_refused(self):
        model = self.hugging_face()
        for file in model.glob("model*"):
            file.unlink()
        (model / "pytorch_model.bin").write_bytes(b"PK")
        self.refuse(model, 65, "safetensors")

    def test_compressed_files_are_not_unpacked(self):
        bomb = gzip.compress(bytes(1 << 24))
        self.refuse(self.gguf(bomb), 65, "bad.gguf")
        model = self.hugging_face()
        (model / "config.json").write_bytes(gzip.compress(b"{}"))
        self.refuse(model, 65, "config.json")

    def test_a_damaged_sentencepiece_model(self):
        model = self.hugging_face()
        (model / "tokenizer.json").unlink()
        self.refuse(model, 65, "no tokenizer: looked for tokenizer.json")
        (model / "tokenizer.model").write_bytes(b"\x0a\xff\xff\xff\xff\x7f" + bytes(64))
        self.refuse(model, 65, "tokenizer.model: the file is damaged")

    # GGUF.

    def test_gguf_counts_beyond_the_file(self):
        big = (1 << 64) - 1
        array = struct.pack("<IQ", U32, big)
        for data, word in (
                (header(num_tensors=big), str(big)),
                (header(num_keys=big), str(big)),
                (header(num_tensors=1 << 40), str(1 << 40)),
                (header(num_keys=1, body=struct.pack("<Q", big) + bytes(64)), str(big)),
                (header(num_keys=1, body=text("k") + struct.pack("<IQ", STRING, 1 << 62)), "k"),
                (header(num_keys=1, body=entry("k", ARRAY, array)), "k"),
                (header(num_keys=1, body=entry("k", ARRAY, struct.pack("<IQ", STRING, 1 << 33))),
                 "k"),
                (header(num_tensors=1, body=text("t") + struct.pack("<I", 1 << 31)), "t")):
            self.refuse(self.gguf(data), 65, "bad.gguf", word)

    def test_gguf_sizes_that_overflow(self):
        for dims in ((1 << 63, 2), (1 << 62, 1), (1 << 32, 1 << 32), (0, 1 << 60), (1 << 30, 4096)):
            data = self.tiny_gguf()
            at = self.tensor_at(data, "token_embd.weight")
            struct.pack_into("<QQ", data, at + 4, *dims)
            # The size itself, or the vocabulary that it gives the model.
            self.refuse(self.gguf(data), 65, "bad.gguf")

    def test_gguf_alignment(self):
        key = "general.alignment"
        for kind, value in ((U32, 0), (U32, 0x80000000), (U32, 24), (U32, 1 << 21), (I32, -32)):
            kv = entry(key, kind, struct.pack("<i" if kind == I32 else "<I", value))
            self.refuse(self.gguf(header(num_keys=1, body=kv)), 65, key)
        self.refuse(self.gguf(header(num_keys=1, body=entry(key, STRING, text("32")))), 65, key)

    def test_gguf_duplicate_keys(self):
        kv = entry("general.architecture", STRING, text("llama"))
        self.refuse(self.gguf(header(num_keys=2, body=kv * 2)), 65, "general.architecture")

    def test_gguf_offset_past_the_end(self):
        for offset in (1 << 40, (1 << 64) - 32):
            data = self.tiny_gguf()
            at = self.tensor_at(data, "output_norm.weight")
            struct.pack_into("<Q", data, at + 4 + 8 + 4, offset)
            self.refuse(self.gguf(data), 65, "output_norm.weight")

    def test_truncated_gguf(self):
        whole = (TINY / "tiny_llama_q4_0.gguf").read_bytes()
        self.refuse(self.gguf(whole[:len(whole) - 1000]), 65, "bad.gguf", "truncated")

    def test_unknown_tensor_type(self):
        for number in (999, 0xFFFFFFFF):
            data = self.tiny_gguf()
            at = self.tensor_at(data, "output_norm.weight")
            struct.pack_into("<I", data, at + 4 + 8, number)
            self.refuse(self.gguf(data), 65, "output_norm.weight",
                        str(struct.unpack("<i", struct.pack("<I", number))[0]))

    def test_gguf_hyperparameters(self):
        for key in ("llama.block_count", "llama.embedding_length", "llama.feed_forward_length",
                    "llama.attention.head_count", "llama.attention.head_count_kv"):
            for number in (0, 0x7FFFFFFF):
                data = self.tiny_gguf()
                at = self.value_at(data, key)
                self.assertEqual(struct.unpack_from("<I", data, at)[0], U32)
                struct.pack_into("<I", data, at + 4, number)
                self.refuse(self.gguf(data), 65, "bad.gguf")
            data = self.tiny_gguf()
            at = data.index(text(key))
            data[at + 8:at + 9] = b"X"  # the key is missing
            if key != "llama.attention.head_count_kv":  # which may be: the heads are its default
                self.refuse(self.gguf(data), 65, key)

    def test_gguf_tokens(self):
        data = self.tiny_gguf()
        at = self.value_at(data, "tokenizer.ggml.tokens")
        kind, of, count = struct.unpack_from("<IIQ", data, at)
        self.assertEqual((kind, of), (ARRAY, STRING))
        struct.pack_into("<Q", data, at + 16, 1 << 40)  # the first token's length
        self.refuse(self.gguf(data), 65, "tokenizer.ggml.tokens")
        # Byte tokens, in a vocabulary of their own: every spelling but two hexadecimal digits.
        for token in ("<0x-1>", "<0xZZ>", "<0x1>", "<0x001>", "<0x 1>"):
            tokens = ["<unk>", "a", token]
            types = [2, 1, 6]
            body = (entry("general.architecture", STRING, text("llama")) +
                    entry("tokenizer.ggml.model", STRING, text("llama")) +
                    entry("tokenizer.ggml.tokens", ARRAY, struct.pack("<IQ", STRING, len(tokens)) +
                          b"".join(map(text, tokens))) +
                    entry("tokenizer.ggml.scores", ARRAY, struct.pack("<IQ3f", 6, 3, 0, 0, 0)) +
                    entry("tokenizer.ggml.token_type", ARRAY,
                          struct.pack("<IQ3i", I32, 3, *types)))
            result = run("tokenize", "--model", self.gguf(header(num_keys=5, body=body)),
                         "--text", "a")
            self.assertEqual(result.returncode, 65, (token, result.stderr))
            self.assertIn("byte token 2", result.stderr)

    def test_split_gguf_names_its_parts(self):
        def part(number):
            return header(num_keys=3, body=(entry("general.architecture", STRING, text("llama")) +
                                            entry("split.no", 2, struct.pack("<H", number)) +
                                            entry("split.count", 2, struct.pack("<H", 3))))
        self.refuse(self.gguf(part(0)), 65, "part 1 of 3", "NAME-00001-of-00003.gguf")
        self.refuse(self.gguf(part(0), "split-00001-of-00003.gguf"), 66, "part 2 of 3",
                    "split-00002-of-00003.gguf")

    # Safetensors.

    def test_safetensors_headers(self):
        model = self.hugging_face()
        shard = sorted(model.glob("model-*.safetensors"))[0]
        whole = shard.read_bytes()
        size = struct.unpack_from("<Q", whole)[0]
        head = json.loads(whole[8:8 + size])
        data = whole[8 + size:]
        names = [name for name in head if name != "__metadata__"]
        names.sort(key=lambda name: head[name]["data_offsets"])
        first, second = names[0], names[1]

        def write(changed, tail=data):
            encoded = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
            shard.write_bytes(struct.pack("<Q", len(encoded)) + encoded + tail)

        def with_tensor(name, **changes):
            return {**head, name: {**head[name], **changes}}

        begin, end = head[second]["data_offsets"]
        for changed in (b"{", b"[]", b"{\"a\": 1}", b"{" + b"\"a\":{" * 2000,
                        with_tensor(first, shape=[1 << 62, 4]),
                        with_tensor(first, shape=[-1]), with_tensor(first, shape=[3]),
                        with_tensor(second, data_offsets=[begin - 4, end]),
                        with_tensor(second, data_offsets=[end, begin]),
                        with_tensor(second, data_offsets=[begin, 1 << 62]),
                        {name: head[name] for name in head if name != second}):
            write(changed)
            self.refuse(model, 65, shard.name)
        write(head, data + bytes(4))
        self.refuse(model, 65, shard.name)
        write(with_tensor(first, dtype="X9"))
        self.refuse(model, 64, "X9")
        shard.write_bytes(struct.pack("<Q", 1 << 62) + whole[8:])
        self.refuse(model, 65, shard.name)

    def test_truncated_shard(self):
        model = self.hugging_face()
        shard = sorted(model.glob("model-*.safetensors"))[1]
        shard.write_bytes(shard.read_bytes()[:-100])
        self.refuse(model, 65, shard.name)

    def test_missing_shard(self):
        model = self.hugging_face()
        shard = sorted(model.glob("model-*.safetensors"))[1]
        shard.unlink()
        self.refuse(model, 66, shard.name)

    def test_index_naming_an_absent_tensor(self):
        model = self.hugging_face()
        path = model / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        shard = next(iter(index["weight_map"].values()))
        index["weight_map"]["model.phantom.weight"] = shard
        path.write_text(json.dumps(index))
        self.refuse(model, 65, "model.phantom.weight")

    def test_shape_that_the_config_does_not_say(self):
        self.refuse(self.hugging_face(intermediate_size=96), 65, "shape", "96")

    def test_weights_that_are_not_finite(self):
        data = self.tiny_gguf()
        data[-4:] = struct.pack("<f", float("nan"))
        result = run("generate", "--model", self.gguf(data), "--prompt", "x")
        self.assertEqual(result.returncode, 65, result.stderr)
        self.assertIn("not finite", result.stderr)

    # Configurations.

    def test_unknown_architecture(self):
        self.refuse(self.hugging_face(architectures=["MysteryForCausalLM"]), 65,
                    "MysteryForCausalLM", "docs/models.md")

    def test_config_without_a_needed_key(self):
        self.refuse(self.hugging_face(hidden_size=None), 65, "config.json", "hidden_size")

    def test_config_with_a_value_of_another_type(self):
        self.refuse(self.hugging_face(num_hidden_layers="two"), 65, "num_hidden_layers",
                    "an integer")

    def test_config_hyperparameters(self):
        for key in ("hidden_size", "num_hidden_layers", "num_attention_heads",
                    "num_key_value_heads", "intermediate_size", "vocab_size"):
            for value in (0, -1, 1 << 40):
                self.refuse(self.hugging_face(**{key: value}), 65)

    def test_more_experts_than_there_is_room_for_names(self):
        experts = self.hugging_face(architectures=["MixtralForCausalLM"], num_local_experts=16384,
                                    num_hidden_layers=16384)
        self.refuse(experts, 65, "block_sparse_moe.gate.weight is missing")

    def test_unsupported_value_is_named(self):
        self.refuse(self.hugging_face(hidden_act="mystery"), 64, "hidden_act", "mystery")

    def test_quantization_methods(self):
        self.refuse(self.hugging_face(quantization_config={"quant_method": "mystery"}), 64,
                    "quantization_config", "mystery", "gptq, awq")

    def test_quantization_without_its_parameters(self):
        for method in ("gptq", "awq"):
            self.refuse(self.hugging_face(quantization_config={"quant_method": method}), 65,
                        "quantization_config", "bits")
        self.refuse(self.hugging_face(quantization_config={"quant_method": "gptq", "bits": 5,
                                                           "group_size": 128}), 64, "bits = 5")

    def test_model_code_is_not_run(self):
        model = self.hugging_face(auto_map={"AutoModelForCausalLM": "evil.Evil"})
        witness = self.path / "executed"
        (model / "evil.py").write_text(f"open({str(witness)!r}, 'w')\n")
        run("generate", "--model", model, "--prompt", "x", "--max-tokens", 1)
        run("inspect", "--model", model)
        self.assertFalse(witness.exists())

    def test_json_files_over_their_limit(self):
        model = self.hugging_face()
        with open(model / "config.json", "r+b") as file:
            file.truncate(1 << 33)  # sparse: no disk is used
        before = os.times()
        self.refuse(model, 78, "config.json")
        after = os.times()  # processor time: of the programs, on however busy a machine
        self.assertLess(after.children_user + after.children_system,
                        before.children_user + before.children_system + 10)

    def test_template_that_reaches_for_the_host(self):
        model = self.hugging_face()
        config = json.loads((model / "tokenizer_config.json").read_text())
        for source in ("{{ ''.__class__.__mro__[1].__subclasses__() }}",
                       "{{ messages.__init__.__globals__ }}", "{{ self.__dict__ }}",
                       "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
                       "{% include '/etc/passwd' %}", "{% import 'os' as os %}"):
            config["chat_template"] = source
            (model / "tokenizer_config.json").write_text(json.dumps(config))
            result = run("generate", "--model", model, "--chat", "x", "--max-tokens", 1)
            self.assertEqual(result.returncode, 64, (source, result.stderr))

    def test_refusals_need_little_memory(self):
        """Counts are checked before memory is asked for: half a GiB of address space is plenty."""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
        for data in (header(num_tensors=(1 << 64) - 1), header(num_keys=1 << 50),
                     header(num_keys=1, body=entry("k", ARRAY, struct.pack("<IQ", U64, 1 << 50)))):
            result = subprocess.run([PROGRAM, "inspect", "--model", str(self.gguf(data))],
                                    capture_output=True, preexec_fn=limit, timeout=60)
            self.assertEqual(result.returncode, 65, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

#!/usr/bin/env python3
"""The program as its users meet it: output, error messages, exit codes, interrupts.

    cli_test.py PROGRAM SOURCE_DIR
"""

import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv[1]
SOURCE = pathlib.Path(sys.argv[2])
TINY = SOURCE / "tests/data/tiny_llama"
STORIES = SOURCE / "../shared/models/stories260k"
STORIES_TEXT = SOURCE / "../shared/models/stories260k.expected.txt"
SMOLLM2 = SOURCE / "models/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf"


def run(*args, text_input=None):
    return subprocess.run([PROGRAM, *map(str, args)], input=text_input, capture_output=True,
                          text=True, timeout=240)


def needs(path):
    def decorate(test):
        def wrapper(self):
            if not path.exists():
                if os.environ.get("CI"):
                    self.fail(f"{path} is missing")
                self.skipTest(f"{path} is not there (see README)")
            test(self)
        return wrapper
    return decorate


class Generate(unittest.TestCase):
    @needs(STORIES)
    def test_stories260k_prints_the_expected_text(self):
        result = run("generate", "--model", STORIES, "--prompt", "", "--max-tokens", 200,
                     "--temperature", 0)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, STORIES_TEXT.read_text() + "\n")

    @needs(SMOLLM2)
    def test_smollm2_knows_the_capital_of_japan(self):
        result = run("generate", "--chat", "What is the capital of Japan?", "--max-tokens", 32,
                     "--temperature", 0)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Tokyo", result.stdout)

    def test_json_record(self):
        result = run("generate", "--model", TINY / "hf", "--prompt", "the cat", "--max-tokens", 5,
                     "--temperature", 0, "--ignore-eos", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        record = json.loads(result.stdout)
        output = record["outputs"][0]
        self.assertEqual(len(output["token_ids"]), 5)
        self.assertEqual(output["finish_reason"], "length")
        self.assertEqual(record["usage"]["completion_tokens"], 5)
        self.assertGreater(record["timings"]["ttft_s"], 0)
        # The same text that streaming prints.
        streamed = run("generate", "--model", TINY / "hf", "--prompt", "the cat", "--max-tokens", 5,
                       "--temperature", 0, "--ignore-eos")
        self.assertEqual(streamed.stdout, output["text"] + "\n")

    def test_seed_decides_a_sampled_text(self):
        args = ["generate", "--model", TINY / "hf", "--prompt", "the cat", "--max-tokens", 20,
                "--ignore-eos", "--json"]
        first, again, other = (json.loads(run(*args, "--seed", seed).stdout)["outputs"]
                               for seed in (7, 7, 8))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    @needs(SMOLLM2)
    def test_interrupt_prints_what_there_is_and_exits_with_130(self):
        process = subprocess.Popen(
            [PROGRAM, "generate", "--prompt", "Once upon a time", "--max-tokens", "5000",
             "--ignore-eos", "--temperature", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = process.stdout.read(5)
        self.assertTrue(first)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertTrue((first + rest).endswith(b"\n"))


class Batch(unittest.TestCase):
    LINES = [
        {"prompt": "the cat", "max_tokens": 3, "temperature": 0},
        {"id": "b", "prompt_token_ids": [5, 6, 7], "max_tokens": 9, "temperature": 0,
         "ignore_eos": True},
        "not json",
        {"id": 4, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2},
        {"id": "none", "max_tokens": 2},
        {"id": "wrong", "prompt": "x", "temperature": -1},
        {"id": "unknown", "prompt": "x", "colour": "red"},
        {"id": "vocabulary", "prompt_token_ids": [999999], "max_tokens": 1},
        {"id": "seeded", "prompt": "a", "seed": 3, "top_k": 5, "top_p": 0.9, "max_tokens": 4,
         "ignore_eos": True},
    ]

    def test_records_come_in_input_order_and_errors_stop_nothing(self):
        lines = "\n".join(line if isinstance(line, str) else json.dumps(line)
                          for line in self.LINES) + "\n"
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder, "in"), pathlib.Path(folder, "out")
            source.write_text(lines)
            result = run("generate", "--model", TINY / "hf", "--input", source, "--output", target)
            self.assertEqual(result.returncode, 0, result.stderr)
            records = [json.loads(line) for line in target.read_text().splitlines()]
        self.assertEqual([record["id"] for record in records],
                         [1, "b", 3, 4, "none", "wrong", "unknown", "vocabulary", "seeded"])
        errors = {record["id"]: record for record in records if "error" in record}
        self.assertEqual(list(errors), [3, "none", "wrong", "unknown", "vocabulary"])
        for record in errors.values():
            self.assertEqual(record["error"]["code"], "INVALID_ARGUMENT")
        self.assertEqual(errors["wrong"]["line"], 6)
        self.assertIn("temperature", errors["wrong"]["error"]["message"])
        self.assertIn("colour", errors["unknown"]["error"]["message"])
        self.assertIn("999999", errors["vocabulary"]["error"]["message"])
        self.assertEqual(records[1]["usage"], {"prompt_tokens": 3, "completion_tokens": 9})
        self.assertEqual(list(records[0]), ["id", "outputs", "usage"])

    def test_many_lines_through_a_small_window(self):
        lines = "".join(json.dumps({"prompt": "a" * (i % 7 + 1), "max_tokens": i % 5 + 1,
                                    "temperature": 0, "ignore_eos": True}) + "\n"
                        for i in range(300))
        result = run("generate", "--model", TINY / "hf", "--input", "-", "--max-num-seqs", 4,
                     text_input=lines)
        self.assertEqual(result.returncode, 0, result.stderr)
        records = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([record["id"] for record in records], list(range(1, 301)))
        for i, record in enumerate(records):
            self.assertEqual(record["usage"]["completion_tokens"], i % 5 + 1)

    def test_stop_string_across_tokens_ends_the_text_before_it(self):
        free = json.loads(run("generate", "--model", TINY / "hf", "--prompt", "the cat",
                              "--max-tokens", 30, "--temperature", 0, "--ignore-eos",
                              "--json").stdout)["outputs"][0]
        text = free["text"]
        stop = text[len(text) // 2:len(text) // 2 + 3]
        stopped = json.loads(run("generate", "--model", TINY / "hf", "--prompt", "the cat",
                                 "--max-tokens", 30, "--temperature", 0, "--ignore-eos", "--json",
                                 "--stop", stop).stdout)["outputs"][0]
        self.assertEqual(stopped["text"], text[:text.index(stop)])
        self.assertEqual(stopped["finish_reason"], "stop")
        count = len(stopped["token_ids"])
        self.assertEqual(stopped["token_ids"], free["token_ids"][:count])


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
            lines = result.stderr.strip().splitlines()
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


class CommandLine(unittest.TestCase):
    def test_mistyped_flag(self):
        result = run("generate", "--promt", "x")
        self.assertEqual(result.returncode, 64)
        self.assertIn("--promt", result.stderr)

    def test_no_prompt(self):
        result = run("generate", "--model", TINY / "hf")
        self.assertEqual(result.returncode, 64)
        self.assertIn("--prompt", result.stderr)

    def test_help_names_every_engine_flag(self):
        text = run("generate", "--help").stdout
        for flag in ("model", "tokenizer", "dtype", "threads", "block-size", "max-num-seqs",
                     "max-num-batched-tokens", "kv-cache-memory-bytes", "kv-cache-dtype",
                     "max-model-len", "seed"):
            self.assertIn(f"--{flag} ", text)

    def test_counts_with_suffixes(self):
        result = run("generate", "--model", TINY / "hf", "--prompt", "x", "--max-tokens", 1,
                     "--max-model-len", "8Q")
        self.assertEqual(result.returncode, 64)
        self.assertIn("8Q", result.stderr)

    def test_too_long_a_context_is_a_configuration_error(self):
        result = run("generate", "--model", TINY / "hf", "--prompt", "x", "--max-model-len", "8k")
        self.assertEqual(result.returncode, 78)
        self.assertIn("8000", result.stderr)

    def test_too_small_a_cache_says_the_numbers(self):
        result = run("generate", "--model", TINY / "hf", "--prompt", "x",
                     "--kv-cache-memory-bytes", "1k")
        self.assertEqual(result.returncode, 78)
        self.assertIn("1000 bytes", result.stderr)

    def test_unsupported_dtype(self):
        result = run("generate", "--model", TINY / "hf", "--prompt", "x", "--dtype", "float16")
        self.assertEqual(result.returncode, 64)
        self.assertIn("float16", result.stderr)

    def test_unknown_level(self):
        os.environ["QUIRE_FORCE_ISA"] = "mmx"
        self.addCleanup(os.environ.pop, "QUIRE_FORCE_ISA")
        result = run("generate", "--model", TINY / "hf", "--prompt", "x")
        self.assertEqual(result.returncode, 78)
        self.assertIn("avx2", result.stderr)

    def test_inspect_reports_sizes(self):
        report = json.loads(run("inspect", "--model", TINY / "tiny_llama_q4_0.gguf",
                                "--json").stdout)
        self.assertEqual(report["architecture"], "llama")
        self.assertEqual(report["kv_bytes_per_token"]["float32"], 2 * 2 * 2 * 16 * 4)
        self.assertIn("Q4_0", report["encodings"])

    def test_bench_throughput_has_its_fields(self):
        report = json.loads(run("bench", "throughput", "--model", TINY / "hf", "--input-len", 8,
                                "--output-len", 8, "--num-prompts", 6, "--concurrency", "1,3",
                                "--json").stdout)
        for key in ("output_tokens_per_s", "total_tokens_per_s", "elapsed_s"):
            self.assertGreater(report[key], 0)
        self.assertEqual([level["concurrency"] for level in report["levels"]], [1, 3])

    def test_bench_latency_has_its_fields(self):
        report = json.loads(run("bench", "latency", "--model", TINY / "hf", "--input-len", 8,
                                "--output-len", 8, "--num-prompts", 3, "--json").stdout)
        for key in ("ttft_s", "tpot_s"):
            self.assertEqual(list(report[key]), ["mean", "p50", "p90", "p99"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

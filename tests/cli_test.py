#!/usr/bin/env python3
"""The program as its users meet it: output, error messages, exit codes, interrupts.

    cli_test.py PROGRAM SOURCE_DIR
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from cli_support import PROGRAM, SMOLLM2, STORIES, STORIES_TEXT, TINY, needs, run


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

    def test_the_name_alone_says_what_to_do_first(self):
        result = run()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for command in ("quire chat", "quire serve MODEL", "quire generate", "quire --help"):
            self.assertIn(command, result.stdout)

    def test_version(self):
        self.assertEqual(run("-v").stdout, run("--version").stdout)
        self.assertRegex(run("-v").stdout, r"^\d+\.\d+")

    def test_event_log_makes_its_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "a" / "b" / "events"
            result = run("generate", "--model", TINY / "hf", "--prompt", "x", "--max-tokens", 2,
                         "--event-log", log)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(run("replay", log).returncode, 0)
            (pathlib.Path(folder) / "file").write_text("")
            result = run("generate", "--model", TINY / "hf", "--prompt", "x", "--event-log",
                         pathlib.Path(folder) / "file" / "events")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("cannot make", result.stderr)

    def test_wrong_values_are_refused_before_a_model_is_loaded(self):
        for args, word in [(["--top-p", 2], "top_p"), (["--temperature", -1], "temperature"),
                           (["--n", 0], "n")]:
            result = run("generate", "--model", "/nowhere", "--prompt", "x", *args)
            self.assertEqual(result.returncode, 64, args)
            self.assertIn(word, result.stderr)
        result = run("generate", "--model", "/nowhere", "--prompt", "x", "--generation-config", "x")
        self.assertIn("--generation-config", result.stderr)

    def test_the_model_may_follow_any_flag(self):
        for args in (["generate", "--prompt", "x", "--temperature", 0.5], ["generate", "--prompt", "x", "--stop", "a"],
                     ["generate", "--prompt", "x", "--logit-bias", "{}"], ["chat", "--top-k", 5],
                     ["serve", "--api-key", "k"], ["serve", "--served-model-name", "a"],
                     ["serve", "--allowed-origins", '["https://a", "https://b"]']):
            self.assertIn("no file or folder /nowhere", run(*args, "/nowhere").stderr, args)

    def test_values_that_cannot_be_read(self):
        for args, words in [(["--seed", "x"], '--seed does not accept "x"'), (["--seed"], "--seed needs a value"),
                            (["--temperature", "x"], "--temperature: expected a number, found x"),
                            (["--early-stopping", "x"], "--early-stopping: expected true, false or never, found x"),
                            (["--logit-bias", "x"], "--logit-bias: expected a JSON object, found x")]:
            result = run("generate", "--prompt", "x", *args)
            self.assertEqual(result.returncode, 64, args)
            self.assertIn(words, result.stderr)

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
        self.assertIn("16 blocks", result.stderr)

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
        elements = 2 * 2 * 2 * 16
        self.assertEqual(report["kv_bytes_per_token"],
                         {"bfloat16": elements * 2, "float32": elements * 4,
                          "fp8_e4m3": elements,
                          # A float32 scale for each key and value of each layer and head.
                          "int8": elements + 2 * 2 * 2 * 4})
        self.assertIn("Q4_0", report["encodings"])

    def test_inspect_says_how_embeddings_are_made(self):
        report = json.loads(run("inspect", "--model", TINY / "hf", "--json").stdout)
        self.assertEqual(report["embedding"], {"pooling": "last", "normalize": True, "source": "",
                                               "error": None})
        self.assertIn("last pooling, normalized (the model says nothing)",
                      run("inspect", "--model", TINY / "hf").stdout)

    def test_inspect_says_what_a_token_meets_of_a_mixture(self):
        model = TINY.parent / "families/mixtral/hf"
        report = json.loads(run("inspect", "--model", model, "--json").stdout)
        self.assertEqual((report["num_experts"], report["num_experts_per_tok"],
                          report["num_moe_layers"]), (6, 2, 2))
        self.assertEqual(report["expert_intermediate_size"], 40)
        weights = sum(encoding["elements"] for encoding in report["encodings"].values())
        self.assertEqual(report["active_weights"], weights - 2 * (6 - 2) * 3 * 32 * 40)
        text = run("inspect", "--model", model).stdout
        self.assertIn("2 of 6 for each token, of 40, in 2 layers\n", text)
        self.assertNotIn("for each token", run("inspect", "--model", TINY / "hf").stdout)

    def test_bench_throughput_has_its_fields(self):
        report = json.loads(run("bench", "throughput", "--model", TINY / "hf", "--input-len", 8,
                                "--output-len", 8, "--num-prompts", 6, "--concurrency", "1,3",
                                "--json").stdout)
        for key in ("output_tokens_per_s", "total_tokens_per_s", "elapsed_s"):
            self.assertGreater(report[key], 0)
        self.assertEqual([level["concurrency"] for level in report["levels"]], [1, 3])

    @needs(SMOLLM2)
    def test_bench_spec_compares_the_same_outputs(self):
        # Several have half to one and a half of the tokens, three for each place.
        lengths = {1: [24], 3: [12, 27, 18, 32, 23, 14, 29, 20, 35]}
        for at_once in lengths:
            report = json.loads(run("bench", "spec", "--model", SMOLLM2, "--output-len", 24, "--num-turns", 1,
                                    "--lengths", "2,4", "--concurrency", at_once, "--json").stdout)
            self.assertEqual(report["concurrency"], at_once)
            self.assertFalse(report["interrupted"])
            # What one row more costs is measured where one output is decoded alone.
            self.assertEqual(report["cost_of_row"] is None, at_once > 1)
            self.assertEqual([each["text"] for each in report["texts"]], ["code edit", "summary", "JSON", "story", "random"])
            for text in report["texts"]:
                self.assertEqual([each["drafts"] for each in text["outcomes"]], ["off", "auto", "2", "4"])
                for outcome in text["outcomes"]:
                    self.assertTrue(outcome["same_output"], (at_once, text["text"], outcome))
                    self.assertEqual(outcome["num_tokens"], sum(lengths[at_once]))
                    self.assertEqual(outcome["bound"] is None, at_once > 1)
                    self.assertGreater(outcome["tokens_per_s"], 0)
                    guesses_fixed = outcome["drafts"] in ("2", "4") and outcome["num_drafted_steps"] > 0
                    self.assertEqual("theory" in outcome, guesses_fixed)
                    if guesses_fixed and at_once == 1:
                        self.assertGreater(outcome["theory"]["speedup"], 0)
                    if guesses_fixed and text["text"] == "random":  # one digit of ten
                        self.assertLess(outcome["num_accepted_tokens"], outcome["num_draft_tokens"] / 2)

    @needs(SMOLLM2)
    def test_bench_spec_tells_what_it_has_when_interrupted(self):
        process = subprocess.Popen(
            [PROGRAM, "bench", "spec", SMOLLM2, "--output-len", "4", "--num-turns", "10000", "--lengths", "1", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if (done := re.match(r"decoding: (\d+)/", line)) and int(done[1]) >= 8:  # two rounds of four turns
                break
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        report = json.loads(printed)
        self.assertTrue(report["interrupted"])
        self.assertEqual([each["text"] for each in report["texts"]], ["code edit"])
        for outcome in report["texts"][0]["outcomes"]:
            self.assertGreaterEqual(outcome["num_turns"], 2)
            self.assertLess(outcome["num_turns"], 10000)
            self.assertGreater(outcome["tokens_per_s"], 0)

    @needs(SMOLLM2)
    def test_bench_spec_compares_a_draft_model_with_its_target(self):
        config = json.dumps({"model": str(SMOLLM2), "num_speculative_tokens": 4})
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "spec.html"
            printed = run("bench", "spec", "--model", SMOLLM2, "--output-len", 12, "--num-turns", 1, "--lengths", "4",
                          "--speculative-config", config, "--html", page).stdout
            html = page.read_text()
        # A model that guesses for itself is right by any rule.
        self.assertEqual(len(re.findall(r"^(?:code edit|summary|JSON|story) +12 +1\.00 +1\.00 +1\.00$", printed, re.M)), 4)
        self.assertEqual(len(re.findall(r"^(?:code edit|summary|JSON|story|random) +4 +1\.00 ", printed, re.M)), 5)
        self.assertNotRegex(printed, r"(?m)^random +12 ")  # that output is not the model's
        self.assertEqual(html.count("<svg"), 10)
        self.assertIn("theory at 1.00", html)
        refused = run("bench", "spec", "--model", SMOLLM2, "--html", "/missing/spec.html")
        self.assertEqual(refused.returncode, 74)
        self.assertIn("/missing/spec.html", refused.stderr)

    def test_bench_latency_has_its_fields(self):
        report = json.loads(run("bench", "latency", "--model", TINY / "hf", "--input-len", 8,
                                "--output-len", 8, "--num-prompts", 3, "--json").stdout)
        for key in ("ttft_s", "tpot_s"):
            self.assertEqual(list(report[key]), ["mean", "p50", "p90", "p95", "p99"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

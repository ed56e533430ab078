#!/usr/bin/env python3
"""`quire bench step`: times of steps, where they go, and the trace of them.

    cli_bench_step_test.py PROGRAM SOURCE_DIR
"""

import collections
import json
import pathlib
import sys
import tempfile
import unittest

from cli_support import TINY, run

MODEL = TINY / "tiny_llama_q8_0.gguf"
BASE = ("bench", "step", "--model", MODEL, "--steps", "6", "--context-len", "8", "--threads", "2")


class BenchStep(unittest.TestCase):
    def report(self, *args):
        result = run(*BASE, "--json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_measures_steps_of_each_shape(self):
        report = self.report("--batch-size", "1,3", "--prefill-len", "20")
        self.assertEqual(report["engine"]["threads"], 2)
        first, second, prefill = report["cases"]
        self.assertEqual([first["kind"], second["kind"], prefill["kind"]],
                         ["decode", "decode", "prefill"])
        self.assertEqual([first["batch_size"], second["batch_size"]], [1, 3])
        self.assertEqual(prefill["prefill_len"], 20)
        for case, tokens in ((first, 1), (second, 3), (prefill, 20)):
            self.assertEqual(case["steps"], 6)
            self.assertEqual(case["tokens_per_step"], tokens)
            self.assertGreater(case["step_s"]["p50"], 0)
            self.assertLessEqual(case["step_s"]["p50"], case["step_s"]["p90"])
            self.assertAlmostEqual(case["tokens_per_s"], tokens / case["step_s"]["p50"],
                                   delta=1e-6 * case["tokens_per_s"])
            self.assertNotIn("breakdown", case)
        # 8 tokens of prompt, 4 steps to warm up, then 6 are measured: from 13 to 18 known tokens.
        self.assertAlmostEqual(first["context_mean"], 15.5)

    def test_parts_add_up_to_the_step(self):
        for case in self.report("--batch-size", "2", "--prefill-len", "16",
                                "--breakdown")["cases"]:
            breakdown = case["breakdown"]
            self.assertEqual(breakdown["num_steps"], 3)  # the faster half
            total = breakdown["s_per_step"]
            stages = {stage["stage"]: stage for stage in breakdown["stages"]}
            self.assertEqual(len(stages), len(breakdown["stages"]))
            parts = sum(stage["s_per_step"] for stage in stages.values())
            rest = breakdown["s_per_step_in_no_stage"]
            self.assertAlmostEqual(parts + rest, total, delta=1e-9 * total + 1e-12)
            self.assertAlmostEqual(sum(stage["share"] for stage in stages.values()) + rest / total,
                                   1, places=6)
            typical = sum(stage["typical_s_per_step"] for stage in stages.values())
            self.assertAlmostEqual(typical + breakdown["typical_s_per_step_in_no_stage"],
                                   breakdown["typical_s_per_step"], delta=1e-9 * total + 1e-12)
            by_kind = collections.Counter()
            for stage in stages.values():
                by_kind[stage["kind"]] += stage["s_per_step"]
            for kind, seconds in breakdown["s_per_step_by_kind"].items():
                self.assertAlmostEqual(seconds, by_kind[kind], delta=1e-12)
            for name, kind in (("schedule", "bookkeeping"), ("prepare", "bookkeeping"),
                               ("update", "bookkeeping"), ("pass on output", "bookkeeping"),
                               ("embedding", "kernel"), ("rms_norm", "kernel"),
                               ("qkv projection, rope, cache write", "kernel"),
                               ("attention", "kernel"), ("gate, up and activation", "kernel"),
                               ("attention output projection", "kernel"),
                               ("down projection", "kernel"), ("logits", "kernel"),
                               ("choose tokens", "sampling")):
                self.assertEqual(stages[name]["kind"], kind)
            layers = json.loads((TINY / "hf/config.json").read_text())["num_hidden_layers"]
            self.assertEqual(stages["attention"]["calls_per_step"], layers)
            self.assertEqual(stages["rms_norm"]["calls_per_step"], 2 * layers + 1)
            self.assertEqual(stages["logits"]["calls_per_step"], 1)
            for name in ("qkv projection, rope, cache write", "attention", "logits"):
                self.assertGreater(stages[name]["bytes_per_s"], 0)
                self.assertGreater(stages[name]["operations_per_s"], 0)
            self.assertNotIn("bytes_per_s", stages["rms_norm"])
            for stage in stages.values():
                self.assertGreaterEqual(stage["s_per_step"], 0)
            self.assertGreater(breakdown["output_thread_s_per_step"], 0)

    def test_table(self):
        result = run(*BASE, "--batch-size", "2", "--breakdown")
        self.assertEqual(result.returncode, 0, result.stderr)
        for line in ("decode 2", "median ms", "attention", "in no stage", "bookkeeping", "step",
                     "output thread, beside it"):
            self.assertIn(line, result.stdout)
        plain = run(*BASE, "--batch-size", "2")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertNotIn("in no stage", plain.stdout)

    def test_trace_is_well_formed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "trace.json")
            result = run(*BASE, "--batch-size", "1,2", "--trace", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("in no stage", result.stdout)
            trace = json.loads(path.read_text())
        names = {}
        spans = collections.defaultdict(list)
        for event in trace["traceEvents"]:
            if event["ph"] == "M":
                names[event["name"], event["pid"], event["tid"]] = event["args"]["name"]
                continue
            self.assertEqual(event["ph"], "X")
            self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event["dur"], 0)
            spans[event["pid"], event["tid"]].append(event)
        self.assertEqual(names["process_name", 1, 0], "decode 1")
        self.assertEqual(names["process_name", 2, 0], "decode 2")
        self.assertEqual(names["thread_name", 2, 1], "engine")
        self.assertEqual(names["thread_name", 2, 2], "executor")
        self.assertEqual(names["thread_name", 2, 3], "output")
        for process in (1, 2):
            engine = spans[process, 1]
            steps = [event for event in engine if event["name"] == "step"]
            self.assertEqual(len(steps), 6)
            ids = [event["args"]["step_id"] for event in steps]
            self.assertEqual(ids, list(range(ids[0], ids[0] + 6)))
            executor = spans[process, 2]
            self.check_nesting(engine)
            self.check_nesting(executor)
            self.assertEqual([event["args"]["step_id"] for event in executor
                              if event["name"] == "compute"], ids)
            self.assertTrue(any(event["name"] == "attention" and event["args"]["bytes"] > 0
                                for event in executor))
            handed_out = {event["args"]["step_id"] for event in spans[process, 3]
                          if event["name"] == "hand out"}
            self.assertLessEqual(set(ids), handed_out)  # the last one's, too

    # Of two spans of a thread one holds the other, or they lie apart. Times are rounded to 1 ns.
    def check_nesting(self, events):
        open_spans = []
        for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
            end = event["ts"] + event["dur"]
            while open_spans and open_spans[-1] <= event["ts"] + 0.0015:
                open_spans.pop()
            if open_spans:
                self.assertLessEqual(end, open_spans[-1] + 0.0015, event)
            open_spans.append(end)

    def test_what_is_wrong_is_named(self):
        def fails(code, *args):
            result = run("bench", "step", *args)
            self.assertEqual(result.returncode, code, result.stderr)
            return result.stderr

        self.assertIn("did you mean --breakdown", fails(64, "--model", MODEL, "--brekdown"))
        self.assertIn("no/such/model", fails(66, "--model", "no/such/model"))
        self.assertIn("--max-num-seqs", fails(64, "--model", MODEL, "--max-num-seqs", "4"))
        fails(64, "--model", MODEL, "--batch-size", "0")
        fails(64, "--model", MODEL, "--steps", "0")
        self.assertIn("raise --max-num-batched-tokens",
                      fails(78, "--model", MODEL, "--prefill-len", "64", "--max-num-batched-tokens",
                            "32"))
        self.assertIn("at most",
                      fails(64, "--model", MODEL, "--batch-size", "1", "--context-len", "100k"))
        self.assertIn("KV pages", fails(78, "--model", MODEL, "--batch-size", "8", "--context-len",
                                        "64", "--kv-cache-memory-bytes", "80k"))
        self.assertIn("name a file", fails(64, "--model", MODEL, "--trace", "-"))
        self.assertIn("cannot write",
                      fails(74, "--model", MODEL, "--trace", "/no/such/folder/trace.json"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""`quire generate --input`: many requests from a file.

    cli_batch_test.py PROGRAM SOURCE_DIR
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from cli_support import PROGRAM, TINY, run, told


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
        usage = records[1]["usage"]
        self.assertEqual([usage["prompt_tokens"], usage["completion_tokens"]], [3, 9])
        # Another's first tokens, if that was computed before.
        self.assertIn(usage["prompt_tokens_details"]["cached_tokens"], range(3))
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


class Fields(unittest.TestCase):
    def test_schema_names_types_defaults_and_ranges(self):
        result = run("generate", "--schema")
        self.assertEqual(result.returncode, 0, result.stderr)
        schema = json.loads(result.stdout)
        fields = schema["properties"]
        self.assertEqual(set(fields), {
            "id", "prompt", "messages", "prompt_token_ids", "priority", "user", "deadline_ms", "cache_salt", "n", "presence_penalty",
            "frequency_penalty", "repetition_penalty", "temperature", "top_p", "top_k", "min_p",
            "seed", "stop", "stop_token_ids", "bad_words", "include_stop_str_in_output",
            "ignore_eos", "max_tokens", "min_tokens", "logprobs", "prompt_logprobs",
            "skip_special_tokens", "logit_bias", "allowed_token_ids", "structured_outputs", "ensure_close",
            "return_forced_tokens", "beam_width", "length_penalty", "early_stopping",
            "response_format", "json_schema", "regex", "grammar", "ebnf", "structural_tag", "guided_json",
            "guided_regex", "guided_choice", "guided_grammar", "guided_whitespace_pattern"})
        self.assertEqual(fields["temperature"]["type"], "number")
        self.assertEqual((fields["presence_penalty"]["minimum"],
                          fields["presence_penalty"]["maximum"]), (-2, 2))
        self.assertEqual(fields["skip_special_tokens"]["default"], True)
        self.assertFalse(schema["additionalProperties"])

    def generate(self, line):
        result = run("generate", "--model", TINY / "hf", "--input", "-",
                     text_input=json.dumps(line) + "\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_flags_and_fields_mean_the_same(self):
        line = {"prompt": "the cat", "max_tokens": 8, "temperature": 0.7, "top_k": 9, "top_p": 0.9,
                "min_p": 0.01, "repetition_penalty": 1.2, "presence_penalty": 0.5,
                "frequency_penalty": 0.25, "ignore_eos": True, "min_tokens": 2, "n": 2, "seed": 5,
                "stop": ["zzz", "q,q"], "stop_token_ids": [5, 6], "logit_bias": {"9": -100},
                "bad_words": ["xyz"], "logprobs": 2, "skip_special_tokens": False}
        flags = ["--json"]
        for name, value in line.items():
            flag = "--" + name.replace("_", "-")
            if name == "skip_special_tokens":
                flags += ["--no-skip-special-tokens"]
            elif value is True:
                flags += [flag]
            elif name in ("stop", "bad_words"):
                for text in value:
                    flags += [flag, text]
            elif name == "stop_token_ids":
                flags += [flag, ",".join(map(str, value))]
            elif name == "logit_bias":
                flags += [flag, json.dumps(value)]
            else:
                flags += [flag, value]
        result = run("generate", "--model", TINY / "hf", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        record = json.loads(result.stdout)
        from_line = self.generate(line)
        # --seed seeds the engine, which derives the request's: the tokens differ, the form does not.
        self.assertEqual(len(record["outputs"]), 2)
        for output, other in zip(record["outputs"], from_line["outputs"]):
            self.assertEqual(list(output), list(other))
            self.assertEqual(len(output["logprobs"]), len(output["token_ids"]))
            self.assertEqual(len(output["logprobs"][0]["top"]), 2)
        greedy = dict(line, temperature=0, n=1)
        flags[flags.index("--temperature") + 1] = 0
        flags[flags.index("--n") + 1] = 1
        record = json.loads(run("generate", "--model", TINY / "hf", *flags).stdout)
        self.assertEqual(record["outputs"], self.generate(greedy)["outputs"])

    def test_several_outputs_have_an_index(self):
        record = self.generate({"id": "x", "prompt": "the", "n": 3, "max_tokens": 4,
                                "ignore_eos": True})
        self.assertEqual([output["index"] for output in record["outputs"]], [0, 1, 2])
        self.assertEqual(record["usage"]["completion_tokens"], 12)

    def test_forced_tokens(self):
        record = self.generate({"prompt": "the", "max_tokens": 30, "return_forced_tokens": True,
                                "regex": "the dog, [a-z], the dog"})
        (output,) = record["outputs"]
        self.assertEqual(len(output["forced_tokens"]), len(output["token_ids"]))
        self.assertEqual(set(output["forced_tokens"]), {True, False})
        self.assertNotIn("forced_tokens", self.generate({"prompt": "the", "max_tokens": 2})["outputs"][0])

    def test_prompt_logprobs(self):
        record = self.generate({"prompt_token_ids": [5, 6, 7, 8], "prompt_logprobs": 1,
                                "max_tokens": 1})
        self.assertEqual([p["token_id"] for p in record["prompt_logprobs"]], [6, 7, 8])
        for position in record["prompt_logprobs"]:
            self.assertEqual(len(position["top"]), 1)

    def test_bad_flag_values(self):
        for flag, value in (("--top-k", "many"), ("--temperature", "hot"), ("--logit-bias", "{"),
                            ("--stop-token-ids", "a"), ("--n", "0"), ("--presence-penalty", "9"),
                            ("--top-p", "-1"), ("--temperature", "nan")):
            result = run("generate", "--model", TINY / "hf", "--prompt", "x", f"{flag}={value}",
                         "--max-tokens", 1)
            self.assertEqual(result.returncode, 64, (flag, value, result.stderr))
            name = flag.strip("-")
            self.assertTrue(name in result.stderr or name.replace("-", "_") in result.stderr,
                            result.stderr)


def apart_from_cached_tokens(text):
    """The records without what depends on which requests met in a step, or ran before a resumption."""
    return re.sub(r'"cached_tokens":\d+', "", text)


class LongRuns(unittest.TestCase):
    """What an interrupted run, a full disk and a closed pipe leave behind."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.source, self.target = self.path / "in.jsonl", self.path / "out.jsonl"

    def write(self, count, max_tokens=4, ids=None):
        self.source.write_text("".join(
            json.dumps({"id": f"r{i}" if ids is None else ids[i], "prompt": "a" * (i % 9 + 1),
                        "max_tokens": max_tokens, "ignore_eos": True, "seed": i}) + "\n"
            for i in range(count)))

    def generate(self, *args, **options):
        return run("generate", "--model", TINY / "hf", "--max-num-seqs", 4, "--input", self.source,
                   *args, **options)

    def test_resume_after_a_torn_line(self):
        self.write(40)
        self.assertEqual(self.generate("--output", self.target).returncode, 0)
        whole = self.target.read_text()
        self.target.write_text(whole[:len(whole) // 2])
        kept = whole[:len(whole) // 2].count("\n")
        result = self.generate("--output", self.target, "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"{kept} skipped", result.stderr)
        self.assertEqual(apart_from_cached_tokens(self.target.read_text()),
                         apart_from_cached_tokens(whole))

    def test_resume_after_kill_and_after_interrupt(self):
        self.write(400, max_tokens=40)
        for sent, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
            process = subprocess.Popen(
                [PROGRAM, "generate", "--model", str(TINY / "hf"), "--max-num-seqs", "4",
                 "--input", str(self.source), "--output", str(self.target), "--resume",
                 "--unordered"], stderr=subprocess.PIPE)
            before = self.target.stat().st_size if self.target.exists() else 0
            deadline = time.monotonic() + 240
            while time.monotonic() < deadline and process.poll() is None:
                if self.target.exists() and self.target.stat().st_size > before + 2000:
                    break
                time.sleep(0.002)
            process.send_signal(sent)
            process.communicate(timeout=60)
            if process.returncode != 0:  # it may have been done before the signal came
                self.assertEqual(process.returncode, code)
        result = self.generate("--output", self.target, "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)
        records = [json.loads(line) for line in self.target.read_text().splitlines()]
        self.assertEqual(sorted(r["id"] for r in records), sorted(f"r{i}" for i in range(400)))
        for record in records:
            self.assertEqual(record["usage"]["completion_tokens"], 40)

    def test_resume_of_a_changed_input(self):
        self.write(5)
        self.assertEqual(self.generate("--output", self.target).returncode, 0)
        self.source.write_text(json.dumps({"id": "r1", "prompt": "another, longer prompt"}) + "\n")
        result = self.generate("--output", self.target, "--resume")
        self.assertEqual(result.returncode, 64)
        self.assertIn('"r1"', result.stderr)
        self.write(3, ids=["new", "newer", "new"])
        result = self.generate("--output", self.target, "--resume")
        self.assertEqual(result.returncode, 64)
        self.assertIn("line 3", result.stderr)

    def test_unordered_has_the_same_records(self):
        self.write(60)
        ordered = apart_from_cached_tokens(self.generate().stdout).splitlines()
        unordered = apart_from_cached_tokens(self.generate("--unordered").stdout).splitlines()
        self.assertEqual(sorted(ordered), sorted(unordered))

    def test_flags_that_need_a_file(self):
        self.write(1)
        for args in (("--resume",), ("--resume", "--output", "-")):
            result = self.generate(*args)
            self.assertEqual(result.returncode, 64)
            self.assertIn("--output", result.stderr)
        result = run("generate", "--model", TINY / "hf", "--prompt", "x", "--unordered")
        self.assertEqual(result.returncode, 64)
        self.assertIn("--input", result.stderr)

    def refused_write(self, result, reason):
        self.assertEqual(result.returncode, 74, result.stderr)
        lines = told(result.stderr)
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertIn(reason, lines[0])

    def test_full_disk(self):
        self.write(20)
        self.refused_write(self.generate("--output", "/dev/full"), "No space left on device")
        with open("/dev/full", "w", encoding="utf-8") as full:
            self.refused_write(self.generate(stdout=full), "No space left on device")
            self.refused_write(run("generate", "--model", TINY / "hf", "--prompt", "x",
                                   "--max-tokens", 3, stdout=full), "No space left on device")

    def test_closed_pipe_loses_nothing_that_was_read(self):
        self.write(300)  # far more than a pipe of this size holds
        process = subprocess.Popen(
            [PROGRAM, "generate", "--model", str(TINY / "hf"), "--max-num-seqs", "4", "--input",
             str(self.source)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            pipesize=4096)
        lines = [process.stdout.readline() for _ in range(5)]
        process.stdout.close()
        errors = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(timeout=60), 74, errors)
        self.assertIn("Broken pipe", errors.splitlines()[-1])
        self.assertEqual([json.loads(line)["id"] for line in lines], [f"r{i}" for i in range(5)])

    def test_single_prompt_into_a_closed_pipe(self):
        reading, writing = os.pipe()
        os.close(reading)  # before there is anyone to write
        try:
            result = run("generate", "--model", TINY / "hf", "--prompt", "a", "--ignore-eos",
                         stdout=writing)
        finally:
            os.close(writing)
        self.assertEqual(result.returncode, 74, result.stderr)
        self.assertIn("Broken pipe", result.stderr)

    def test_input_that_cannot_be_read(self):
        result = run("generate", "--model", TINY / "hf", "--input", self.path)
        self.assertEqual(result.returncode, 74, result.stderr)
        result = run("generate", "--model", TINY / "hf", "--input", self.path / "none")
        self.assertEqual(result.returncode, 66, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

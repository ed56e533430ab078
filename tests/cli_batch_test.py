#!/usr/bin/env python3
"""`quire generate --input`: many requests from a file.

    cli_batch_test.py PROGRAM SOURCE_DIR
"""

import json
import pathlib
import sys
import tempfile
import unittest

from cli_support import TINY, run


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
        self.assertEqual(records[1]["usage"], {"prompt_tokens": 3, "completion_tokens": 9,
                                               "prompt_tokens_details": {"cached_tokens": 0}})
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

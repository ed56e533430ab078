#!/usr/bin/env python3
"""`serve_load soak` for some seconds against the program with a tiny model: every kind of traffic
comes, and every law holds; and a law that does not hold is told.

    soak_test.py PROGRAM SOURCE_DIR SERVE_LOAD
"""

import http.client
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from cli_support import PROGRAM, TINY

SERVE_LOAD = sys.argv[3]
KINDS = ["streams", "whole_answers", "many_prompts", "embeddings", "aborted", "slow_readers",
         "refused", "batches", "cancelled_batches"]


def soak(*arguments):
    ended = subprocess.run([SERVE_LOAD, "soak", *map(str, arguments)], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, timeout=400)
    return ended.returncode, ended.stdout, ended.stderr


class Soak(unittest.TestCase):
    def test_twelve_seconds_leave_nothing_behind(self):
        code, out, errors = soak("--quire", PROGRAM, "--model", TINY / "hf", "--seconds", 12,
                                 "--max-num-seqs", 16, "--json")
        self.assertEqual(code, 0, out + errors)
        report = json.loads(out)
        self.assertEqual(report["broken"], [])
        self.assertEqual(report["quire_blocks_leaked"], 0)
        self.assertGreater(report["completion_tokens"], 0)
        for kind in KINDS:
            # Seldom ones: a machine that is slow has no time for the rounds in which they come.
            if report["rounds"] >= 4 or kind not in ("slow_readers", "cancelled_batches"):
                self.assertGreater(report[kind], 0, (kind, report))
        if report["rounds"] > 1:  # else the first took all the time
            self.assertRegex(errors, r"soak: \d+ of 12 s: \d+ rounds, \d+ tokens")

    def test_what_is_left_running_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "log")
            with open(log, "wb") as file:
                server = subprocess.Popen(
                    [PROGRAM, "serve", "--model", TINY / "hf", "--port", "0",
                     "--simulate-step-ms", "500", "--batch-database", pathlib.Path(folder, "db")],
                    stderr=file)
            try:
                end = time.monotonic() + 120
                while not (found := re.search(r"on http://127.0.0.1:(\d+)\n", log.read_text())):
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.02)
                port = int(found[1])
                # Someone else's stream, which lasts longer than the soak: 240 steps of half a second.
                stream = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                stream.request("POST", "/v1/completions", json.dumps(
                    {"prompt": "abc", "max_tokens": 240, "ignore_eos": True, "stream": True}),
                    {"Content-Type": "application/json"})
                self.addCleanup(stream.close)
                answer = stream.getresponse()
                self.addCleanup(answer.close)
                answer.readline()
                code, out, errors = soak("--address", f"127.0.0.1:{port}", "--pid", server.pid,
                                         "--clients", 2, "--max-tokens", 2, "--seconds", 0, "--json")
                self.assertEqual(code, 1, out + errors)
                self.assertIn("vllm:num_requests_running is 1, not 0", json.loads(out)["broken"])
            finally:
                server.kill()
                server.wait()

    def test_a_server_that_cannot_start_is_told(self):
        code, _, errors = soak("--quire", PROGRAM, "--model", "/nowhere")
        self.assertEqual(code, 1)
        self.assertIn("the server ended by exit code", errors)
        self.assertIn("/nowhere", errors)
        code, _, errors = soak("--model", TINY / "hf")
        self.assertEqual(code, 1)
        self.assertIn("--quire", errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

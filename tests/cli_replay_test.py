#!/usr/bin/env python3
"""An event log from end to end: `quire serve --event-log`, `quire replay`, `quire explain`.

    cli_replay_test.py PROGRAM SOURCE_DIR
"""

import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import signal
import stat
import struct
import sys
import tempfile
import unittest
import zlib

from cli_support import TINY, run
from serve_support import Server, wait_until

SIZES = ["--max-model-len", 256, "--block-size", 4]
FLAGS = ["--model", TINY / "hf", *SIZES]


def complete(server, **fields):
    reply = server.post("/v1/completions", {"model": "tiny", "prompt": "The quick brown fox", **fields})
    if reply.status != 200:
        raise AssertionError(f"{reply.status}: {reply.body}")
    return reply.json


def go_away(server, **fields):
    """A client that goes away when the first piece of its answer has come."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/completions", json.dumps({"model": "tiny", "stream": True, **fields}),
                           {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            if answer.status != 200 or not answer.readline():
                raise AssertionError(f"no stream, but {answer.status}")


class EventLogTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = pathlib.Path(folder.name, "log")

    def segments(self):
        return sorted(self.log.parent.glob("log.*"))

    def replay(self, *args, returncode=0):
        result = run("replay", *args)
        self.assertEqual(result.returncode, returncode, result.stdout + result.stderr)
        return result

    def serve_some(self, count=40, how=signal.SIGTERM, flags=()):
        """Serves requests, some of whose clients go away; the ids of the answers."""
        server = Server("--event-log", self.log, "--max-num-seqs", 8, "--served-model-name", "tiny",
                        *SIZES, *flags, model=TINY / "hf", simulate=2)
        try:
            def one(number):
                fields = {"max_tokens": 5 + 7 * number % 90, "temperature": 1, "seed": number,
                          "ignore_eos": True,
                          "prompt": f"{number} " + "The quick brown fox " * (1 + number % 3)}
                if number % 10 == 9:
                    return go_away(server, **{**fields, "max_tokens": 150})
                return complete(server, **fields)["id"]

            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                ids = [each for each in pool.map(one, range(count)) if each]
            # The server may have been too late to see them go.
            aborted = 'quire_requests{state="aborted"}'
            while count > 9 and server.metrics()[aborted] == 0:
                go_away(server, max_tokens=200, ignore_eos=True, prompt="again")
                server.await_idle()
            wait_until(lambda: any(each.stat().st_size for each in self.segments()),
                       "the log's thread has written something")
        finally:
            if how == signal.SIGKILL:
                server.kill()
            else:
                server.stop()
        return ids

    def test_serve_replay_explain(self):
        ids = self.serve_some()
        self.assertEqual(len(self.segments()), 1)
        mode = stat.S_IMODE(self.segments()[0].stat().st_mode)
        self.assertEqual(mode, 0o600)
        report = json.loads(self.replay("--json", self.log).stdout)
        self.assertIs(report["identical"], True)
        self.assertGreaterEqual(report["requests"], 40)
        self.assertGreater(report["aborted"], 0)
        self.assertEqual(report["requests"], report["finished"] + report["aborted"])
        self.assertEqual(report["notes"], [])
        text = self.replay(self.segments()[0]).stdout
        self.assertTrue(text.endswith("identical\n"), text)

        story = json.loads(run("explain", ids[-1], "--event-log", self.log, "--json").stdout)
        (output,) = story["outputs"]
        self.assertEqual(output["status"], "finished")
        self.assertEqual(output["finish_reason"], "length")
        self.assertAlmostEqual(sum(span["duration_ms"] for span in output["spans"]),
                               output["total_ms"], places=2)
        self.assertIn("decode", {span["what"] for span in output["spans"]})
        told = run("explain", ids[-1], "--event-log", self.log)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("in all", told.stdout)
        by_number = run("explain", 1, "--event-log", self.log)
        self.assertEqual(by_number.returncode, 0, by_number.stderr)

    def test_a_killed_server_leaves_a_log(self):
        self.serve_some(how=signal.SIGKILL)
        report = json.loads(self.replay("--json", self.log).stdout)
        self.assertIs(report["identical"], True)
        self.assertNotIn("end", report)
        # Another run goes on in the next file.
        self.serve_some(count=3)
        self.assertEqual([each.name for each in self.segments()], ["log.000001", "log.000002"])
        report = json.loads(self.replay("--json", self.log).stdout)
        self.assertIs(report["identical"], True)
        self.assertEqual(report["runs"], 2)

    def test_preemptions(self):
        # Room for 260 tokens.
        self.serve_some(flags=["--kv-cache-memory-bytes", self.bytes_of_tokens(260)])
        report = json.loads(self.replay("--json", self.log).stdout)
        self.assertIs(report["identical"], True)
        self.assertGreater(report["preemptions"], 0)

    def test_a_simulated_pool_has_the_blocks_of_the_type_that_was_asked_for(self):
        room = self.bytes_of_tokens(400)
        blocks = {}
        for dtype in ("bfloat16", "float32", "fp8"):
            with Server(*SIZES, "--kv-cache-memory-bytes", room, "--kv-cache-dtype", dtype,
                        model=TINY / "hf") as server:
                blocks[dtype] = server.metrics()['quire_blocks{state="total"}']
        self.assertEqual(blocks, {"bfloat16": 100, "float32": 50, "fp8": 200})

    @staticmethod
    def bytes_of_tokens(count):
        config = json.loads((TINY / "hf/config.json").read_text())
        head_dim = config.get("head_dim") or (config["hidden_size"]
                                              // config["num_attention_heads"])
        return count * 2 * 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * head_dim

    def test_damage_is_found(self):
        self.serve_some(count=5)
        (segment,) = self.segments()
        whole = segment.read_bytes()
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 1
        segment.write_bytes(damaged)
        result = self.replay(self.log, returncode=64)
        self.assertRegex(result.stderr, r"log\.000001: byte \d+: the frame's .* checksum")
        segment.write_bytes(whole[:-3])
        self.assertIn("cut off", self.replay(self.log).stdout)

    def test_another_schedule_is_shown(self):
        """A log whose records were changed, with checksums that fit."""
        self.serve_some(count=5)
        (segment,) = self.segments()
        whole = segment.read_bytes()
        for content in self.frames(whole)[2:]:  # after the header and the snapshot
            for at in range(content.start + 2, content.stop):
                changed = bytearray(whole)
                changed[at] ^= 1
                header = struct.pack("<BII", whole[content.start - 13], len(content),
                                     zlib.crc32(changed[content.start:content.stop]))
                changed[content.start - 13:content.start] = header + struct.pack(
                    "<I", zlib.crc32(header))
                segment.write_bytes(changed)
                result = run("replay", self.log)
                self.assertIn(result.returncode, (0, 1, 64), result.stderr)
                if result.returncode == 1 and "planned otherwise" in result.stdout:
                    self.assertRegex(result.stdout, r"first difference, in segment 1 at .*: step \d+")
                    self.assertIn("\n  - ", result.stdout)
                    self.assertIn("\n  + ", result.stdout)
                    report = json.loads(self.replay("--json", self.log, returncode=1).stdout)
                    self.assertIs(report["identical"], False)
                    self.assertNotEqual(report["difference"]["recorded"],
                                        report["difference"]["replayed"])
                    return
        self.fail("no change of a record gave another schedule")

    @staticmethod
    def frames(whole):
        """Where the contents of a segment's frames lie."""
        at = 12
        contents = []
        while at < len(whole):
            size, = struct.unpack_from("<I", whole, at + 1)
            contents.append(range(at + 13, at + 13 + size))
            at += 13 + size
        return contents

    def test_generate_records_too(self):
        result = run("generate", *FLAGS, "--prompt", "Once", "--max-tokens", 4, "--event-log",
                     self.log)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(self.replay("--json", self.log).stdout)
        self.assertIs(report["identical"], True)
        self.assertEqual(report["requests"], 1)

    def test_errors(self):
        result = self.replay(self.log, returncode=66)
        self.assertIn("no event log", result.stderr)
        self.log.write_text("something else entirely")
        result = self.replay(self.log, returncode=64)
        self.assertIn("is no event log", result.stderr)
        self.log.unlink()
        self.serve_some(count=1)
        result = run("explain", "cmpl-none", "--event-log", self.log)
        self.assertEqual(result.returncode, 66)
        self.assertIn("no request cmpl-none", result.stderr)
        self.log.write_text("a file, where a folder would have to be")
        result = run("generate", *FLAGS, "--prompt", "x", "--event-log", self.log / "log")
        self.assertEqual(result.returncode, 74)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

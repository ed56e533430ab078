#!/usr/bin/env python3
"""`quire pull` where something goes wrong: the hub, the connection, the disk, what comes, and files so
large that they come in parts.

    cli_pull_trouble_test.py PROGRAM SOURCE_DIR
"""

import fcntl
import json
import random
import resource
import signal
import sys
import time
import unittest

from hub_support import COMMIT, REPO, PullCase, Repository, sha256, tiny_files

MIB = 1 << 20


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


class Trouble(PullCase):
    def test_each_refusal_is_one_clear_error(self):
        self.hub.repositories["o/gated"] = Repository(tiny_files(), gated=True, token="good")
        self.refused(78, "is gated", "o/gated")
        self.refused(78, "is gated", "o/gated", HF_TOKEN="bad")
        self.refused(66, "there is no model o/none", "o/none")
        self.refused(66, "there is no model o/none", "o/none", HF_TOKEN="some")
        self.refused(66, "no revision v9", REPO + "@v9")
        self.pull("o/gated", HF_TOKEN="good")

    def test_names_that_are_none(self):
        for name in ("tiny", "a/b/c", "../x", "tiny/llama@", "tiny/llama:", "ftp://host/x.gguf", "http://h/x.bin",
                     "s3://b", "s3://bucket/", "s3://bucket/../x", "tiny/llama@../x"):
            self.refused(64, "", name)
        self.assertEqual(self.hub.requests, [])

    def test_the_token_goes_to_the_hub_alone(self):
        (self.home.path / "token").write_text("from-a-file\n")
        self.hub.repositories[REPO].token = "from-a-file"
        self.pull(REPO, HF_TOKEN_PATH=str(self.home.path / "token"))
        self.assertTrue(self.hub.asked("store", "GET"))
        for server, _, _, headers in self.hub.requests:
            self.assertEqual(headers.get("Authorization"), "Bearer from-a-file" if server == "hub" else None)
        result = self.pull(REPO, code=78, HF_TOKEN="a\nb")
        self.assertNotIn("a\nb", result.stderr)

    def test_the_token_stays_where_a_hub_redirects_elsewhere(self):
        """Also where the list or a small file is redirected, to another port of the same host."""
        def redirect(handler):
            handler.send(302, b"", {"Location": f"{self.hub.store.url}/x/config.json", "ETag": '"' + "a" * 40 + '"',
                                    "X-Linked-Size": "4"})
        self.hub.rule("hub", "*", "/resolve/", redirect, times=99)
        self.pull(REPO, code=66, HF_TOKEN="secret")
        self.assertTrue(self.hub.asked("store"))
        for _, _, _, headers in self.hub.asked("store"):
            self.assertNotIn("Authorization", headers)
        def elsewhere(handler):
            handler.send(307, b"", {"Location": f"{self.hub.store.url}/api"})
        self.hub.requests.clear()
        self.hub.rule("hub", "*", "/api/", elsewhere, times=99)
        self.pull(REPO, code=69, HF_TOKEN="secret")
        self.assertEqual(self.hub.asked("store"), [])

    def test_a_wrong_hash_leaves_nothing(self):
        good = self.hub.repositories[REPO].files["model.safetensors"]
        self.hub.replaced["model.safetensors"] = bytes(len(good))
        self.refused(74, "another hash", REPO)
        self.assertEqual(list(self.home.repo().glob("blobs/*.incomplete")), [])
        self.assertFalse((self.home.snapshot() / "model.safetensors").exists())
        self.assertFalse((self.home.repo() / "refs/main").exists())
        self.hub.replaced = {"config.json": b" " * len(self.hub.repositories[REPO].files["config.json"])}
        self.home.run("rm", REPO, "--yes")
        self.refused(74, "another hash", REPO)
        self.hub.replaced = {}
        self.pull(REPO)

    def test_a_beginning_that_is_none_of_the_file(self):
        etag = self.hub.repositories[REPO].etag("model.safetensors")
        partial = self.home.repo() / "blobs" / (etag + ".incomplete")
        for content in (b"not the beginning", bytes(50 * MIB)):
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(content)
            self.pull(REPO)
            self.assertEqual(sha256((self.home.repo() / "blobs" / etag).read_bytes()), etag)
            self.home.run("rm", REPO, "--yes")

    def test_a_busy_hub_is_asked_again(self):
        def busy(handler):
            handler.send_error_code(429, headers={"Retry-After": "1"})
        self.hub.rule("hub", "GET", "/api/", busy)
        self.hub.rule("hub", "HEAD", "config.json", lambda handler: handler.send_error_code(503))
        self.hub.rule("store", "GET", "model", lambda handler: handler.send(500))
        begin = time.monotonic()
        result = self.pull(REPO)
        self.assertGreaterEqual(time.monotonic() - begin, 1)  # as long as it asks for
        self.assertIn("answers 429; again in 1 s", result.stderr)

    def test_a_hub_that_stays_busy(self):
        self.hub.rule("hub", "GET", "/api/", lambda handler: handler.send_error_code(503), times=99)
        self.refused(69, "answers 503", REPO)

    def test_an_expired_address_is_asked_for_again(self):
        self.hub.rule("store", "GET", "model", lambda handler: handler.send(403))
        self.pull(REPO)
        self.assertTrue(self.hub.asked("hub", "GET", "model.safetensors"))

    def test_no_network(self):
        self.hub.hub.server_close()
        self.hub.hub.shutdown()
        result = self.refused(69, "does not answer", REPO)
        self.assertIn("HF_HUB_OFFLINE=1", result.stderr)

    def test_offline(self):
        self.refused(66, "HF_HUB_OFFLINE forbids", REPO, HF_HUB_OFFLINE="1")
        self.refused(66, "HF_HUB_OFFLINE forbids", REPO, TRANSFORMERS_OFFLINE="yes")
        self.pull(REPO)
        self.hub.requests.clear()
        self.assertEqual(self.pull(REPO, HF_HUB_OFFLINE="TRUE").stdout, f"{self.home.snapshot()}\n")
        (self.home.snapshot() / "model.safetensors").unlink()
        self.refused(66, "no weights", REPO, HF_HUB_OFFLINE="ON")
        self.assertEqual(self.hub.requests, [])

    def test_a_full_disk_keeps_what_came(self):
        self.hub.repositories["o/big"] = Repository({**tiny_files(), "model.safetensors": noise(30 * MIB)})

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20 * MIB, 20 * MIB))
        result = self.home.run("pull", "o/big", preexec_fn=limit)
        self.assertEqual(result.returncode, 74, result.stderr)
        self.assertIn("make room; the same command goes on", result.stderr)
        partial = next(self.home.repo("o/big").glob("blobs/*.incomplete"))
        self.assertEqual(partial.read_bytes(), noise(30 * MIB)[:20 * MIB])
        self.assertEqual(json.loads(self.pull("o/big", "--json").stdout)["downloaded_bytes"], 10 * MIB)

    def test_no_room_is_said_before_anything_comes(self):
        def huge(handler):
            handler.send(302, b"", {"Location": self.hub.store.url, "X-Linked-Etag": '"' + "a" * 64 + '"',
                                    "X-Linked-Size": str(1 << 60)})
        self.hub.rule("hub", "HEAD", "model.safetensors", huge)
        self.refused(74, "MB are to come", REPO)
        self.assertEqual(self.hub.asked("hub", "GET", "/resolve/"), [])

    def test_a_folder_that_may_not_be_written(self):
        self.refused(74, "cannot make the folder", REPO, HF_HOME="/proc/nowhere")


class Untrusted(PullCase):
    def body(self, body):
        self.hub.rule("hub", "GET", "/api/", lambda handler: handler.send(200, body), times=9)

    def test_names_that_lead_elsewhere(self):
        for name in ("../../evil", "/etc/passwd", "a/../../b", "", "a//b", "x\\y", "a\u001b[31m", "a/./b", "n" * 300):
            self.hub.rules.clear()
            self.body(json.dumps({"sha": COMMIT, "siblings": [{"rfilename": name}]}).encode())
            result = self.refused(65, "which is refused", REPO)
            self.assertNotIn("\x1b", result.stderr)
        self.assertFalse((self.home.path / "evil").exists())

    def test_answers_that_are_none(self):
        for body in (b"", b"[]", b"<html>", b'{"sha": "main"}', b'{"sha": 3}', b"[" * 100000,
                     json.dumps({"sha": COMMIT, "siblings": {}}).encode(),
                     json.dumps({"sha": COMMIT, "siblings": [1]}).encode(),
                     json.dumps({"sha": "../" + COMMIT[3:], "siblings": []}).encode()):
            self.hub.rules.clear()
            self.body(body)
            self.refused(65, "", REPO)

    def test_answers_without_an_end(self):
        self.body(b'{"sha": "' + b"x" * (33 * MIB))
        self.refused(65, "more than 33554432 bytes", REPO)
        self.hub.rules.clear()
        names = [{"rfilename": f"f{i}"} for i in range(100_001)]
        self.body(json.dumps({"sha": COMMIT, "siblings": names}).encode())
        self.refused(65, "more than 100000 files", REPO)

    def test_etags_and_sizes_that_are_none(self):
        for headers in ({"ETag": '"../../x"', "X-Linked-Size": "3"}, {"ETag": '"abc"', "X-Linked-Size": "3"},
                        {"ETag": '"' + "a" * 40 + '"', "X-Linked-Size": "-3"}, {"X-Linked-Size": "3"},
                        {"ETag": '"' + "a" * 40 + '"', "X-Linked-Size": "99999999999999999999999"}):
            self.hub.rules.clear()
            self.hub.rule("hub", "HEAD", "/resolve/", lambda handler: handler.send(200, b"", headers))
            self.refused(65, "", REPO)

    def test_a_redirect_to_a_file_of_this_machine(self):
        for location in ("file:///etc/passwd", "ftp://127.0.0.1/x", ""):
            self.hub.rules.clear()
            self.hub.rule("hub", "HEAD", "/resolve/", lambda handler: handler.send(302, b"", {
                "Location": location, "X-Linked-Etag": '"' + "a" * 64 + '"', "X-Linked-Size": "3"}))
            self.refused(65, "not as safe", REPO)

    def test_an_index_that_names_other_files(self):
        files = tiny_files()
        del files["model.safetensors"]
        index = json.dumps({"weight_map": {"a": "../../../x.safetensors"}}).encode()
        self.hub.repositories[REPO] = Repository({**files, "model.safetensors.index.json": index})
        self.refused(65, "which is no file of the repository", REPO)

    def test_what_a_server_says_cannot_move_the_cursor(self):
        self.hub.rule("hub", "GET", "/api/", lambda handler: handler.send(
            404, b'{"error": "\\u001b[2J\\nquire: all is well"}'))
        self.assertNotIn("\x1b", self.refused(66, "all is well", REPO).stderr)


class LargeFiles(PullCase):
    SIZE = 40 * MIB + 12345

    def setUp(self):
        super().setUp()
        self.content = noise(self.SIZE)
        self.hub.repositories["o/big"] = Repository({**tiny_files(), "model.safetensors": self.content})
        self.etag = sha256(self.content)
        self.blob = self.home.repo("o/big") / "blobs" / self.etag

    def whole(self):
        self.assertEqual(sha256(self.blob.read_bytes()), self.etag)
        self.assertFalse(self.blob.with_name(self.etag + ".incomplete").exists())

    def ranges(self):
        return [each[3].get("Range") for each in self.hub.asked("store", "GET")]

    def test_comes_in_parts_at_once(self):
        self.pull("o/big")
        self.whole()
        self.assertEqual(len(self.ranges()), 6)
        self.assertEqual(len(set(self.ranges())), 6)

    def test_cut_connections_go_on_where_they_ended(self):
        self.hub.cut_after = 3 * MIB
        self.pull("o/big")
        self.whole()
        sent = [int(each.split("-")[0].removeprefix("bytes=")) for each in self.ranges()]
        self.assertIn(3 * MIB, sent)

    def test_a_server_without_ranges(self):
        self.hub.ranges = False
        self.pull("o/big")
        self.whole()

    def test_another_part_than_asked_for(self):
        def wrong(handler):
            handler.send(206, b"x" * 10, {"Content-Range": f"bytes 5-14/{self.SIZE}"})
        self.hub.rule("store", "GET", "model", wrong)
        self.pull("o/big")
        self.whole()

    def test_interrupted_and_resumed(self):
        gate = 0.2

        def slow(handler):
            time.sleep(gate)
        self.hub.rule("store", "GET", "model", slow, times=999)
        self.hub.cut_after = MIB
        process = self.home.start("pull", "o/big")
        partial = self.blob.with_name(self.etag + ".incomplete")
        end = time.monotonic() + 60
        while not (partial.exists() and partial.stat().st_size > 2 * MIB) and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("interrupted; the same command goes on", errors)
        size = partial.stat().st_size
        self.assertEqual(partial.read_bytes(), self.content[:size])
        self.hub.rules.clear()
        self.hub.cut_after = None
        self.hub.requests.clear()
        facts = json.loads(self.pull("o/big", "--json").stdout)
        self.assertEqual(facts["downloaded_bytes"], self.SIZE - size)
        begins = [int(each.split("-")[0].removeprefix("bytes=")) for each in self.ranges()]
        self.assertEqual(min(begins), size)
        self.whole()

    def test_two_at_once_fetch_once(self):
        self.hub.rule("store", "GET", "model", lambda handler: time.sleep(1), times=999)
        first = self.home.start("pull", "o/big", "--json")
        second = self.home.start("pull", "o/big", "--json")
        facts = []
        for process in (first, second):
            output, errors = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, errors)
            facts.append(json.loads(output))
        self.whole()
        self.assertEqual(len(self.ranges()), 6)
        total = sum(len(self.hub.repositories["o/big"].files[name]) for name in facts[0]["files"])
        self.assertEqual(sum(each["downloaded_bytes"] for each in facts), total)

    def test_waits_for_the_lock_of_the_python_package(self):
        lock = self.home.cache / ".locks/models--o--big" / (self.etag + ".lock")
        lock.parent.mkdir(parents=True)
        with open(lock, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            process = self.home.start("pull", "o/big")
            line = process.stderr.readline()
            while "waiting" not in line and line:
                line = process.stderr.readline()
            self.assertIn("waiting for another process that fetches model.safetensors", line)
            self.assertIsNone(process.poll())
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.whole()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])

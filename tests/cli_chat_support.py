"""A terminal to chat in, a folder for conversations, and a server of OpenAI's chat completions that
does as a test says.
"""

import http.server
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import tempfile
import termios
import threading
import time
import unittest

from cli_support import PROGRAM, TINY

MODEL = ["--model", TINY / "hf", "--temperature", 0, "--max-tokens", 6]

# Local servers are not behind a proxy.
ENVIRONMENT = {**os.environ, "no_proxy": "*", "TERM": "xterm"}
ENVIRONMENT.pop("QUIRE_API_KEY", None)


def chat(*args, lines=()):
    """Runs a chat with lines of standard input until it ends."""
    text = "".join(line + "\n" for line in lines)
    return subprocess.run([PROGRAM, "chat", *map(str, args)], input=text, text=True, timeout=240,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)


class Terminal:
    """A command in a pseudo-terminal, its controlling one, so that Ctrl-C is a signal."""

    def __init__(self, *args, command="chat", program=None, columns=80):
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            termios.tcsetwinsize(1, (24, columns))
            if program is not None:
                os.execve(program, [program, *map(str, args)], ENVIRONMENT)
            os.execve(PROGRAM, ["quire", command, *map(str, args)], ENVIRONMENT)
        self.text = b""  # since the last expect()

    def type(self, text):
        os.write(self.descriptor, text.encode())

    def expect(self, wanted, seconds=120):
        """Waits for a text; returns what came up to it. None: waits for the end."""
        end = time.monotonic() + seconds
        while wanted is None or wanted.encode() not in self.text:
            ready, _, _ = select.select([self.descriptor], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"no {wanted!r} within {seconds} s, but {self.text!r}")
            try:
                piece = os.read(self.descriptor, 65536)
            except OSError:  # how Linux says that the other side is closed
                piece = b""
            if not piece:
                if wanted is None:
                    break
                raise AssertionError(f"the end before {wanted!r}, after {self.text!r}")
            self.text += piece
        if wanted is None:
            return self.text.decode()
        before, _, self.text = self.text.partition(wanted.encode())
        return before.decode()

    def end(self):
        """Waits for the program's end: its exit code."""
        self.expect(None)
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self):
        if self.pid != 0:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self.descriptor)


def chunk(content=None, finish_reason=None, **more):
    delta = {} if content is None else {"content": content}
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice], **more}


def event(value):
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


class FakeServer:
    """`answer(handler, body)` answers each chat completion; requests are kept in order."""

    def __init__(self, answer, models=({"id": "fake", "max_model_len": 1000},)):
        self.requests = []
        self.keys = []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                fake.keys.append(self.headers.get("Authorization"))
                if self.path == "/v1/models":
                    self.reply(200, {"object": "list", "data": list(models)})
                else:
                    self.reply(404, {"error": {"message": f"no {self.path}"}})

            def do_POST(self):
                fake.keys.append(self.headers.get("Authorization"))
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.requests.append(body)
                answer(self, body)

            def reply(self, status, body):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def start(self):
                self.close_connection = True
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()

            def stream(self, *values, piece=1 << 20):
                self.start()
                data = b"".join(v if isinstance(v, bytes) else event(v) for v in values)
                for i in range(0, len(data), piece):
                    self.wfile.write(data[i:i + piece])
                    self.wfile.flush()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "conversation.json"

    def messages(self, *args, lines):
        """The conversation after a chat of these lines."""
        result = chat(*args, lines=[*lines, f"/save {self.file}"])
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(self.file.read_text())["messages"]

    def serve(self, *args):
        """Starts a server for the length of the test; its address."""
        return self.serve_until(r"serving .* on (http://\S+)", *args)

    def serve_until(self, pattern, *args):
        """Starts a server for the length of the test; what the pattern finds in its log."""
        process = subprocess.Popen([PROGRAM, "serve", *map(str, args), "--port", "0"],
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=ENVIRONMENT)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.log = ""  # up to what was found
        for line in process.stderr:
            self.log += line
            found = re.search(pattern, line)
            if found:
                threading.Thread(target=process.stderr.read, daemon=True).start()
                return found[1]
        self.fail(f"the end of the server's log before {pattern!r}: {self.log}")

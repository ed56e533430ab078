"""``serve``: an OpenAI-compatible server in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from types import TracebackType
from typing import Any

from quire._program import program
from quire.errors import QuireError, UnavailableError

__all__ = ["Server", "serve"]

_LISTENS = re.compile(r"serving .* on (http\S+)")
_END_S = 40


class Server:
    """A running server. ``url`` is its address; ``close()``, or leaving the context, ends it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._listens = threading.Event()
        self.url = ""
        self._reader = threading.Thread(target=self._read, name="quire-serve", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.append(line.rstrip("\n"))
            del self._lines[:-200]
            found = _LISTENS.search(line)
            if found:
                self.url = found.group(1)
                self._listens.set()
        self._listens.set()

    @property
    def base_url(self) -> str:
        """The base URL for an OpenAI client."""
        return self.url + "/v1"

    @property
    def log(self) -> list[str]:
        """The last lines of its log."""
        return list(self._lines)

    def wait_ready(self, timeout: float) -> None:
        """Waits until it answers. Otherwise ``UnavailableError`` with its last log lines."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self._listens.wait(0.1) and self.url and self._answers():
                return
            if self._process.poll() is not None:
                self._reader.join(timeout=5)
                raise UnavailableError(
                    "the server has ended: " + (self._lines[-1] if self._lines else "without a word")
                )
        raise UnavailableError(f"the server was not ready after {timeout:g} s")

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "/ready", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
            return False

    def close(self) -> None:
        """Ends the server: running requests may finish until the timeout."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=5)
        if self._process.stderr is not None:
            self._process.stderr.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Server({self.url!r})"


def _words(name: str, value: Any) -> list[str]:
    flag = "--" + name.replace("_", "-")
    if value is True:
        return [flag]
    if value is False:
        return ["--no-" + flag[2:]]
    if isinstance(value, (list, tuple)):
        return [flag, *map(str, value)]
    return [flag, json.dumps(value) if isinstance(value, dict) else str(value)]


def serve(model: str = "", *, port: int = 0, timeout: float = 600, **flags: Any) -> Server:
    """Starts ``quire serve`` with its own engine and waits until it answers.

    The server is a separate process, the program in the package, so that it does not compete with this
    interpreter. ``port=0`` chooses a free port; keywords are flags: ``api_key="..."``,
    ``max_num_seqs=8``, ``host="0.0.0.0"``.

        with quire.serve() as server:
            client = openai.OpenAI(base_url=server.base_url, api_key="EMPTY")
    """
    command = [program(), "serve"]
    if model:
        command += ["--model", str(model)]
    command += ["--port", str(port)]
    for name, value in flags.items():
        if value is not None:
            command += _words(name, value)
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, errors="replace"
    )
    server = Server(process)
    try:
        server.wait_ready(timeout)
    except (QuireError, KeyboardInterrupt):
        server.close()
        raise
    return server

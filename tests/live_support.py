"""Requests that run in the background while a test looks at the engine."""

import contextlib
import http.client
import json
import threading

TIMEOUT = 120


class Load:
    """A context manager: so many streams of completions, each asked for again where it ends, until it ends."""

    def __init__(self, server, count, max_tokens=4000, prompt="one two three four five"):
        self.server = server
        self.count = count
        self.body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "stream": True})
        self.sockets = set()
        self.over = False
        self.lock = threading.Lock()
        self.threads = []

    def _run(self):
        gone = (OSError, http.client.HTTPException, ValueError, AttributeError)
        with contextlib.suppress(*gone):
            while self._stream():
                pass

    def _stream(self):
        """Whether there may be another one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=TIMEOUT)
        with contextlib.closing(connection):
            with self.lock:  # the end shuts down every socket that there is or none is made any more
                if self.over:
                    return False
                connection.connect()
                socket = connection.sock  # the connection itself may forget it before its end
                self.sockets.add(socket)
            headers = {"Content-Type": "application/json"}
            if self.server.key is not None:
                headers["Authorization"] = f"Bearer {self.server.key}"
            connection.request("POST", "/v1/completions", self.body, headers)
            with connection.getresponse() as response:
                while response.read1(65536):
                    pass
            with self.lock:
                self.sockets.remove(socket)
            return response.status == 200

    def __enter__(self):
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(self.count)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        with self.lock:
            self.over = True
            for each in self.sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(2)
        for thread in self.threads:
            thread.join(TIMEOUT)


def live_events(server, count=None, hz=10, key=None, until=None):
    """The first events of GET /engine/live: so many, or up to the one of which `until` is true."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT)
    key = key or server.key
    with contextlib.closing(connection):
        connection.request("GET", f"/engine/live?hz={hz}", headers={"Authorization": f"Bearer {key}"} if key else {})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        events = []
        while count is None or len(events) < count:
            line = response.readline()
            assert line, "the stream has ended"
            if line.startswith(b"data: "):
                events.append(json.loads(line[6:]))
                if until is not None and until(events[-1]):
                    break
        return events

"""A server and plain sockets to it, for tests that send bytes as they are."""

import contextlib
import http.client
import json

from serve_support import ServerTest

BODY = b'{"prompt": "Red", "max_tokens": 2, "temperature": 0}'
POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GET = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class HttpTest(ServerTest):
    def setUp(self):
        self.sockets = contextlib.ExitStack()
        self.readers = {}
        self.addCleanup(self.sockets.close)

    def tearDown(self):
        """Whatever was sent: the server goes on, and holds nothing."""
        self.sockets.close()
        reply = self.server.post("/v1/completions", BODY)
        self.assertEqual(reply.json["usage"]["completion_tokens"], 2)
        self.server.await_idle()

    def open(self, data=b""):
        connection = self.sockets.enter_context(self.server.connect())
        self.readers[connection] = self.sockets.enter_context(connection.makefile("rb"))
        self.push(connection, data)
        return connection

    @staticmethod
    def push(connection, data):
        with contextlib.suppress(ConnectionError):  # it may have answered and closed already
            connection.sendall(data)

    def receive(self, connection):
        """The next answer: its status, headers and body."""
        reader = self.readers[connection]
        version, status, _ = reader.readline().split(b" ", 2)
        self.assertEqual(version, b"HTTP/1.1")
        headers = http.client.parse_headers(reader)
        return int(status), headers, reader.read(int(headers.get("Content-Length", 0)))

    def exchange(self, data):
        return self.receive(self.open(data))

    def assert_status(self, data, *statuses):
        status, headers, body = self.exchange(data)
        self.assertIn(status, statuses, (data[:200], body[:300]))
        if status >= 400 and body:
            self.assertIn("message", json.loads(body)["error"])
        return headers

    def assert_closed(self, connection):
        """The server has closed it; what it said before is returned."""
        said = b""
        with contextlib.suppress(ConnectionError):
            while piece := self.readers[connection].read1():
                said += piece
        return said

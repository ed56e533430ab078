"""`quire bench serve` against servers that do not work as they should, a few lines of Python each.

    bench_serve_odd_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import contextlib
import json
import socket
import socketserver
import threading

from bench_support import ReportTest, bench
from serve_support import TIMEOUT, main


class Odd(socketserver.StreamRequestHandler):
    """Answers /v1/models, and everything else by the server's `answer(number, write)`."""

    def handle(self):
        while True:
            line = self.rfile.readline().decode()
            if not line.strip():
                return
            length = 0
            while (header := self.rfile.readline().decode().strip()):
                name, _, value = header.partition(":")
                if name.lower() == "content-length":
                    length = int(value)
            self.rfile.read(length)
            path = line.split()[1]
            try:
                if path == "/v1/models":
                    self.reply(200, {"data": [{"id": "odd"}]})
                elif path == "/tokenize":
                    self.reply(404, {})
                elif self.server.answer(self.server.next_number(), self) == "close":
                    return
            except ConnectionError:
                return

    def reply(self, status, body, kind="application/json"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.wfile.write(b"HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" %
                         (status, kind.encode(), len(body)) + body)

    def events(self, *events):
        self.reply(200, b"".join(b"data: %s\n\n" % each.encode() for each in events),
                   "text/event-stream")


class OddServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Odd)
        self.answer = answer
        self.lock = threading.Lock()
        self.number = -1

    def next_number(self):
        with self.lock:
            self.number += 1
            return self.number

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextlib.contextmanager
def odd_server(answer):
    with OddServer(answer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


TEXT = '{"choices":[{"text":"a","finish_reason":null}]}'
END = '{"choices":[{"text":"","finish_reason":"length"}]}'
USAGE = '{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}'


class OddServers(ReportTest):
    def run_on(self, answer, *flags, code=69, count=6):
        with odd_server(answer) as server:
            return self.report("--base-url", server.url, "--num-prompts", count, "--num-warmups", 0,
                               "--max-concurrency", 2, *flags, code=code)

    def test_each_failure_has_its_cause(self):
        def reset(_, handler):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                b"Transfer-Encoding: chunked\r\n\r\n")
            data = f"data: {TEXT}\n\n".encode()
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            return "close"

        given_up = threading.Event()

        def slow(_, handler):
            given_up.wait(TIMEOUT)
            handler.events(TEXT, END, "[DONE]")

        full = {"error": {"message": "the queue is full", "type": "overloaded"}}
        for answer, kind, says in (
                (lambda _, handler: handler.reply(503, full), "http_status",
                 "HTTP 503: the queue is full"),
                (lambda _, handler: handler.reply(302, b"elsewhere", "text/plain"), "http_status",
                 "HTTP 302: elsewhere"),
                (lambda _, handler: "close", "connection", "closed before the answer"),
                (reset, "broken_stream", "closed in the middle"),
                (slow, "timeout", "4 s"),
                (lambda _, handler: handler.events(TEXT, '{"error":{"message":"lost it"}}',
                                                   "[DONE]"), "server_error", "lost it"),
                (lambda _, handler: handler.events(TEXT), "broken_stream", "finish_reason"),
                (lambda _, handler: handler.events(END, "[DONE]"), "no_text", "without text"),
                (lambda _, handler: handler.reply(200, {"choices": []}), "broken_stream",
                 "no event stream"),
                (lambda _, handler: handler.wfile.write(b"what?\r\n\r\n"), "broken_stream",
                 "no HTTP")):
            with self.subTest(kind=kind, says=says):
                flags, count = (("--timeout", 4), 2) if answer is slow else ((), 6)
                report = self.run_on(answer, *flags, count=count)
                self.assertEqual(report["failed"], count)
                self.assertEqual([each["kind"] for each in report["failures"]], [kind])
                self.assertIn(says, report["failures"][0]["message"])
                self.assertEqual(report["output_throughput"], 0)
        given_up.set()

    def test_some_fail(self):
        def answer(number, handler):
            if number % 3 == 2:
                handler.reply(500, {"error": "oh"})
            else:
                handler.events(TEXT, TEXT, END, USAGE, "[DONE]")
        report = self.run_on(answer)
        self.assertEqual((report["completed"], report["failed"]), (4, 2))
        self.assertEqual(report["total_output_tokens"], 8)
        self.assertEqual(report["total_input_tokens"], 20)
        self.assertEqual(report["counting"]["requests_with_usage"], 4)

    def test_without_usage_pieces_are_counted(self):
        report = self.run_on(lambda _, handler: handler.events(TEXT, TEXT, TEXT, END, "[DONE]"),
                             code=0)
        self.assertEqual(report["total_output_tokens"], 6 * 3)
        self.assertEqual(report["counting"]["requests_with_usage"], 0)
        self.assertEqual(report["total_input_tokens"], 0)  # words: nobody counted their tokens
        self.assertIn("words", report["prompts"])

    def test_the_warm_up_fails_early(self):
        with odd_server(lambda _, handler: handler.reply(503, {"error": "full"})) as server:
            result = bench("--base-url", server.url)
        self.assertEqual(result.returncode, 69)
        self.assertIn("warm-up", result.stderr)
        self.assertIn("HTTP 503: full", result.stderr)

    def test_a_server_that_closes_each_connection(self):
        def answer(_, handler):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                b"Connection: close\r\n\r\n")
            handler.wfile.write(f"data: {TEXT}\n\ndata: {END}\n\ndata: [DONE]\n\n".encode())
            return "close"
        report = self.run_on(answer, code=0)
        self.assertEqual(report["completed"], 6)
        self.assertEqual(report["client"]["connections_opened"], 6)

    def test_a_rested_connection_that_was_closed_is_not_used(self):
        def answer(_, handler):
            # That it closes, though it said nothing of it, comes together with the answer's end.
            handler.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            handler.events(TEXT, END, "[DONE]")
            handler.connection.shutdown(socket.SHUT_WR)
            return "close"
        report = self.run_on(answer, "--max-concurrency", 1, "--request-rate", 20, code=0)
        self.assertEqual(report["completed"], 6)


if __name__ == "__main__":
    main()

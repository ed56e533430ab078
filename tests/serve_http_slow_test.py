"""Clients that are slow, send too much or go away, byte by byte on plain sockets.

    serve_http_slow_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import json
import select
import socket
import threading
import time

from http_support import BODY, GET, POST, HttpTest
from serve_support import TIMEOUT, main, wait_until


class Slow(HttpTest):
    # Short, but not so short that a client that is held up once is taken for one of these.
    flags = ("--header-timeout", 4, "--body-timeout", 4, "--idle-timeout", 4)

    def test_slowloris(self):
        over = threading.Event()

        def drip(connection):
            for byte in GET + b"X-Slow: " + b"a" * 10_000:
                if over.wait(0.05):
                    return
                try:
                    connection.send(bytes([byte]))
                except OSError:
                    return

        connections = [self.open() for _ in range(20)]
        threads = [threading.Thread(target=drip, args=[each]) for each in connections]
        for each in threads:
            each.start()
        self.assertEqual(self.server.get("/v1/models").status, 200)
        for each in connections:
            said = self.assert_closed(each)
            self.assertIn(said[:12], (b"", b"HTTP/1.1 408"))
        over.set()
        for each in threads:
            each.join()

    def test_a_body_without_end(self):
        connection = self.open(POST + b"Content-Length: 1000\r\n\r\n{")
        self.assertEqual(self.receive(connection)[0], 408)
        self.assertEqual(self.assert_closed(connection), b"")

    def test_a_body_that_drips(self):
        """Never silent for long, and still given up: it comes more slowly than --min-body-rate."""
        over = threading.Event()
        connection = self.open(POST + b"Content-Length: 30000000\r\n\r\n")

        def drip():
            while not over.wait(0.05):
                self.push(connection, b" ")

        thread = threading.Thread(target=drip)
        thread.start()
        status, _, body = self.receive(connection)
        over.set()
        thread.join()
        self.assertEqual(status, 408)
        self.assertIn("too slowly", json.loads(body)["error"]["message"])

    def test_connections_that_say_nothing(self):
        silent = self.open()
        used = self.open(GET + b"\r\n")
        self.assertEqual(self.receive(used)[0], 200)
        self.assertEqual(self.assert_closed(used), b"")
        self.assert_closed(silent)


class LongBodies(HttpTest):
    flags = ("--body-deadline", 4)

    def test_a_body_has_an_end(self):
        """However fast it comes: here well above the lowest rate."""
        over = threading.Event()
        connection = self.open(POST + b"Content-Length: 30000000\r\n\r\n")

        def stream():
            while not over.wait(0.05):
                self.push(connection, b" " * 10_000)

        thread = threading.Thread(target=stream)
        thread.start()
        status, _, body = self.receive(connection)
        over.set()
        thread.join()
        self.assertEqual(status, 408)
        self.assertIn("too long", json.loads(body)["error"]["message"])


class ManyBodies(HttpTest):
    flags = ("--max-body-bytes", 3_200_000, "--max-total-body-bytes", 51_200_000, "--body-timeout", 300)

    def test_the_eighteenth_client_is_served(self):
        """Seventeen bodies that are begun and not gone on with fill what there is for all."""
        held = [self.open(POST + b"Content-Length: 3200000\r\n\r\n" + b" " * 3_000_000)
                for _ in range(17)]
        time.sleep(1.5)  # who has not gone on for a second gives way
        body = b" " * 3_000_000 + BODY

        def is_served():
            status = self.exchange(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)[0]
            self.assertIn(status, (200, 503))  # 503: the server has read the others only now
            return status == 200
        wait_until(is_served, "the eighteenth client is served")
        readable, _, _ = select.select(held, [], [], TIMEOUT)
        self.assertLess(len(readable), len(held))  # not all of them had to go
        for each in readable:
            self.assertEqual(self.receive(each)[0], 503)


class Connections(HttpTest):
    def test_an_empty_line_before_a_request(self):
        connection = self.open(b"\r\n" + GET + b"\r\n")
        self.assertEqual(self.receive(connection)[0], 200)
        self.push(connection, b"\r\n\r\n" + GET + b"\r\n")
        self.assertEqual(self.receive(connection)[0], 200)
        self.assert_status(b"\r\n" * 100 + GET + b"\r\n", 400)

    def test_requests_in_a_pipeline(self):
        request = POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
        connection = self.open(request + GET + b"\r\n" + request)
        first, models, second = (self.receive(connection) for _ in range(3))
        self.assertEqual([first[0], models[0], second[0]], [200, 200, 200])
        self.assertEqual(json.loads(models[2])["object"], "list")
        self.assertEqual(json.loads(first[2])["choices"], json.loads(second[2])["choices"])

    def test_a_long_pipeline(self):
        connection = self.open((GET + b"\r\n") * 500)
        self.assertEqual({self.receive(connection)[0] for _ in range(500)}, {200})

    def test_what_follows_a_refused_body_is_no_request(self):
        connection = self.open(POST.replace(b"/v1/completions", b"/v1/none") +
                               b"Content-Length: %d\r\n\r\n" % len(GET) + GET + b"\r\n")
        self.assertEqual(self.receive(connection)[0], 404)
        self.assertNotIn(b"HTTP/1.1 200", self.assert_closed(connection))

    def test_half_open(self):
        """A client that says that it will send no more is taken for gone; nothing of it is kept."""
        body = json.dumps({"prompt": "Red", "max_tokens": 2000}).encode()
        connection = self.open(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        connection.shutdown(socket.SHUT_WR)
        self.server.await_idle()


class GoingAway(HttpTest):
    """Clients that close in every state. Steps are slow, so that each state lasts."""

    flags = ("--max-num-seqs", 2, "--max-num-batched-tokens", 16, "--max-model-len", 8192,
             "--no-enable-prefix-caching")
    simulate = 20

    def request(self, **fields):
        body = json.dumps({"temperature": 0, **fields}).encode()
        return POST + b"Content-Length: %d\r\n\r\n" % len(body) + body

    def go(self, data, reset=False):
        """Opens, sends and closes."""
        connection = self.server.connect()
        if data:
            connection.sendall(data)
        if reset:
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        return connection

    def test_before_the_request_is_complete(self):
        data = self.request(prompt="Red", max_tokens=2)
        for length in (0, 10, len(POST), len(data) - 1):
            for reset in (False, True):
                self.go(data[:length], reset).close()
        self.server.await_idle()

    def test_while_it_decodes(self):
        for stream in (False, True):
            for reset in (False, True):
                data = self.request(prompt="Red", max_tokens=8000, stream=stream, ignore_eos=True)
                connection = self.go(data, reset)
                self.server.await_running()
                connection.close()
                self.server.await_idle()

    def test_in_the_middle_of_its_prompt(self):
        for stream in (False, True):
            connection = self.go(self.request(prompt="word " * 8000, max_tokens=2, stream=stream))
            wait_until(lambda: self.server.metrics()['quire_prompt_tokens{outcome="pending"}'] > 0
                       and self.server.metrics()['quire_requests{state="running"}'] == 1,
                       "its prompt is being computed")
            connection.close()
            self.server.await_idle()
            self.assertGreater(self.server.metrics()['quire_prompt_tokens{outcome="dropped"}'], 0)

    def test_with_more_pipelined_than_is_read_ahead(self):
        connection = self.go(self.request(prompt="Red", max_tokens=8000, ignore_eos=True))
        self.server.await_running()
        self.push(connection, (GET + b"\r\n") * 20_000)
        self.server.await_idle()  # the server has closed it
        connection.close()

    def test_in_the_queue(self):
        running = [self.go(self.request(prompt="Red", max_tokens=8000, ignore_eos=True))
                   for _ in range(2)]
        self.server.await_running(2)
        waiting = [self.go(self.request(prompt="Red", max_tokens=8000)) for _ in range(10)]
        wait_until(lambda: self.server.metrics()['quire_requests{state="waiting"}'] == 10, "10 wait")
        for each in waiting:
            each.close()
        wait_until(lambda: self.server.metrics()['quire_requests{state="waiting"}'] == 0, "none waits")
        self.assertEqual(self.server.metrics()['quire_requests{state="running"}'], 2)
        for each in running:
            each.close()
        self.server.await_idle()


if __name__ == "__main__":
    main()

"""How the server starts, ends, and what it keeps while clients come and go.

    serve_lifecycle_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from cli_support import PROGRAM, SMOLLM2
from serve_support import TIMEOUT, Server, ServerTest, free_port, main, need_model, wait_until

COMPLETIONS = "/v1/completions"


def raw_request(**fields):
    body = json.dumps({"temperature": 0, **fields}).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


class Ending(unittest.TestCase):
    def setUp(self):
        # Servers inherit what a test that runs under nohup ignores.
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.addCleanup(signal.signal, signal.SIGHUP, before)

    def test_sigterm_under_load(self):
        """/ready turns first, what runs is answered in full, new requests are not taken."""
        server = Server("--max-num-seqs", 4, simulate=20)
        with ThreadPoolExecutor(4) as threads:
            running = [threads.submit(server.post, COMPLETIONS,
                                      {"prompt": f"{i}", "max_tokens": 500, "ignore_eos": True,
                                       "stream": i % 2 == 0}) for i in range(4)]
            server.await_running(4)

            def is_ready(connection):
                with contextlib.suppress(ConnectionError):
                    connection.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    return connection.recv(65536)
                return b""

            # Connections from before the signal: the listener may close at any time after it, and
            # with it those that were not taken yet.
            with server.connect() as ready, server.connect() as spare, server.connect() as late:
                for each in (ready, spare, late):
                    self.assertTrue(is_ready(each).startswith(b"HTTP/1.1 200"))
                server.terminate()
                while (said := is_ready(ready)).startswith(b"HTTP/1.1 200"):
                    pass
                # An answer that was ready before the signal may be its connection's last nevertheless.
                said = said or is_ready(spare)
                self.assertTrue(said.startswith(b"HTTP/1.1 503"), said)
                late.sendall(raw_request(prompt="late", max_tokens=1))
                self.assertTrue(late.recv(65536).startswith(b"HTTP/1.1 503"))
                self.assertFalse(any(each.done() for each in running))
            answers = [each.result() for each in running]
        for i, answer in enumerate(answers):
            self.assertEqual(answer.status, 200)
            if i % 2 == 0:
                self.assertEqual(answer.events[-1]["choices"][0]["finish_reason"], "length")
            else:
                self.assertEqual(answer.json["usage"]["completion_tokens"], 500)
        self.assertEqual(server.wait(), 0)
        server.stop()

    def test_the_grace_ends(self):
        server = Server("--shutdown-timeout", 0.2, simulate=100)
        with server.connect() as connection:
            connection.sendall(raw_request(prompt="a", max_tokens=8000, ignore_eos=True))
            server.await_running()
            server.terminate()
            self.assertEqual(server.wait(), 0)
            self.assertIn("1 requests were cut off", server.log())
        server.stop()

    def test_a_second_signal_ends_at_once(self):
        server = Server("--shutdown-timeout", 3600, simulate=100)
        with server.connect() as connection:
            connection.sendall(raw_request(prompt="a", max_tokens=8000, ignore_eos=True))
            server.await_running()
            server.terminate()
            wait_until(lambda: "shutting down" in server.log(), "it drains")
            self.assertIsNone(server.process.poll())
            server.terminate()
            self.assertEqual(server.wait(), 130)
        server.kill()


    def test_a_hang_up_drains(self):
        """SIGHUP is a first signal like SIGTERM; a terminal sends it twice, so it is no second one."""
        server = Server(simulate=20)
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(server.post, COMPLETIONS,
                                     {"prompt": "a", "max_tokens": 300, "ignore_eos": True})
            server.await_running()
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "shutting down" in server.log(), "it drains")
            server.process.send_signal(signal.SIGHUP)
            self.assertEqual(running.result().json["usage"]["completion_tokens"], 300)
        self.assertEqual(server.wait(), 0)
        server.stop()

    def test_a_hang_up_that_was_ignored_at_the_start(self):
        with Server(nohup=True) as server:
            server.process.send_signal(signal.SIGHUP)
            # Signals of one number come in order: had this one counted, the next would be a second.
            self.assertEqual(server.post(COMPLETIONS, {"prompt": "a"}).status, 200)
            self.assertEqual(server.get("/ready").status, 200)
            self.assertNotIn("shutting down", server.log())
        # It has ended by SIGTERM with 0.


class Starting(unittest.TestCase):
    def start(self, *flags):
        need_model()
        result = subprocess.run([PROGRAM, "serve", "--model", str(SMOLLM2), *map(str, flags)],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=TIMEOUT)
        return result.returncode, result.stdout

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            code, output = self.start("--port", port)
        self.assertEqual(code, 69, output)
        self.assertIn(str(port), output)
        self.assertIn("use", output)

    def test_a_model_that_is_not_there(self):
        code, output = self.start("--port", 0, "/no/such/model")
        self.assertNotEqual(code, 0)
        code = subprocess.run([PROGRAM, "serve", "--model", "/no/such/model", "--port", "0"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=TIMEOUT).returncode
        self.assertEqual(code, 66)

    def test_a_price_that_is_none(self):
        for price, said in (("-1", "expected 0 to"), ("h1000", 'no device "h1000" is known'), ("1.5x", "1.5x"),
                            ("rtx5090", "no price")):
            code, output = self.start("--port", 0, f"--price-per-hour={price}")
            self.assertEqual(code, 64, output)
            self.assertIn("--price-per-hour", output)
            self.assertIn(said, output)

    def test_two_servers_on_one_batch_database(self):
        with tempfile.TemporaryDirectory() as folder:
            database = pathlib.Path(folder, "batches.sqlite3")
            with Server("--batch-database", database):
                code, output = self.start("--port", 0, "--simulate-step-ms", 0, "--batch-database",
                                          database)
                self.assertEqual(code, 69, output)
                self.assertIn("batches.sqlite3", output)
            with Server("--batch-database", database):
                pass  # the first has let it go

    def test_two_servers_of_one_user_keep_their_batches(self):
        with tempfile.TemporaryDirectory() as folder:
            def serve(port):
                return Server(command=[PROGRAM, "serve", SMOLLM2, "--port", port, "--simulate-step-ms", 0],
                              state=folder)

            def uploads(server):
                return [each["id"] for each in server.get("/v1/files").json["data"]]

            def upload(server):
                form = (b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\n'
                        b'Content-Disposition: form-data; name="file"; filename="a"\r\n\r\n{}\n\r\n--b--\r\n')
                reply = server.request("POST", "/v1/files", form,
                                       {"Content-Type": "multipart/form-data; boundary=b"})
                self.assertEqual(reply.status, 200, reply.body)
                return reply.json["id"]

            ports = [free_port(), free_port()]
            with serve(ports[0]) as first, serve(ports[1]) as second:
                files = [upload(first), upload(second)]
                self.assertEqual([uploads(first), uploads(second)], [[files[0]], [files[1]]])
            with serve(ports[1]) as second:  # in another order
                self.assertEqual(uploads(second), [files[1]])
            for port in ports:
                self.assertTrue(pathlib.Path(folder, "quire", f"batches-{port}.sqlite3").exists())

    def test_a_server_without_batches_says_how_to_have_them(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [PROGRAM, "serve", SMOLLM2, "--port", 0, "--simulate-step-ms", 0]
            with Server(command=command, state=folder) as first, Server(command=command, state=folder) as second:
                self.assertEqual(first.get("/v1/files").status, 200)
                self.assertEqual(second.get("/v1/files").status, 404)
                self.assertIn("--batch-database FILE gives it another one", second.log())

    def test_an_open_door_is_warned_of(self):
        with Server("--host", "0.0.0.0") as server:
            self.assertIn("there is no API key", server.log())
            self.assertRegex(server.log(), r"open http://(?!0\.0\.0\.0)[\d.]+:\d+/ in a browser")  # as others see it
            self.assertEqual(server.get("/v1/models").status, 200)


class Health(ServerTest):
    flags = ("--max-model-len", 8192, "--max-num-batched-tokens", 16, "--no-enable-prefix-caching",
             "--heartbeat-timeout", 4)
    simulate = 40

    def test_a_long_prompt_never_looks_dead(self):
        """8,000 tokens, 16 a step, 40 ms each: five times the heartbeat's time."""
        with self.server.connect() as connection:
            connection.sendall(raw_request(prompt=[1] * 8000, max_tokens=1))
            self.server.await_running()
            answers = []
            end = time.monotonic() + 6
            while time.monotonic() < end:
                answers.append(self.server.get("/health").status)
            self.assertEqual(set(answers), {200})
            self.assertEqual(self.server.metrics()['quire_requests{state="running"}'], 1)
        self.server.await_idle()

    def test_abort_in_anothers_prompt_changes_nothing(self):
        body = {"prompt": "The other one", "max_tokens": 30, "temperature": 1, "seed": 3}
        alone = self.server.post(COMPLETIONS, body).json["choices"][0]["text"]
        with ThreadPoolExecutor(1) as threads:
            with self.server.connect() as long:
                long.sendall(raw_request(prompt=[1] * 8000, max_tokens=1))
                self.server.await_running(1)
                other = threads.submit(self.server.post, COMPLETIONS, body)
                wait_until(lambda: self.server.get("/load").json["server_load"] == 2 or other.done(),
                           "both are there")
            self.assertEqual(other.result().json["choices"][0]["text"], alone)
        self.server.await_idle()


class Storms(ServerTest):
    flags = ("--max-num-seqs", 32, "--max-model-len", 1024)
    simulate = 2

    def test_300_clients_that_go_away(self):
        body = {"prompt": "Meanwhile", "max_tokens": 20, "temperature": 1, "seed": 9}
        alone = self.server.post(COMPLETIONS, body).json["choices"][0]["text"]
        descriptors = pathlib.Path(f"/proc/{self.server.process.pid}/fd")
        self.server.await_idle()
        before = len(list(descriptors.iterdir()))

        def leave(number):
            with self.server.connect() as connection:
                data = raw_request(prompt=f"{number} " * (number % 50 + 1), max_tokens=900,
                                   stream=number % 2 == 0, ignore_eos=True)
                connection.sendall(data[:len(data) - number % 3])
                if number % 5:
                    connection.settimeout(0.01 * (number % 5))
                    try:
                        connection.recv(4096)
                    except TimeoutError:
                        pass

        with ThreadPoolExecutor(30) as threads:
            other = threads.submit(self.server.post, COMPLETIONS, body)
            list(threads.map(leave, range(300)))
            self.assertEqual(other.result().json["choices"][0]["text"], alone)
        self.server.await_idle()
        metrics = self.server.metrics()
        self.assertGreater(metrics["quire_http_disconnects_total"], 50)
        self.assertEqual(metrics['quire_requests{state="added"}'],
                         metrics['quire_requests{state="finished"}'] +
                         metrics['quire_requests{state="aborted"}'])
        self.assertEqual(metrics['quire_prompt_tokens{outcome="pending"}'], 0)
        wait_until(lambda: len(list(descriptors.iterdir())) <= before + 2, "all connections are closed")


class FullQueue(ServerTest):
    flags = ("--max-num-seqs", 1, "--max-queued-requests", 2)
    simulate = 20

    def test_429_with_a_time_to_come_back(self):
        body = raw_request(prompt="a", max_tokens=8000, ignore_eos=True)
        connections = [self.server.connect() for _ in range(3)]
        try:
            connections[0].sendall(body)
            self.server.await_running()  # else all three might wait at once, one too many
            for each in connections[1:]:
                each.sendall(body)
            wait_until(lambda: self.server.get("/load").json == {
                "server_load": 3, "num_requests_running": 1, "num_requests_waiting": 2},
                "one runs and two wait")
            reply = self.server.post(COMPLETIONS, {"prompt": "a"})
            self.assert_error(reply, 429)
            self.assertEqual(
                self.server.metrics()['quire_requests_rejected_total{cause="queue_full"}'], 1)
            self.assertGreaterEqual(int(reply.headers["Retry-After"]), 1)
        finally:
            for each in connections:
                each.close()
        self.server.await_idle()


if __name__ == "__main__":
    main()

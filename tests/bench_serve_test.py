"""`quire bench serve` against servers that work and servers that do not.

    bench_serve_test.py PROGRAM SOURCE_DIR [TEST...]

Servers that work are `quire serve`, simulated; the others are a few lines of Python each.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import socketserver
import subprocess
import tempfile
import threading
import unittest

from cli_support import PROGRAM
from serve_support import (TIMEOUT, Server, ServerTest, free_port, main, refusing_port, self_signed,
                           wait_until)

COUNTS = ("completed", "failed", "unfinished", "not_sent")
PERCENTILES = ["mean", "p50", "p90", "p95", "p99"]


def command(*flags):
    return [str(each) for each in (PROGRAM, "bench", "serve", *flags)]


def bench(*flags, env=None):
    return subprocess.run(command(*flags), capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, **(env or {})})


class ReportTest(unittest.TestCase):
    def report(self, *flags, code=0, env=None):
        """The --json report of a run; every request has to be in it once."""
        result = bench("--json", *flags, env=env)
        self.assertEqual(result.returncode, code, result.stderr)
        report = json.loads(result.stdout)
        for level in report["levels"]:
            self.assertEqual(sum(level[each] for each in COUNTS), level["num_prompts"], level)
            self.assertEqual(sum(each["count"] for each in level["failures"]), level["failed"])
        return report


class AgainstQuire(ServerTest, ReportTest):
    simulate = 5

    def run_on(self, *flags, **options):
        return self.report("--base-url", self.server.url, *flags, **options)

    def test_counts_are_those_of_the_server(self):
        before = self.server.metrics()
        report = self.run_on("--num-prompts", 30, "--max-concurrency", 6, "--input-len", 17,
                             "--output-len", 9, "--ignore-eos", "--num-warmups", 0)
        after = self.server.metrics()
        added = {name: after[name] - before[name]
                 for name in ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")}
        self.assertEqual(report["completed"], 30)
        self.assertEqual(report["total_input_tokens"], 30 * 17)
        self.assertEqual(report["total_output_tokens"], 30 * 9)
        self.assertEqual(list(added.values()), [30 * 17, 30 * 9])
        self.assertEqual(report["counting"]["requests_with_usage"], 30)
        self.assertLessEqual(report["counting"]["text_events"], 30 * 9)
        self.assertLessEqual(report["peak_concurrency"], 6)
        self.assertLessEqual(report["client"]["connections_opened"], 6)
        self.assertAlmostEqual(report["output_throughput"],
                               report["total_output_tokens"] / report["duration"])
        for name in ("ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"):
            self.assertEqual(list(report[name]), PERCENTILES)
            self.assertGreater(report[name]["p99"], 0, name)
            self.assertLessEqual(report[name]["p50"], report[name]["p99"])
        # A step takes at least 5 ms, and nine tokens take nine steps; of a stream that is read late
        # several tokens come at once.
        self.assertGreaterEqual(report["tpot_ms"]["p90"], 4.5)
        self.assertGreaterEqual(report["e2el_ms"]["p50"], 8 * 4.5)

    def test_the_same_seed_sends_the_same_prompts(self):
        """The second run finds the first one's prompts in the server's cache."""
        flags = ("--num-prompts", 4, "--input-len", 100, "--output-len", 2, "--num-warmups", 0,
                 "--max-concurrency", 1)
        self.run_on(*flags, "--seed", 77)
        self.assertGreater(self.run_on(*flags, "--seed", 77)["cached_input_tokens"], 300)
        # Of other prompts a first token or two, by chance.
        self.assertLess(self.run_on(*flags, "--seed", 78)["cached_input_tokens"], 40)

    def test_a_sweep_and_its_page(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "report.html")
            report = self.run_on("--num-prompts", 20, "--request-rate", "50,100,inf", "--input-len",
                                 8, "--output-len", 4, "--html", page, "--goodput", "ttft:100000",
                                 "tpot:100000")
            html = page.read_text()
        self.assertEqual([each["request_rate"] for each in report["levels"]], [50, 100, "inf"])
        for level in report["levels"]:
            self.assertEqual(level["completed"], 20)
            self.assertEqual(level["goodput"]["good_requests"], 20)
            # Other prompts at each level.
            self.assertLess(level["cached_input_tokens"], level["total_input_tokens"] / 2)
        self.assertIn("Time to first token against throughput", html)
        self.assertIn("100 requests/s", html)
        self.assertNotIn("<script", html)
        # When, with what, where and how.
        self.assertRegex(html, r"<p>\d{4}-\d\d-\d\d \d\d:\d\d UTC; quire [\d.]+; the client on .+, \d+ CPUs, \d+ GiB\.")
        self.assertRegex(html, r"<pre>quire bench serve [^<]*--request-rate 50,100,inf [^<]*--input-len 8 ")
        # Times with their units, numbers that fit into the margins.
        self.assertRegex(html, r"<td>time to first token(<td>[\d.]+ m?s){5}</tr>")
        ticks = re.findall(r'<text text-anchor="(?:end|middle)" x="[\d.]+" y="[\d.]+">([\d.]+[kMG]?)</text>', html)
        self.assertGreater(len(ticks), 30)
        self.assertLessEqual(max(map(len, ticks)), 6, ticks)

    def test_the_html_keeps_the_key_to_itself(self):
        with tempfile.TemporaryDirectory() as folder, Server(key="se'same", simulate=1) as server:
            page = pathlib.Path(folder, "report.html")
            flags = ("--base-url", server.url, "--num-prompts", 2, "--input-len", 8, "--output-len", 2,
                     "--html", page)
            for key in (("--api-key", "se'same"), ("--api-key=se'same",)):
                result = bench(*flags, *key)
                self.assertEqual(result.returncode, 0, result.stderr)
                html = page.read_text()
                self.assertNotIn("same", html)
                self.assertIn("--api-key", html)

    def test_chat_with_shared_prefixes(self):
        report = self.run_on("--backend", "openai-chat", "--dataset-name", "prefix", "--num-prompts",
                             12, "--prefix-len", 64, "--suffix-len", 8, "--num-prefixes", 2,
                             "--output-len", 4, "--max-concurrency", 1)
        self.assertEqual(report["endpoint"], "/v1/chat/completions")
        self.assertEqual(report["completed"], 12)
        self.assertGreater(report["total_input_tokens"], 12 * 72)
        self.assertGreater(report["cached_input_tokens"], 9 * 48)

    def test_a_trace_says_when(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder, "trace.jsonl")
            lines = [{"timestamp": 5000 + 150 * i, "input_length": 10 + i, "output_length": 3}
                     for i in range(5)]
            trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
            report = self.run_on("--dataset-name", "trace", "--dataset-path", trace,
                                 "--timestamp-unit", "ms", "--ignore-eos")
        self.assertEqual(report["completed"], 5)
        self.assertIsNone(report["request_rate"])
        self.assertEqual(report["total_input_tokens"], sum(10 + i for i in range(5)))
        self.assertEqual(report["total_output_tokens"], 15)
        self.assertGreaterEqual(report["duration"], 0.6)

    def test_waiting_for_a_slot_counts(self):
        """Forty arrive within moments and run one by one: the last one has waited for them all."""
        report = self.run_on("--num-prompts", 40, "--request-rate", 4000, "--max-concurrency", 1,
                             "--input-len", 8, "--output-len", 4, "--ignore-eos")
        self.assertEqual(report["peak_concurrency"], 1)
        # Four steps of 5 ms each, at least, for each of those before.
        self.assertGreater(report["ttft_ms"]["p99"], 0.9 * 39 * 20)
        self.assertGreater(report["ttft_ms"]["p50"], 0.9 * 19 * 20)

    def test_jsonl(self):
        with tempfile.TemporaryDirectory() as folder:
            prompts = pathlib.Path(folder, "prompts.jsonl")
            prompts.write_text('{"prompt": "Once", "max_tokens": 3}\n{"prompt": [1, 2, 3, 4]}\n')
            report = self.run_on("--dataset-name", "jsonl", "--dataset-path", prompts,
                                 "--num-prompts", 4, "--output-len", 5, "--ignore-eos")
            self.assertEqual(report["total_output_tokens"], 2 * (3 + 5))
            prompts.write_text('{"prompt": "Once"}\n{"promt": "upon"}\n')
            result = bench("--base-url", self.server.url, "--dataset-name", "jsonl",
                           "--dataset-path", prompts)
        self.assertEqual(result.returncode, 64)
        self.assertIn("line 2", result.stderr)

    def test_text_report(self):
        result = bench("--base-url", self.server.url, "--num-prompts", 5, "--input-len", 8,
                       "--output-len", 4)
        self.assertEqual(result.returncode, 0, result.stderr)
        for word in ("5 of 5 completed", "output tokens/s", "TTFT", "p95", "server's usage"):
            self.assertIn(word, result.stdout)
        self.assertIn("5/5 requests", result.stderr)  # progress, as a plain line

    def test_an_interrupt_reports_what_there_is(self):
        process = subprocess.Popen(
            command("--base-url", self.server.url, "--num-prompts", 20_000, "--request-rate", 100,
                    "--input-len", 8, "--output-len", 40, "--ignore-eos", "--json"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        finished = 'quire_requests{state="finished"}'
        before = self.server.metrics()[finished]
        wait_until(lambda: self.server.metrics()[finished] > before + 50, "some requests are done")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130, errors)
        report = json.loads(output)
        self.assertTrue(report["interrupted"])
        self.assertEqual(sum(report[each] for each in COUNTS), 20_000)
        for each in ("completed", "not_sent"):
            self.assertGreater(report[each], 0, each)
        self.assertEqual(report["failed"], 0)
        self.server.await_idle()


class Refusals(ReportTest):
    def fails(self, code, *flags, says):
        result = bench(*flags)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertIn(says, result.stderr)

    def test_no_server(self):
        with refusing_port() as port:
            self.fails(69, "--base-url", f"http://127.0.0.1:{port}", says="Connection refused")
        self.fails(69, "--base-url", "http://no-such-host.invalid", says="no-such-host.invalid")

    def test_flags(self):
        for flags, says in (
                (["--base-url", "127.0.0.1:8000"], "http://"),
                (["--request-rat", "4"], "did you mean --request-rate"),
                (["--request-rate", "0"], "above 0"),
                (["--request-rate", "nan"], "above 0"),
                (["--request-rate", "x"], "--request-rate"),
                (["--request-rate", "1,2", "--max-concurrency", "1,2"], "sweep over one"),
                (["--max-concurrency", "0"], "--max-concurrency"),
                (["--burstiness", "0.5"], "--request-rate"),
                (["--goodput", "ttf:5"], "ttft:500"),
                (["--dataset-name", "sharegpt"], "--dataset-name"),
                (["--dataset-name", "jsonl"], "needs --dataset-path"),
                (["--dataset-path", "x"], "--dataset-path"),
                (["--dataset-name", "trace", "--dataset-path", "x", "--request-rate", "2"],
                 "the trace says"),
                (["--extra-body", "[]"], "JSON object"),
                (["--extra-body", "{"], "--extra-body"),
                (["--endpoint", "/v1/embeddings"], "--endpoint"),
                (["--timeout", "0"], "--timeout"),
                (["--num-prompts", "0"], "--num-prompts")):
            with self.subTest(flags=flags):
                self.fails(64, *flags, says=says)
        self.fails(66, "--dataset-name", "jsonl", "--dataset-path", "/nowhere/x", says="/nowhere/x")
        self.fails(74, "--html", "/nowhere/x.html", says="/nowhere/x.html")


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


class Ends(ReportTest):
    def test_the_server_dies(self):
        # Nobody else gets the port when it has died.
        server = Server("--port", free_port(), simulate=20)
        process = subprocess.Popen(
            command("--base-url", server.url, "--num-prompts", 300, "--request-rate", 40,
                    "--input-len", 8, "--output-len", 20, "--ignore-eos", "--json"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: server.metrics()['quire_requests{state="finished"}'] > 10,
                   "some requests are done")
        server.kill()
        output, errors = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 69, errors)
        report = json.loads(output)
        self.assertEqual(report["completed"] + report["failed"], 300)
        self.assertGreater(report["completed"], 0)
        self.assertGreater(report["failed"], 0)
        kinds = {each["kind"] for each in report["failures"]}
        self.assertLessEqual(kinds, {"connection", "broken_stream"})
        self.assertIn("Connection refused", output)
        self.assertIn(f"{report['failed']} of 300 requests failed", errors)

    def test_api_key(self):
        with Server(key="sesame") as server:
            flags = ("--base-url", server.url, "--num-prompts", 3, "--input-len", 8,
                     "--output-len", 2)
            result = bench(*flags)
            self.assertEqual(result.returncode, 69)
            self.assertIn("HTTP 401", result.stderr)
            report = self.report(*flags, "--api-key", "sesame")
            self.assertEqual(report["completed"], 3)
            self.assertNotIn("sesame", json.dumps(report))
            self.report(*flags, env={"QUIRE_API_KEY": "sesame"})

    def test_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = self_signed(folder)
            with Server("--ssl-certfile", certificate, "--ssl-keyfile", key) as server:
                flags = ("--num-prompts", 10, "--max-concurrency", 2, "--input-len", 8,
                         "--output-len", 3, "--ignore-eos")
                url = ("--base-url", f"https://localhost:{server.port}")
                result = bench(*url, *flags)
                self.assertEqual(result.returncode, 69)
                self.assertIn("certificate", result.stderr)
                trusted = {"SSL_CERT_FILE": str(certificate)}
                report = self.report(*url, *flags, env=trusted)
                self.assertEqual(report["total_output_tokens"], 30)
                self.assertEqual(report["client"]["connections_opened"], 2)
                other_name = ("--base-url", f"https://127.0.0.1:{server.port}")
                self.assertEqual(bench(*other_name, *flags, env=trusted).returncode, 69)
                self.report(*other_name, *flags, "--insecure")

    def test_a_server_that_says_nothing(self):
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
            process = subprocess.Popen(
                command("--base-url", f"http://127.0.0.1:{listener.getsockname()[1]}"),
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail.example.org\r\n\r\n")
                errors = process.communicate(timeout=TIMEOUT)[1]
        self.assertEqual(process.returncode, 69)
        self.assertIn("is it an HTTP server?", errors)


if __name__ == "__main__":
    main()

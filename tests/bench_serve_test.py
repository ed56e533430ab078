"""`quire bench serve` against `quire serve`, simulated, and its refusals.

    bench_serve_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import contextlib
import json
import pathlib
import re
import signal
import socket
import subprocess
import tempfile

from bench_support import COUNTS, PERCENTILES, ReportTest, bench, command
from serve_support import TIMEOUT, Server, ServerTest, free_port, main, refusing_port, self_signed, wait_until


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

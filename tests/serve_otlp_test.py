#!/usr/bin/env python3
"""Traces of `quire serve`, as a collector of OTLP/HTTP gets them.

    serve_otlp_test.py PROGRAM SOURCE_DIR
"""

import concurrent.futures
import contextlib
import json
import os
import re
import socket
import subprocess
import time
import unittest

from opentelemetry.proto.trace.v1 import trace_pb2

from otlp_support import (PARENT, PARENT_ID, TRACE_ID, Collector, attributes_of, completion,
                          trace_id_of, traced_server)
from serve_support import PROGRAM, SMOLLM2, TIMEOUT, main, refusing_port, wait_until


class TracesTest(unittest.TestCase):
    """One collector and one server, which makes up its tokens at 5 ms a step."""

    @classmethod
    def setUpClass(cls):
        cls.collector = Collector()
        cls.addClassCleanup(cls.collector.close)
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.server = stack.enter_context(traced_server(
            cls.collector.url, simulate=5,
            environment={"OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=a%20b",
                         "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
                         "OTEL_SERVICE_NAME": "my quire"}))

    def chat(self, headers=None, **fields):
        body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8,
                "ignore_eos": True, **fields}
        return self.server.post("/v1/chat/completions", body, headers)

    def test_a_request_continues_its_callers_trace(self):
        before = time.time_ns()
        reply = self.chat({**PARENT, "tracestate": "vendor=1"})
        self.assertEqual(reply.status, 200)
        spans = self.collector.await_trace(TRACE_ID, 5)
        after = time.time_ns()  # a client may have the answer before the server's span ends
        server, phases = spans[0], spans[1:]
        self.assertEqual(server.kind, trace_pb2.Span.SPAN_KIND_SERVER)
        self.assertEqual(server.parent_span_id.hex(), PARENT_ID)
        self.assertEqual(server.trace_state, "vendor=1")
        self.assertEqual(reply.headers["traceresponse"], f"00-{TRACE_ID}-{server.span_id.hex()}-01")
        self.assertEqual([span.name for span in phases], ["prepare", "queue", "prefill", "decode"])
        for span in phases:
            self.assertEqual(span.parent_span_id, server.span_id)
            self.assertEqual(span.kind, trace_pb2.Span.SPAN_KIND_INTERNAL)
        self.assertEqual(len({span.span_id for span in spans}), 5)
        self.assertGreaterEqual(server.start_time_unix_nano, before)
        self.assertLessEqual(server.end_time_unix_nano, after)

        # The phases follow each other without a gap, and are all of the request but its answering.
        end = server.start_time_unix_nano
        for span in phases:
            self.assertEqual(span.start_time_unix_nano, end)
            end = span.end_time_unix_nano
        self.assertLessEqual(end, server.end_time_unix_nano)
        decode = phases[3]
        self.assertGreater(decode.end_time_unix_nano - decode.start_time_unix_nano, 7 * 5_000_000)

    def test_attributes_follow_the_conventions(self):
        reply = self.chat(temperature=0.25, top_p=0.5, top_k=9, seed=7, stop=["@@@"], n=2,
                          presence_penalty=0.5, frequency_penalty=0.75, stream=True,
                          stream_options={"include_usage": True})
        usage = reply.events[-1]["usage"]
        server = self.collector.await_trace(trace_id_of(reply), 5)[0]
        values = attributes_of(server)
        model = reply.events[0]["model"]
        self.assertEqual(server.name, f"chat {model}")
        expected = {"gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": "quire",
                    "gen_ai.request.model": model,
                    "gen_ai.response.model": model,
                    "gen_ai.response.id": reply.events[0]["id"],
                    "gen_ai.request.max_tokens": 8,
                    "gen_ai.request.temperature": 0.25,
                    "gen_ai.request.top_p": 0.5,
                    "gen_ai.request.top_k": 9.0,
                    "gen_ai.request.seed": 7,
                    "gen_ai.request.presence_penalty": 0.5,
                    "gen_ai.request.frequency_penalty": 0.75,
                    "gen_ai.request.stop_sequences": ["@@@"],
                    "gen_ai.request.choice.count": 2,
                    "gen_ai.request.stream": True,
                    "gen_ai.response.finish_reasons": ["length", "length"],
                    "gen_ai.usage.input_tokens": usage["prompt_tokens"],
                    "gen_ai.usage.output_tokens": usage["completion_tokens"],
                    "http.request.method": "POST",
                    "http.route": "/v1/chat/completions",
                    "url.path": "/v1/chat/completions",
                    "url.scheme": "http",
                    "http.response.status_code": 200,
                    "server.address": "127.0.0.1",
                    "server.port": self.server.port}
        self.assertEqual({key: values.get(key) for key in expected}, expected)
        self.assertEqual(usage["completion_tokens"], 16)
        latency = {key.rpartition(".")[2]: value for key, value in values.items()
                   if key.startswith("gen_ai.latency.")}
        self.assertAlmostEqual(latency["time_in_queue"] + latency["time_in_model_prefill"],
                               latency["time_to_first_token"], 6)
        self.assertAlmostEqual(latency["time_to_first_token"] + latency["time_in_model_decode"],
                               latency["e2e"], 6)
        self.assertAlmostEqual(latency["time_in_queue"] + latency["time_in_model_inference"],
                               latency["e2e"], 6)
        self.assertEqual(set(latency), {"time_in_queue", "time_to_first_token", "e2e",
                                        "time_in_model_prefill", "time_in_model_decode",
                                        "time_in_model_inference"})

    def test_the_resource_says_who_it_is(self):
        self.collector.await_trace(trace_id_of(self.chat()), 5)
        resource = attributes_of(self.collector.requests[0].resource_spans[0].resource)
        self.assertEqual(resource["service.name"], "my quire")
        self.assertEqual(resource["deployment.environment.name"], "test")
        self.assertIn("service.version", resource)
        self.assertIn("service.instance.id", resource)
        scope = self.collector.requests[0].resource_spans[0].scope_spans[0].scope
        self.assertEqual(scope.name, "quire")
        path, headers = self.collector.posts[0]
        self.assertEqual(path, "/v1/traces")
        self.assertEqual(headers["Content-Type"], "application/json")
        self.assertEqual(headers["x-tenant"], "a b")

    def test_every_kind_of_request(self):
        for path, body, name, count in (
                ("/v1/completions", completion(), "text_completion ", 5),
                ("/v1/responses", {"input": "Hi", "max_output_tokens": 3}, "chat ", 5),
                ("/v1/embeddings", {"input": "Hi"}, "embeddings ", 4)):
            with self.subTest(path):
                reply = self.server.post(path, body)
                self.assertEqual(reply.status, 200, reply.body[:300])
                spans = self.collector.await_trace(trace_id_of(reply), count)
                self.assertEqual(len(spans), count)
                self.assertTrue(spans[0].name.startswith(name), spans[0].name)
                self.assertEqual(attributes_of(spans[0])["http.route"], path)

    def test_errors(self):
        parent = "22222222222222222222222222222222"
        reply = self.server.post("/v1/completions", completion(temperature=-1),
                                 {"traceparent": f"00-{parent}-{PARENT_ID}-01"})
        self.assertEqual(reply.status, 400)
        self.assertIn(parent, reply.headers["traceresponse"])
        span = self.collector.await_trace(parent, 1)[0]
        self.assertEqual(span.name, "text_completion")
        self.assertEqual(attributes_of(span)["error.type"], "400")
        self.assertEqual(span.status.code, trace_pb2.Status.STATUS_CODE_UNSET)

    def test_a_client_that_goes_away(self):
        with self.server.connect() as client:
            body = json.dumps(completion(max_tokens=8000, stream=True))
            parent = "0af7651916cd43dd8448eb211c80319c"
            client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                           f"traceparent: 00-{parent}-{PARENT_ID}-01\r\n"
                           f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                           f"{body}".encode())
            self.assertIn(b"traceresponse", client.recv(2000))
        server = self.collector.await_trace(parent, 3)[0]
        self.assertIs(attributes_of(server)["quire.client_disconnected"], True)
        self.assertEqual(attributes_of(server)["gen_ai.response.finish_reasons"], ["abort"])
        self.server.await_idle()

    def test_what_is_not_sampled_is_not_sent(self):
        other = "11111111111111111111111111111111"
        reply = self.chat({"traceparent": f"00-{other}-{PARENT_ID}-00"})
        self.assertRegex(reply.headers["traceresponse"], f"^00-{other}-[0-9a-f]{{16}}-00$")
        self.collector.await_trace(trace_id_of(self.chat()), 5)
        self.assertEqual(self.collector.trace(other), [])

    def test_no_content_of_a_request_leaves_the_server(self):
        reply = self.chat(messages=[{"role": "user", "content": "my secret is 12345"}])
        text = reply.json["choices"][0]["message"]["content"]
        for span in self.collector.await_trace(trace_id_of(reply), 5):
            self.assertNotIn("secret", str(span))
            self.assertNotIn(text, str(span))

    def test_the_lines_of_a_batch_are_traced(self):
        line = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": completion()}
        boundary = "quire"
        form = (f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
                f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"'
                f'\r\n\r\n{json.dumps(line)}\r\n--{boundary}--\r\n')
        upload = self.server.post("/v1/files", form, {
            "Content-Type": f"multipart/form-data; boundary={boundary}"})
        self.assertEqual(upload.status, 200, upload.body[:300])
        batch = self.server.post("/v1/batches", {
            "input_file_id": upload.json["id"], "endpoint": "/v1/completions",
            "completion_window": "24h"}).json

        def state():
            return self.server.get(f"/v1/batches/{batch['id']}").json
        wait_until(lambda: state()["status"] == "completed", "the batch is done")
        output = self.server.get(f"/v1/files/{state()['output_file_id']}/content").json
        answer = output["response"]["body"]["id"]
        wait_until(lambda: any(attributes_of(span).get("gen_ai.response.id") == answer
                               for span in self.collector.spans()), "the line's span comes")


class SettingsTest(unittest.TestCase):
    def test_without_an_endpoint_there_is_nothing(self):
        with traced_server(None) as server:
            reply = server.post("/v1/completions", completion(), PARENT)
            self.assertNotIn("traceresponse", reply.headers)
            self.assertNotIn("quire_otlp", server.get("/metrics").body.decode())

    def test_the_environment_alone_turns_it_on(self):
        with Collector() as collector:
            with traced_server(None, environment={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
                                                  "OTEL_TRACES_SAMPLER": "always_on"}) as server:
                reply = server.post("/v1/completions", completion(), {
                    "traceparent": f"00-{TRACE_ID}-{PARENT_ID}-00"})
                self.assertEqual(len(collector.await_trace(trace_id_of(reply), 5)), 5)

    def test_a_wait_names_its_cause(self):
        # Until the engine first looks at a request nothing has made it wait; where its thread is held
        # up just then that may be long, but not every time.
        with Collector() as collector:
            with traced_server(collector.url, "--max-num-seqs", 1, simulate=5) as server:
                self.assertTrue(any(self.share_of_the_wait(server, collector) > 0.9 for _ in range(5)))

    def share_of_the_wait(self, server, collector):
        """Of the time that a request is queued behind another, the part whose cause is told."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            first = pool.submit(server.post, "/v1/completions", completion(max_tokens=1000))
            server.await_running()
            second = server.post("/v1/completions", completion())
            blocker = first.result().json["id"]
        spans = collector.await_trace(trace_id_of(second), 5)
        queue = [span for span in spans if span.name == "queue"][0]
        waits = [attributes_of(event) for event in queue.events]
        self.assertEqual({event.name for event in queue.events}, {"wait"})
        self.assertIn("max_num_seqs", [wait["quire.wait.cause"] for wait in waits])
        self.assertIn([blocker], [wait.get("quire.wait.for") for wait in waits])
        lasted = (queue.end_time_unix_nano - queue.start_time_unix_nano) / 1e9
        self.assertGreater(lasted, 0.1)
        waited = sum(wait["quire.wait.seconds"] for wait in waits)
        self.assertLessEqual(waited, lasted)
        return waited / lasted

    def test_a_full_queue_is_told(self):
        with Collector() as collector:
            flags = ("--max-num-seqs", 1, "--max-queued-requests", 1)
            with traced_server(collector.url, *flags, simulate=5) as server:
                with concurrent.futures.ThreadPoolExecutor() as pool:
                    body = completion()
                    running = pool.submit(server.post, "/v1/completions", completion(max_tokens=1500))
                    server.await_running()
                    waiting = pool.submit(server.post, "/v1/completions", body)
                    wait_until(lambda: server.metrics()['quire_requests{state="waiting"}'] == 1,
                               "a request waits")
                    refused = server.post("/v1/completions", body)
                    self.assertEqual(refused.status, 429)
                    for each in (running, waiting):
                        self.assertEqual(each.result().status, 200)
                spans = collector.await_trace(trace_id_of(refused), 2)
                self.assertEqual([span.name for span in spans[1:]], ["prepare"])
                values = attributes_of(spans[0])
                self.assertEqual(values["error.type"], "429")
                self.assertIn("gen_ai.request.model", values)
                self.assertNotIn("gen_ai.usage.input_tokens", values)

    def test_a_share_of_the_traces(self):
        with Collector() as collector:
            sampler = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
                       "OTEL_TRACES_SAMPLER_ARG": "0.5"}
            with traced_server(collector.url, environment=sampler) as server:
                replies = [server.post("/v1/completions", completion()) for _ in range(60)]
                flags = [reply.headers["traceresponse"].split("-")[3] for reply in replies]
                self.assertEqual(set(flags), {"02", "03"})
                sampled = {trace_id_of(reply) for reply, flag in zip(replies, flags) if flag == "03"}
                for each in sampled:  # at its end the server does not wait for long
                    collector.await_trace(each, 5)
            self.assertEqual({span.trace_id.hex() for span in collector.spans()}, sampled)

    def test_what_is_not_supported_is_refused_at_the_start(self):
        def refusal(*flags, **environment):
            command = [PROGRAM, "serve", "--model", SMOLLM2, "--simulate-step-ms", "1", "--port",
                       "0", *flags]
            result = subprocess.run([str(each) for each in command], capture_output=True, text=True,
                                    env={**os.environ, **environment}, timeout=TIMEOUT)
            self.assertEqual(result.returncode, 64, result.stderr)
            return result.stderr
        self.assertIn("gRPC", refusal("--otlp-traces-endpoint", "grpc://localhost:4317"))
        self.assertIn("OTEL_EXPORTER_OTLP_PROTOCOL", refusal(
            "--otlp-traces-endpoint", "http://localhost:4318", OTEL_EXPORTER_OTLP_PROTOCOL="grpc"))
        self.assertIn("OTEL_TRACES_SAMPLER", refusal(
            "--otlp-traces-endpoint", "http://localhost:4318", OTEL_TRACES_SAMPLER="xray"))


class TroubleTest(unittest.TestCase):
    def answer_all(self, server, count, workers=16):
        def one(_):
            return server.post("/v1/completions", completion()).status
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            self.assertEqual(set(pool.map(one, range(count))), {200})

    def dropped(self, server):
        return {reason: server.metrics()[f'quire_otlp_spans_dropped_total{{reason="{reason}"}}']
                for reason in ("queue_full", "rejected", "unreachable")}

    def test_thousands_of_requests_to_a_dead_collector(self):
        with contextlib.ExitStack() as stack:
            dead = f"http://127.0.0.1:{stack.enter_context(refusing_port())}/v1/traces"
            server = stack.enter_context(
                traced_server(dead, environment={"OTEL_BSP_MAX_QUEUE_SIZE": "100"}))
            self.answer_all(server, 2000)
            server.await_idle()
            dropped = self.dropped(server)
            # A batch that could not be sent for a minute makes room for the next one.
            self.assertGreater(dropped["queue_full"], 2000 * 5 / 2)
            self.assertGreaterEqual(dropped["queue_full"] + dropped["unreachable"],
                                    2000 * 5 - 100 - 512)
            self.assertEqual(server.metrics()["quire_otlp_spans_exported_total"], 0)
            warnings = re.findall(r"traces cannot be sent to", server.log())
            self.assertEqual(len(warnings), 1, "one line, not one for each attempt")

    def test_a_collector_that_never_answers(self):
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            with traced_server(url) as server:
                self.answer_all(server, 100)
                server.await_idle()
                begin = time.monotonic()
                server.terminate()
                self.assertEqual(server.wait(), 0)
                # Flushing has 5 seconds, and not the minute for which a batch is tried else.
                self.assertLess(time.monotonic() - begin, 40)

    def test_a_collector_that_is_busy_gets_everything_later(self):
        with Collector() as collector:
            collector.answers = [503, 429, 504]
            with traced_server(collector.url) as server:
                reply = server.post("/v1/completions", completion())
                self.assertEqual(len(collector.await_trace(trace_id_of(reply), 5)), 5)
                wait_until(lambda: server.metrics()["quire_otlp_spans_exported_total"] == 5,
                           "the spans count as delivered")
                self.assertEqual(set(self.dropped(server).values()), {0})
                self.assertIn("again", server.log())
            self.assertEqual(len(collector.posts), 4)

    def test_a_collector_that_refuses(self):
        with Collector() as collector:
            collector.answers = [400]
            with traced_server(collector.url) as server:
                server.post("/v1/completions", completion())
                wait_until(lambda: self.dropped(server)["rejected"] == 5, "the spans are dropped")
                self.assertIn("HTTP status 400", server.log())
            self.assertEqual(len(collector.posts), 1)

    def test_the_last_spans_are_sent_at_the_end(self):
        with Collector(delay=0.2) as collector:
            with traced_server(collector.url,
                               environment={"OTEL_BSP_SCHEDULE_DELAY": "3600000"}) as server:
                replies = [server.post("/v1/completions", completion()) for _ in range(20)]
                self.assertEqual(collector.spans(), [])
            for reply in replies:
                self.assertEqual(len(collector.trace(trace_id_of(reply))), 5)

    def test_no_span_is_lost_or_doubled(self):
        with Collector() as collector:
            with traced_server(collector.url) as server:
                self.answer_all(server, 300)
                wait_until(lambda: server.metrics()["quire_otlp_spans_exported_total"] == 1500,
                           "all spans are delivered")
            spans = collector.spans()
            self.assertEqual(len(spans), 1500)
            self.assertEqual(len({span.span_id for span in spans}), 1500)
            self.assertEqual(len({span.trace_id for span in spans}), 300)


if __name__ == "__main__":
    main()

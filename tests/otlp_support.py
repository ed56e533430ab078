"""A collector of OTLP/HTTP, and servers that send their traces to it.

The collector reads what it is sent into the published Protobuf messages (PyPI's opentelemetry-proto),
so that the encoding is checked by another implementation than the one that wrote it.
"""

import base64
import contextlib
import http.server
import json
import os
import threading
import time
from unittest import mock

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from serve_support import Server, wait_until

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT_ID = "00f067aa0ba902b7"
PARENT = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01"}


def read_request(body):
    """The JSON of an export request as the Protobuf message; ids are hexadecimal in OTLP."""
    request = json.loads(body)
    for resource in request["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for key in ("traceId", "spanId", "parentSpanId"):
                    if key in span:
                        span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    return json_format.ParseDict(request, trace_service_pb2.ExportTraceServiceRequest())


def value_of(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(each) for each in value.array_value.values]
    return getattr(value, kind)


def attributes_of(message):
    values = {each.key: value_of(each.value) for each in message.attributes}
    assert len(values) == len(message.attributes), "a key stands there twice"
    return values


class Collector:
    """Takes traces on a port. `answers` are the statuses of the next posts, 200 when it is empty."""

    def __init__(self, port=0, delay=0):
        self.answers = []
        self.delay = delay
        self.requests = []  # Protobuf messages that were answered with 200
        self.posts = []  # (path, headers) of all
        self.errors = []
        self.lock = threading.Lock()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(self, body)

            def log_message(self, *_):
                pass

        class HttpServer(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # the server went away while it was answered

        self.http = HttpServer(("127.0.0.1", port), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        self.thread.start()

    def take(self, handler, body):
        time.sleep(self.delay)
        with self.lock:
            self.posts.append((handler.path, handler.headers))
            status = self.answers.pop(0) if self.answers else 200
            if status == 200:
                try:
                    self.requests.append(read_request(body))
                except Exception as error:  # shown by the test
                    self.errors.append(f"{error}: {body[:500]}")
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def spans(self):
        with self.lock:
            if self.errors:
                raise AssertionError(self.errors[0])
            return [span for request in self.requests for resource in request.resource_spans
                    for scope in resource.scope_spans for span in scope.spans]

    def trace(self, trace_id):
        return [span for span in self.spans() if span.trace_id.hex() == trace_id]

    def await_trace(self, trace_id, count):
        """All spans of a trace, the server's first, once there are `count`."""
        def complete():  # an export may end in the middle of a trace
            spans = sorted(self.trace(trace_id), key=lambda span: span.kind != span.SPAN_KIND_SERVER)
            return spans if len(spans) >= count and spans[0].kind == spans[0].SPAN_KIND_SERVER else None
        return wait_until(complete, f"{count} spans of {trace_id} come")

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@contextlib.contextmanager
def traced_server(url, *flags, environment=(), **options):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    variables |= {"OTEL_BSP_SCHEDULE_DELAY": "20", **dict(environment)}
    with mock.patch.dict(os.environ, variables, clear=True):
        if url is not None:
            flags = ("--otlp-traces-endpoint", url, *flags)
        server = Server(*flags, **options)
    with server:
        yield server


def trace_id_of(reply):
    return reply.headers["traceresponse"].split("-")[1]


def completion(**fields):
    return {"prompt": "Hello", "max_tokens": 4, "ignore_eos": True, **fields}

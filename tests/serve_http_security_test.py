"""What hostile clients send, byte by byte on plain sockets.

    serve_http_security_test.py PROGRAM SOURCE_DIR [TEST...]
"""

from http_support import BODY, GET, POST, HttpTest, chunk
from serve_support import main


class Chunks(HttpTest):
    flags = ("--max-body-bytes", 4_000_000)

    def chunked(self, *pieces):
        return POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(pieces)

    def test_megabytes_of_tiny_chunks(self):  # CVE-2025-23310
        for size in (1, 6):
            spaces = chunk(b" " * size) * (3_000_000 // size)
            self.assert_status(self.chunked(spaces, chunk(BODY), b"0\r\n\r\n"), 200)

    def test_a_body_without_bound(self):  # CVE-2025-46728
        piece = chunk(b" " * 65536)
        self.assert_status(self.chunked(*[piece] * 100), 413)

    def test_sizes_that_are_not_hexadecimal(self):  # CVE-2025-46728
        for size in (b"-2", b"+5", b"0x5", b"5g", b"", b" 5", b"5 5", b"fffffffffffffffff",
                     b"ffffffffffffffff", b"-0", b"5\n", b"\x00"):
            with self.subTest(size):
                self.assert_status(self.chunked(size, b"\r\nhello\r\n0\r\n\r\n"), 400, 413)

    def test_data_longer_or_shorter_than_its_size(self):
        for piece in (b"3\r\nhello\r\n", b"9\r\nhello\r\n0\r\n\r\n"):
            with self.subTest(piece):
                self.assert_status(self.chunked(piece, b"0\r\n\r\n"), 400)

    def test_endless_extensions_and_trailers(self):
        self.assert_status(self.chunked(b"5;" + b"a" * 100_000), 400, 413)
        self.assert_status(self.chunked(b"0\r\n", b"A: b\r\n" * 100_000), 400, 413, 431)

    def test_chunked_and_length_at_once(self):
        self.assert_status(POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                           400)

    def test_another_coding(self):
        for coding in (b"gzip", b"gzip, chunked", b"chunked, gzip", b"xchunked", b"identity"):
            with self.subTest(coding):
                self.assert_status(POST + b"Transfer-Encoding: " + coding + b"\r\n\r\n0\r\n\r\n",
                                   400, 501)

    def test_control_characters_in_an_extension(self):
        for byte in (b"\x00", b"\x01", b"\x1b", b"\x7f"):
            with self.subTest(byte):
                piece = b"%x;a%s\r\n%s\r\n" % (len(BODY), byte, BODY)
                self.assert_status(self.chunked(piece, b"0\r\n\r\n"), 400)
        self.assert_status(self.chunked(b"%x;a=b\r\n%s\r\n" % (len(BODY), BODY), b"0\r\n\r\n"), 200)

    def test_coded_content(self):
        head = POST + b"Content-Length: %d\r\n" % len(BODY)
        headers = self.assert_status(head + b"Content-Encoding: gzip\r\n\r\n" + BODY, 415)
        self.assertEqual(headers["Accept-Encoding"], "identity")
        self.assert_status(head + b"Content-Encoding: identity\r\n\r\n" + BODY, 200)

    def test_a_declared_body_that_is_too_large(self):  # CVE-2025-33201
        for length in (4_000_001, 2**40, 2**63, 2**64 - 1):
            self.assert_status(POST + b"Content-Length: %d\r\n\r\n" % length, 413, 400)

    def test_lengths_that_are_none(self):
        for length in (b"-1", b"+5", b"5x", b"0x5", b"1e3", b"", b"5, 6", b"99999999999999999999999"):
            with self.subTest(length):
                self.assert_status(POST + b"Content-Length: " + length + b"\r\n\r\n", 400, 413)
        self.assert_status(POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400)


class Headers(HttpTest):
    def test_an_enormous_header(self):  # CVE-2025-48956
        self.assert_status(GET + b"X-Large: " + b"a" * 1_000_000 + b"\r\n\r\n", 431)
        self.assert_status(b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                           414, 431)

    def test_a_hundred_headers_and_one_more(self):
        lines = [b"X-%d: a\r\n" % i for i in range(100)]
        self.assert_status(GET + b"".join(lines[:99]) + b"\r\n", 200)
        self.assert_status(GET + b"".join(lines) + b"\r\n", 431)

    def test_request_ids_that_would_inject(self):  # CVE-2023-26130
        for value in (b"a b", b"a%0d%0aX-Evil: 1", b"<script>", b"a" * 129, b"\xff", b"a;b", b""):
            with self.subTest(value):
                headers = self.assert_status(GET + b"X-Request-Id: " + value + b"\r\n\r\n", 200, 400)
                self.assertNotEqual(headers["X-Request-Id"], value.decode("latin-1"))
                self.assertIsNone(headers["X-Evil"])
        for value in (b"a\rX-Evil: 1", b"a\nX-Evil: 1", b"a\x00b"):
            with self.subTest(value):
                headers = self.assert_status(GET + b"X-Request-Id: " + value + b"\r\n\r\n", 200, 400)
                self.assertIsNone(headers["X-Evil"])
        headers = self.assert_status(GET + b"X-Request-Id: my-id.1\r\n\r\n", 200)
        self.assertEqual(headers["X-Request-Id"], "my-id.1")
        refused = self.server.post("/v1/completions", {"prompt": "a", "request_id": "a\r\nX-Evil: 1"})
        self.assert_error(refused, 400, "request_id")
        ignored = self.server.post("/v1/completions", {"prompt": "a", "x\r\nX-Evil: 1": 1})
        self.assertIsNone(ignored.headers["X-Evil"])

    def test_what_is_not_http(self):
        for data in (b"hello\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100,
                     b"GET / HTTP/1.1\r\nNo colon\r\n\r\n", b"GET / HTTP/1.1\r\n: empty\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                     b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 500 + b"\r\n\r\n"):
            with self.subTest(data[:40]):
                self.assert_status(data, 400, 403, 505)

    def test_paths_that_climb(self):  # CVE-2024-37032
        for path in (b"/../../etc/passwd", b"/v1/models/../../etc/passwd", b"/v1/models/%2e%2e%2fetc",
                     b"/v1/responses/..%2f..%2fetc%2fpasswd", b"//etc/passwd", b"/v1/models/%00",
                     b"/%ff", b"/%zz", b"/v1/files/../batches"):
            with self.subTest(path):
                self.assert_status(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, 404)


class Access(HttpTest):
    def test_names_of_other_hosts(self):  # CVE-2024-28224
        for host in (b"evil.example", b"localhost.evil.example", b"127.0.0.1.evil.example", b"",
                     b"evil.example:80", b"[::2]", b"8.8.8.8", b"localhost@evil.example"):
            with self.subTest(host):
                self.assert_status(b"GET /v1/models HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", 400, 403)
        self.assert_status(b"GET /v1/models HTTP/1.1\r\n\r\n", 400, 403)
        for host in (b"localhost", b"127.0.0.1:8000", b"[::1]:80", b"LOCALHOST"):
            self.assert_status(b"GET /v1/models HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", 200)

    def test_pages_of_other_origins(self):  # CVE-2024-3135
        for origin in (b"http://evil.example", b"null", b"https://localhost.evil.example",
                       b"http://localhost.evil.example:1", b"file://", b"http://10.0.0.1"):
            with self.subTest(origin):
                headers = self.assert_status(
                    POST + b"Origin: " + origin + b"\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY,
                    403)
                self.assertIsNone(headers["Access-Control-Allow-Origin"])
        self.assert_status(GET + b"Origin: http://localhost\r\n\r\n", 200)

    def test_pages_of_this_machine_may_call(self):
        for origin in (b"http://localhost:3000", b"https://127.0.0.1:1", b"http://[::1]:5173"):
            headers = self.assert_status(GET + b"Origin: " + origin + b"\r\n\r\n", 200)
            self.assertEqual(headers["Access-Control-Allow-Origin"], origin.decode())
        preflight = (b"OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                     b"Origin: http://localhost:3000\r\n"
                     b"Access-Control-Request-Headers: authorization,x-stainless-os\r\n\r\n")
        headers = self.assert_status(preflight, 204)
        self.assertEqual(headers["Access-Control-Allow-Headers"], "authorization,x-stainless-os")

    def test_bodies_that_any_page_can_send(self):
        for kind in (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data",
                     b"application/jsonp", b"application", b""):
            with self.subTest(kind):
                head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                if kind:
                    head += b"Content-Type: " + kind + b"\r\n"
                self.assert_status(head + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY, 415)
        head = POST.replace(b"application/json", b"Application/JSON; charset=utf-8")
        self.assert_status(head + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY, 200)


    def test_more_than_one_host_or_origin(self):
        for line in (b"Host: localhost\r\n", b"Host: evil.example\r\n",
                     b"Origin: http://localhost\r\nOrigin: http://localhost\r\n",
                     b"Origin: http://localhost\r\nOrigin: http://evil.example\r\n"):
            with self.subTest(line):
                self.assert_status(GET + line + b"\r\n", 400)

    def test_hosts_and_origins_that_are_malformed(self):
        for host in (b"localhost:80@evil.com", b"localhost@evil.com", b"localhost:port", b"[::1"):
            with self.subTest(host):
                self.assert_status(b"GET /v1/models HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", 400)
                self.assert_status(GET + b"Origin: http://" + host + b"\r\n\r\n", 400)
        self.assert_status(b"GET /v1/models HTTP/1.1\r\n\r\n", 400)

    def test_whole_urls_as_targets(self):
        """The host of the target goes before the field, and has to be one that is served, too."""
        def get(url, host):
            return b"GET " + url + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
        self.assert_status(get(b"http://localhost:8000/v1/models", b"localhost"), 200)
        self.assert_status(get(b"http://127.0.0.1/v1/models?a=b", b"evil.example"), 200)
        self.assert_status(get(b"http://evil.example/v1/models", b"localhost"), 403)
        self.assert_status(get(b"http://localhost:80@evil.com/v1/models", b"localhost"), 400)


class AllowedOrigins(HttpTest):
    flags = ("--allowed-origins", "https://page.example", "--allowed-hosts", "server.example")

    def test_the_page_that_is_named(self):
        headers = self.assert_status(GET + b"Origin: https://page.example\r\n\r\n", 200)
        self.assertEqual(headers["Access-Control-Allow-Origin"], "https://page.example")
        headers = self.assert_status(
            b"OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://page.example\r\n"
            b"Access-Control-Request-Method: POST\r\n\r\n", 204)
        self.assertIn("POST", headers["Access-Control-Allow-Methods"])
        self.assert_status(GET + b"Origin: https://other.example\r\n\r\n", 403)
        self.assert_status(b"GET /v1/models HTTP/1.1\r\nHost: server.example\r\n\r\n", 200)


class Keys(HttpTest):
    key = "sk-right"

    ROUTES = ("/v1/models", "/v1/models/x", "/v1/completions", "/v1/chat/completions",
              "/v1/embeddings", "/v1/responses", "/v1/responses/x", "/v1/responses/x/input_items",
              "/v1/responses/x/cancel", "/tokenize", "/detokenize", "/metrics", "/load", "/v1/files",
              "/v1/files/x", "/v1/files/x/content", "/v1/batches", "/v1/batches/x",
              "/v1/batches/x/cancel", "/v1/prefixes", "/v1/prefixes/x")
    OPEN = ("/health", "/ready", "/version")

    def test_no_route_is_open_by_mistake(self):  # CVE-2026-24207
        guarded = set()
        for path in self.ROUTES:
            for method in ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE"):
                reply = self.server.request(method, path, headers={"Authorization": ""})
                self.assertIn(reply.status, (401, 404, 405), (method, path, reply.body[:200]))
                if reply.status == 401:
                    guarded.add(path)
        self.assertEqual(guarded, set(self.ROUTES))
        for path in self.OPEN:
            self.assertEqual(self.server.get(path, {"Authorization": ""}).status, 200)

    def test_keys_that_are_nearly_right(self):  # CVE-2025-59425
        for value in ("Bearer", "Bearer ", "Bearer sk-righ", "Bearer sk-rightx", "Bearer SK-RIGHT",
                      "Basic sk-right", "sk-right", "Bearer  sk-right", "Bearer sk-right sk-right",
                      "Bearer EMPTY", "Bearer \xe9", "Bearer " + "a" * 10_000):
            with self.subTest(value[:40]):
                reply = self.server.get("/v1/models", {"Authorization": value})
                self.assert_error(reply, 401)
                self.assertNotIn(b"sk-right", reply.body)
        self.assertEqual(self.server.get("/v1/models").status, 200)
        self.assertNotIn("sk-right", self.server.log())


if __name__ == "__main__":
    main()

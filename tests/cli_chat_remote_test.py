#!/usr/bin/env python3
"""`quire chat` against a server: one that does as the test says, and this program's own.

    cli_chat_remote_test.py PROGRAM SOURCE_DIR
"""

import json
import sys
import threading
import unittest
import urllib.request

from cli_chat_support import (ENVIRONMENT, MODEL, FakeServer, Terminal, WithFolder, chat, chunk,
                              event)
from cli_support import TINY, run


def counted(handler, body):
    """Answers with the number of messages that were sent."""
    handler.stream(chunk(""), chunk(f"{len(body['messages'])} "), chunk("messages"),
                   chunk(None, "stop"),
                   {"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 2}},
                   "[DONE]")


class Remote(WithFolder):
    def test_questions_go_to_the_server(self):
        with FakeServer(counted) as server:
            messages = self.messages("--base-url", server.url, "--temperature", 0.5, "--top-k", 3,
                                     "--max-tokens", 9, "--seed", 7, "--system", "S",
                                     "--api-key", "secret", lines=["a", "b", "/regenerate"])
        self.assertEqual([m["content"] for m in messages],
                         ["S", "a", "2 messages", "b", "4 messages"])
        first, _, third = server.requests
        self.assertEqual(first, {"model": "fake", "stream": True, "temperature": 0.5, "top_k": 3,
                                 "stream_options": {"include_usage": True}, "max_tokens": 9,
                                 "seed": 7, "messages": messages[:2]})
        self.assertEqual(third["seed"], 9)
        self.assertEqual(set(server.keys), {"Bearer secret"})

    def test_only_answers_on_standard_output(self):
        with FakeServer(counted) as server:
            result = chat("--base-url", server.url + "/v1/", lines=["a", "/stats"])
        self.assertEqual((result.returncode, result.stdout), (0, "1 messages\n"))
        self.assertIn("2 new tokens; context: 42 of 1000 tokens", result.stderr)
        self.assertEqual(set(server.keys), {None})

    def test_key_from_the_environment(self):
        with FakeServer(counted) as server:
            ENVIRONMENT["QUIRE_API_KEY"] = "from-the-environment"
            self.addCleanup(ENVIRONMENT.pop, "QUIRE_API_KEY")
            chat("--base-url", server.url, lines=["a"])
        self.assertEqual(set(server.keys), {"Bearer from-the-environment"})

    def test_streams_in_any_form(self):
        data = json.dumps(chunk("Grüße", extra={"more": [1, 2]}), indent=1, ensure_ascii=False)
        lines = "".join(f"data: {line}\r\n" for line in data.split("\n"))
        stream = (b": keep-alive\r\n\r\nevent: message\r\n" + lines.encode() + b"\r\n" +
                  b"id: 3\ndata:" + json.dumps(chunk("!", "stop")).encode() + b"\r\r" +
                  b"data: [DONE]\n\ndata: not even JSON\n\n")
        for piece in (1, 7, 1000):
            with FakeServer(lambda handler, _: handler.stream(stream, piece=piece)) as server:
                result = chat("--base-url", server.url, lines=["a"])
            self.assertEqual((result.returncode, result.stdout), (0, "Grüße!\n"), result.stderr)

    def test_errors_in_mid_stream(self):
        def broken(handler, _):
            handler.stream(chunk("begun"), {"error": {"message": "the engine died", "code": 500}})
        for answer, reason in [
                (broken, "the engine died"),
                (lambda handler, _: handler.stream(chunk("begun")), "in the middle"),
                (lambda handler, _: handler.stream(chunk("begun"), "{"), "not one of chat"),
                (lambda handler, _: handler.stream(chunk("begun"), {"a": 1}), "not one of chat"),
                (lambda handler, _: handler.stream(chunk("begun"),
                                                   b"data: " + b"x" * (1 << 21)), "bytes")]:
            with FakeServer(answer) as server:
                result = chat("--base-url", server.url, lines=["a"])
            self.assertIn(result.returncode, (69, 78))
            self.assertEqual(result.stdout, "begun\n")
            self.assertIn(reason, result.stderr)

    def test_refusals_carry_the_server_s_words(self):
        for status, body, code, words in [
                (401, {"error": {"message": "bad key"}}, 64, ["401", "bad key", "--api-key"]),
                (400, {"error": {"message": "maximum context length is 8"}}, 78,
                 ["context length", "/undo"]),
                (422, {"detail": "no such field"}, 64, ["422", "no such field"]),
                (429, {"error": "busy"}, 69, ["429", "busy", "later"]),
                (500, b"<html>\x1b[31m", 69, ["500", "<html>\\x1b"]),
                (302, b"", 64, ["302"])]:
            with FakeServer(lambda handler, _: handler.reply(status, body)) as server:
                result = chat("--base-url", server.url, lines=["a"])
            self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)

    def test_which_model(self):
        models = [{"id": "one", "max_model_len": 10}, {"id": "two", "max_model_len": 20}]
        with FakeServer(counted, models) as server:
            for args, name in [([], "one"), (["--model-name", "two"], "two"),
                               (["--model-name", "other"], "other")]:
                chat("--base-url", server.url, *args, lines=["a"])
                self.assertEqual(server.requests[-1]["model"], name)
        with FakeServer(counted, []) as server:
            result = chat("--base-url", server.url, lines=["a"])
            self.assertEqual(result.returncode, 66)
            self.assertIn("--model-name", result.stderr)

    def test_no_server(self):
        result = chat("--base-url", "http://127.0.0.1:1", lines=["a"])
        self.assertEqual(result.returncode, 69)
        self.assertIn("127.0.0.1:1", result.stderr)

    def test_an_answer_of_tool_calls_is_refused(self):
        call = {"choices": [{"delta": {"tool_calls": [{"index": 0}]}, "finish_reason": None}]}
        with FakeServer(lambda handler, _: handler.stream(call, "[DONE]")) as server:
            result = chat("--base-url", server.url, lines=["a"])
        self.assertEqual(result.returncode, 64)
        self.assertIn("tool", result.stderr)

    def test_interrupt_leaves_the_server(self):
        gone = threading.Event()

        def endless(handler, _):
            handler.start()
            try:
                while True:
                    handler.wfile.write(event(chunk("more ")))
                    handler.wfile.flush()
                    if gone.wait(0.02):
                        return
            except OSError:
                gone.set()

        with FakeServer(endless) as server:
            terminal = Terminal("--base-url", server.url)
            self.addCleanup(terminal.close)
            terminal.expect("> ")
            terminal.type("x\r")
            terminal.expect("more more ")
            terminal.type("\x03")
            terminal.expect("(stopped)")
            self.assertTrue(gone.wait(120))
            terminal.expect("> ")
            terminal.type(f"/save {self.file}\r")
            terminal.expect("(2 messages written")
            terminal.expect("> ")
            terminal.type("\x04")
            self.assertEqual(terminal.end(), 0)
        answer = json.loads(self.file.read_text())["messages"][1]["content"]
        self.assertTrue(answer.startswith("more more "))


class AgainstServe(WithFolder):
    """The two ends of this program together."""

    def test_the_same_answers_as_in_process(self):
        lines = ["the cat", "the dog", "/regenerate"]
        here = self.messages(*MODEL, lines=lines)
        url = self.serve("--model", TINY / "hf")
        there = self.messages("--base-url", url, *MODEL[2:], lines=lines)
        self.assertEqual(there, here)

    def test_key_and_length(self):
        url = self.serve("--model", TINY / "hf", "--api-key", "secret")
        result = chat("--base-url", url, lines=["the cat"])
        self.assertEqual(result.returncode, 64)
        self.assertIn("--api-key", result.stderr)
        result = chat("--base-url", url, "--api-key", "secret", "--max-tokens", 4,
                      lines=["the cat", "/stats", "the cat " * 200])
        self.assertEqual(result.returncode, 78)
        self.assertIn("of 256 tokens", result.stderr)
        self.assertIn("/clear", result.stderr)


class VllmFlags(WithFolder):
    def test_flags_of_missing_capabilities_are_refused_by_name(self):
        for args, name in [(["-tp", 2], "--tensor-parallel-size 2"),
                           (["--speculative_config", "{}x"], "--speculative-config"),
                           (["--enable-lora"], "--enable-lora"),
                           (["--quantization", "awq"], "--quantization awq")]:
            result = run("serve", TINY / "hf", *args)
            self.assertEqual(result.returncode, 64, result.stderr)
            self.assertIn(name, result.stderr)

    def test_a_usual_command_line_works(self):
        url = self.serve(TINY / "hf", "-tp", 1, "--enforce-eager", "--swap-space", 0, "-q", "None",
                         "--max_model_len", "128", "--disable-log-requests", "--trust-remote-code",
                         "--allowed-origins", '["http://a.example", "http://b.example"]')
        self.assertIn("--enforce-eager has no effect", self.log)
        self.assertIn("--trust-remote-code has no effect", self.log)
        for flag in ("tensor-parallel-size", "swap-space", "quantization", "disable-log-requests"):
            self.assertNotIn(flag, self.log)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for origin in ("http://a.example", "http://b.example"):
            request = urllib.request.Request(url + "/v1/models", headers={"Origin": origin})
            with opener.open(request, timeout=120) as answer:
                self.assertEqual(answer.headers["Access-Control-Allow-Origin"], origin)
                self.assertEqual(json.load(answer)["data"][0]["max_model_len"], 128)

    def test_listed(self):
        result = run("serve", "--help-vllm")
        self.assertEqual(result.returncode, 0)
        self.assertIn("--enforce-eager", result.stdout)
        self.assertNotIn("--enforce-eager", run("serve", "--help").stdout)
        self.assertIn("--help-vllm", run("serve", "-h").stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

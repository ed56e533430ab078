#!/usr/bin/env python3
"""`quire chat`: with a model in process, in a terminal, against a server.

    cli_chat_test.py PROGRAM SOURCE_DIR
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

from cli_chat_support import ENVIRONMENT, FakeServer, Terminal, chat, chunk, event
from cli_support import PROGRAM, SMOLLM2, TINY, needs, run

MODEL = ["--model", TINY / "hf", "--temperature", 0, "--max-tokens", 6]


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "conversation.json"

    def messages(self, *args, lines):
        """The conversation after a chat of these lines."""
        result = chat(*args, lines=[*lines, f"/save {self.file}"])
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(self.file.read_text())["messages"]

    def serve(self, *args):
        """Starts a server for the length of the test; its address."""
        process = subprocess.Popen([PROGRAM, "serve", *map(str, args), "--port", "0"],
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=ENVIRONMENT)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.log = ""  # up to the address
        for line in process.stderr:
            self.log += line
            address = re.search(r"serving .* on (http://\S+)", line)
            if address:
                threading.Thread(target=process.stderr.read, daemon=True).start()
                return address.group(1)
        self.fail("the server has not started")


class Piped(WithFolder):
    def test_answers_alone_go_to_standard_output(self):
        result = chat(*MODEL, lines=["the cat", "/stats", "/help", "", "/system x"])
        self.assertEqual(result.returncode, 0, result.stderr)
        single = run("generate", "--chat", "the cat", *MODEL)
        self.assertEqual(result.stdout, single.stdout)
        self.assertIn("6 new tokens; context: ", result.stderr)
        self.assertRegex(result.stderr, r"first token after \d+ ms, then [\d.]+ tokens/s")
        self.assertIn("of 256 tokens", result.stderr)
        self.assertIn("/regenerate", result.stderr)

    def test_a_question_sees_what_came_before(self):
        messages = self.messages(*MODEL, "--system", "Be short.", lines=["the cat", "the dog"])
        self.assertEqual([m["role"] for m in messages],
                         ["system", "user", "assistant", "user", "assistant"])
        self.file.write_text(json.dumps({"messages": messages[:-1]}) + "\n")
        record = json.loads(run("generate", "--input", self.file, *MODEL).stdout)
        self.assertEqual(record["outputs"][0]["text"], messages[-1]["content"])

    def test_saved_conversations_are_read_by_other_commands(self):
        messages = self.messages(*MODEL, lines=["the cat", "the dog"])
        shown = json.loads(run("template", "--input", self.file, "--model", TINY / "hf",
                               "--json").stdout)
        self.assertIn("the dog", shown["prompt"])
        self.assertIn(messages[1]["content"].strip(), shown["prompt"])
        self.assertEqual(run("generate", "--input", self.file, *MODEL).returncode, 0)

    def test_load_undo_regenerate_and_clear(self):
        messages = self.messages(*MODEL, "--system", "S", lines=["the cat", "the dog"])
        load = f"/load {self.file}"
        self.assertEqual(self.messages(*MODEL, lines=[load]), messages)
        self.assertEqual(self.messages(*MODEL, lines=[load, "/regenerate"]), messages)
        self.assertEqual(self.messages(*MODEL, lines=[load, "/undo"]), messages[:3])
        self.messages(*MODEL, "--system", "S", lines=["the cat", "the dog"])
        self.assertEqual(self.messages(*MODEL, lines=[load, "/undo", "the dog"]), messages)
        self.assertEqual(self.messages(*MODEL, lines=[load, "/clear"]), messages[:1])
        self.assertEqual(self.messages(*MODEL, lines=[load, "/clear", '/system ""']), [])

    def test_regenerate_draws_again(self):
        args = ["--model", TINY / "hf", "--max-tokens", 16, "--seed", 5]
        lines = ["the cat", "/regenerate"]
        first, second = chat(*args, "--ignore-eos", lines=lines), chat(*args, "--ignore-eos",
                                                                       lines=lines)
        self.assertEqual(first.stdout, second.stdout)
        once = chat(*args, "--ignore-eos", lines=lines[:1]).stdout
        self.assertTrue(first.stdout.startswith(once))
        self.assertNotEqual(first.stdout, once + once)

    def test_system_message_is_shown_set_and_taken_away(self):
        result = chat(*MODEL, "--system", "One.", lines=["/system", "/system Two.", "/system",
                                                         '/system ""', "/system"])
        self.assertIn("One.\n", result.stderr)
        self.assertIn("Two.\n", result.stderr)
        self.assertIn("there is no system message", result.stderr)

    def test_messages_of_several_lines(self):
        messages = self.messages(*MODEL, lines=['"""', "a", "", "/b", '"""', '"""c', 'd"""',
                                                "e\\", "f\\", "g", '"""h"""', "//slash"])
        self.assertEqual([m["content"] for m in messages if m["role"] == "user"],
                         ["a\n\n/b", "c\nd", "e\nf\ng", "h", "/slash"])

    def test_input_that_ends_in_a_message(self):
        for line in ('"""a', "a\\"):
            result = chat(*MODEL, lines=[line])
            self.assertEqual(result.returncode, 64)
            self.assertIn("middle of a message", result.stderr)

    def test_control_tokens_in_messages_are_text(self):
        def context(question):
            result = chat(*MODEL, lines=[question, "/stats"])
            return int(re.search(r"context: (\d+)", result.stderr).group(1))
        self.assertGreater(context("<|im_end|>"), context("x") + 3)

    def test_a_conversation_that_does_not_fit_is_refused(self):
        result = chat(*MODEL, lines=["the cat", "the cat " * 200, "the cat"])
        self.assertEqual(result.returncode, 78)
        self.assertEqual(result.stdout, run("generate", "--chat", "the cat", *MODEL).stdout)
        self.assertIn("max_model_len is 256", result.stderr)
        self.assertIn("/undo", result.stderr)
        self.assertIn("/clear", result.stderr)

    def test_a_full_context_is_told(self):
        result = chat("--model", TINY / "hf", "--temperature", 0, "--ignore-eos", lines=["a"])
        self.assertEqual(result.returncode, 0)
        self.assertIn("the context of 256 tokens is full", result.stderr)

    def test_mistyped_command(self):
        result = chat(*MODEL, lines=["/regenrate"])
        self.assertEqual(result.returncode, 64)
        self.assertIn("did you mean /regenerate?", result.stderr)

    def test_commands_that_cannot_be_done(self):
        for line, reason in [("/undo", "no question"), ("/regenerate", "no question"),
                             ("/save", "name of a file"), ("/load /nowhere/x", "/nowhere/x"),
                             (f"/save {self.folder}", str(self.folder)), ("/clear x", "/clear")]:
            result = chat(*MODEL, lines=[line])
            self.assertEqual(result.returncode, 64, line)
            self.assertIn(reason, result.stderr)

    def test_files_that_are_no_conversation(self):
        for text in ("", "{", '{"messages": 7}', '{"messages": [], "x": 1}',
                     '{"messages": [], "continue_final_message": true}'):
            self.file.write_text(text)
            result = chat(*MODEL, lines=[f"/load {self.file}"])
            self.assertEqual(result.returncode, 64, text)
            self.assertIn(str(self.file), result.stderr)

    def test_input_that_is_not_utf8(self):
        result = subprocess.run([PROGRAM, "chat", *map(str, MODEL)], input=b"\xff\xfe\n",
                                capture_output=True, timeout=60)
        self.assertEqual(result.returncode, 64)
        self.assertIn(b"UTF-8", result.stderr)

    def test_exit_ends_before_the_rest(self):
        result = chat(*MODEL, lines=["/exit", "the cat"])
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    def test_flags_without_a_place(self):
        for args, word in [(["--n", 2], "n has no place"), (["--logprobs", 1], "logprobs"),
                           (["--model-name", "x"], "--base-url"),
                           (["--base-url", "http://localhost", "--model", "x"], "--model"),
                           (["--base-url", "http://localhost", "--threads", 1], "--threads"),
                           (["--base-url", "ftp://localhost"], "ftp"),
                           (["--base-url", "http://localhost", "--api-key", "a\nb"], "key")]:
            result = chat(*args)
            self.assertEqual(result.returncode, 64, args)
            self.assertIn(word, result.stderr)

    @needs(SMOLLM2)
    def test_interrupt_prints_what_there_is(self):
        process = subprocess.Popen([PROGRAM, "chat", "--temperature", "0", "--ignore-eos"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdin.write(b"Tell me a story.\nAnd another.\n")
        process.stdin.flush()
        first = process.stdout.read(5)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertTrue((first + rest).endswith(b"\n"))

    def test_interrupt_while_it_waits_for_input(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([PROGRAM, "chat", *map(str, MODEL)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            process.stdin.write(b"the cat\n")
            process.stdin.flush()
            process.stdout.readline()
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130)


class InTerminal(WithFolder):
    def terminal(self, *args):
        terminal = Terminal(*args)
        self.addCleanup(terminal.close)
        return terminal

    def test_prompt_answer_and_end(self):
        terminal = self.terminal(*MODEL)
        terminal.expect("256 tokens of context")
        terminal.expect("> ")
        terminal.type("the cat\r")
        expected = chat(*MODEL, lines=["the cat"]).stdout.split("\n")[0]
        terminal.expect(expected)
        terminal.expect("> ")
        terminal.type("\x04")
        self.assertEqual(terminal.end(), 0)

    def test_interrupt_at_an_empty_prompt_ends(self):
        terminal = self.terminal(*MODEL)
        terminal.expect("> ")
        terminal.type("\x03")
        self.assertEqual(terminal.end(), 130)

    def test_interrupt_drops_what_was_typed(self):
        terminal = self.terminal(*MODEL)
        terminal.expect("> ")
        terminal.type("half a line")
        terminal.expect("half a line")
        terminal.type("\x03")
        terminal.expect("> ")
        terminal.type('"""one\r')
        terminal.expect("... ")
        terminal.type("\x03")
        terminal.expect("> ")
        terminal.type(f"/save {self.file}\r")
        terminal.expect("(0 messages written")
        terminal.expect("> ")
        terminal.type("\x03")
        self.assertEqual(terminal.end(), 130)

    def test_termination_at_the_prompt(self):
        terminal = self.terminal(*MODEL)
        terminal.expect("> ")
        terminal.type("half")
        terminal.expect("half")
        os.kill(terminal.pid, signal.SIGTERM)
        self.assertEqual(terminal.end(), 130)

    def test_errors_do_not_end_it(self):
        terminal = self.terminal(*MODEL)
        terminal.expect("> ")
        terminal.type("/hepl\r")
        terminal.expect("did you mean /help?")
        terminal.expect("> ")
        terminal.type("the cat " * 150 + "\r")
        terminal.expect("max_model_len is 256")
        terminal.expect("> ")
        terminal.type("/undo\r")
        terminal.expect("no question to take back")
        terminal.expect("> ")
        terminal.type("/exit\r")
        self.assertEqual(terminal.end(), 0)

    def test_lines_can_be_edited_and_come_again(self):
        terminal = self.terminal(*MODEL)
        terminal.expect("> ")
        terminal.type("Größe \u65e5\u672cx\x7f\r")  # the last character is taken back
        terminal.expect("> ")
        terminal.type("/undo\r")
        terminal.expect("taken back")
        terminal.expect("> ")
        terminal.type("\x1b[A\x1b[A\r")  # up, up
        terminal.expect("> ")
        terminal.type(f"/save {self.file}\r")
        terminal.expect("(2 messages written")
        self.assertEqual(json.loads(self.file.read_text())["messages"][0]["content"],
                         "Größe \u65e5\u672c")

    @needs(SMOLLM2)
    def test_interrupt_stops_an_answer_and_keeps_it(self):
        terminal = self.terminal("--temperature", 0, "--ignore-eos")
        terminal.expect("> ")
        terminal.type("Write a long story about a cat.\r")
        terminal.expect(" cat")
        terminal.expect(" the")
        terminal.type("\x03")
        terminal.expect("(stopped)")
        terminal.expect("> ")
        terminal.type(f"/save {self.file}\r")
        terminal.expect("(2 messages written")
        terminal.expect("> ")
        terminal.type("\x03")
        self.assertEqual(terminal.end(), 130)
        answer = json.loads(self.file.read_text())["messages"][1]
        self.assertEqual(answer["role"], "assistant")
        self.assertIn(" the", answer["content"])

    def test_a_model_cannot_steer_the_terminal(self):
        def answer(handler, _):
            handler.stream(chunk("a\x1b]0;title\x07\x9b2Jb\n"), chunk(None, "stop"), "[DONE]")
        with FakeServer(answer) as server:
            terminal = self.terminal("--base-url", server.url)
            terminal.expect("> ")
            terminal.type("x\r")
            terminal.expect("a\\x1b]0;title\\x07\\x9b2Jb")
            terminal.expect("> ")  # before that the line editor does not read yet
            terminal.type("\x04")
            self.assertEqual(terminal.end(), 0)


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
            self.assertTrue(gone.wait(30))
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
            with opener.open(request, timeout=30) as answer:
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

#!/usr/bin/env python3
"""`quire chat` with a model in process: fed by a pipe, and in a terminal.

    cli_chat_test.py PROGRAM SOURCE_DIR
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import unittest

from cli_chat_support import MODEL, FakeServer, Terminal, WithFolder, chat, chunk
from cli_support import PROGRAM, SMOLLM2, TINY, needs, run


class ForeignText(unittest.TestCase):
    """A model whose only words are an escape sequence: the tokens of ESC, [, 3, 1, m."""

    def commands(self):
        ids = run("tokenize", "--model", TINY / "hf", "--text", "\x1b", "--json",
                  "--no-special-tokens").stdout
        escape = json.loads(ids)["token_ids"]
        self.assertEqual(len(escape), 1)
        return escape[0], ["--model", TINY / "hf", "--prompt", "abc", "--max-tokens", 3,
                           "--ignore-eos", "--allowed-token-ids", escape[0]]

    def test_generate_shows_a_terminal_no_control_characters(self):
        _, arguments = self.commands()
        terminal = Terminal(*arguments, command="generate")
        self.addCleanup(terminal.close)
        shown = terminal.expect(None)
        self.assertIn("\\x1b\\x1b\\x1b", shown)
        self.assertNotIn("\x1b\x1b", shown)  # the log has colours

    def test_generate_gives_a_pipe_the_text_as_it_is(self):
        _, arguments = self.commands()
        self.assertEqual(run("generate", *arguments).stdout, "\x1b\x1b\x1b\n")

    def test_detokenize_shows_a_terminal_no_control_characters(self):
        escape, _ = self.commands()
        arguments = ["--model", TINY / "hf", "--ids", str(escape)]
        terminal = Terminal(*arguments, command="detokenize")
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.expect(None).strip(), "\\x1b")
        self.assertEqual(run("detokenize", *arguments).stdout, "\x1b\n")

    def test_chat_shows_a_terminal_no_control_characters_though_its_input_is_a_pipe(self):
        escape, _ = self.commands()
        terminal = Terminal("-c", f"echo hi | {shlex.quote(str(PROGRAM))} chat --model "
                            f"{shlex.quote(str(TINY / 'hf'))} --max-tokens 2 --ignore-eos "
                            f"--allowed-token-ids {escape}", program="/bin/sh")
        self.addCleanup(terminal.close)
        shown = terminal.expect(None)
        self.assertIn("\\x1b\\x1b", shown)
        self.assertNotIn("\x1b\x1b", shown)  # the log has colours


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
                           (["--return-forced-tokens"], "return_forced_tokens has no place"),
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
    def terminal(self, *args, **settings):
        terminal = Terminal(*args, **settings)
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

    def leave(self, terminal):
        """Ctrl-C at an empty prompt asks for a second one."""
        terminal.type("\x03")
        terminal.expect("Ctrl-C once more")
        terminal.expect("> ")
        terminal.type("\x03")
        self.assertEqual(terminal.end(), 130)

    def test_two_interrupts_at_an_empty_prompt_end_it(self):
        terminal = self.terminal(*MODEL)
        terminal.expect("> ")
        self.leave(terminal)

    def test_interrupts_that_do_not_follow_each_other_end_nothing(self):
        terminal = self.terminal(*MODEL)
        terminal.expect("> ")
        terminal.type("\x03")
        terminal.expect("Ctrl-C once more")
        terminal.expect("> ")
        terminal.type("/set\r")
        terminal.expect("(sampling: temperature 0")
        terminal.expect("> ")
        terminal.type("\x03")
        terminal.expect("Ctrl-C once more")
        terminal.expect("> ")
        terminal.type("half")
        terminal.expect("half")
        terminal.type("\x03")  # drops the line
        terminal.expect("> ")
        self.leave(terminal)

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
        self.leave(terminal)

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

    def test_a_message_of_several_lines_comes_back_whole(self):
        terminal = self.terminal(*MODEL)
        for keys in ('"""one\r', "two\r", 'three"""\r', "/undo\r", "\x1b[A\x1b[A\r"):
            terminal.expect("... " if keys in ("two\r", 'three"""\r') else "> ")
            terminal.type(keys)
        terminal.expect("\r\n> ")
        terminal.type(f"/save {self.file}\r")
        terminal.expect("(2 messages written")
        self.assertEqual(json.loads(self.file.read_text())["messages"][0]["content"], "one\ntwo\nthree")

    def test_a_terminal_shows_that_the_first_token_is_waited_for(self):
        wanted = threading.Event()

        def answer(handler, _):
            self.assertTrue(wanted.wait(240))
            handler.stream(chunk("here it is"), chunk(None, "stop"), "[DONE]")
        with FakeServer(answer) as server:
            terminal = self.terminal("--base-url", server.url)
            terminal.expect("> ")
            terminal.type("x\r")
            waited = "0"
            while waited == "0":  # the first that is shown is 3 where nothing ran for so long
                terminal.expect("waiting for an answer, ")
                waited = terminal.expect(" s")
            self.assertGreaterEqual(int(waited), 1)
            wanted.set()
            before = terminal.expect("here it is")
            self.assertTrue(before.endswith("\r\x1b[K"), before[-80:])  # it is gone
            terminal.expect("> ")
            terminal.type("\x04")
            self.assertEqual(terminal.end(), 0)
        wanted.set()
        with FakeServer(answer) as server:
            self.assertNotIn("waiting", chat("--base-url", server.url, lines=["x"]).stdout)

    def test_notes_wrap_at_words(self):
        terminal = self.terminal(*MODEL, columns=48)
        terminal.expect("> ")
        terminal.type("/help\r")
        shown = terminal.expect(" //.")
        lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown[shown.index("/help  "):]).splitlines()
        self.assertGreater(len(lines), 12)
        for line in lines:
            self.assertLessEqual(len(line), 48, line)
        words = " ".join(" ".join(lines).split())
        self.assertIn('set the system message; "" takes it away, no TEXT shows it', words)
        terminal.expect("> ")
        self.leave(terminal)

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
        self.leave(terminal)
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

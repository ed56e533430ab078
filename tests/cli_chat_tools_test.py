#!/usr/bin/env python3
"""`quire chat --tools` and `--mcp`: functions that are commands, or a server's, called by a model that
is scripted, or by one in process whose calls are the grammar's doing.

    cli_chat_tools_test.py PROGRAM SOURCE_DIR
"""

import json
import re
import sys
import time
import unittest

from cli_chat_support import ENVIRONMENT, FakeServer, Terminal, WithFolder, chat, chunk
from cli_support import TINY

# Hermes' form, in few tokens.
TEMPLATE = """{%- if tools %}<tool_call>{% endif %}{%- for message in messages %}{{ message.content }}
{%- for call in message.tool_calls or [] %}{{ call.function.name }}{% endfor %}{%- endfor %}
{%- if role == 'tool' %}{% endif %}"""

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"],
          "additionalProperties": False}

# A server of the protocol in a few lines. Its argument says how it misbehaves.
MCP_SERVER = r"""
import json, sys, time
kind = sys.argv[1] if len(sys.argv) > 1 else ""
def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()
def tool(name):
    return {"name": name, "description": "d", "inputSchema": {"type": "object"}}
if kind == "dies": sys.exit("no licence")
if kind == "hangs": time.sleep(60)
print("the log says hello", file=sys.stderr, flush=True)
begun = False
for line in sys.stdin:
    message = json.loads(line)
    method, params, i = message.get("method"), message.get("params", {}), message.get("id")
    modern = "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {})
    if kind == "nonsense":
        print("Welcome!", flush=True)
    if method == "initialize" and kind == "modern":
        send(id=i, error={"code": -32022, "message": "unsupported", "data": {"supported": ["2026-07-28"]}})
    elif method == "initialize":
        assert params["protocolVersion"] == "2025-11-25" and params["clientInfo"]["name"] == "quire"
        send(method="notifications/message", params={"level": "info", "data": "x"})
        version = "1999-01-01" if kind == "old" else "2025-06-18"
        send(id=i, result={"protocolVersion": version, "capabilities": {"tools": {}},
                           "serverInfo": {"name": "s", "version": "1"}})
    elif method == "notifications/initialized":
        begun = True
    elif method == "server/discover" and modern:
        begun = True
        send(id=i, result={"resultType": "complete", "supportedVersions": ["2026-07-28"],
                           "capabilities": {"tools": {}}})
    elif method == "tools/list":
        assert begun
        page = int(params.get("cursor", 0))
        more = {"nextCursor": str(page + 1)} if page < 2 else {}
        send(id=i, result={"tools": [tool(("echo", "fail", "crash")[page])], **more})
    elif method == "tools/call" and params["name"] == "echo":
        send(id="s1", method="ping")
        send(id="s2", method="roots/list")
        text = json.dumps(params["arguments"])
        if kind == "slow": time.sleep(1.5)
        send(id=i, result={"content": [{"type": "text", "text": "got " + text},
                                       {"type": "image", "mimeType": "image/png", "data": "AAAA"}]})
    elif method == "tools/call" and params["name"] == "fail":
        send(id=i, result={"content": [{"type": "text", "text": "no such thing"}], "isError": True})
    elif method == "tools/call":
        print("out of memory", file=sys.stderr, flush=True)
        sys.exit(3)
"""


def call(name, arguments, index=0):
    """The two chunks of a call, its arguments in the second."""
    first = {"index": index, "id": f"call_{index}", "type": "function",
             "function": {"name": name, "arguments": ""}}
    second = {"index": index, "function": {"arguments": arguments}}
    return [{"choices": [{"index": 0, "delta": {"tool_calls": [each]}, "finish_reason": None}]}
            for each in (first, second)]


def calling(*calls):
    """Answers with these calls, and once there is a result, with the last one of them."""
    def answer(handler, body):
        last = body["messages"][-1]
        if last["role"] == "tool":
            return handler.stream(chunk("It said: " + last["content"]), chunk(None, "stop"), "[DONE]")
        chunks = [each for i, (name, arguments) in enumerate(calls) for each in call(name, arguments, i)]
        return handler.stream(*chunks, chunk(None, "tool_calls"), "[DONE]")
    return answer


class Tools(WithFolder):
    def functions(self, *commands):
        """A file of functions f0, f1, ..., each a shell's command."""
        return self.write([{"name": f"f{i}", "description": "d", "parameters": {"type": "object"},
                            "command": ["sh", "-c", command]} for i, command in enumerate(commands)])

    def write(self, value):
        path = self.folder / "tools.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def result(self, command, *flags, arguments='{"a": "b"}', name="f0"):
        """What the model is told of a call of the command."""
        with FakeServer(calling((name, arguments))) as server:
            done = chat("--base-url", server.url, "--yes", "--tools", self.functions(command), *flags,
                        lines=["go"])
            self.assertEqual(done.returncode, 0, done.stderr)
        return server.requests[-1]["messages"][-1]["content"]


class Commands(Tools):
    def test_arguments_in_and_results_back(self):
        tools = self.functions("cat; echo 2")
        with FakeServer(calling(("f0", '{"city": "Größe"}'), ("f0", "{}"))) as server:
            done = chat("--base-url", server.url, "--tools", tools, "--yes",
                        lines=["go", f"/save {self.file}", "/regenerate", "/undo", "/stats"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "It said: {}\n2\n" * 2)
        self.assertIn('(the model calls f0 with {"city": "Größe"})', done.stderr)
        first, second, *_ = server.requests
        self.assertEqual(first["tool_choice"], "auto")
        self.assertEqual(first["tools"], [{"type": "function", "function": {
            "name": "f0", "description": "d", "parameters": {"type": "object"}}}])
        messages = second["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant", "tool", "tool"])
        self.assertEqual([c["function"]["arguments"] for c in messages[1]["tool_calls"]],
                         ['{"city": "Größe"}', "{}"])
        self.assertEqual([(m["tool_call_id"], m["content"]) for m in messages[2:]],
                         [("call_0", '{"city":"Größe"}\n2'), ("call_1", "{}\n2")])
        saved = json.loads(self.file.read_text())
        self.assertEqual(saved["messages"], [*messages, {"role": "assistant", "content": "It said: {}\n2"}])

    def test_what_goes_wrong_is_told_to_the_model(self):
        self.assertEqual(self.result("echo well >&2; exit 3"),
                         "error: the command ended with exit status 3: well\\x0a")
        self.assertIn("signal 9", self.result("kill -9 $$"))
        self.assertEqual(self.result("exit 0"), "")
        self.assertIn("not UTF-8", self.result(r"printf '\377'"))
        self.assertIn("no JSON object", self.result("cat", arguments='{"a": '))
        self.assertIn("there is no function nobody; there are f0", self.result("cat", name="nobody"))
        self.assertIn("more than 1000 bytes", self.result("yes", "--max-tool-output", 1000))
        begun = time.monotonic()
        self.assertIn("longer than 0.3 s", self.result("sleep 60", "--tool-timeout", 0.3))
        self.assertLess(time.monotonic() - begun, 30)

    def test_a_command_that_reads_nothing_or_leaves_others_behind(self):
        self.assertEqual(self.result("echo done", arguments=json.dumps({"a": "x" * 300_000})), "done")
        begun = time.monotonic()
        self.assertEqual(self.result("sleep 50 & echo done"), "done")
        self.assertLess(time.monotonic() - begun, 30)

    def test_rounds_end(self):
        def always(handler, body):
            if body["tool_choice"] == "none":
                return handler.stream(chunk("enough"), chunk(None, "stop"), "[DONE]")
            return handler.stream(*call("f0", "{}"), chunk(None, "tool_calls"), "[DONE]")
        with FakeServer(always) as server:
            done = chat("--base-url", server.url, "--tools", self.functions("echo 1"), "--yes",
                        "--max-tool-rounds", 2, "--tool-choice", "f0", lines=["go"])
        self.assertEqual((done.returncode, done.stdout), (0, "enough\n"), done.stderr)
        self.assertEqual([each["tool_choice"] for each in server.requests],
                         [{"type": "function", "function": {"name": "f0"}}, "auto", "none"])

    def test_wrong_files_are_refused_before_a_model_is_loaded(self):
        good = {"name": "f", "command": ["cat"]}
        for value, code, *words in [
                ("{", 64, "tools.json"), ([], 64, "an empty one"), ({}, 64, "a list of functions"),
                ([1], 64, "[0]", "an object"), ([{"command": ["cat"]}], 64, "name"),
                ([{"name": "f"}], 64, "command"), ([{**good, "command": "cat"}], 64, "command", "sh"),
                ([{**good, "command": ["no-such-program-here"]}], 66, "no-such-program-here", "PATH"),
                ([{**good, "command": ["./missing.sh"]}], 66, "./missing.sh", "folder"),
                ([{**good, "parameters": {"type": "objekt"}}], 64, "[0]", "parameters", "objekt"),
                ([{**good, "parameters": []}], 64, "parameters"), ([{**good, "comand": 1}], 64, "comand"),
                ([{**good, "name": "a b"}], 64, "a b"), ([good, good], 64, "two functions", "f")]:
            done = chat("--model", "/nowhere", "--tools", self.write(value), "--yes", lines=["x"])
            self.assertEqual(done.returncode, code, (value, done.stderr))
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertNotIn("/nowhere", done.stderr)
        tools = self.write([good])
        for flags, word in [(["--tools", self.folder / "none.json", "--yes"], "none.json"),
                            (["--tools", tools], "nobody can be asked"),
                            (["--tools", tools, "--yes", "--tool-choice", "g"], "no function g"),
                            (["--yes"], "--tools or --mcp")]:
            done = chat("--model", "/nowhere", *flags, lines=["x"])
            self.assertIn(word, done.stderr)
            self.assertIn(done.returncode, (64, 66))

    def test_a_model_without_tools(self):
        done = chat("--model", TINY / "hf", "--tools", self.functions("cat"), "--yes", lines=["x"])
        self.assertIn("chat template", done.stderr)
        self.assertEqual((done.returncode, done.stdout), (64, ""))

    def test_a_model_in_process_calls_what_it_has_to(self):
        template = self.folder / "template.jinja"
        template.write_text(TEMPLATE)
        tools = self.write([{"name": "weather", "description": "d", "parameters": SCHEMA,
                             "command": ["sh", "-c", "cat; echo sunny"]}])
        done = chat("--model", TINY / "hf", "--chat-template", template,
                    "--tools", tools, "--tool-choice", "weather", "--yes", "--seed", 3,
                    "--max-tool-rounds", 1, "--max-tokens", 100, lines=["Weather?", f"/save {self.file}"])
        self.assertEqual(done.returncode, 0, done.stderr)
        messages = json.loads(self.file.read_text())["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant", "tool", "assistant"])
        function = messages[1]["tool_calls"][0]["function"]
        self.assertEqual(function["name"], "weather")
        self.assertIn(json.loads(function["arguments"])["city"], ("Paris", "Rome"))
        self.assertTrue(messages[2]["content"].endswith("sunny"))
        self.assertEqual(done.stdout, messages[3]["content"] + "\n")


class Asked(Tools):
    def terminal(self, *args):
        terminal = Terminal(*args)
        self.addCleanup(terminal.close)
        terminal.expect("/help shows more.")
        terminal.expect("> ")
        return terminal

    def test_yes_no_and_always(self):
        log = self.folder / "log"
        tools = self.functions(f"cat >> {log}; echo ran")
        with FakeServer(calling(("f0", json.dumps({"a": "\x1b[31m\u202e"}, ensure_ascii=False)))) as server:
            terminal = self.terminal("--base-url", server.url, "--tools", tools)
            terminal.type("go\r")
            shown = terminal.expect("run it? y(es), n(o), a(lways f0): ")
            self.assertIn("f0 with", shown)
            self.assertIn(str(log), shown.replace("\r\n", ""))
            self.assertNotIn("\u202e", shown)
            self.assertFalse(log.exists())  # nothing runs before the answer
            terminal.type("maybe\r")
            terminal.expect("a(lways f0): ")
            terminal.type("n\r")
            terminal.expect("It said: error: the user does not want this call")
            terminal.expect("> ")
            self.assertFalse(log.exists())
            for keys in ("yes\r", "a\r"):
                terminal.type("again\r")
                terminal.expect("a(lways f0): ")
                terminal.type(keys)
                terminal.expect("It said: ran")
                terminal.expect("> ")
            terminal.type("once more\r")
            self.assertNotIn("run it?", terminal.expect("It said: ran"))
            terminal.expect("> ")
            terminal.type("\x04")
            self.assertEqual(terminal.end(), 0)
        self.assertEqual(log.read_text().count("\n"), 3)

    def test_ctrl_c_ends_the_command_and_not_the_chat(self):
        with FakeServer(calling(("f0", "{}"))) as server:
            terminal = self.terminal("--base-url", server.url, "--yes", "--tools",
                                     self.functions("trap '' INT; echo begun >&2; sleep 60; echo late"))
            terminal.type("go\r")
            terminal.expect("which runs")
            time.sleep(0.5)
            terminal.type("\x03")
            terminal.expect("It said: error: the user has stopped it", seconds=30)
            terminal.expect("> ")
            terminal.type("\x04")
            self.assertEqual(terminal.end(), 0)


class Mcp(Tools):
    def server(self, kind=""):
        path = self.folder / "server.py"
        path.write_text(MCP_SERVER)
        return f"{sys.executable} {path} {kind}"

    def told(self, kind, *calls, flags=()):
        """What the model is told of each call, made by one question after the other."""
        def answer(handler, body):
            last = body["messages"][-1]
            if last["role"] == "tool":
                return handler.stream(chunk("ok"), chunk(None, "stop"), "[DONE]")
            return handler.stream(*call(last["content"], '{"a": 1}'), chunk(None, "stop"), "[DONE]")
        with FakeServer(answer) as fake:
            done = chat("--base-url", fake.url, "--mcp", self.server(kind), "--yes", *flags, lines=calls)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([each["function"]["name"] for each in fake.requests[0]["tools"]],
                         ["echo", "fail", "crash"])  # of three pages
        return [each["messages"][-1]["content"] for each in fake.requests
                if each["messages"][-1]["role"] == "tool"]

    def test_calls_and_what_goes_wrong(self):
        for kind in ("", "modern"):
            good, bad, dead, still_dead = self.told(kind, "echo", "fail", "crash", "echo")
            self.assertEqual(good, 'got {"a": 1}\n[image image/png, which is not shown]')
            self.assertEqual(bad, "error: no such thing")
            self.assertRegex(dead, "error: the MCP server .* ended with exit status 3; .*out of memory")
            self.assertEqual(still_dead, dead)

    def test_a_call_that_takes_too_long_and_one_after_it(self):
        late, good = self.told("slow", "echo", "fail", flags=("--tool-timeout", 0.7))
        self.assertIn("longer than 0.7 s", late)
        self.assertIn("longer than 0.7 s", good) if "longer" in good else self.assertIn("no such thing", good)

    def test_servers_that_do_not_begin(self):
        for command, *words in [
                (self.server("dies"), "exit status 1", "no licence"),
                (self.server("hangs"), "longer than 2 s"),
                (self.server("nonsense"), "no JSON-RPC", "Welcome!"),
                (self.server("old"), "1999-01-01", "2025-11-25"),
                ("no-such-program-here", "exit status 127", "no-such-program-here")]:
            done = chat("--model", "/nowhere", "--mcp", command, "--yes", "--tool-timeout", 2, lines=["x"])
            self.assertEqual(done.returncode, 64 if "old" in command else 69, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertNotIn("/nowhere", done.stderr)

    def test_several_servers_with_one_name(self):
        done = chat("--model", "/nowhere", "--yes", "--mcp", self.server(), "--mcp", self.server(), lines=["x"])
        self.assertEqual(done.returncode, 64)
        self.assertTrue(re.search("two functions with the name echo", done.stderr), done.stderr)


if __name__ == "__main__":
    ENVIRONMENT.pop("QUIRE_API_KEY", None)
    unittest.main(argv=sys.argv[:1], verbosity=1)

"""What the tests of clients and frameworks share: the servers, the tests of every client, the lines of
docs/clients.md.

None of the clients may ask anyone but these servers: an attempt is refused, and fails the test.
"""

import collections
import contextlib
import io
import os
import re
import sys
import unittest

from serve_support import Server, SOURCE

os.environ.update(
    LITELLM_LOCAL_MODEL_COST_MAP="True", OPENAI_AGENTS_DISABLE_TRACING="1", LANGSMITH_TRACING="false",
    HF_HUB_OFFLINE="1", DO_NOT_TRACK="1", no_proxy="*")
for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
    os.environ.pop(name, None)

KEY = "sk-a-key"
NAME = "smollm2"
SYSTEM = "Answer in one short sentence."
QUESTIONS = ("What is the capital of Japan?", "And of France?")
MAX_TOKENS = 64  # more than the answers need: OpenAI's agents take one that was cut for a failure
LONG = "word " * 3000

Turn = collections.namedtuple("Turn", "text prompt_tokens output_tokens")
servers = {}
asked_outside = []


def _watch(event, arguments):
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host is not None and host not in ("localhost", "::1") and not host.startswith("127."):
        asked_outside.append(host)
        raise PermissionError(f"a test may not ask {host}")


sys.addaudithook(_watch)


def start_servers():
    """For setUpModule: `model` and `keyed`, which wants a key, compute; `large`, which has more context,
    simulates."""
    for name, flags in {
            "model": {"simulate": None},
            "large": {"simulate": 0},
            "keyed": {"simulate": None, "key": KEY}}.items():
        room = () if name == "large" else ("--max-model-len", 2048)
        server = Server("--served-model-name", NAME, "--kv-cache-memory-bytes", "512M", *room, **flags)
        servers[name] = server
        unittest.addModuleCleanup(server.stop)


def url_of(name):
    return servers[name].url + "/v1"


def documented(heading):
    """[(language, code, output)] of a section of docs/clients.md, at the addresses of these servers."""
    page = (SOURCE / "docs/clients.md").read_text()
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)[1]
    for name, port in (("model", 8000), ("large", 8001)):
        section = section.replace(f"http://localhost:{port}", servers[name].url)
    return re.findall(r"^```(python|bash)\n(.*?)^```\n\n```\n(.*?)^```$", section, re.M | re.S)


def with_history(ask, system, questions):
    """For clients that are given the whole conversation each time: ask(messages) -> Turn."""
    messages = [{"role": "system", "content": system}] if system else []
    turns = []
    for question in questions:
        messages.append({"role": "user", "content": question})
        turns.append(ask(messages))
        messages.append({"role": "assistant", "content": turns[-1].text})
    return turns


def run_python(code):
    """What the code prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/clients.md", "exec"), {})
    return printed.getvalue()


class OwnServersTest(unittest.TestCase):
    def tearDown(self):
        self.assertEqual(asked_outside, [])


class ClientTest(OwnServersTest):
    """The tests of one client, which says how it asks."""

    section = None  # of docs/clients.md
    too_long = unauthorized = refused = None  # the exceptions by which it tells

    def converse(self, server, key, system, questions):
        """Asks one after the other, each with all that was said before: [Turn]."""
        raise NotImplementedError

    def stream(self, server, question):
        """(pieces, Turn)"""
        raise NotImplementedError

    def use_tool(self, server, key):
        """Asks with a tool."""
        raise NotImplementedError

    def expected(self, system, questions):
        """What plain HTTP gives for the same conversation."""
        messages = [{"role": "system", "content": system}] if system else []
        turns = []
        for question in questions:
            messages.append({"role": "user", "content": question})
            answer = servers["model"].post("/v1/chat/completions", {
                "messages": messages, "temperature": 0, "max_tokens": MAX_TOKENS}).json
            text, usage = answer["choices"][0]["message"]["content"], answer["usage"]
            messages.append({"role": "assistant", "content": text})
            turns.append(Turn(text, usage["prompt_tokens"], usage["completion_tokens"]))
        return turns

    def test_an_answer(self):
        turns = self.converse("model", "EMPTY", None, QUESTIONS[:1])
        self.assertEqual(turns, self.expected(None, QUESTIONS[:1]))
        self.assertIn("Tokyo", turns[0].text)

    def test_a_system_prompt_and_a_conversation(self):
        turns = self.converse("model", "EMPTY", SYSTEM, QUESTIONS)
        self.assertEqual(turns, self.expected(SYSTEM, QUESTIONS))
        self.assertGreater(turns[1].prompt_tokens, turns[0].prompt_tokens + turns[0].output_tokens)

    def test_a_stream(self):
        pieces, turn = self.stream("model", QUESTIONS[0])
        self.assertGreater(len([piece for piece in pieces if piece]), 3)
        self.assertEqual(turn, self.expected(None, QUESTIONS[:1])[0])
        self.assertEqual("".join(pieces), turn.text)

    def test_a_prompt_that_is_too_long(self):
        with self.assertRaises(self.too_long) as caught:
            self.converse("keyed", KEY, None, (LONG,))
        self.assertIn("maximum context length is 2048 tokens", str(caught.exception))
        self.assertIn("context_length_exceeded", str(caught.exception))

    def test_a_wrong_key(self):
        with self.assertRaises(self.unauthorized) as caught:
            self.converse("keyed", "sk-another", None, QUESTIONS[:1])
        self.assertIn("API key", str(caught.exception))

    def test_the_right_key(self):
        self.assertEqual(self.converse("keyed", KEY, None, QUESTIONS[:1]), self.expected(None, QUESTIONS[:1]))

    def test_a_tool_is_refused_with_the_servers_message(self):
        with self.assertRaises(self.refused) as caught:
            self.use_tool("keyed", KEY)
        self.assertIn("tools: not supported by this model", str(caught.exception))

    def test_the_lines_of_the_documentation(self):
        examples = documented(self.section)
        self.assertTrue(examples)
        for language, code, output in examples:
            self.assertEqual(self.run_lines(language, code), output, code)

    def run_lines(self, language, code):
        self.assertEqual(language, "python")
        return run_python(code)

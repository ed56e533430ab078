#!/usr/bin/env python3
"""The limits of `quire serve`: those of docs/server.md's table, and what a request makes it hold.

The table is compared with the flags' defaults. Then the worst request of each kind that is known is
sent to a server, one after the other, and its resident memory watched at its highest and afterwards.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import unittest

from cli_support import SOURCE, facts
from serve_support import ServerTest, main, wait_until

MIB = 1 << 20
UNITS = {None: 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30, "s": 1}


def limits_table():
    """The rows of the table of limits: (what, limit, flag or None, beyond it)."""
    text = pathlib.Path(SOURCE, "docs/server.md").read_text()
    section = text[text.index("\n## Limits\n"):]
    section = section[:section.index("\n## ", 1)]
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in section.splitlines() if line.startswith("|")]
    head, _, *rows = rows
    assert head == ["what", "limit", "flag", "beyond it"], head
    return rows


def flags_with_defaults(group=""):
    """{"--max-body-bytes": 33554432.0, ...} of `quire serve`, of the groups that end so or of all."""
    defaults = {}
    for flag in facts("serve")["flags"]:
        if flag["group"].endswith(group) and re.fullmatch(r"\d+(\.\d+)?", flag["default"]):
            defaults[flag["names"][0]] = float(flag["default"])
    return defaults


class Table(unittest.TestCase):

    def test_says_what_the_flags_default_to(self):
        defaults = flags_with_defaults()
        compared = 0
        for what, limit, flag, _ in limits_table():
            if not flag:
                continue
            with self.subTest(what):
                name = re.fullmatch(r"`(--[a-z-]+)`", flag)
                self.assertIsNotNone(name, f"one flag a row, not {flag}")
                number = re.fullmatch(r"([\d,]+)(?: (KiB|MiB|GiB|s))?", limit)
                self.assertIsNotNone(number, f"a number and a unit alone, not {limit}")
                value = int(number.group(1).replace(",", "")) * UNITS[number.group(2)]
                self.assertEqual(defaults.get(name.group(1)), value)
                compared += 1
        self.assertGreater(compared, 8)

    def test_has_every_limit_that_has_a_flag(self):
        flags = {flag.strip("`") for _, _, flag, _ in limits_table()}
        limits = set(flags_with_defaults("limits of connections"))
        self.assertGreater(len(limits), 6)
        # How many threads there are is no limit of anything.
        self.assertEqual(limits - flags - {"--http-workers"}, set())

    def test_says_what_happens_beyond_each(self):
        for row in limits_table():
            self.assertEqual(len(row), 4, row)
            self.assertTrue(row[0] and row[1] and row[3], row)


def text_of(size, piece="the quick brown fox "):
    return (piece * (size // len(piece) + 1))[:size]


WORDS = ["x" * 4096] * 1024
RESPONSE_BYTES = 32 * MIB
HELD_BYTES = 256 * MIB  # the table's "what a request holds while it runs"
BODY_FACTOR = 30  # docs/server.md: what a body of JSON takes while it is read
ANSWER_FACTOR = 3
SLACK = 64 * MIB  # what the allocator keeps for later, and the server's own
ONE_PROMPT = {"prompt": "a", "ignore_eos": True}

COMPLETIONS, CHAT, EMBEDDINGS = "/v1/completions", "/v1/chat/completions", "/v1/embeddings"


def completion(**fields):
    return COMPLETIONS, {**ONE_PROMPT, **fields}


def worst_requests(wide_token):
    """name: (path, body, status). Bodies that are lists or texts as large as the server takes are
    made as text, for Python's own sake."""
    prompts = ["a"] * 1024
    long_prompt = text_of(30_000)  # about 6,000 tokens
    return {
        "n": (*completion(n=128, max_tokens=400), 200),
        "prompts": (*completion(prompt=prompts, n=4, max_tokens=16), 200),
        "prompts and tokens": (*completion(prompt=[text_of(2500)] * 1024, n=4, echo=True,
                                           logprobs=20, max_tokens=16), 400),
        "logprobs": (*completion(n=8, max_tokens=800, logprobs=20), 200),
        "logprobs of many": (*completion(prompt=prompts, n=4, logprobs=20, max_tokens=1), 200),
        "echo with logprobs": (*completion(prompt=long_prompt, echo=True, logprobs=20,
                                           max_tokens=1), 200),
        "prompt_logprobs": (*completion(prompt=long_prompt, prompt_logprobs=20, max_tokens=1),
                            200),
        "token ids": (*completion(prompt=[long_prompt] * 64, return_token_ids=True, n=4,
                                  max_tokens=1), 200),
        "stop": (*completion(stop=["y" * 4096] * 64, n=128, max_tokens=50), 200),
        "stop of many": (*completion(prompt=prompts, stop=["y" * 4096] * 64, n=4), 400),
        "bad_words": (*completion(bad_words=WORDS), 200),
        "bad_words of many": (*completion(prompt=prompts, bad_words=WORDS), 400),
        "logit_bias": (*completion(prompt=prompts, max_tokens=2,
                                   logit_bias={str(i): 1 for i in range(1024)}), 200),
        "allowed_token_ids": (*completion(prompt=prompts, max_tokens=2,
                                          allowed_token_ids=list(range(49_152))), 200),
        "messages": (CHAT, {"messages": [{"role": "user", "content": "a"}] * 4096,
                            "max_tokens": 1}, 400),
        "message": (CHAT, {"messages": [{"role": "user", "content": text_of(7 * MIB)}]}, 400),
        "chat with logprobs": (CHAT, {"messages": [{"role": "user", "content": "a"}],
                                      "logprobs": True, "top_logprobs": 20, "ignore_eos": True},
                               200),
        "response with logprobs": ("/v1/responses",
                                   {"input": "a", "top_logprobs": 20, "ignore_eos": True,
                                    "include": ["message.output_text.logprobs"]}, 200),
        "one long word": (*completion(prompt="a" * (31 * MIB)), 400),
        "many words": (*completion(prompt=text_of(31 * MIB)), 400),
        "a long text to count": ("/tokenize", {"prompt": text_of(14 * MIB),
                                               "return_token_strs": True}, 400),
        "a word to count": ("/tokenize", {"prompt": "a" * (31 * MIB)}, 400),
        "wide tokens": ("/detokenize", f'{{"tokens": [{f"{wide_token}," * (5 * MIB)}0]}}', 400),
        "deep JSON": (COMPLETIONS, '{"prompt": ' + "[" * (31 * MIB) + "}", 400),
        "lists of nothing": (COMPLETIONS, '{"prompt": [' + "[]," * (10 * MIB) + "[]]}", 400),
        "token list": (COMPLETIONS, '{"prompt": [' + "1," * (15 * MIB) + "1]}", 400),
        "many fields": (COMPLETIONS, "{" + ",".join(f'"{i:x}":0' for i in range(2_000_000)) +
                        ',"prompt":"a","max_tokens":1}', 200),
        "embeddings": (EMBEDDINGS, {"input": ["a"] * 2048}, 200),
        "embeddings of long texts": (EMBEDDINGS, {"input": [text_of(10_000)] * 256}, 200),
    }


class Memory(ServerTest):
    flags = ("--max-response-bytes", RESPONSE_BYTES, "--no-log-requests")

    def memory(self, name):
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+) kB", status).group(1)) * 1024

    def wide_token(self):
        """The id of a token whose text is far longer than its id."""
        tokens = self.server.post("/tokenize", {"prompt": " " * 200 + "\n" + "-" * 200,
                                                "return_token_strs": True}).json
        text, token = max(zip(tokens["token_strs"], tokens["tokens"]), key=lambda pair: len(pair[0]))
        self.assertGreater(len(text), 7)
        return token

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.server.process.pid}/clear_refs").write_text("5")

    @unittest.skipIf(os.environ.get("QUIRE_SANITIZE"), "a sanitizer multiplies what memory is taken")
    def test_no_known_request_takes_more_than_its_bound(self):
        for name, (path, body, status) in worst_requests(self.wide_token()).items():
            with self.subTest(name):
                body = body if isinstance(body, str) else json.dumps(body)
                self.forget_peak()
                before = self.memory("VmRSS")
                reply = self.server.post(path, body, timeout=300)
                self.assertEqual(reply.status, status, reply.body[:500])
                self.server.await_idle()
                grown = self.memory("VmHWM") - before
                print(f"{name}: body {len(body) / MIB:.1f} MiB, answer "
                      f"{len(reply.body) / MIB:.1f} MiB, memory {grown / MIB:.1f} MiB", flush=True)
                bound = (BODY_FACTOR * len(body) + SLACK)
                if status == 200:
                    self.assertLessEqual(len(reply.body), RESPONSE_BYTES)
                    bound += ANSWER_FACTOR * RESPONSE_BYTES + HELD_BYTES
                self.assertLess(grown, bound)
                wait_until(lambda: self.memory("VmRSS") < before + SLACK,
                           f"memory goes back: {self.memory('VmRSS') - before} bytes are held")

    def test_a_client_that_does_not_read_takes_no_more_than_its_buffer(self):
        request = json.dumps({**ONE_PROMPT, "n": 64, "max_tokens": 4000, "logprobs": 20,
                              "stream": True})
        self.forget_peak()
        before = self.memory("VmRSS")
        with self.server.connect() as client:
            client.sendall((f"POST {COMPLETIONS} HTTP/1.1\r\nHost: localhost\r\n"
                            f"Content-Type: application/json\r\nContent-Length: {len(request)}"
                            f"\r\n\r\n{request}").encode())
            wait_until(lambda: self.server.metrics()["quire_http_slow_readers_total"] == 1,
                       "the client is dropped")
            self.server.await_idle()
        self.assertLess(self.memory("VmHWM") - before, SLACK)


class LongBodies(ServerTest):
    flags = ("--http-workers", 1)

    def test_a_short_request_does_not_wait_for_several_long_ones(self):
        # Where this test itself is held up the long ones may end meanwhile; not every time.
        self.assertTrue(any(self.short_one_comes_first() for _ in range(5)), "it waited for all of them")

    def short_one_comes_first(self):
        body = json.dumps({"prompt": text_of(4 * MIB)})
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            long_ones = [pool.submit(self.server.post, "/tokenize", body) for _ in range(4)]

            def have_come():  # and the scrape
                return (self.server.metrics()["quire_http_requests_running"] >= 5
                        or any(each.done() for each in long_ones))
            wait_until(have_come, "all of them have come")
            self.assertEqual(self.server.post("/tokenize", {"prompt": "a"}).status, 200)
            first = not all(each.done() for each in long_ones)
            for each in long_ones:
                self.assertEqual(each.result().status, 200)
        return first


if __name__ == "__main__":
    main()

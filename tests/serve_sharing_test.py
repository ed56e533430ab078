"""Whose cached prefixes a request of `quire serve` finds, how much of them, whose turn it is, and how
much each key may ask for.

    serve_sharing_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import concurrent.futures
import pathlib
import statistics
import subprocess
import tempfile
import time
import unittest

from cli_support import PROGRAM
from serve_support import TIMEOUT, Server, ServerTest, main

PROMPT = list(range(1000, 1100))


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def complete(server, prompt, headers=None, **fields):
    reply = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 5, "ignore_eos": True,
                                            "temperature": 0, "return_token_ids": True, **fields}, headers)
    assert reply.status == 200, reply.body
    return reply.json


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


class Keys(ServerTest):
    flags = ("--api-key", "second")
    key = "first"

    def test_a_key_finds_what_it_has_asked_and_nothing_of_others(self):
        cold = complete(self.server, PROMPT)
        self.assertEqual(cached(cold), 0)
        self.assertEqual(cached(complete(self.server, PROMPT)), len(PROMPT) - 1)
        others = complete(self.server, PROMPT, bearer("second"))
        self.assertEqual(cached(others), 0)
        self.assertEqual(others["choices"], cold["choices"])
        again = complete(self.server, PROMPT, {"Authorization": "", "X-Api-Key": "second"})
        self.assertEqual(cached(again), len(PROMPT) - 1)

    def test_a_salt_keeps_requests_of_a_key_apart(self):
        prompt = [7, *PROMPT]
        complete(self.server, prompt, cache_salt="a")
        self.assertEqual(cached(complete(self.server, prompt, cache_salt="b")), 0)
        self.assertEqual(cached(complete(self.server, prompt)), 0)
        self.assertEqual(cached(complete(self.server, prompt, bearer("second"), cache_salt="a")), 0)
        self.assertEqual(cached(complete(self.server, prompt, cache_salt="a")), len(prompt) - 1)

    def test_the_messages_of_a_chat_have_a_salt_too(self):
        def ask(salt):
            reply = self.server.post("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "The cat"}], "max_tokens": 2, "cache_salt": salt})
            self.assertEqual(reply.status, 200, reply.body)
            return reply.json
        ask("c")
        self.assertEqual(cached(ask("d")), 0)
        self.assertGreater(cached(ask("c")), 0)

    def test_what_cannot_be_is_refused_by_name(self):
        for fields, words in (({"cache_salt": ""}, "cache_salt"), ({"cache_salt": 7}, "cache_salt"),
                              ({"deadline_ms": -1}, "deadline_ms"), ({"deadline_ms": 1e12}, "deadline_ms"),
                              ({"user": 7}, "user")):
            with self.subTest(fields):
                reply = self.server.post("/v1/completions", {"prompt": "a", **fields})
                self.assertEqual(reply.status, 400)
                self.assertIn(words, reply.error["message"])


class KeysByTheClock(unittest.TestCase):
    """A prompt of 900 tokens takes 90 ms to compute, and next to nothing where it is found."""

    def test_no_answers_time_tells_what_another_key_has_asked(self):
        with Server("--api-key", "second", "--simulate-token-us", 100, "--max-num-batched-tokens", 1024, key="first",
                    simulate=1) as server:
            def seconds(number, key):
                begin = time.monotonic()
                complete(server, [number, *range(1000, 1900)], bearer(key), max_tokens=1)
                return time.monotonic() - begin
            own, others, new = [], [], []
            for number in range(2000, 2009):
                seconds(number, "first")
                own.append(seconds(number, "first"))
                others.append(seconds(number, "second"))
                new.append(seconds(number + 1000, "second"))
        own, others, new = map(statistics.median, (own, others, new))
        self.assertLess(own, 0.5 * new)  # the key's own are found, and that shows
        self.assertAlmostEqual(others / new, 1, delta=0.1)


class OneForAll(ServerTest):
    flags = ("--api-key", "second", "--prefix-cache-scope", "global")
    key = "first"

    def test_keys_may_share(self):
        complete(self.server, PROMPT)
        self.assertEqual(cached(complete(self.server, PROMPT, bearer("second"))), len(PROMPT) - 1)


class Turns(ServerTest):

    def test_a_turn_computes_its_new_tokens_only(self):
        said = PROMPT[:37]
        known = 0
        for turn in range(20):
            answer = complete(self.server, said)
            self.assertEqual(cached(answer), known, f"turn {turn}")
            said = said + answer["choices"][0]["token_ids"]
            known = len(said) - 1  # the last token of an answer is never computed
            said = said + [2000 + turn, 3000, 3001]


class Fair(unittest.TestCase):

    def test_a_key_with_many_requests_delays_another_by_those_that_run(self):
        with Server("--api-key", "few", "--scheduling-policy", "fair", "--max-num-seqs", 1,
                    key="many", simulate=4) as server, \
                concurrent.futures.ThreadPoolExecutor(16) as pool:
            def ask(key):
                complete(server, PROMPT[:10], bearer(key), max_tokens=30)
                return time.monotonic()
            many = [pool.submit(ask, "many") for _ in range(12)]
            server.await_running()
            few = pool.submit(ask, "few").result()
            after = sorted(each.result() for each in many)
            self.assertLess(few, after[3])


class Quotas(ServerTest):
    """Each test has a key of its own, with its own limits."""
    flags = ("--api-key", "tokens", "--api-key", "parallel", "--api-key", "routes", "--rpm-limit", 6,
             "--tpm-limit", 100, "--max-parallel-requests", 2, "--max-num-seqs", 4)
    key = "first"

    def ask(self, key, prompt=(5, 6, 7), route="/v1/completions", **fields):
        return self.server.post(route, {"prompt": list(prompt), "max_tokens": 2, "ignore_eos": True,
                                        "temperature": 0, **fields}, bearer(key))

    def test_requests_a_minute(self):
        replies = [self.ask("first", max_tokens=1, prompt=[5]) for _ in range(7)]
        self.assertEqual([reply.status for reply in replies], [200] * 6 + [429])
        self.assertEqual(replies[0].headers["x-ratelimit-limit-requests"], "6")
        self.assertEqual(replies[0].headers["x-ratelimit-remaining-requests"], "5")
        self.assertIn(int(replies[6].headers["Retry-After"]), range(1, 11))
        self.assertIn("--rpm-limit", replies[6].error["message"])
        self.assertEqual(replies[6].error["type"], "rate_limit_error")
        self.assertEqual(replies[6].error["code"], "rate_limit_exceeded")
        self.assertEqual(self.server.get("/v1/models", bearer("first")).status, 200)

    def test_tokens_a_minute_are_those_of_prompts_and_outputs(self):
        left = 100
        for prompt, output in ((10, 5), (30, 20)):
            self.assertEqual(self.ask("tokens", range(1000, 1000 + prompt), max_tokens=output).status, 200)
            left -= prompt + output
        reply = self.ask("tokens", [5], max_tokens=60)
        self.assertEqual(reply.status, 200)  # there was something left; it was more than that
        refused = self.ask("tokens")
        self.assertEqual(refused.status, 429)
        self.assertIn("--tpm-limit", refused.error["message"])
        wait = int(refused.headers["Retry-After"])
        self.assertIn(wait, range(int((61 - left) * 0.6) - 10, int((61 - left) * 0.6) + 2))

    def test_requests_at_a_time(self):
        with Server("--max-parallel-requests", 2, "--max-num-seqs", 4, simulate=5) as server, \
                concurrent.futures.ThreadPoolExecutor(2) as pool:
            many = {"prompt": [5], "max_tokens": 200, "ignore_eos": True}
            long = [pool.submit(server.post, "/v1/completions", {**many, "stream": i == 0})
                    for i in range(2)]
            server.await_running(2)
            refused = server.post("/v1/completions", many)
            self.assertEqual(refused.status, 429)
            self.assertIn("--max-parallel-requests", refused.error["message"])
            self.assertEqual([each.result().status for each in long], [200, 200])
            self.assertEqual(server.post("/v1/completions", {**many, "max_tokens": 1}).status, 200)

    def test_every_route_that_generates_counts(self):
        requests = [("/v1/completions", {"prompt": [5], "max_tokens": 1}),
                    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}),
                    ("/v1/responses", {"input": "a", "max_output_tokens": 16}),
                    ("/v1/embeddings", {"input": [5]}),
                    ("/completion", {"prompt": [5], "n_predict": 1})]
        for used, (route, body) in enumerate(requests, 1):
            reply = self.server.post(route, body, bearer("routes"))
            self.assertEqual(reply.status, 200, reply.body)
            left = int(reply.headers["x-ratelimit-remaining-requests"])
            self.assertIn(left, (6 - used, 7 - used), route)  # one comes back every ten seconds


class KeyFile(unittest.TestCase):
    """Keys with limits of their own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "keys"

    def test_each_key_has_the_limits_of_its_line(self):
        self.file.write_text("# keys\nsmall rpm-limit=2\nlarge rpm-limit=none\nplain\n")
        flags = ("--api-key-file", self.file, "--rpm-limit", 4)
        with Server(*flags, key="flag", simulate=0) as server:
            def accepted(key):
                replies = [server.post("/v1/completions", {"prompt": [5], "max_tokens": 1}, bearer(key))
                           for _ in range(6)]
                refused = [reply for reply in replies if reply.status != 200]
                self.assertTrue(all(reply.status == 429 for reply in refused), key)
                return 6 - len(refused), replies[0].headers.get("x-ratelimit-limit-requests")
            self.assertEqual(accepted("small"), (2, "2"))
            self.assertEqual(accepted("plain"), (4, "4"))
            self.assertEqual(accepted("flag"), (4, "4"))
            self.assertEqual(accepted("large"), (6, None))
            self.assertEqual(server.get("/v1/models", bearer("# keys")).status, 401)
            # It is read once: what is written later counts from the next start on.
            self.file.write_text("late\n")
            self.assertEqual(server.get("/v1/models", bearer("late")).status, 401)
            self.assertEqual(server.get("/v1/models", bearer("small")).status, 200)

    @staticmethod
    def start(file):
        return subprocess.run([PROGRAM, "serve", "--simulate-step-ms", "0", "--port", "0", "--api-key-file", file],
                              capture_output=True, text=True, timeout=TIMEOUT, check=False)

    def test_a_bad_file_is_refused_before_the_start(self):
        expected = "line 2: rpm-limit: expected a count of 1 to 1000000000, or none"
        for text, says in (("a\nsecret rpm-limit=-3\n", expected), ("# nobody\n", "there is no key in it")):
            self.file.write_text(text)
            refused = self.start(self.file)
            self.assertEqual(refused.returncode, 64, refused.stderr)
            self.assertIn(says, refused.stderr)
            self.assertNotIn("secret", refused.stderr)
        refused = self.start(f"{self.file}.no")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"{self.file}.no", refused.stderr)


if __name__ == "__main__":
    main()

"""Request bodies that have brought other servers down: each is refused by name, and nothing else.

While each of them is sent another request runs; its tokens have to be those it has alone.

    serve_bad_requests_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import json
import threading

from serve_support import ServerTest, main

CHAT = [{"role": "user", "content": "Hi"}]
COMPLETIONS = "/v1/completions"
CHATS = "/v1/chat/completions"
OTHER = {"prompt": "Meanwhile", "max_tokens": 40, "temperature": 1, "seed": 11}


class BadRequestsTest(ServerTest):
    flags = ("--max-model-len", 512)
    simulate = 0.5

    def setUp(self):
        """Keeps another request running until the test's end."""
        self.expected = self.server.post(COMPLETIONS, OTHER).json["choices"][0]["text"]
        self.over = False
        self.texts = []
        self.other = threading.Thread(target=self._run_other)
        self.other.start()

    def _run_other(self):
        while True:
            self.texts.append(self.server.post(COMPLETIONS, OTHER).json["choices"][0]["text"])
            if self.over:  # not before: the thread may have begun late
                return

    def tearDown(self):
        self.over = True
        self.other.join()
        self.assertTrue(self.texts)
        self.assertEqual(set(self.texts), {self.expected})
        self.server.await_idle()

    def refuse(self, path, body, field=None, statuses=(400, 413, 422)):
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        reply = self.server.post(path, body)
        self.assertIn(reply.status, statuses, (body[:200], reply.body[:300]))
        self.assert_error(reply, reply.status, field)
        return reply

    def refuse_completion(self, field, **fields):
        with self.subTest(str(fields)[:100]):
            self.refuse(COMPLETIONS, {"prompt": "Red", "max_tokens": 2, **fields}, field)

    def refuse_chat(self, field, **fields):
        with self.subTest(str(fields)[:100]):
            self.refuse(CHATS, {"messages": CHAT, "max_tokens": 2, **fields}, field)


class Numbers(BadRequestsTest):
    def test_n_of_a_million(self):  # CVE-2026-34756
        self.refuse_completion("n", n=1_000_000)
        self.refuse_chat("n", n=1_000_000)

    def test_huge_best_of(self):  # CVE-2024-8768
        self.refuse_completion("best_of", best_of=1_000_000)

    def test_negative_and_huge_counts(self):  # CVE-2026-21869, CVE-2025-52566
        for field in ("n", "max_tokens", "min_tokens", "logprobs", "prompt_logprobs", "top_k"):
            for value in (-2, -(2**31), 2**64):
                self.refuse_completion(field, **{field: value})
        for field in ("n", "min_tokens", "logprobs", "prompt_logprobs"):
            for value in (2**31, 2**63 - 1):
                self.refuse_completion(field, **{field: value})
        for value in (-1, 2**64):
            self.refuse_chat("max_", max_tokens=None, max_completion_tokens=value)
        for value in (-1, 2**40, 2**64):
            self.refuse_chat("logprobs", logprobs=True, top_logprobs=value)

    def test_huge_limits(self):
        for value in (2**31, 2**63 - 1):
            self.refuse_completion("max_tokens", max_tokens=value)
            reply = self.server.post(COMPLETIONS, {"prompt": "Red", "max_tokens": 511,
                                                   "top_k": value, "ignore_eos": True})
            self.assertEqual(reply.status, 200, reply.body)
            self.assertEqual(reply.json["usage"]["total_tokens"], 512)
            self.assertEqual(reply.json["choices"][0]["finish_reason"], "length")

    def test_floats_out_of_range(self):  # llama.cpp #19367
        for field, values in {"temperature": (-0.1,), "top_p": (-1, 0, 1.1),
                              "presence_penalty": (-2.1, 2.1), "frequency_penalty": (-3, 3),
                              "repetition_penalty": (0, -1), "min_p": (-0.1, 1.1)}.items():
            for value in values:
                self.refuse_completion(field, **{field: value})

    def test_nan_and_infinity(self):
        for value in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999"):
            for field in ("temperature", "top_p", "presence_penalty"):
                with self.subTest(value=value, field=field):
                    body = '{"prompt": "Red", "max_tokens": 2, "%s": %s}' % (field, value)
                    self.refuse(COMPLETIONS, body)

    def test_a_seed_out_of_range(self):
        self.refuse_completion("seed", seed=-1)
        self.refuse_completion("seed", seed="5")


class TokenIds(BadRequestsTest):
    def test_ids_outside_the_vocabulary(self):  # vLLM PR 44968
        for ids in ([-1], [10**6], [2**40], [1, 2, 49_152]):
            self.refuse_completion("prompt", prompt=ids)
            self.refuse_completion("stop_token_ids", stop_token_ids=ids)
            self.refuse_completion("allowed_token_ids", allowed_token_ids=ids)
            self.refuse_completion("logit_bias", logit_bias={str(ids[-1]): 1})

    def test_ids_of_another_type(self):
        for ids in (["a"], [1.5], [None], [True], [[1]], "1"):
            self.refuse_completion("stop_token_ids", stop_token_ids=ids)
        for ids in ([1.5], [1, "a"], [[1], ["a"]], [[[1]]], [True], {"a": 1}, 5):
            self.refuse_completion("prompt", prompt=ids)

    def test_logit_bias(self):
        for bias in ({"a": 1}, {"1": 101}, {"1": "x"}, {"1": None}, [1], {"-1": 1}, {"1e3": 1}):
            self.refuse_completion("logit_bias", logit_bias=bias)


class Prompts(BadRequestsTest):
    def test_empty_prompts(self):  # CVE-2024-8768
        for prompt in ("", [], [""], [[]], None):
            self.refuse_completion("prompt", prompt=prompt)

    def test_no_prompt_at_all(self):
        self.refuse(COMPLETIONS, {"max_tokens": 2}, "prompt")
        self.refuse(CHATS, {"max_tokens": 2}, "messages")

    def test_a_prompt_that_is_too_long_is_not_truncated(self):
        self.refuse_completion("prompt", prompt="word " * 5000)
        self.refuse_completion("prompt", prompt=[1] * 100_000)
        self.refuse_chat("prompt", messages=[{"role": "user", "content": "word " * 5000}])

    def test_too_many_prompts(self):
        self.refuse_completion("prompt", prompt=["a"] * 1025)

    def test_messages_of_wrong_shape(self):
        for messages in (None, [], "Hi", {}, [None], ["Hi"], [{}], [{"role": "user"}],
                         [{"content": "Hi"}], [{"role": 5, "content": "Hi"}],
                         [{"role": "user", "content": 5}], [{"role": "user", "content": [5]}],
                         [{"role": "user", "content": [{"type": "text"}]}],
                         [{"role": "user", "content": [{"type": "bad"}]}]):
            self.refuse_chat("messages", messages=messages)

    def test_an_image_is_not_fetched(self):  # CVE-2025-6242
        image = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest"}}
        self.refuse_chat("messages[0].content[0]", messages=[{"role": "user", "content": [image]}])

    def test_too_many_messages(self):
        self.refuse_chat("messages", messages=CHAT * 5000)


class Templates(BadRequestsTest):
    def test_a_template_in_the_request(self):  # CVE-2025-61620
        loop = "{% for i in range(1000000000) %}x{% endfor %}"
        self.refuse_chat("chat_template", chat_template=loop)
        self.refuse_chat("chat_template", chat_template_kwargs={"chat_template": loop})

    def test_kwargs_that_are_not_the_templates(self):  # CVE-2025-62426
        for kwargs in ({"tokenize": True}, {"return_dict": True}, {"messages": []}):
            self.refuse_chat("chat_template_kwargs", chat_template_kwargs=kwargs)
        self.refuse_chat("chat_template_kwargs", chat_template_kwargs=["tokenize"])

    def test_contradictory_ends(self):
        self.refuse_chat("continue_final_message", continue_final_message=True,
                         add_generation_prompt=True)


class Unsupported(BadRequestsTest):
    # CVE-2025-48944: tools are no field here.
    def test_tools_are_refused_by_name(self):
        deep = {}
        for _ in range(10):
            deep = {"type": "object", "properties": {"a": deep}}
        tool = {"type": "function", "function": {"name": "f", "parameters": deep}}
        self.refuse_chat("tools", tools=[tool])
        self.refuse_chat("tools", tools=[{"type": 5}])
        self.refuse_chat("tool_choice", tool_choice="required")
        self.refuse_completion("beam_width", use_beam_search=True, beam_width=1_000_000)
        self.refuse_completion("suffix", suffix="x")

    # CVE-2025-57809, CVE-2025-58446, CVE-2025-29770: what cannot be compiled is refused within its
    # limits of time and memory.
    def test_hostile_grammars_are_refused_by_name(self):
        self.refuse_chat("structured_outputs", structured_outputs={"grammar": "root ::= " + "(" * 60_000})
        self.refuse_chat("structured_outputs", structured_outputs={"regex": "(" * 60_000})
        self.refuse_completion("guided_regex", guided_regex="(a{1,1000}){1,1000}{1,1000}b")
        self.refuse_completion("guided_regex", guided_regex="[")
        self.refuse_completion("guided_grammar", guided_grammar="root ::= missing")
        # Automata do not backtrack.
        reply = self.server.post(COMPLETIONS, {"prompt": "Red", "max_tokens": 4, "guided_regex": "(a+)+b"})
        self.assertEqual(reply.status, 200)

    def test_fields_that_only_the_server_sets(self):  # vLLM PR 51137
        for name in ("prompt_token_ids", "arrival_time", "block_ids", "num_computed_tokens"):
            reply = self.server.post(COMPLETIONS, {"prompt": "Red", "max_tokens": 2, name: [1, 2]})
            self.assertEqual(reply.status, 200)
            self.assertEqual(reply.headers["X-Ignored-Fields"], name)


class Json(BadRequestsTest):
    def test_not_json(self):
        for body in (b"", b"{", b"[]", b"null", b"5", b'"x"', b'{"prompt": }', b'{"prompt": "a"} x',
                     b"{'prompt': 'a'}", b'{"prompt": "a",}', b'{"prompt": 01}'):
            with self.subTest(body):
                self.refuse(COMPLETIONS, body)

    def test_bytes_that_are_no_text(self):
        for body in (b'{"prompt": "\xff"}', b'{"prompt": "\xc0\xaf"}', b'{"prompt": "\xed\xa0\x80"}',
                     b'{"prompt": "\\ud800"}', b'\xef\xbb\xbf{"prompt": "a"}',
                     b'{"prompt": "a\x00b"}', '{"prompt": "a"}'.encode("utf-16")):
            with self.subTest(body):
                self.refuse(COMPLETIONS, body)

    def test_a_nul_in_a_prompt_is_text(self):
        reply = self.server.post(COMPLETIONS, b'{"prompt": "a\\u0000b", "max_tokens": 2}')
        self.assertEqual(reply.status, 200)

    def test_the_same_key_twice(self):
        self.refuse(COMPLETIONS, b'{"prompt": "a", "max_tokens": 1, "max_tokens": 2}', "max_tokens")

    def test_depth(self):
        for depth in (100, 10_000, 1_000_000):
            for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
                body = b'{"prompt": ' + opening * depth + b"1" + closing * depth + b"}"
                self.refuse(COMPLETIONS, body)

    def test_wrong_types(self):
        for field, value in {"stream": "yes", "echo": 1, "stop": 5, "temperature": "hot",
                             "max_tokens": 1.5, "n": "2", "logprobs": [], "ignore_eos": "no",
                             "stream_options": [], "bad_words": 5,
                             "min_tokens": {}, "top_k": 1.5, "priority": "high"}.items():
            self.refuse_completion(field, **{field: value})

    def test_stop_strings(self):
        self.refuse_completion("stop", stop=[""])
        self.refuse_completion("stop", stop=["a", None])
        self.refuse_completion("stop", stop=["x"] * 10_000)


class OtherEndpoints(BadRequestsTest):
    def test_embeddings(self):
        for field, body in (("input", {}), ("input", {"input": ""}), ("input", {"input": []}),
                            ("input", {"input": [[]]}), ("input", {"input": [10**7]}),
                            ("input", {"input": ["a"] * 2049}), ("input", {"input": 5}),
                            ("dimensions", {"input": "a", "dimensions": 0}),
                            ("dimensions", {"input": "a", "dimensions": 10**9}),
                            ("encoding_format", {"input": "a", "encoding_format": "hex"})):
            with self.subTest(str(body)[:80]):
                self.refuse("/v1/embeddings", body, field)

    def test_responses(self):
        for field, body in (("input", {}), ("input", {"input": []}), ("input", {"input": 5}),
                            ("max_output_tokens", {"input": "a", "max_output_tokens": -1}),
                            ("temperature", {"input": "a", "temperature": 99}),
                            ("tools", {"input": "a", "tools": [{"type": "web_search"}]}),
                            ("background", {"input": "a", "background": True, "store": False})):
            with self.subTest(str(body)[:80]):
                self.refuse("/v1/responses", body, field)
        self.refuse("/v1/responses", {"input": "a", "previous_response_id": "../../etc/passwd"},
                    "previous_response_id", statuses=(400, 404))

    def test_tokenization(self):
        self.refuse("/tokenize", {}, "prompt")
        self.refuse("/tokenize", {"prompt": 5}, "prompt")
        self.refuse("/detokenize", {"tokens": [10**7]}, "tokens")
        self.refuse("/detokenize", {"tokens": [-1]}, "tokens")
        self.refuse("/detokenize", {"tokens": "x"}, "tokens")


class StrictFields(BadRequestsTest):
    flags = ("--strict-fields",)

    def test_an_unknown_field(self):
        self.refuse_completion("frobnicate", frobnicate=1)
        self.refuse_chat("frobnicate", frobnicate=1)


if __name__ == "__main__":
    main()

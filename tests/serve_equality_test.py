"""The real model over HTTP: many requests at once give the tokens that each gives alone.

    serve_equality_test.py PROGRAM SOURCE_DIR [TEST...]
"""

from concurrent.futures import ThreadPoolExecutor

from serve_support import ServerTest, main

CHAT = [{"role": "user", "content": "What is the capital of Japan?"}]


class Equality(ServerTest):
    flags = ("--max-model-len", 256, "--max-num-seqs", 16)
    simulate = None

    def bodies(self):
        """16 requests of all kinds: greedy and sampled, short prompts and long, some equal."""
        for i in range(16):
            body = {"prompt": f"{i % 12}. Once upon a time" + " there was a king" * (i % 5),
                    "max_tokens": 6 + i % 5, "return_token_ids": True, "seed": i % 12,
                    "temperature": 0 if i % 2 else 0.9}
            if i % 4 == 3:
                body |= {"repetition_penalty": 1.2, "logprobs": 2}
            yield body

    def complete(self, body):
        choice = self.server.post("/v1/completions", body).json["choices"][0]
        return choice["token_ids"], choice["text"], choice["logprobs"], choice["finish_reason"]

    def test_16_at_once_are_as_each_alone(self):
        bodies = list(self.bodies())
        alone = [self.complete(body) for body in bodies]
        with ThreadPoolExecutor(16) as threads:
            together = list(threads.map(self.complete, bodies))
        for body, one, other in zip(bodies, alone, together):
            self.assertEqual(one, other, body)
        self.assertTrue(all(tokens for tokens, *_ in alone))
        self.server.await_idle()

    def test_streams_at_once_are_as_each_alone(self):
        def streamed(body):
            events = self.server.post("/v1/completions", {**body, "stream": True}).events
            return [token for event in events for token in event["choices"][0]["token_ids"]]

        bodies = list(self.bodies())[:6]
        with ThreadPoolExecutor(6) as threads:
            together = list(threads.map(streamed, bodies))
        for body, tokens in zip(bodies, together):
            self.assertEqual(tokens, self.complete(body)[0], body)

    def test_an_answer_makes_sense(self):
        reply = self.server.post("/v1/chat/completions", {"messages": CHAT, "temperature": 0,
                                                          "max_tokens": 16, "logprobs": True,
                                                          "top_logprobs": 3}).json
        choice = reply["choices"][0]
        self.assertIn("Tokyo", choice["message"]["content"])
        for entry in choice["logprobs"]["content"]:
            tops = entry["top_logprobs"]
            self.assertEqual(len(tops), 3)
            self.assertEqual(tops[0]["token"], entry["token"])  # greedy takes the best
            self.assertEqual(tops, sorted(tops, key=lambda top: -top["logprob"]))


if __name__ == "__main__":
    main()

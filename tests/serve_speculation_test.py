"""A server that guesses tokens: the same answers, and what it tells of its guesses.

    serve_speculation_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import re
import unittest

from cli_support import SOURCE
from serve_support import Server, main

TINY = SOURCE / "tests/data/families/llama/hf"
NGRAM = '{"method": "ngram", "num_speculative_tokens": 8, "prompt_lookup_min": 1, "prompt_lookup_max": 3}'
PROMPT = [5, 40, 7, 9, 91, 23, 5, 40, 7, 9, 91, 23, 5, 40]


def metrics(server):
    """{name with labels other than the model's: value} of what is told of drafts."""
    found = {}
    for line in server.get("/metrics").body.decode().splitlines():
        if match := re.match(r"(\w[\w:]*)\{([^}]*)\} (\S+)", line):
            labels = re.search(r'position="(\d+)"', match[2])
            if "spec_decode" in match[1] or "draft" in match[1]:
                found[match[1], labels and int(labels[1])] = float(match[3])
    return found


class Speculation(unittest.TestCase):
    def serve(self, *flags):
        server = Server("--max-num-seqs", 4, *flags, model=TINY, simulate=None)
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def complete(self, server, **fields):
        answer = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 48, "ignore_eos": True,
                                                 "logprobs": 2, "return_token_ids": True, "seed": 7, **fields})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def test_answers_are_the_same_and_guesses_are_told(self):
        plain, server = self.serve(), self.serve("--speculative-config", NGRAM)
        self.assertIn("speculation: ngram, up to 8 tokens", server.log())
        self.assertNotIn("speculation:", plain.log())
        self.assertEqual(metrics(plain), {})
        accepted = rejected = 0
        shares = {"draft": 0, "verify": 0, "draft_rows": 0}
        for temperature in (0, 0.3, 1):
            expected = self.complete(plain, temperature=temperature, n=2)
            self.assertNotIn("completion_tokens_details", expected["usage"])
            for speculation in ("off", "auto", 0, 1, 3, 8):
                answer = self.complete(server, temperature=temperature, n=2, speculation=speculation, return_why=True)
                for choice in answer["choices"]:
                    drafts = choice.pop("why").get("drafts")
                    if speculation in ("off", 0):
                        self.assertIsNone(drafts)
                    elif drafts:
                        self.check_drafts(drafts)
                        for name in shares:
                            shares[name] += drafts[f"{name}_ms"] / 1000
                self.assertEqual(answer["choices"], expected["choices"], (temperature, speculation))
                details = answer["usage"].get("completion_tokens_details")
                if speculation in ("off", 0):
                    self.assertIsNone(details)
                elif isinstance(speculation, int):
                    self.assertGreater(details["accepted_prediction_tokens"] + details["rejected_prediction_tokens"], 0)
                if details:
                    accepted += details["accepted_prediction_tokens"]
                    rejected += details["rejected_prediction_tokens"]
        told = metrics(server)
        self.assertEqual(told["vllm:spec_decode_num_accepted_tokens_total", None], accepted)
        self.assertEqual(told["quire_draft_tokens_rejected_total", None], rejected)
        self.assertEqual(told["vllm:spec_decode_num_draft_tokens_total", None], accepted + rejected)
        places = [told["vllm:spec_decode_num_accepted_tokens_per_pos_total", place] for place in range(8)]
        self.assertEqual(sum(places), accepted)
        self.assertEqual(places, sorted(places, reverse=True))
        self.assertLessEqual(places[0], told["vllm:spec_decode_num_drafts_total", None])
        seconds = {name: told[f"quire_spec_decode_{name}_seconds_total", None]
                   for name in ("draft", "verify", "draft_rows", "plain", "taken")}
        # What requests were told is a part of it: the rest went to others in their steps, and to nobody.
        for name, share in shares.items():
            self.assertLessEqual(share, seconds[name] + 0.001, name)
            self.assertGreater(seconds[name], 0, name)
        self.assertLess(seconds["draft_rows"], seconds["verify"])
        self.assertLess(seconds["verify"], seconds["taken"])
        self.assertLess(seconds["taken"], server.metrics()['quire_step_time_seconds{use="requests"}'])
        live = server.get("/engine/state").json["speculation"]
        self.assertEqual((live["method"], live["max_tokens"], live["accepted_at"]), ("ngram", 8, places))
        self.assertEqual(live["accepted_tokens"] + live["rejected_tokens"], live["draft_tokens"])
        self.assertEqual(live["draft_tokens"], accepted + rejected)
        self.assertAlmostEqual(live["verify_s"], seconds["verify"], delta=0.001)
        self.assertAlmostEqual(live["speedup"], seconds["plain"] / seconds["taken"], delta=0.001)
        self.assertNotIn("speculation", plain.get("/engine/state").json)

    def check_drafts(self, drafts):
        right, steps = drafts["accepted_at"], drafts["steps"]
        self.assertEqual(sum(right), drafts["accepted"])
        self.assertEqual(right, sorted(right, reverse=True))
        self.assertLessEqual(max(right, default=0), steps)
        self.assertAlmostEqual(drafts["mean_accepted_length"], 1 + drafts["accepted"] / steps, delta=0.001)
        self.assertGreater(drafts.get("speedup", 1), 0)
        self.assertIn("guesses were right", drafts["because"])

    def test_what_cannot_be_is_refused(self):
        server = self.serve("--speculative-config", NGRAM)
        for speculation in ("fast", 9, -1, 1.5, [], 33):
            answer = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1, "speculation": speculation})
            self.assertEqual(answer.status, 400, answer.body)
            self.assertIn("speculation", answer.json["error"]["message"])
        plain = self.serve()
        answer = plain.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1, "speculation": 2})
        self.assertEqual(answer.status, 400)
        self.assertIn("--speculative-config", answer.json["error"]["message"])
        self.complete(plain, speculation="off")
        self.complete(plain, speculation="auto")


if __name__ == "__main__":
    main()

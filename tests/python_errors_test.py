"""The Python package's errors: each by its class, its code and its remedy.

    python_errors_test.py BUILD/python SOURCE_DIR [TEST...]
"""

import math
import pickle
import unittest

from python_support import TINY, main

import quire
from quire import LLM, BeamSearchParams, SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=12)
PROMPTS = ["the cat", "a dog sat on", "Once upon a time there", "x"]


class Errors(unittest.TestCase):
    def test_each_is_the_builtin_that_fits(self):
        with self.assertRaises(quire.InvalidArgumentError) as caught:
            SamplingParams(temperature=-1)
        self.assertIsInstance(caught.exception, ValueError)
        self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
        self.assertIn("temperature", str(caught.exception))
        with self.assertRaises(FileNotFoundError) as caught:
            LLM("/nowhere/at/all.gguf")
        self.assertEqual(caught.exception.code, "NOT_FOUND")
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(again), str(again)), (type(caught.exception), str(caught.exception)))
        with self.assertRaises(MemoryError) as caught:
            LLM(TINY, kv_cache_memory_bytes=16)
        self.assertEqual(caught.exception.code, "RESOURCE_EXHAUSTED")
        self.assertTrue(caught.exception.remedy)

    def test_settings(self):
        with self.assertRaisesRegex(quire.UnimplementedError, "tensor-parallel-size"):
            LLM(TINY, tensor_parallel_size=2)
        with self.assertRaisesRegex(ValueError, "did you mean max_model_len"):
            LLM(TINY, max_modellen=8)
        with self.assertRaisesRegex(ValueError, "max_num_seqs"):
            LLM(TINY, max_num_seqs="many")
        with LLM(TINY, tensor_parallel_size=1, enforce_eager=True, trust_remote_code=False, swap_space=4,
                 quantization=None) as llm:
            self.assertEqual(llm.info["block_size"], 16)

    def test_guesses_change_no_token(self):
        with LLM(TINY) as llm, LLM(TINY, speculative_config={"method": "ngram", "num_speculative_tokens": 3}) as other:
            plain, guessed = (each.generate(PROMPTS, GREEDY, use_tqdm=False) for each in (llm, other))
        self.assertEqual([each.outputs for each in plain], [each.outputs for each in guessed])
        with self.assertRaisesRegex((ValueError, NotImplementedError), "tarot"):
            LLM(TINY, speculative_config={"method": "tarot"})

    def test_parameters(self):
        for wrong in ({"top_p": 2}, {"max_tokens": 0}, {"n": 1.5}, {"temperature": math.nan}, {"stop": 3},
                      {"logit_bias": {"x": 1}}):
            with self.assertRaises(ValueError, msg=wrong):
                SamplingParams(**wrong)
        with self.assertRaisesRegex(TypeError, "temprature"):
            SamplingParams(temprature=1)
        with self.assertRaisesRegex(NotImplementedError, "beam_width"):
            SamplingParams(use_beam_search=True)
        params = SamplingParams(top_k=5)
        params.top_k = -7  # told when it is used
        with LLM(TINY) as llm, self.assertRaisesRegex(ValueError, "top_k"):
            llm.generate("x", params, use_tqdm=False)

    def test_prompts(self):
        with LLM(TINY) as llm:
            for wrong, said in (([320], "320"), ([-1], "-1"), ([2**40], "prompts"), ([1] * 256, "256"), ({"prompt_token_ids": []}, "no tokens"),
                                ([None], "prompt"), ({"multi_modal_data": {}}, "multi_modal_data"),
                                ({"prompt": "x", "priority": 2**40}, "priority"), ({"prompt": "x", "user": 3}, "user"),
                                ({"prompt": "x", "deadline_ms": -1}, "deadline_ms"),
                                ({"prompt": "x", "cache_salt": ""}, "cache_salt"),
                                ({"prompt": "x", "user": {1}}, "set")):
                with self.assertRaises((ValueError, NotImplementedError), msg=wrong) as caught:
                    llm.generate(wrong, use_tqdm=False)
                self.assertIn(said, str(caught.exception))
            with self.assertRaisesRegex(ValueError, "priority: the prompt and the call"):
                llm.generate([{"prompt": "x", "priority": 1}], use_tqdm=False, priority=[2])
            self.assertEqual(len(llm.generate("the cat", use_tqdm=False)), 1)

    def test_beam_search(self):
        params = BeamSearchParams(beam_width=3, max_tokens=6, ignore_eos=True)
        with LLM(TINY) as llm:
            found = llm.beam_search(["the cat", {"prompt_token_ids": [5, 6, 7]}], params)
            same = llm.generate("the cat", params.sampling_params(), use_tqdm=False)[0]
            greedy = llm.beam_search("the cat", BeamSearchParams(1, 6, ignore_eos=True))[0].sequences
            expected = llm.generate("the cat", SamplingParams(temperature=0, max_tokens=6, ignore_eos=True), use_tqdm=False)
            whole = llm.get_tokenizer().decode(found[0].sequences[0].tokens)
        self.assertEqual([len(each.sequences) for each in found], [3, 3])
        best = found[0].sequences
        self.assertEqual([each.tokens for each in best],
                         [same.prompt_token_ids + list(each.token_ids) for each in same.outputs])
        self.assertEqual(sorted((each.cum_logprob for each in best), reverse=True), [each.cum_logprob for each in best])
        self.assertEqual(best[0].text, whole)
        self.assertAlmostEqual(best[0].cum_logprob, sum(next(iter(each.values())).logprob for each in best[0].logprobs), 4)
        self.assertEqual(found[1].sequences[0].tokens[:3], [5, 6, 7])
        self.assertEqual(greedy[0].tokens, expected[0].prompt_token_ids + list(expected[0].outputs[0].token_ids))
        for wrong in ({"beam_width": 0}, {"beam_width": 2, "max_tokens": 0}, {"early_stopping": "often"}):
            with self.assertRaises(ValueError, msg=wrong):
                BeamSearchParams(**{"beam_width": 2, "max_tokens": 4, **wrong})

    def test_what_is_not_there_says_so(self):
        with LLM(TINY) as llm:
            for call in (lambda: llm.beam_search("x", BeamSearchParams(2, 2), lora_request=1),
                         lambda: llm.wake_up(["weights"]),
                         lambda: llm.chat([{"role": "user", "content": "x"}], chat_template="x")):
                with self.assertRaises(NotImplementedError) as caught:
                    call()
                self.assertTrue(caught.exception.remedy)

    def test_a_closed_engine(self):
        llm = LLM(TINY)
        llm.close()
        llm.close()
        self.assertIn("closed", repr(llm))
        with self.assertRaisesRegex(quire.UnavailableError, "closed"):
            llm.generate("x", use_tqdm=False)
        with self.assertRaisesRegex(quire.UnavailableError, "closed"):
            llm.get_tokenizer().encode("x")
        with self.assertRaisesRegex(TypeError, "pickled"):
            pickle.dumps(llm)


if __name__ == "__main__":
    main()

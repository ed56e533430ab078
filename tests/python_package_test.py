"""The Python package: LLM, its outputs, and what it says of itself.

    python_package_test.py BUILD/python SOURCE_DIR [TEST...]
"""

import copy
import gc
import inspect
import json
import math
import pickle
import subprocess
import unittest

from python_support import PACKAGE, SMOLLM2, SOURCE, TINY, main, needs

import numpy

import quire
from quire import LLM, SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=12)
PROMPTS = ["the cat", "a dog sat on", "Once upon a time there", "x"]


def by_the_program(*lines):
    """What `quire generate` gives for lines of a batch."""
    done = subprocess.run([str(PACKAGE / "quire/bin/quire"), "generate", "--model", str(TINY), "--input", "-"],
                          input="".join(json.dumps(line) + "\n" for line in lines), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Generate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(TINY, max_num_seqs=3)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def generate(self, *arguments, **keywords):
        return self.llm.generate(*arguments, use_tqdm=False, **keywords)

    def test_the_same_tokens_as_the_command_line(self):
        outputs = self.generate(PROMPTS, GREEDY)
        told = by_the_program(*({"prompt": prompt, "temperature": 0, "max_tokens": 12} for prompt in PROMPTS))
        for prompt, output, record in zip(PROMPTS, outputs, told, strict=True):
            expected = record["outputs"][0]
            self.assertEqual(output.prompt, prompt)
            self.assertEqual(output.prompt_token_ids, self.llm.get_tokenizer().encode(prompt))
            self.assertEqual(output.outputs[0].token_ids, expected["token_ids"])
            self.assertEqual(output.outputs[0].text, expected["text"])
            self.assertEqual(output.outputs[0].finish_reason, expected["finish_reason"])
            self.assertTrue(output.finished)

    def test_a_prompt_is_a_text_ids_or_a_dict(self):
        ids = self.llm.get_tokenizer().encode("the cat")
        forms = ["the cat", ids, {"prompt": "the cat"}, {"prompt_token_ids": ids}, numpy.array(ids)]
        answers = self.generate(forms, GREEDY)
        self.assertEqual({tuple(each.outputs[0].token_ids) for each in answers},
                         {tuple(answers[0].outputs[0].token_ids)})
        self.assertEqual([each.prompt for each in answers], ["the cat", None, "the cat", None, None])
        for form in forms[:4]:  # one alone is one prompt
            (alone,) = self.generate(form, GREEDY)
            self.assertEqual(alone.outputs[0].token_ids, answers[0].outputs[0].token_ids)
        self.assertEqual(self.generate([], GREEDY), [])

    def test_params_for_each(self):
        lengths = [1, 5, 3, 7]
        params = [SamplingParams(temperature=0, max_tokens=n, ignore_eos=True) for n in lengths]
        outputs = self.generate(PROMPTS, params)
        self.assertEqual([len(each.outputs[0].token_ids) for each in outputs], lengths)
        with self.assertRaisesRegex(ValueError, "2 for 4 prompts"):
            self.generate(PROMPTS, params[:2])

    def test_without_params_the_models_defaults_hold(self):
        defaults = self.llm.get_default_sampling_params()
        self.assertEqual(defaults.max_tokens, 16)
        self.assertEqual(len(self.generate("the cat")), 1)

    def test_max_tokens_none_goes_to_the_end_of_the_context(self):
        (output,) = self.generate([5] * 200, SamplingParams(temperature=0, max_tokens=None, ignore_eos=True))
        self.assertEqual(len(output.outputs[0].token_ids), 256 - 200)
        self.assertEqual(output.outputs[0].finish_reason, "length")

    def test_several_outputs_and_seeds(self):
        params = SamplingParams(n=3, temperature=1, seed=7, max_tokens=8, ignore_eos=True)
        (one,) = self.generate("the cat", params)
        (again,) = self.generate("the cat", params)
        self.assertEqual([each.index for each in one.outputs], [0, 1, 2])
        self.assertEqual(one.outputs, again.outputs)
        self.assertGreater(len({each.text for each in one.outputs}), 1)

    def test_stop_strings_and_ids(self):
        (whole,) = self.generate("the cat", GREEDY)
        token = whole.outputs[0].token_ids[2]
        (stopped,) = self.generate("the cat", SamplingParams(temperature=0, stop_token_ids=[token]))
        self.assertEqual(stopped.outputs[0].stop_reason, token)
        self.assertEqual(stopped.outputs[0].finish_reason, "stop")
        text = whole.outputs[0].text[1:4]
        (cut,) = self.generate("the cat", SamplingParams(temperature=0, stop=text))
        self.assertEqual(cut.outputs[0].stop_reason, text)
        self.assertNotIn(text, cut.outputs[0].text)

    def test_more_prompts_than_run_at_once_come_in_order(self):
        prompts = [[5 + i % 200, 7] for i in range(60)]
        outputs = self.generate(prompts, SamplingParams(temperature=0, max_tokens=1 + 5, ignore_eos=True))
        self.assertEqual([each.prompt_token_ids for each in outputs], prompts)
        self.assertEqual({len(each.outputs[0].token_ids) for each in outputs}, {6})

    def test_metrics_and_cached_tokens(self):
        prompt = [9] * 100
        (cold,) = self.generate(prompt, GREEDY)
        (warm,) = self.generate(prompt, GREEDY)
        self.assertEqual(cold.num_cached_tokens, 0)
        self.assertEqual(warm.num_cached_tokens, 99)
        self.assertEqual(cold.outputs, warm.outputs)
        times = warm.metrics
        self.assertLessEqual(times.arrival_time, times.first_scheduled_time)
        self.assertLessEqual(times.first_scheduled_time, times.first_token_time)
        self.assertLessEqual(times.first_token_time, times.finished_time)
        self.assertGreater(times.time_to_first_token, 0)

    def test_what_requests_cost_and_idle_time_add_up_to_the_price(self):
        with LLM(TINY, max_num_seqs=3, price_per_hour=3600) as llm:  # a dollar a second
            outputs = llm.generate(PROMPTS, SamplingParams(temperature=0.9, n=2, max_tokens=12), use_tqdm=False)
            metrics = {(each.name, each.labels.get("use")): each.value for each in llm.get_metrics()}
            self.assertEqual(metrics["quire:price_per_hour_usd", None], 3600)
            paid = sum(output.metrics.cost for output in outputs)
            self.assertGreater(min(output.metrics.cost for output in outputs), 0)
            self.assertAlmostEqual(paid, metrics["quire:cost_usd", "requests"], places=9)
            for use in ("requests", "idle"):
                self.assertAlmostEqual(metrics["quire:cost_usd", use], metrics["quire:step_time_seconds", use], places=9)
            self.assertAlmostEqual(outputs[0].metrics.step_time, outputs[0].metrics.cost, places=12)
            # The clock of the engine is that of its requests.
            whole = metrics["quire:cost_usd", "requests"] + metrics["quire:cost_usd", "idle"]
            self.assertGreaterEqual(whole, max(output.metrics.finished_time for output in outputs))
            self.assertEqual(pickle.loads(pickle.dumps(outputs[0].metrics)), outputs[0].metrics)

    def test_without_a_price_there_is_a_time_and_no_cost(self):
        (output,) = self.generate("the cat", GREEDY)
        self.assertIsNone(output.metrics.cost)
        self.assertGreater(output.metrics.step_time, 0)
        self.assertNotIn("quire:cost_usd", {each.name for each in self.llm.get_metrics()})
        for price in ("much", -1, "rtx5090"):  # the catalogue has no price of the last
            with self.assertRaisesRegex(quire.InvalidArgumentError, "--price-per-hour"):
                LLM(TINY, price_per_hour=price)

    def test_a_reset_prefix_cache_is_cold(self):
        prompt = [11] * 100
        self.generate(prompt, GREEDY)
        self.assertTrue(self.llm.reset_prefix_cache())
        (cold,) = self.generate(prompt, GREEDY)
        (warm,) = self.generate(prompt, GREEDY)
        self.assertEqual((cold.num_cached_tokens, warm.num_cached_tokens), (0, 99))
        self.assertEqual(cold.outputs, warm.outputs)

    def test_a_salt_keeps_prefixes_apart(self):
        ids = [13] * 100
        salted = {"prompt_token_ids": ids, "cache_salt": "mine"}
        cached = [self.generate(prompt, GREEDY)[0].num_cached_tokens
                  for prompt in (ids, salted, salted, {**salted, "cache_salt": "another"}, ids)]
        self.assertEqual(cached, [0, 0, 99, 0, 99])
        messages = [{"role": "user", "content": "the cat " * 8}]
        cached = [self.llm.chat(messages, GREEDY, use_tqdm=False, cache_salt=salt)[0].num_cached_tokens
                  for salt in ("one", "two", "two")]
        self.assertEqual(cached[:2], [0, 0])
        self.assertGreater(cached[2], 16)

    def test_logprobs_as_dicts_and_as_arrays(self):
        (output,) = self.generate("the cat", SamplingParams(temperature=0, max_tokens=5, ignore_eos=True,
                                                           logprobs=3, prompt_logprobs=0))
        completion = output.outputs[0]
        arrays = completion.logprob_arrays
        self.assertEqual(arrays.top_token_ids.shape, (5, 3))
        self.assertEqual(arrays.token_ids.tolist(), completion.token_ids)
        for i, (token, entries) in enumerate(zip(completion.token_ids, completion.logprobs, strict=True)):
            self.assertEqual(next(iter(entries)), token)  # its own first
            self.assertEqual(entries[token].rank, 1)  # greedy
            self.assertEqual(list(entries), arrays.top_token_ids[i].tolist())
            self.assertEqual(entries[token].decoded_token, self.llm.get_tokenizer().decode([token]))
            self.assertEqual([each.logprob for each in entries.values()], arrays.top_logprobs[i].tolist())
        self.assertAlmostEqual(completion.cumulative_logprob, float(arrays.logprobs.sum()), places=4)
        self.assertIsNone(output.prompt_logprobs[0])
        self.assertEqual(len(output.prompt_logprobs), len(output.prompt_token_ids))
        self.assertIn(output.prompt_token_ids[1], output.prompt_logprobs[1])

    def test_arrays_are_views_that_outlive_their_output(self):
        (output,) = self.generate("the cat", SamplingParams(temperature=0, max_tokens=5, logprobs=2))
        completion = output.outputs[0]
        first, second = completion.token_ids_array, completion.token_ids_array
        self.assertEqual(first.__array_interface__["data"], second.__array_interface__["data"])
        self.assertFalse(first.flags.writeable)
        kept, ids = completion.logprob_arrays.top_logprobs, list(completion.token_ids)
        values = kept.tolist()
        del output, completion, second
        gc.collect()
        self.generate(PROMPTS, GREEDY)
        self.assertEqual(first.tolist(), ids)
        self.assertEqual(kept.tolist(), values)

    def test_outputs_and_params_are_pickled(self):
        (output,) = self.generate("the cat", SamplingParams(temperature=0, max_tokens=5, logprobs=2))
        again = pickle.loads(pickle.dumps(output))
        self.assertEqual(again, output)
        self.assertEqual(again.outputs[0].token_ids_array.tolist(), output.outputs[0].token_ids)
        params = SamplingParams(temperature=0.5, stop=["x"], logit_bias={3: 1.5}, max_tokens=None)
        self.assertEqual(pickle.loads(pickle.dumps(params)), params)
        self.assertEqual(copy.deepcopy(params), params)

    def test_a_bar(self):
        class Bar:
            made = []

            def __init__(self, total, **options):
                self.total, self.done, self.closed = total, 0, False
                Bar.made.append(self)

            def update(self, count):
                self.done += count

            def close(self):
                self.closed = True

        self.llm.generate(PROMPTS, GREEDY, use_tqdm=Bar)
        (bar,) = Bar.made
        self.assertEqual((bar.total, bar.done, bar.closed), (4, 4, True))

    def test_an_error_of_the_bar_ends_the_call_and_nothing_else(self):
        class Broken:
            def __init__(self, **options):
                pass

            def update(self, count):
                raise RuntimeError("the bar broke")

            def close(self):
                pass

        with self.assertRaisesRegex(RuntimeError, "the bar broke"):
            self.llm.generate(PROMPTS, GREEDY, use_tqdm=Broken)
        self.assertEqual(len(self.generate(PROMPTS, GREEDY)), 4)
        self.assertEqual(self.llm.engine_state()["running"], [])

    def test_shown_in_a_notebook(self):
        (output,) = self.generate("<b>", SamplingParams(temperature=0, max_tokens=3, logprobs=2))
        shown = output._repr_html_()
        self.assertIn("&lt;b&gt;", shown)
        self.assertEqual(shown.count("<span title="), len(output.outputs[0].token_ids))

    def test_what_it_says_of_itself(self):
        (output,) = self.generate("the cat", GREEDY)
        (story,) = self.llm.why(output.request_id)
        self.assertEqual(story["status"], "finished")
        self.assertAlmostEqual(sum(span["duration_ms"] for span in story["spans"]), story["total_ms"], places=6)
        self.assertIn("in all", story["text"])
        with self.assertRaisesRegex(quire.NotFoundError, "no request"):
            self.llm.why("never heard of")
        state = self.llm.engine_state()
        self.assertEqual((state["running"], state["waiting"]), ([], []))
        self.assertEqual(state["stats"]["blocks_leaked"], 0)
        metrics = {each.name: each for each in self.llm.get_metrics()}
        self.assertEqual(metrics["vllm:num_requests_running"].value, 0)
        self.assertGreater(metrics["vllm:generation_tokens"].value, 0)
        self.assertEqual(self.llm.info["vocab_size"], 320)
        self.assertGreater(self.llm.plan["total_bytes"], 0)

    def test_its_timeline(self):
        self.generate(PROMPTS, GREEDY)
        timeline = self.llm.timeline()
        self.assertEqual(timeline.slots, 3)
        self.assertTrue(all(len(step["rows"]) <= 3 for step in timeline.steps))
        self.assertTrue(any(len(step["rows"]) == 3 for step in timeline.steps))
        self.assertIn("<iframe srcdoc=", timeline._repr_html_())

    def test_the_tokenizer(self):
        tokenizer = self.llm.get_tokenizer()
        ids = tokenizer.encode("the cat sat")
        self.assertEqual(tokenizer.decode(ids, skip_special_tokens=True), "the cat sat")
        self.assertEqual(tokenizer("the cat sat")["input_ids"], ids)
        self.assertEqual(len(tokenizer), tokenizer.vocab_size)
        token = tokenizer.convert_ids_to_tokens(ids[-1:])[0]
        self.assertEqual(tokenizer.convert_tokens_to_ids(token), ids[-1])
        self.assertIn(tokenizer.eos_token_id, tokenizer.all_special_ids)
        self.assertEqual(quire.Tokenizer.open(TINY).encode("the cat sat"), ids)
        self.assertEqual(quire.tokenize("the cat sat", TINY), ids)

    def test_a_chat_is_its_rendered_prompt(self):
        messages = [{"role": "user", "content": "the cat"}]
        (answer,) = self.llm.chat(messages, GREEDY, use_tqdm=False)
        ids = self.llm.get_tokenizer().apply_chat_template(messages, add_generation_prompt=True)
        text = self.llm.get_tokenizer().apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        self.assertEqual(answer.prompt_token_ids, ids)
        self.assertEqual(answer.prompt, text)
        (same,) = self.generate({"prompt_token_ids": ids}, GREEDY)
        self.assertEqual(answer.outputs, same.outputs)
        both = self.llm.chat([messages, messages], GREEDY, use_tqdm=False)
        self.assertEqual([each.outputs for each in both], [answer.outputs] * 2)
        started = [*messages, {"role": "assistant", "content": "The cat"}]
        (goes_on,) = self.llm.chat(started, GREEDY, use_tqdm=False, continue_final_message=True)
        self.assertTrue(goes_on.prompt.endswith("The cat"), goes_on.prompt)


class Vectors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(TINY)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def test_embeddings(self):
        one, other = self.llm.embed(["the cat", "a dog"], use_tqdm=False)
        self.assertEqual(one.outputs.array.shape, (32,))
        self.assertEqual(one.outputs.array.tolist(), one.outputs.embedding)
        self.assertAlmostEqual(math.fsum(x * x for x in one.outputs.embedding), 1, places=5)
        self.assertNotEqual(one.outputs.embedding, other.outputs.embedding)
        cut = quire.PoolingParams(dimensions=8)
        (short,) = self.llm.embed("the cat", use_tqdm=False, pooling_params=cut)
        self.assertEqual(short.outputs.hidden_size, 8)
        self.assertEqual(pickle.loads(pickle.dumps(one)).outputs.embedding, one.outputs.embedding)
        with self.assertRaisesRegex(ValueError, "more than 32"):
            self.llm.embed("x", use_tqdm=False, pooling_params=quire.PoolingParams(dimensions=33))

    def test_raw_vectors_and_scores(self):
        (raw,) = self.llm.encode("the cat", use_tqdm=False)
        (unit,) = self.llm.embed("the cat", use_tqdm=False)
        length = float(numpy.linalg.norm(raw.outputs.data))
        self.assertNotAlmostEqual(length, 1, places=2)
        numpy.testing.assert_allclose(raw.outputs.data / length, unit.outputs.array, rtol=1e-5)
        same, other = self.llm.score("the cat", ["the cat", "a dog"], use_tqdm=False)
        self.assertAlmostEqual(same.outputs.score, 1, places=5)
        self.assertLess(other.outputs.score, 1)


class Models(unittest.TestCase):
    def test_inspect_and_plan(self):
        report = quire.inspect(TINY)
        self.assertEqual(report["architecture"], "LlamaForCausalLM")
        plan = quire.plan(TINY)
        self.assertEqual(report["memory_plan"].keys(), plan.keys())
        with LLM(TINY) as llm:
            self.assertAlmostEqual(llm.plan["total_bytes"] / plan["total_bytes"], 1, places=2)
        with self.assertRaises(MemoryError):
            quire.plan(TINY, kv_cache_memory_bytes=16)

    def test_a_pipeline(self):
        run = quire.pipeline("text-generation", TINY)
        (made,) = run("the cat", max_new_tokens=4, temperature=0)
        self.assertTrue(made["generated_text"].startswith("the cat"))
        (bare,) = run("the cat", max_new_tokens=4, temperature=0, return_full_text=False)
        self.assertEqual("the cat" + bare["generated_text"], made["generated_text"])
        self.assertEqual(len(run(["the cat", "x"], max_new_tokens=4)), 2)
        run.llm.close()
        with self.assertRaisesRegex(NotImplementedError, "translation"):
            quire.pipeline("translation", TINY)

    def test_stubs_name_every_parameter(self):
        stub = (SOURCE / "python/quire/sampling_params.pyi").read_text()
        for name in inspect.signature(SamplingParams).parameters:
            self.assertRegex(stub, rf"(?m)^        {name}: .*,$")

    @needs(SMOLLM2)
    def test_the_bundled_model(self):
        with LLM() as llm:
            question = [{"role": "user", "content": "What is the capital of Japan?"}]
            (answer,) = llm.chat(question, SamplingParams(temperature=0, max_tokens=20), use_tqdm=False)
            self.assertEqual(answer.outputs[0].text, "The capital of Japan is Tokyo.")


if __name__ == "__main__":
    main()

"""A user's code in the loop: functions over logits, and tensors that are replaced.

    python_user_code_test.py BUILD/python SOURCE_DIR [TEST...]
"""

import functools
import json
import pathlib
import pickle
import shutil
import struct
import tempfile
import unittest

from python_support import TINY, main, python

import numpy as np

import quire
from quire import LLM, AsyncLLM, SamplingParams

PROMPT = "The quick brown fox jumps over the lazy dog"


def only(token, ids, row):
    """A processor that can be pickled."""
    kept = row[token]
    row[:] = -np.inf
    row[token] = kept


def greedy(*processors, **fields):
    return SamplingParams(temperature=0, ignore_eos=True, logits_processors=list(processors) or None,
                          **{"max_tokens": 8, **fields})


class LogitsProcessors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(TINY, threads=2)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def run_one(self, params):
        (output,) = self.llm.generate(PROMPT, params, use_tqdm=False)
        return output.outputs[0]

    def test_is_called_once_a_token_with_what_came_before(self):
        seen = []

        def note(ids, row):
            self.assertEqual((row.dtype, row.shape), (np.float32, (self.llm.info["vocab_size"],)))
            self.assertTrue(np.isfinite(row).all())
            seen.append(list(ids))

        plain = self.run_one(greedy())
        output = self.run_one(greedy(note))
        self.assertEqual(output.token_ids, plain.token_ids)
        self.assertEqual(seen, [plain.token_ids[:i] for i in range(8)])

    def test_changes_the_row_in_place_or_returns_another(self):
        def other(ids, row):
            shifted = np.full_like(row, -np.inf)
            shifted[10 + len(ids)] = 1
            return shifted

        def no_repeats(ids, row):
            row[ids] = -np.inf

        self.assertEqual(self.run_one(greedy(functools.partial(only, 7))).token_ids, [7] * 8)
        self.assertEqual(len(set(self.run_one(greedy(no_repeats, max_tokens=30)).token_ids)), 30)
        self.assertEqual(self.run_one(greedy(other)).token_ids, list(range(10, 18)))
        # One after the other, and before all other parameters.
        raise_two = lambda ids, row: row.__setitem__(2, row.max() + 1)  # noqa: E731
        raise_three = lambda ids, row: row.__setitem__(3, row.max() + 1)  # noqa: E731
        self.assertEqual(self.run_one(greedy(raise_two, raise_three)).token_ids, [3] * 8)
        self.assertEqual(self.run_one(greedy(raise_two, raise_three, logit_bias={3: -100})).token_ids, [2] * 8)

    def test_log_probabilities_are_the_models(self):
        plain = self.run_one(greedy(max_tokens=1, logprobs=5))
        second = list(plain.logprobs[0])[1]
        output = self.run_one(greedy(functools.partial(only, second), max_tokens=1, logprobs=5))
        self.assertEqual(output.token_ids, [second])
        self.assertEqual(output.logprobs[0][second], plain.logprobs[0][second])
        self.assertEqual(output.logprobs[0][second].rank, 2)

    def test_requests_beside_it_are_as_they_were(self):
        prompts = [PROMPT[:10 + 3 * i] for i in range(6)]
        plain = [output.outputs[0].token_ids for output in self.llm.generate(prompts, greedy(), use_tqdm=False)]
        params = [greedy(functools.partial(only, 9)) if i % 3 == 1 else greedy() for i in range(6)]
        mixed = [output.outputs[0].token_ids for output in self.llm.generate(prompts, params, use_tqdm=False)]
        self.assertEqual(mixed, [[9] * 8 if i % 3 == 1 else plain[i] for i in range(6)])

    def test_guesses_do_not_add_calls(self):
        calls = []
        with LLM(TINY, threads=2, speculative_config={"method": "ngram", "num_speculative_tokens": 4}) as llm:
            params = greedy(lambda ids, row: calls.append(len(ids)), max_tokens=20,
                            structured_outputs={"regex": "(ab)*"})
            llm.generate(PROMPT, params, use_tqdm=False)
        self.assertEqual(calls, list(range(len(calls))))

    def test_an_exception_ends_the_call_and_nothing_else(self):
        class Mine(Exception):
            pass

        def broken(ids, row):
            if len(ids) == 3:
                raise Mine("on purpose")

        with self.assertRaisesRegex(Mine, "on purpose"):
            self.llm.generate([PROMPT, PROMPT], [greedy(broken), greedy()], use_tqdm=False)
        self.assertEqual(self.llm.engine_state()["stats"]["num_running"], 0)
        self.assertEqual(len(self.run_one(greedy()).token_ids), 8)

    def test_what_it_leaves_is_checked(self):
        def nothing(ids, row):
            row[:] = -np.inf

        def nan(ids, row):
            row[5] = np.nan

        for processor, message in ((nothing, "no token is left"), (nan, "token 5 became nan"),
                                   (lambda ids, row: row[:4], r"shape \(4,\)")):
            with self.assertRaisesRegex(ValueError, message):
                self.run_one(greedy(processor))
        with self.assertRaisesRegex(ValueError, "no token is left"):
            self.run_one(greedy(functools.partial(only, 7), allowed_token_ids=[8, 9]))

    def test_may_not_call_its_engine(self):
        errors = []

        def call(ids, row):
            for method in (lambda: self.llm.generate("x", greedy(), use_tqdm=False), self.llm.close):
                try:
                    method()
                except quire.UnavailableError as error:
                    errors.append(str(error))

        self.run_one(greedy(call, max_tokens=1))
        self.assertEqual([("logits processor calls the engine" in each) for each in errors], [True, True])

    def test_a_row_that_is_kept_is_memory_of_its_own(self):
        kept = []
        with LLM(TINY, threads=2) as llm:
            llm.generate(PROMPT, greedy(lambda ids, row: kept.append(row)), use_tqdm=False)
        self.assertEqual(len(kept[0]), len(kept[0].copy()))
        kept[0][:] = 0
        self.assertEqual(kept[0].sum(), 0)

    def test_params_with_functions(self):
        params = greedy(functools.partial(only, 7))
        again = pickle.loads(pickle.dumps(params))
        self.assertEqual(self.run_one(again).token_ids, [7] * 8)
        self.assertEqual(params, params.clone())
        self.assertNotEqual(params, greedy())
        self.assertIn("logits_processors=[functools.partial", repr(params))
        changed = greedy()
        changed.logits_processors = [functools.partial(only, 4)]
        self.assertEqual(self.run_one(changed).token_ids, [4] * 8)

    def test_what_is_refused(self):
        class Batch:
            def __init__(self, *arguments):
                pass

        for value, kind, message in (
                (len, ValueError, "list of functions"), ([5], ValueError, "cannot be called"),
                ([Batch], NotImplementedError, "Batch is a class"),
                ([lambda prompt, output, row: row], NotImplementedError, "the prompt's token ids")):
            with self.assertRaisesRegex(kind, message):
                SamplingParams(logits_processors=value)
        with self.assertRaisesRegex(NotImplementedError, "logits-processors|logits_processors"):
            LLM(TINY, logits_processors=[Batch])
        with LLM(TINY, simulate_step_ms=0) as llm, self.assertRaisesRegex(NotImplementedError, "made up"):
            llm.generate("x", greedy(functools.partial(only, 7)), use_tqdm=False)

    def test_the_interpreter_ends_within_one(self):
        done = python(f"""
import threading, time, quire
llm = quire.LLM({str(TINY)!r}, threads=2)
entered = threading.Event()
def slow(ids, row):
    entered.set()
    time.sleep(0.2)
params = quire.SamplingParams(max_tokens=None, ignore_eos=True, logits_processors=[slow])
threading.Thread(target=lambda: llm.generate("x", params, use_tqdm=False), daemon=True).start()
entered.wait()
print("end")
""", timeout=60)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "end"), done.stderr)


class AsyncLogitsProcessors(unittest.IsolatedAsyncioTestCase):
    async def test_a_stream_with_one(self):
        engine = AsyncLLM(str(TINY), threads=2)
        async for output in engine.generate(PROMPT, greedy(functools.partial(only, 7))):
            last = output
        self.assertEqual(last.outputs[0].token_ids, [7] * 8)

        def broken(ids, row):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            async for _ in engine.generate(PROMPT, greedy(broken)):
                pass
        engine.shutdown()


class Checkpoint:
    """A safetensors file: its tensors as arrays of bits."""

    TYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        self.header = json.loads(data[8 : 8 + size])
        self.start = 8 + size
        self.data = bytearray(data)
        self.tensors = {}
        for name, entry in self.header.items():
            if name == "__metadata__":
                continue
            begin, end = (self.start + each for each in entry["data_offsets"])
            array = np.frombuffer(data[begin:end], self.TYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
            self.tensors[name] = array

    def as_float32(self, name):
        array = self.tensors[name]
        if self.header[name]["dtype"] == "BF16":
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array.astype(np.float32)

    def put(self, name, array):
        begin, end = (self.start + each for each in self.header[name]["data_offsets"])
        self.data[begin:end] = array.tobytes()


class UpdateWeights(unittest.TestCase):
    def tokens(self, llm):
        (output,) = llm.generate(PROMPT, greedy(max_tokens=16, logprobs=2), use_tqdm=False)
        return output.outputs[0].token_ids, output.outputs[0].logprobs

    def test_is_a_load_with_other_tensors(self):
        with tempfile.TemporaryDirectory() as folder, LLM(TINY, threads=2) as llm:
            copy = pathlib.Path(folder) / "model"
            shutil.copytree(TINY, copy)
            files = {path: Checkpoint(path) for path in copy.glob("*.safetensors")}
            before = self.tokens(llm)
            state, given = {}, {}
            for path, checkpoint in files.items():
                for name, array in checkpoint.tensors.items():
                    given[name] = checkpoint.as_float32(name)
                    state[name] = np.ascontiguousarray(given[name][::-1])
                    checkpoint.put(name, array[::-1].copy())
                path.write_bytes(checkpoint.data)
            with LLM(copy, threads=2) as loaded:
                wanted = self.tokens(loaded)
            self.assertNotEqual(before, wanted)
            llm.update_weights(iter(state.items()))
            self.assertEqual(self.tokens(llm), wanted)
            (again,) = llm.generate(PROMPT, greedy(), use_tqdm=False)
            self.assertGreater(again.num_cached_tokens, 0)
            with self.assertRaisesRegex(quire.UnavailableError, "weights were replaced"):
                llm.sleep()
            llm.sleep(level=2)
            llm.wake_up()
            self.assertEqual(self.tokens(llm), before)
            llm.sleep()  # nothing is replaced now
            llm.wake_up()
            llm.update_weights(given)
            self.assertEqual(self.tokens(llm), before)

    def test_what_is_wrong_is_named_and_changes_nothing(self):
        with LLM(TINY, threads=2) as llm:
            before = self.tokens(llm)
            norm = np.ones(llm.info["hidden_size"], np.float32)
            for weights, message in (
                    ([("model.nrom.weight", norm)], "did you mean model.norm.weight"),
                    ([("model.norm.weight", norm[:-1])], "shape"),
                    ([("model.norm.weight", norm.astype(np.int32))], "another type"),
                    ([("model.norm.weight", [1.0])], "is no array"),
                    ([("model.norm.weight", norm * np.nan)], "not finite"),
            ):
                with self.assertRaisesRegex(ValueError, message):
                    llm.update_weights(weights)
            self.assertEqual(self.tokens(llm), before)
            with LLM(TINY, simulate_step_ms=0) as made_up, self.assertRaises(NotImplementedError):
                made_up.update_weights([("model.norm.weight", norm)])


if __name__ == "__main__":
    main()

"""AsyncLLM: streams of one event loop and of several.

    python_async_test.py BUILD/python SOURCE_DIR [TEST...]
"""

import asyncio
import gc
import json
import unittest

from python_support import TINY, main

import quire
from quire import LLM, AsyncEngineArgs, AsyncLLM, AsyncLLMEngine, RequestOutputKind, SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)


async def last(stream):
    output = None
    async for output in stream:
        pass
    return output


async def until_idle(engine):
    """Until nothing runs; the state as it is then."""
    for _ in range(500):
        state = engine._client.engine.state(8)
        if '"running":[],"waiting":[]' in state:
            return state
        await asyncio.sleep(0.01)
    raise AssertionError(state)


async def until_sampled(engine, count):
    """Until the engine has sampled so many tokens, of all requests."""
    for _ in range(1000):
        if json.loads(engine._client.engine.state(0))["stats"]["output_tokens_sampled"] >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"fewer than {count} tokens in ten seconds")


class Streams(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().slow_callback_duration = 60  # the test's loop is a debugging one
        self.engine = AsyncLLMEngine.from_engine_args(AsyncEngineArgs(TINY, max_num_seqs=4))

    async def asyncTearDown(self):
        self.engine.shutdown()

    async def test_outputs_grow_to_what_llm_gives(self):
        seen = []
        async for output in self.engine.generate("the cat", GREEDY, "mine"):
            self.assertEqual(output.request_id, "mine")
            seen.append(output)
        self.assertTrue(seen[-1].finished)
        self.assertFalse(any(each.finished for each in seen[:-1]))
        for before, after in zip(seen, seen[1:]):
            self.assertTrue(after.outputs[0].text.startswith(before.outputs[0].text))
            self.assertGreater(len(after.outputs[0].token_ids), len(before.outputs[0].token_ids))
        with LLM(TINY) as llm:
            (whole,) = llm.generate("the cat", GREEDY, use_tqdm=False)
        self.assertEqual(seen[-1].outputs[0].token_ids, whole.outputs[0].token_ids)
        self.assertEqual(seen[-1].outputs[0].text, whole.outputs[0].text)

    async def test_pieces_add_up(self):
        whole = await last(self.engine.generate("the cat", GREEDY))
        delta = GREEDY.clone()
        delta.output_kind = RequestOutputKind.DELTA
        text, ids = "", []
        async for output in self.engine.generate("the cat", delta):
            text += output.outputs[0].text
            ids += output.outputs[0].token_ids
        self.assertEqual((text, ids), (whole.outputs[0].text, whole.outputs[0].token_ids))
        final = GREEDY.clone()
        final.output_kind = RequestOutputKind.FINAL_ONLY
        outputs = [each async for each in self.engine.generate("the cat", final)]
        self.assertEqual(len(outputs), 1)
        self.assertEqual(outputs[0].outputs, whole.outputs)

    async def test_several_outputs_and_logprobs(self):
        params = SamplingParams(n=2, seed=3, max_tokens=6, ignore_eos=True, logprobs=2, prompt_logprobs=1)
        output = await last(self.engine.generate("the cat", params))
        self.assertEqual([each.index for each in output.outputs], [0, 1])
        self.assertGreater(output.metrics.step_time, 0)
        self.assertIsNone(output.metrics.cost)
        self.assertEqual(len(output.prompt_logprobs), len(output.prompt_token_ids))
        for each in output.outputs:
            self.assertEqual([next(iter(entries)) for entries in each.logprobs], each.token_ids)

    async def test_pieces_know_what_has_ended_and_the_last_its_cost(self):
        engine = AsyncLLMEngine.from_engine_args(AsyncEngineArgs(TINY, price_per_hour=3600))
        params = GREEDY.clone()
        params.output_kind = RequestOutputKind.DELTA
        pieces = [each async for each in engine.generate("the cat", params)]
        self.assertEqual({each.metrics.cost for each in pieces[:-1]} - {None}, set())
        self.assertGreater(pieces[-1].metrics.cost, 0)
        self.assertAlmostEqual(pieces[-1].metrics.cost, pieces[-1].metrics.step_time, places=12)
        engine.shutdown()

    async def test_three_at_once(self):
        outputs = await asyncio.gather(*(last(self.engine.generate(p, GREEDY)) for p in ("a", "b", "c")))
        self.assertEqual([each.prompt for each in outputs], ["a", "b", "c"])

    async def test_a_thousand_tasks(self):
        params = SamplingParams(temperature=0, max_tokens=3, ignore_eos=True)
        outputs = await asyncio.gather(
            *(last(self.engine.generate([5 + i % 300, 9], params, f"r{i}")) for i in range(1000)))
        self.assertEqual([each.request_id for each in outputs], [f"r{i}" for i in range(1000)])
        self.assertEqual({len(each.outputs[0].token_ids) for each in outputs}, {3})
        alone = await last(self.engine.generate([5 + 7, 9], params))
        self.assertEqual(outputs[7].outputs, alone.outputs)
        self.assertEqual(self.engine._running, {})

    async def test_embeddings(self):
        (output,) = [each async for each in self.engine.encode("the cat")]
        with LLM(TINY) as llm:
            (same,) = llm.encode("the cat", use_tqdm=False)
        self.assertEqual(output.outputs.data.tolist(), same.outputs.data.tolist())

    async def test_what_is_wrong_is_raised(self):
        with self.assertRaisesRegex(ValueError, "320"):
            await last(self.engine.generate([320], GREEDY))
        self.assertEqual(self.engine._running, {})


class Ends(unittest.IsolatedAsyncioTestCase):
    """With steps that take their time, so that requests are cut off in between."""

    ENDLESS = SamplingParams(max_tokens=None, ignore_eos=True)

    async def asyncSetUp(self):
        self.engine = AsyncLLM(TINY, simulate_step_ms=5)

    async def asyncTearDown(self):
        self.engine.shutdown()

    async def test_cancelling_the_task_ends_the_request(self):
        begun = asyncio.Event()

        async def follow():
            async for _ in self.engine.generate("the cat", self.ENDLESS):
                begun.set()

        task = asyncio.create_task(follow())
        await begun.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertIn('"num_aborted":1', await until_idle(self.engine))

    async def test_leaving_the_loop_ends_the_request(self):
        async for _ in self.engine.generate("the cat", self.ENDLESS):
            break
        gc.collect()
        self.assertIn('"num_aborted":1', await until_idle(self.engine))

    async def test_abort_by_its_name(self):
        output = None
        async for output in self.engine.generate("the cat", self.ENDLESS, "mine"):
            await self.engine.abort("mine")
        self.assertTrue(output.finished)
        self.assertEqual(output.outputs[0].finish_reason, "abort")

    async def test_a_slow_task_gets_what_has_come_in_one_piece(self):
        stream = self.engine.generate("the cat", self.ENDLESS)
        first = await anext(stream)
        await until_sampled(self.engine, len(first.outputs[0].token_ids) + 40)
        second = await anext(stream)
        third = await anext(stream)
        grown = [len(each.outputs[0].token_ids) for each in (first, second, third)]
        self.assertGreater(grown[2], grown[0] + 10)
        await stream.aclose()
        await until_idle(self.engine)

    async def test_closing_the_engine_ends_streams(self):
        async def follow():
            return await last(self.engine.generate("the cat", self.ENDLESS))

        tasks = [asyncio.create_task(follow()) for _ in range(3)]
        await asyncio.sleep(0.1)
        self.engine.shutdown()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            self.assertIsInstance(result, quire.UnavailableError)
        with self.assertRaises(quire.UnavailableError):
            await self.engine.check_health()

    async def test_a_full_queue_says_so(self):
        engine = AsyncLLM(TINY, simulate_step_ms=5, max_num_seqs=1, max_queued_requests=1)
        streams = [engine.generate("x", self.ENDLESS) for _ in range(3)]
        await anext(streams[0])
        waiting = asyncio.create_task(anext(streams[1]))
        await asyncio.sleep(0.05)
        with self.assertRaises(quire.ResourceExhaustedError):
            await anext(streams[2])
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        for stream in streams:
            await stream.aclose()
        engine.shutdown()


class Order(unittest.IsolatedAsyncioTestCase):
    async def first_of(self, policy, *prompts):
        """Which of the prompts is done first, when all wait for one that runs."""
        engine = AsyncLLM(TINY, simulate_step_ms=2, max_num_seqs=1, scheduling_policy=policy)
        busy = SamplingParams(max_tokens=60, ignore_eos=True)
        running = engine.generate({"prompt": "x", "user": "busy"}, busy)
        await anext(running)
        done = []

        async def follow(place, prompt):
            await last(engine.generate(prompt, SamplingParams(max_tokens=2, ignore_eos=True)))
            done.append(place)

        tasks = [asyncio.create_task(follow(*each)) for each in enumerate(prompts)]
        await last(running)
        await asyncio.gather(*tasks)
        engine.shutdown()
        return done[0]

    async def test_a_prompts_fields_say_who_goes_first(self):
        for policy, field, values in (("priority", "priority", (5, 1)), ("deadline", "deadline_ms", (60_000, 10)),
                                      ("fair", "user", ("busy", "idle"))):
            prompts = [{"prompt": "x", field: value} for value in values]
            self.assertEqual(await self.first_of(policy, *prompts), 1, policy)
            self.assertEqual(await self.first_of("fcfs", *prompts), 0, policy)


class Loops(unittest.TestCase):
    def test_one_engine_serves_one_loop_after_another(self):
        engine = AsyncLLM(TINY)
        answers = [asyncio.run(last(engine.generate("the cat", GREEDY))) for _ in range(3)]
        self.assertEqual(answers[0].outputs, answers[2].outputs)
        gc.collect()
        self.assertEqual(len(engine._links), 0)
        engine.shutdown()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What Python costs beside the engine: processor time of the calling thread for each token and request, with tokens
that are made up, 256 at once.

    .venv/bin/python scripts/measure_python.py --model MODEL [--requests 1024] [--tokens 64]
    .venv/bin/python scripts/measure_python.py --model MODEL --streams 64 [--tokens 64] [--rounds 3]

The second compares the throughput of so many streams of AsyncLLM, with the model's own tokens, with that of `quire generate`
for the same prompts, in turns. The engine's own threads compute beside it and are not counted; what the calling thread does while it waits costs no
processor time.
"""

import argparse
import asyncio
import json
import re
import subprocess
import time

from quire import LLM, AsyncLLM, SamplingParams
from quire._program import program

PROMPT = "Once upon a time, there was a little girl who lived in a village near the forest."


def costs(run, requests, tokens):
    """Microseconds of this thread, for each request with one token and for each further token."""
    seconds = {}
    for length in (1, tokens):
        best = None
        for _ in range(3):
            begin = time.thread_time()
            run(requests, length)
            spent = time.thread_time() - begin
            best = spent if best is None else min(best, spent)
        seconds[length] = best
    token = (seconds[tokens] - seconds[1]) / (requests * (tokens - 1))
    return 1e6 * seconds[1] / requests, 1e6 * token


def compare_streams(model, streams, tokens, rounds):
    """Prints output tokens a second of the program and of AsyncLLM, in turns."""
    settings = {"max_num_seqs": streams, "max_model_len": 512, "generation_config": "vllm"}
    prompts = [f"{PROMPT} It was number {i}." for i in range(streams)]
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    fields = {"temperature": 0, "max_tokens": tokens, "ignore_eos": True}
    lines = "".join(json.dumps({"prompt": prompt, **fields}) + "\n" for prompt in prompts)
    command = [program(), "generate", "--input", "-", *(["--model", model] if model else [])]
    for name, value in settings.items():
        command += ["--" + name.replace("_", "-"), str(value)]

    async def follow(engine, prompt):
        async for _ in engine.generate(prompt, params):
            pass

    async def everything(engine):
        await asyncio.gather(*(follow(engine, prompt) for prompt in prompts))

    for _ in range(rounds):
        done = subprocess.run(command, input=lines, text=True, check=True, capture_output=True)
        by_the_program = float(re.search(r"output tokens in .*: ([\d.]+) output tokens/s", done.stderr)[1])
        engine = AsyncLLM(model, **settings)
        begin = time.perf_counter()
        asyncio.run(everything(engine))
        by_streams = streams * tokens / (time.perf_counter() - begin)
        engine.shutdown()
        print(f"quire generate: {by_the_program:.1f} tokens/s, AsyncLLM: {by_streams:.1f} tokens/s, "
              f"{by_streams / by_the_program:.3f} of it", flush=True)


def streams(engine):
    """Runs requests of an event loop, 256 at once."""
    def run(requests, length):
        params = SamplingParams(max_tokens=length, ignore_eos=True)

        async def one(limit):
            async with limit:
                async for _ in engine.generate(PROMPT, params):
                    pass

        async def everything():
            limit = asyncio.Semaphore(256)
            await asyncio.gather(*(one(limit) for _ in range(requests)))

        asyncio.run(everything())

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="")
    parser.add_argument("--requests", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--streams", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if args.streams:
        compare_streams(args.model, args.streams, args.tokens, args.rounds)
        return
    settings = {"simulate_step_ms": 0, "max_num_seqs": 256, "max_num_batched_tokens": 8192, "max_model_len": 1024}

    with LLM(args.model, **settings) as llm:
        def generate(requests, length):
            params = SamplingParams(max_tokens=length, ignore_eos=True)
            llm.generate([PROMPT] * requests, params, use_tqdm=False)

        request, token = costs(generate, args.requests, args.tokens)
        print(f"LLM.generate:      {request:6.1f} us a request, {token:6.2f} us a token")

    for step_ms, what in ((0, "as fast as it goes, pieces that have come meanwhile in one output"),
                          (20, "steps of 20 ms, an output for each token")):
        engine = AsyncLLM(args.model, **{**settings, "simulate_step_ms": step_ms})
        request, token = costs(streams(engine), args.requests if step_ms == 0 else 256, args.tokens)
        print(f"AsyncLLM.generate: {request:6.1f} us a request, {token:6.2f} us a token ({what})")
        engine.shutdown()


if __name__ == "__main__":
    main()

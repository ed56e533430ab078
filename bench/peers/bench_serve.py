#!/usr/bin/env python3
"""`quire bench serve` beside a second, independent client (aiohttp), on the same server, alternating.

  bench/peers/bench_serve.py [--pairs 5] [--concurrency 16 | --rate 40] [--num-prompts 200]
                             [--input-len 64] [--output-len 32] PROGRAM BASE_URL

Needs Python with `aiohttp` (.venvs/clients, `make test-clients`). The other client has code of its own for
everything: HTTP, events, times, percentiles. Both send prompts of random token ids of one length, greedy,
end of sequence ignored: a fixed number at once, or at the arrivals of one trace of Poisson gaps. Prints the
medians of output tokens/s and of the median time to first token, with their spread, and the ratios; and by
how much each client was late on average, by a tick each 20 ms: where that is not small beside the time to
first token, the machine is too busy for this comparison. With `--check 3` it fails where a ratio is further
than 3% from 1.
"""

import argparse
import asyncio
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import aiohttp


class Client:
    def __init__(self, options, model, pool, arrivals, seed):
        self.options = options
        self.model = model
        self.pool = pool
        self.arrivals = arrivals
        self.random = random.Random(seed)
        self.first_token = []
        self.late = []
        self.tokens = 0
        self.last = 0.0

    def body(self):
        return json.dumps(
            {"model": self.model, "temperature": 0, "ignore_eos": True, "stream": True,
             "stream_options": {"include_usage": True}, "max_tokens": self.options.output_len,
             "prompt": [self.random.choice(self.pool) for _ in range(self.options.input_len)]}).encode()

    async def request(self, session, body, arrival):
        """Looks at the events up to the first text, and at the rest together when it is complete: what
        this client does between two reads delays the next one."""
        async with session.post(self.options.base_url + "/v1/completions", data=body,
                                headers={"Content-Type": "application/json"}) as response:
            if response.status != 200:
                raise RuntimeError(f"HTTP {response.status}: {await response.text()}")
            async for line in response.content:
                first = time.perf_counter()
                if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["text"]:
                    break
            rest = await response.content.read()
            self.tokens += int(re.findall(rb'"completion_tokens": *([0-9]+)', rest)[-1])
        self.last = time.perf_counter()
        self.first_token.append(first - arrival)

    async def closed_loop(self, session, bodies):
        async def worker():
            while bodies:
                await self.request(session, bodies.pop(), time.perf_counter())
        await asyncio.gather(*(worker() for _ in range(self.options.concurrency)))

    async def open_loop(self, session, bodies, start):
        async def one(body, arrival):
            await asyncio.sleep(max(arrival - time.perf_counter(), 0))
            await self.request(session, body, arrival)
        await asyncio.gather(*(one(body, start + arrival)
                               for body, arrival in zip(bodies, self.arrivals)))

    async def tick(self):
        """How late this client gets to what is due: a part of its times that is not the server's."""
        while True:
            due = time.perf_counter() + 0.02
            await asyncio.sleep(0.02)
            self.late.append(time.perf_counter() - due)

    async def run(self):
        bodies = [self.body() for _ in range(self.options.num_prompts)]
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            ticking = asyncio.create_task(self.tick())
            start = time.perf_counter()
            if self.options.rate:
                await self.open_loop(session, bodies, start)
            else:
                await self.closed_loop(session, bodies)
            ticking.cancel()
        return (self.tokens / (self.last - start), statistics.median(self.first_token) * 1e3,
                statistics.fmean(self.late) * 1e3)


def run_quire(options, trace, seed):
    command = [options.program, "bench", "serve", "--base-url", options.base_url, "--json",
               "--num-prompts", options.num_prompts, "--input-len", options.input_len, "--output-len",
               options.output_len, "--ignore-eos", "--num-warmups", 0, "--seed", seed]
    if options.rate:
        command += ["--dataset-name", "trace", "--dataset-path", trace]
    else:
        command += ["--max-concurrency", options.concurrency]
    result = subprocess.run([str(each) for each in command], check=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)
    report = json.loads(result.stdout)
    return (report["output_throughput"], report["ttft_ms"]["p50"],
            report["client"]["lag_ms"]["mean"])


async def ask_server(options):
    """The model's name, and ids of ordinary tokens."""
    async with aiohttp.ClientSession(options.base_url) as session:
        async with session.get("/v1/models") as response:
            model = (await response.json())["data"][0]["id"]
        text = " ".join("many of these words are common enough to be one token each".split() * 3)
        async with session.post("/tokenize", json={"model": model, "prompt": text}) as response:
            return model, (await response.json())["tokens"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("base_url")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--num-prompts", type=int, default=200)
    parser.add_argument("--input-len", type=int, default=64)
    parser.add_argument("--output-len", type=int, default=32)
    parser.add_argument("--check", type=float, help="percent")
    options = parser.parse_args()

    model, pool = asyncio.run(ask_server(options))
    gaps = random.Random(1)
    arrivals = []
    for _ in range(options.num_prompts):
        arrivals.append((arrivals[-1] if arrivals else 0.0) +
                        (gaps.expovariate(options.rate) if options.rate and arrivals else 0.0))
    results = {"quire": [], "aiohttp": []}
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder, "trace.jsonl")
        trace.write_text("".join(
            json.dumps({"timestamp": each, "input_len": options.input_len,
                        "output_len": options.output_len}) + "\n" for each in arrivals))
        # Before the first pair, one run of each that is not counted.
        for pair in range(-1, options.pairs):
            order = ["quire", "aiohttp"] if pair % 2 else ["aiohttp", "quire"]
            for name in order:
                if name == "quire":
                    value = run_quire(options, trace, 1000 + pair)
                else:
                    client = Client(options, model, pool, arrivals, 5000 + pair)
                    value = asyncio.run(client.run())
                if pair >= 0:
                    results[name].append(value)
                    print(f"{name:>8}: {value[0]:10.1f} tokens/s, TTFT p50 {value[1]:8.2f} ms, "
                          f"late by {value[2]:6.2f} ms", file=sys.stderr)

    far = False
    for index, what in enumerate(("output tokens/s", "TTFT p50, ms", "late by, ms")):
        median = {}
        for name, values in results.items():
            column = [value[index] for value in values]
            median[name] = statistics.median(column)
            print(f"{what:<16} {name:>8}: median {median[name]:10.2f} "
                  f"({min(column):.2f} to {max(column):.2f})")
        if index == 2:
            break  # of the client, not of the server
        ratio = median["quire"] / median["aiohttp"]
        print(f"{what:<16}    ratio: {ratio:.4f}")
        far = far or (options.check is not None and abs(ratio - 1) * 100 > options.check)
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())

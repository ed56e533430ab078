#!/usr/bin/env python3
"""A streaming benchmark with aiohttp: a window of requests in flight out of many.

Latency is from sending to the last event, TTFT from sending to the first event. Tokens are what the
server counts (`usage`), per second of the whole run.
"""

import asyncio
import json
import statistics
import time

import aiohttp

from common import arguments


def percentile(values, percent):
    """The smallest value that at least `percent` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


async def stream(session, args, number):
    """Latency and TTFT in seconds, and the number of tokens."""
    body = {"model": args.model, "prompt": f"{number}. Once upon a time", "temperature": 1,
            "max_tokens": args.max_tokens, "stream": True, "stream_options": {"include_usage": True}}
    begin = time.perf_counter()
    first = None
    tokens = 0
    async with session.post(f"{args.base_url}/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.content:
            if not line.startswith(b"data: "):
                continue
            first = first or time.perf_counter()
            data = line.removeprefix(b"data: ").strip()
            if data == b"[DONE]":
                break
            event = json.loads(data)
            if "error" in event:
                raise RuntimeError(event["error"]["message"])
            if event.get("usage"):
                tokens = event["usage"]["completion_tokens"]
    return time.perf_counter() - begin, first - begin, tokens


async def main():
    parser = arguments(__doc__)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--window", type=int, default=10, help="requests in flight at once")
    parser.add_argument("--max-tokens", type=int, default=64)
    args = parser.parse_args()
    window = asyncio.Semaphore(args.window)

    async def one(number):
        async with window:
            return await stream(session, args, number)

    headers = {"Authorization": f"Bearer {args.api_key}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        if args.model is None:
            async with session.get(f"{args.base_url}/models") as response:
                args.model = (await response.json())["data"][0]["id"]
        begin = time.perf_counter()
        results = await asyncio.gather(*(one(i) for i in range(args.requests)))
        seconds = time.perf_counter() - begin
    latencies, firsts, tokens = zip(*results)
    print(f"requests: {len(results)}, {args.window} in flight, {seconds:.2f} s")
    print(f"latency: mean {statistics.mean(latencies):.3f} s, p50 {percentile(latencies, 50):.3f} s, "
          f"p99 {percentile(latencies, 99):.3f} s")
    print(f"TTFT: mean {statistics.mean(firsts):.3f} s")
    print(f"throughput: {sum(tokens)} tokens, {sum(tokens) / seconds:.1f} tokens/s")


asyncio.run(main())

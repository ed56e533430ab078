#!/usr/bin/env python3
"""How the server answers many requests at once, with aiohttp alone.

First 10 at once, with the latency and status of each; then 1, 2, 4, 8 and 16 at once, with the time
of each batch and how many were answered with 200.
"""

import asyncio
import time

import aiohttp

from common import arguments


async def complete(session, args, number):
    """The status and the latency in seconds of one request."""
    body = {"model": args.model, "prompt": f"Fact number {number}: the", "temperature": 1,
            "max_tokens": args.max_tokens}
    begin = time.perf_counter()
    async with session.post(f"{args.base_url}/completions", json=body) as response:
        await response.read()
        return response.status, time.perf_counter() - begin


async def batch(session, args, size):
    begin = time.perf_counter()
    results = await asyncio.gather(*(complete(session, args, i) for i in range(size)))
    return results, time.perf_counter() - begin


async def main():
    parser = arguments(__doc__)
    parser.add_argument("--max-tokens", type=int, default=32)
    args = parser.parse_args()
    headers = {"Authorization": f"Bearer {args.api_key}"}
    async with aiohttp.ClientSession(headers=headers, raise_for_status=False) as session:
        if args.model is None:
            async with session.get(f"{args.base_url}/models") as response:
                args.model = (await response.json())["data"][0]["id"]
        results, seconds = await batch(session, args, 10)
        for i, (status, latency) in enumerate(results):
            print(f"request {i}: status {status}, {latency:.3f} s")
        print(f"10 at once: {seconds:.3f} s")
        for size in (1, 2, 4, 8, 16):
            results, seconds = await batch(session, args, size)
            succeeded = sum(status == 200 for status, _ in results)
            print(f"batch of {size}: {seconds:.3f} s, {succeeded} of {size} succeeded")


asyncio.run(main())

"""An engine behind Ray Serve: one deployment, whose replicas each have an engine, and three requests to it.

    pip install "ray[serve]"
    ray_serve.py [--model MODEL] [--threads 2] [--replicas 1] [--stay]

With --stay it goes on serving: curl localhost:8000 -d '{"prompt": "Red, green and", "max_tokens": 8}'
"""

import argparse
import concurrent.futures
import json
import time
import urllib.request
from typing import Any

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

from quire import AsyncLLM, QuireError, RequestOutput, SamplingParams

PROMPTS = ["The capital of Japan is", "Red, green and", "Water boils at"]


class Engine:
    """A replica. Requests that are under way at once are one batch of its engine's."""

    def __init__(self, model: str, threads: int) -> None:
        self.engine = AsyncLLM(model, threads=threads)

    async def __call__(self, request: Request) -> JSONResponse:
        body: dict[str, Any] = json.loads(await request.body())
        prompt = body.pop("prompt", "")
        output: RequestOutput | None = None
        try:
            async for output in self.engine.generate(prompt, SamplingParams(**body)):
                pass
        except (QuireError, TypeError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        assert output is not None
        return JSONResponse({"text": output.outputs[0].text, "finish_reason": output.outputs[0].finish_reason})


def ask(prompt: str) -> str:
    body = json.dumps({"prompt": prompt, "temperature": 0, "max_tokens": 8}).encode()
    with urllib.request.urlopen("http://127.0.0.1:8000/", body, timeout=300) as answer:
        return str(json.load(answer)["text"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="default: the bundled one")
    parser.add_argument("--threads", type=int, default=2, help="of each engine")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--stay", action="store_true")
    args = parser.parse_args()

    deployment: Any = serve.deployment(
        Engine,
        num_replicas=args.replicas,
        max_ongoing_requests=256,
        ray_actor_options={"num_cpus": args.threads},
    )
    serve.run(deployment.bind(args.model, args.threads))
    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        for prompt, text in zip(PROMPTS, pool.map(ask, PROMPTS)):
            print(f"{prompt!r} -> {text!r}")
    while args.stay:
        time.sleep(3600)
    serve.shutdown()


if __name__ == "__main__":
    main()

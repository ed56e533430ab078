#!/usr/bin/env python3
"""A chat over HTTP, turn by turn: what each one computes, and how long it takes to its first token.

    bench/prefix_cache/chat_turns.py PROGRAM [--model MODEL] [--turns 20] [--max-tokens 48]

Starts `quire serve`, sends the whole conversation with each turn, as clients do, and prints for each its prompt tokens, those
that are new (the question and what the template puts around it: all behind the prompt and the answer of the turn before),
those that were computed, and the time to the first token. The exit code is 1 where a turn computed more than its new tokens
and a token: the last one of an answer has been sampled, but not computed. A second server without prefix cache answers the
same conversation, to compare times.
"""

import argparse
import contextlib
import json
import pathlib
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
from engines import free_port, running_server  # noqa: E402

QUESTIONS = ("Who was the first to sail around Africa?", "What did the ships carry?", "How long did that take?",
             "Tell me about the sailors.", "What did they eat?")


def ask(url, messages, max_tokens):
    """The answer, the usage, and the seconds to the first token."""
    body = {"messages": messages, "temperature": 0, "stream": True, "max_tokens": max_tokens,
            "stream_options": {"include_usage": True}}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    begin, first, text, usage = time.perf_counter(), None, "", None
    with urllib.request.urlopen(request, timeout=600) as response:
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            for choice in event["choices"]:
                if content := choice["delta"].get("content"):
                    first = first or time.perf_counter() - begin
                    text += content
            usage = event.get("usage") or usage
    return text, usage, first


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--model")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--max-tokens", type=int, default=48)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        urls = []
        for flags in ((), ("--no-enable-prefix-caching",)):
            url = f"http://127.0.0.1:{(port := free_port())}"
            model = ["--model", options.model] if options.model else []
            command = [options.program.resolve(), "serve", *model, "--port", port, "--no-log-requests", *flags]
            stack.enter_context(running_server(command, url + "/health"))
            urls.append(url)
        messages, before, failed = [], 0, 0
        print("turn  prompt tokens   new  computed  first token, ms  without prefix cache, ms")
        for turn in range(options.turns):
            messages.append({"role": "user", "content": QUESTIONS[turn % len(QUESTIONS)]})
            text, usage, first = ask(urls[0], messages, options.max_tokens)
            _, _, alone = ask(urls[1], messages, 1)
            prompt = usage["prompt_tokens"]
            computed = prompt - (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            failed += turn > 0 and computed > prompt - before + 1
            print(f"{turn + 1:>4}{prompt:>15}{prompt - before:>6}{computed:>10}{first * 1e3:>17.1f}{alone * 1e3:>26.1f}")
            before = prompt + usage["completion_tokens"]
            messages.append({"role": "assistant", "content": text})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

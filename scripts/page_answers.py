#!/usr/bin/env python3
"""What the page's own suggestions get: each with seeds 0 to 19, with what the page sends by default.

    scripts/page_answers.py PROGRAM > tests/data/page_answers.json

The bundled model answers, whose recommended sampling the page leaves as it is. The answers are kept so
that they can be read: a suggestion whose answers no person would take for one has to go.
"""

import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parent.parent
SUGGESTIONS = SOURCE / "src/serve/page/assets/welcome.js"
PLAYGROUND = SOURCE / "src/serve/page/assets/playground.js"
COMPLETION_TOKENS = int(re.search(r"^const COMPLETION_TOKENS = (\d+);$", PLAYGROUND.read_text(), re.M)[1])
SEEDS = range(20)
AT_ONCE = 20


def suggestions():
    """{"chat": [texts], "completion": [texts]} as welcome.js has them."""
    block = re.search(r"const EXAMPLES = \{\n(.*?)\n\};", SUGGESTIONS.read_text(), re.S)[1]
    found = {}
    for mode, texts in re.findall(r"^  (\w+): \[(.*)\],$", block, re.M):
        found[mode] = [text.replace("\\n", "\n") for text in re.findall(r"'([^']*)'", texts)]
    return found


def ask(url, mode, text, seed):
    body = {"seed": seed}
    if mode == "chat":
        route = "/v1/chat/completions"
        body["messages"] = [{"role": "user", "content": text}]
    else:
        route = "/v1/completions"
        body["prompt"] = text
        body["max_tokens"] = COMPLETION_TOKENS
    request = urllib.request.Request(url + route, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=1800) as answer:
        choice = json.load(answer)["choices"][0]
    answered = choice["message"]["content"] if mode == "chat" else choice["text"]
    return {"seed": seed, "finish_reason": choice["finish_reason"], "answer": answered}


def serve(program, *flags):
    """The server's process and address."""
    process = subprocess.Popen([program, "serve", "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if found := re.search(r"serving \S+ on (http://\S+)", line):
            return process, found[1]
    sys.exit(f"page_answers: {program} serve does not serve")


def main(program):
    process, url = serve(program, "--disable-page")
    try:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            answers = {mode: {text: list(pool.map(lambda seed: ask(url, mode, text, seed), SEEDS)) for text in texts}
                       for mode, texts in suggestions().items()}
    finally:
        process.terminate()
        process.wait()
    json.dump(answers, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

#!/usr/bin/env python3
"""What a prompt costs that vLLM's KV offloading gives back: the peer of restore.py.

    bench/kv_offload/vllm_offload.py [--tokens 4096] [--rounds 5] [--connector NAME] [--folder DIR] [--json] -- VLLM MODEL [FLAGS...]

VLLM is the program `vllm`. Two prompts of restore.py push each other out of a KV cache that has room for one and a half; each is
computed once and then comes back in turn, from where the connector has put its blocks. Where vLLM does not start with
the connector, what it says is printed, and the exit status is 1.
"""

import contextlib
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

from restore import arguments, await_health, free_port, prompt_of, report
from slot_files import call

BLOCK_SIZE = 128  # tokens of a block of vLLM's CPU backend
FLAGS = {
    "OffloadingConnector": lambda folder: ["--kv-offloading-size", 1, "--kv-offloading-backend", "native"],
    "SimpleCPUOffloadConnector": lambda folder: ["--kv-offloading-size", 1, "--kv-offloading-backend", "native"],
    "ExampleConnector": lambda folder: ["--kv-transfer-config", json.dumps(
        {"kv_connector": "ExampleConnector", "kv_role": "kv_both",
         "kv_connector_extra_config": {"shared_storage_path": str(folder)}})],
}


@contextlib.contextmanager
def server(options, folder):
    port = free_port()
    blocks = math.ceil(1.5 * options.tokens / BLOCK_SIZE)
    command = [options.program, "serve", options.model, "--port", port, "--dtype", "bfloat16", "--block-size", BLOCK_SIZE,
               "--max-model-len", options.tokens + BLOCK_SIZE, "--max-num-seqs", 1, "--num-gpu-blocks-override", blocks,
               "--enable-prefix-caching", "--enable-prompt-tokens-details", *FLAGS[options.connector](folder), *options.flags]
    environment = {**os.environ, "VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1",
                   "VLLM_USE_SIMPLE_KV_OFFLOAD": str(int(options.connector.startswith("Simple")))}
    log = pathlib.Path(folder, "log")
    with log.open("w") as output:
        process = subprocess.Popen([str(each) for each in command], stdout=output, stderr=subprocess.STDOUT, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        await_health(process, url, lambda: ":\n" + errors_of(log.read_text()))
        yield url
    finally:
        process.terminate()
        process.wait()


def errors_of(text):
    """The exceptions of a log, each once."""
    found = re.findall(r"(?:^|\s)(\w*(?:Error|Exception): .*)$", text, re.M)
    return "\n".join(dict.fromkeys(found)) or text[-2000:]


def ask(url, model, prompt):
    """Seconds, how many tokens were found, and the answer."""
    seconds, answer = call(url + "/v1/completions", {"model": str(model), "prompt": prompt, "max_tokens": 1, "temperature": 0,
                                                     "ignore_eos": True, "return_token_ids": True})
    details = answer["usage"].get("prompt_tokens_details") or {}
    return seconds, details.get("cached_tokens") or 0, answer["choices"][0]["token_ids"]


def main():
    parser = arguments(__doc__, "vllm serve", 4096)
    parser.add_argument("--connector", choices=sorted(FLAGS), default="OffloadingConnector")
    options = parser.parse_args()
    prompts = [prompt_of(options.tokens + 1, which) for which in (1, 2)]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, server(options, folder) as url:
        ask(url, options.model, prompt_of(64, 3))
        firsts = [ask(url, options.model, prompt) for prompt in prompts]
        restored, found = [], []
        for k in range(2 * options.rounds):
            seconds, cached, answer = ask(url, options.model, prompts[k % 2])
            if answer != firsts[k % 2][2]:
                raise SystemExit("vllm_offload: another answer than before")
            restored.append(seconds)
            found.append(cached)
    computed = statistics.median(seconds for seconds, _, _ in firsts)
    report({"tokens": options.tokens, "computed_s": computed,
            "restored_s": statistics.median(restored), "found_tokens": min(found),
            "times_sooner": computed / statistics.median(restored)}, options.json)


if __name__ == "__main__":
    main()

"""One row by vLLM's CPU backend, in process: MODEL KIND SIZE INPUT_LEN OUTPUT_LEN THREADS.

Runs in the environment that scripts/install_peers.sh makes; prints one JSON object.
"""

import json
import random
import sys
import time

import vllm


def main():
    model, kind = sys.argv[1:3]
    size, input_len, output_len = map(int, sys.argv[3:6])  # threads: VLLM_CPU_OMP_THREADS_BIND
    engine = vllm.LLM(model, dtype="bfloat16", max_model_len=4096, max_num_seqs=size if kind == "decode" else 1,
                      max_num_batched_tokens=4096, enable_prefix_caching=False).llm_engine
    draw = random.Random(1)
    counts = {}  # request: tokens that have come

    def add(tokens, outputs):
        name = str(len(counts))
        counts[name] = 0
        engine.add_request(name, {"prompt_token_ids": [draw.randrange(1000, 30000) for _ in range(tokens)]},
                           vllm.SamplingParams(max_tokens=outputs, ignore_eos=True, temperature=0, detokenize=False))
        return name

    def step_until(names, least):
        """Until each of the requests has at least so many tokens."""
        while min(counts[name] for name in names) < least:
            for output in engine.step():
                counts[output.request_id] = len(output.outputs[0].token_ids)

    step_until([add(16, 4)], 4)
    begin = time.perf_counter()
    if kind == "prefill":
        step_until([add(size, 1)], 1)
        print(json.dumps({"value": size / (time.perf_counter() - begin)}))
        return
    names = [add(input_len, output_len + 1) for _ in range(size)]
    step_until(names, 1)
    begin = time.perf_counter()
    step_until(names, output_len + 1)
    print(json.dumps({"value": size * output_len / (time.perf_counter() - begin)}))


main()

"""One row by llama.cpp as a library (the prebuilt package cyllama): MODEL KIND SIZE INPUT_LEN OUTPUT_LEN THREADS.

The same calls as llama-bench and llama-batched-bench make, for machines where llama.cpp's own programs have not been
built. Runs in the environment that scripts/install_peers.sh makes; prints one JSON object.
"""

import json
import random
import statistics
import sys
import time

from cyllama.llama import llama_cpp


def main():
    model_path, kind = sys.argv[1:3]
    size, input_len, output_len, threads = map(int, sys.argv[3:7])
    if kind not in ("decode", "prefill"):
        sys.exit("the library is no server")
    llama_cpp.disable_logging()
    llama_cpp.llama_backend_init()
    sequences, length = (1, size) if kind == "prefill" else (size, input_len)
    params = llama_cpp.LlamaContextParams()
    params.n_ctx = 8192
    params.n_batch = 2048
    params.n_ubatch = 512
    params.n_seq_max = sequences
    params.n_threads = params.n_threads_batch = threads
    context = llama_cpp.LlamaContext(llama_cpp.LlamaModel(model_path), params)
    batch = llama_cpp.LlamaBatch(n_tokens=2048, embd=0, n_seq_max=sequences)
    draw = random.Random(1)

    def decode(positions):
        """One token at each (sequence, position, wants logits)."""
        batch.clear()
        for sequence, position, logits in positions:
            batch.add(draw.randrange(1000, 30000), position, [sequence], logits)
        begin = time.perf_counter()
        context.decode(batch)
        context.synchronize()
        return time.perf_counter() - begin

    decode([(0, position, position == 15) for position in range(16)])
    decode([(0, 16, True)])
    context.kv_cache_clear()
    prompt = [(sequence, position, position == length - 1) for sequence in range(sequences) for position in range(length)]
    seconds = decode(prompt)
    if kind == "prefill":
        print(json.dumps({"value": size / seconds}))
        return
    steps = [decode([(sequence, input_len + step, True) for sequence in range(size)]) for step in range(output_len)]
    print(json.dumps({"value": size / statistics.fmean(steps)}))


main()

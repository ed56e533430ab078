"""One row by Hugging Face transformers in BF16, a static batch: MODEL KIND SIZE INPUT_LEN OUTPUT_LEN THREADS.

Runs in the environment that scripts/install_peers.sh makes; prints one JSON object.
"""

import json
import sys
import time

import torch
import transformers


def main():
    model_path, kind = sys.argv[1:3]
    size, input_len, output_len, threads = map(int, sys.argv[3:7])
    if kind not in ("decode", "prefill"):
        sys.exit("transformers is no server")
    torch.set_num_threads(threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.bfloat16).eval()
    rows, length = (1, size) if kind == "prefill" else (size, input_len)
    prompts = torch.randint(1000, 30000, (rows, length), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        model(prompts[:, :16], use_cache=True)
        begin = time.perf_counter()
        output = model(prompts, use_cache=True, logits_to_keep=1)
        if kind == "prefill":
            print(json.dumps({"value": size / (time.perf_counter() - begin)}))
            return
        token = output.logits[:, -1:].argmax(-1)
        begin = time.perf_counter()
        for _ in range(output_len):
            output = model(token, past_key_values=output.past_key_values, use_cache=True)
            token = output.logits[:, -1:].argmax(-1)
        print(json.dumps({"value": size * output_len / (time.perf_counter() - begin)}))


main()

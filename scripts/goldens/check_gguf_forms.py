"""Says how far llama.cpp's greedy tokens are the reference's, for the files of gguf_forms.py --keep DIR.

    check_gguf_forms.py DIR [FAMILY...]

llama.cpp is that of the package xllamacpp (2026.10.11549), which is needed for this alone. Of a family
whose file is of a variant, the reference is run again. Where best and second-best logit are closest is
printed beside the first difference: what differs there by a rounding may differ rightly.
"""

import multiprocessing
import pathlib
import queue
import sys
import tempfile


def llama_cpp_tokens(file, prompt, expected, answers):
    """Puts [token, its log probability's distance to the next best] into `answers`, for the prompt and
    for each of the expected tokens after it: the first that differs ends it. One token a request,
    because a token that ends a text would end it, and is replaced where it may not."""
    import xllamacpp
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_ctx = params.n_batch = params.n_ubatch = 256
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.swa_full = True
    params.warmup = False
    params.fit_params = False
    params.no_extra_bufts = True  # matrices as they are in the file
    server = xllamacpp.Server(params)
    result = []
    for i in range(len(expected)):
        answer = server.handle_completions({
            "prompt": list(prompt) + expected[:i], "max_tokens": 1, "temperature": 0,
            "ignore_eos": True, "logprobs": 2, "cache_prompt": True})
        best, second = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"][:2]
        result.append([best["id"], best["logprob"] - second["logprob"]])
        if best["id"] != expected[i]:
            break
    answers.put(result)


def reference_tokens(name, goldens):
    import torch

    import families
    import gguf_forms
    from common import greedy
    variant = gguf_forms.FORMS[name].get("variant")
    if variant is None:
        return goldens["greedy"]
    family = families.FAMILIES[name]
    with tempfile.TemporaryDirectory() as scratch:
        folder = gguf_forms.checkpoint_of(name, pathlib.Path(scratch), changed=False)
        model = families.model_class(family).from_pretrained(folder, dtype=torch.float32).eval()
        changes = next(v["config"] for v in goldens["variants"] if v["name"] == variant)
        changed = families.variant_model(folder, model, changes)
        return greedy(changed, goldens["prompt_token_ids"], 64)["tokens"]


def check(name, file):
    from gguf_forms import goldens_of
    goldens = goldens_of(name)
    expected = reference_tokens(name, goldens)
    context = multiprocessing.get_context("spawn")  # llama.cpp ends the process where it asserts
    answers = context.Queue()
    process = context.Process(target=llama_cpp_tokens,
                              args=(file, goldens["prompt_token_ids"], expected, answers))
    process.start()
    found = None
    while found is None:
        try:
            found = answers.get(timeout=1)
        except queue.Empty:
            if not process.is_alive():
                return "llama.cpp does not run it"
    process.kill()
    for i, (token, distance) in enumerate(found):
        if token != expected[i]:
            return f"differs from token {i} on, where the next best is {distance:.1e} away"
    return f"all {len(expected)} tokens are the reference's"


def main():
    import gguf_forms
    folder = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or gguf_forms.FORMS:
        print(f"{name}: {check(name, folder / f'{name}.gguf')}", flush=True)


if __name__ == "__main__":
    main()

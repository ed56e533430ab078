"""What the goldens share: paths, versions, greedy decoding with the reference, compact JSON."""

import hashlib
import json
import os
import pathlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # every input is a local file

import torch  # noqa: E402
import transformers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests" / "data"

torch.set_num_threads(min(2, os.cpu_count() or 1))
torch.use_deterministic_algorithms(True)


def versions():
    return {"transformers": transformers.__version__, "torch": torch.__version__.partition("+")[0]}


def sha256_of(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


@torch.inference_mode()
def greedy(model, prompt_token_ids, count):
    """`count` greedy tokens after the prompt, past any end-of-sequence token.

    Returns the arrays that a teacher-forced comparison needs, one entry a position: the best and the
    second-best token, their logits, and the log-probability of the best.
    """
    out = {"tokens": [], "second": [], "logit_best": [], "logit_second": [], "logprob": []}
    ids, cache = torch.tensor([prompt_token_ids]), None
    for _ in range(count):
        result = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache, logits = result.past_key_values, result.logits[0, -1].float()
        top = torch.topk(logits, 2)
        best = int(top.indices[0])
        out["tokens"].append(best)
        out["second"].append(int(top.indices[1]))
        out["logit_best"].append(round(float(top.values[0]), 4))
        out["logit_second"].append(round(float(top.values[1]), 4))
        out["logprob"].append(round(float(torch.log_softmax(logits, -1)[best]), 6))
        ids = torch.tensor([[best]])
    return out


@torch.inference_mode()
def all_logits(model, token_ids):
    """Logits of every position, float32, shape [len(token_ids), vocab]."""
    return model(input_ids=torch.tensor([token_ids])).logits[0].float().contiguous()


def write_json(path, value):
    """Compact, but with one line for each field of the top level and each entry of its lists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    dump = lambda item: json.dumps(item, ensure_ascii=False, separators=(",", ":"))  # noqa: E731
    fields = []
    for key, item in value.items():
        if isinstance(item, list) and item and isinstance(item[0], dict):
            body = "[\n" + ",\n".join(dump(entry) for entry in item) + "\n]"
        else:
            body = dump(item)
        fields.append(f"{dump(key)}:{body}")
    path.write_text("{\n" + ",\n".join(fields) + "\n}\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


def write_floats(path, tensor):
    """Raw little-endian float32, row-major."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tensor.numpy().astype("<f4").tobytes())
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes, shape {list(tensor.shape)}")

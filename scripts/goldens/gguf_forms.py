"""tests/data/families/FAMILY/gguf.json: how llama.cpp's own converter writes that family's checkpoint.

    gguf_forms.py LLAMA_CPP [--keep DIR] [FAMILY...]

and tests/data/quantized/mxfp4_gpt_oss.gguf, which is committed as it is.

LLAMA_CPP is a source tree of llama.cpp, whose convert_hf_to_gguf.py is run on each tiny checkpoint that
scripts/goldens/families.py has made. Of its output is kept what the build needs to make the same file
again (tests/support/gguf_form.h): the keys, and for each tensor where in the checkpoint its numbers
come from, found by comparing numbers, so that nothing here or there knows a name or an order of GGUF.

--keep writes each file in float32 to DIR/FAMILY.gguf, for check_gguf_forms.py, which reads it with llama.cpp.
"""

import argparse
import json
import math
import pathlib
import shutil
import sys
import tempfile

import numpy as np

from common import DATA, write_json
from counted_weights import counted_bits, fnv1a64, write_counted
from family_common import BOS, EOS, UNK, VOCAB

FOLDER = DATA / "families"

# `keys`: those that the converter takes for granted of published models, where the tiny checkpoint
# differs. `config`: keys that published files have and the reference's classes leave out. `variant`:
# which of the goldens' variants is converted, where GGUF cannot say what the checkpoint's own
# configuration does.
FORMS = {
    "gpt_oss": {"variant": "usual"},
    "phi3": {"variant": "long"},
    "glm4": {}, "glm4_moe": {}, "deepseek_v2": {"variant": "plain"}, "deepseek_v3": {}, "glm4_moe_lite": {"config": {"first_k_dense_replace": 1, "scoring_func": "sigmoid"}},
    "granite": {}, "granite_moe": {}, "cohere": {}, "olmo2": {},
    "olmo3": {}, "starcoder2": {}, "smollm3": {"variant": "usual"}, "qwen2_moe_sparse": {}, "cohere2": {"variant": "usual", "config": {"rotary_pct": 1.0}}, "stablelm": {}, "exaone4": {}, "ernie4_5": {},
    "ernie4_5_moe": {}, "seed_oss": {}, "hunyuan": {"variant": "plain"}, "llama4": {"variant": "usual"}, "nemotron": {"keys": {"nemotron.rope.dimension_count": 8}},
    "minimax_m2": {}, "dots1": {"variant": "no_window"}, "arcee": {}, "jais2": {}, "qwen2_5_vl": {}, "qwen3_vl": {}, 
    "ministral3": {},
    "gpt2": {"config": {"n_ctx": 256}, "keys": {"gpt2.feed_forward_length": 48}},
    "gpt_neox": {"config": {"rotary_pct": 0.5}}, "bloom": {"config": {"seq_length": 256}}, "mpt": {"config": {"architectures": ["MPTForCausalLM"]}},
    "falcon": {"config": {"num_kv_heads": 1}, "keys": {"falcon.feed_forward_length": 48}},
    "falcon_grouped": {},
    "gemma3n": {}, "gemma4": {}, "apertus": {}, "olmo": {}, "glm": {"config": {"seq_length": 256}},
    "lfm2": {}, "lfm2_moe": {"variant": "unscaled"},
    "phi": {"keys": {"phi2.feed_forward_length": 64, "phi2.attention.head_count_kv": 2}},
}
MXFP4 = "mxfp4_gpt_oss"  # of tests/data/quantized
KIND_NAMES = {0: "u8", 1: "i8", 2: "u16", 3: "i16", 4: "u32", 5: "i32", 6: "f32", 7: "bool", 8: "string",
              10: "u64", 11: "i64", 12: "f64"}


def goldens_of(name):
    return json.loads((FOLDER / name / "goldens.json").read_text("utf-8"))


def checkpoint_of(name, scratch, changed=True):
    """A folder with the Hugging Face form, as the build makes it; `changed` for the converter."""
    folder = scratch / name
    shutil.copytree(FOLDER / name / "hf", folder)
    weights = FOLDER / name / "weights.json"
    if weights.exists():
        listed = json.loads(weights.read_text("utf-8"))
        write_counted(folder / "model.safetensors", listed["tensors"], listed["seed"])
        for file in (FOLDER / "tokenizer").iterdir():
            shutil.copy(file, folder)
    if not changed:
        return folder
    changes = dict(FORMS[name].get("config", {}))
    for variant in goldens_of(name)["variants"]:
        if variant["name"] == FORMS[name].get("variant"):
            changes.update(variant["config"])
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **changes}), "utf-8")
    return folder


def tokenizer_keys(model):
    """The vocabulary that all families share, instead of the one that each converter looks for."""
    import gguf
    vocab = json.loads((FOLDER / "tokenizer" / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    writer, kinds = model.gguf_writer, gguf.TokenType
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0 if len(token) == 1 or i < 3 else -float(i)
                             for i, token in enumerate(tokens)])
    writer.add_token_types([kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL] + [kinds.NORMAL] * (VOCAB - 3))
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(UNK)
    writer.add_add_bos_token(True)


def convert(folder, out, kind):
    """Runs the converter of the family on the folder."""
    import gguf
    import torch
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    with torch.inference_mode():
        hparams = ModelBase.load_hparams(folder, False)
        base = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
        ours = type(base.__name__, (base,), {"set_vocab": tokenizer_keys, "model_arch": base.model_arch})
        hparams = {**hparams, **FORMS.get(folder.name, {}).get("config", {})}  # some are lost on the way
        ours(folder, getattr(gguf.LlamaFileType, kind), out, eager=True, hparams=hparams).write()


def read_gguf(path):
    """Keys as [name, kind, value], and tensors as (name, type, numbers)."""
    import gguf
    reader = gguf.GGUFReader(path)
    keys = []
    for field in reader.fields.values():
        if field.name.startswith(("GGUF.", "general.")) and field.name != "general.architecture":
            continue
        kinds = [KIND_NAMES[kind] for kind in field.types if kind != gguf.GGUFValueType.ARRAY]
        array = field.types[0] == gguf.GGUFValueType.ARRAY
        value = field.contents()
        if array:  # JSON has no number for it
            value = ["-inf" if item == -math.inf else item for item in value]
        keys.append([field.name, kinds[-1] + ("[]" if array else ""), value])
    tensors = []
    for tensor in reader.tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        numbers = tensor.data.astype(np.float32).reshape(shape)
        tensors.append((tensor.name, tensor.tensor_type.name, numbers))
    return keys, tensors


def set_key(path, key, value):
    """Writes another number of 32 bits in a key's place."""
    import gguf
    reader = gguf.GGUFReader(path, "r+")
    reader.fields[key].parts[-1][0] = value
    reader.data.flush()


def safetensors_of(folder):
    """The checkpoint's tensors in float32."""
    result = {}
    raw = (folder / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    for name, entry in json.loads(raw[8:start]).items():
        if name == "__metadata__":
            continue
        begin, end = (start + offset for offset in entry["data_offsets"])
        assert entry["dtype"] == "BF16", (name, entry["dtype"])
        bits = np.frombuffer(raw[begin:end], "<u2").astype(np.uint32) << np.uint32(16)
        result[name] = bits.view(np.float32).reshape(entry["shape"])
    return result


def merged(parts):
    """[source, first, levels] with those that go on at equal steps joined, level by level: a part stands
    for first + i * step for each [step, count] of its levels, the last of them outermost."""
    while True:
        result, i = [], 0
        while i < len(parts):
            source, first, levels = parts[i]
            count, step = 1, None
            while i + count < len(parts):
                other = parts[i + count]
                if other[0] != source or other[2] != levels:
                    break
                if step is None:
                    step = other[1] - first
                if other[1] - first != step * count:
                    break
                count += 1
            result.append([source, first, levels + [[step, count]]] if count > 1 else parts[i])
            i += count
        if len(result) == len(parts):
            return result
        parts = result


def longest_run(candidates, start):
    """The longest list of places at equal steps in one source that the rows from `start` on may have."""
    best = [min(candidates[start])]
    if start + 1 == len(candidates):
        return best
    for source, first in sorted(candidates[start]):
        for other, second in sorted(candidates[start + 1]):
            if other != source:
                continue
            run, step = [(source, first)], second - first
            while start + len(run) < len(candidates) and \
                    (source, first + step * len(run)) in candidates[start + len(run)]:
                run.append((source, first + step * len(run)))
            best = max(best, run, key=len)
    return best


class Index:
    """Where in the checkpoint a row of numbers is."""

    def __init__(self, sources):
        self.by_width = {}
        self.sources = sources

    def of_width(self, width):
        if width not in self.by_width:
            index = {}
            for name, numbers in self.sources.items():
                forms = [(name, numbers)]
                if numbers.ndim >= 2:
                    forms.append((name + "^T", np.ascontiguousarray(numbers.swapaxes(-1, -2))))
                for label, form in forms:
                    if width > 1 and (form.ndim == 0 or form.shape[-1] != width):
                        continue
                    if width == 1 and (label.endswith("^T") or form.size > 4096):
                        continue
                    for i, row in enumerate(np.ascontiguousarray(form).reshape(-1, width)):
                        index.setdefault(row.tobytes(), []).append((label, i))
            self.by_width[width] = index
        return self.by_width[width]

    def find(self, rows):
        """The places of rows one after the other, in as long runs of equal steps as there are."""
        index, places = self.of_width(rows.shape[1]), []
        found = [index.get(row.tobytes()) for row in rows]
        if None in found:
            return None
        # From the smallest tensor that has all of them, if one has.
        whole = set.intersection(*({source for source, _ in candidates} for candidates in found))
        if whole:
            best = min(whole, key=lambda source: (self.sources[source.removesuffix("^T")].size, source))
            found = [[c for c in candidates if c[0] == best] for candidates in found]
        found = [set(candidates) for candidates in found]
        while len(places) < len(found):
            places += longest_run(found, len(places))
        return places


def recipe(numbers, index):
    """[width, add, parts], or [literal numbers] where the checkpoint does not have them."""
    width = numbers.shape[-1]
    for add in (0, 1):
        shifted = np.ascontiguousarray(numbers - np.float32(add))
        if numbers.ndim >= 2:
            places = index.find(shifted.reshape(-1, width))
            if places is not None:
                return {"width": width, "add": add, "rows": merged([[s, i, []] for s, i in places])}
        whole = index.of_width(width).get(shifted.tobytes()) if numbers.ndim == 1 else None
        if whole is not None:
            return {"width": width, "add": add, "rows": [[*whole[0], []]]}
        places = index.find(shifted.reshape(-1, 1))
        if places is not None:
            return {"width": 1, "add": add, "rows": merged([[s, i, []] for s, i in places])}
    return {"numbers": [float(x) for x in numbers.reshape(-1)]}


def make_mxfp4():
    """gpt-oss as published: experts in MXFP4, which the converter puts into blocks of GGUF's."""
    convert(DATA / "quantized" / MXFP4, DATA / "quantized" / f"{MXFP4}.gguf", "MOSTLY_F16")


def make_form(name, scratch, keep):
    folder = checkpoint_of(name, scratch)
    out = scratch / f"{name}.gguf"
    convert(folder, out, "MOSTLY_F16")
    keys, tensors = read_gguf(out)
    changed = FORMS[name].get("keys", {})
    keys = [[key, kind, changed.get(key, value)] for key, kind, value in keys]
    if name == "granite":  # the same of all
        write_json(FOLDER / "tokenizer_gguf.json",
                   {"keys": [entry for entry in keys if entry[0].startswith("tokenizer.")]})
    keys = [entry for entry in keys if not entry[0].startswith("tokenizer.")]
    index = Index(safetensors_of(folder))
    entries, data = [], b""
    for tensor, kind, numbers in tensors:
        found = recipe(numbers, index)
        if "numbers" in found:
            print(f"{name}: {tensor}: {numbers.size} numbers that are not the checkpoint's")
        assert kind in ("F16", "F32"), (tensor, kind)
        data += numbers.astype("<f2" if kind == "F16" else "<f4").tobytes()
        entries.append({"name": tensor, "type": kind, "shape": list(numbers.shape), **found})
    write_json(FOLDER / name / "gguf.json",
               {"variant": FORMS[name].get("variant", ""), "fnv1a64": f"{fnv1a64(data):016x}",
                "keys": keys, "tensors": entries})
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        convert(folder, keep / f"{name}.gguf", "ALL_F32")
        for key, value in changed.items():
            set_key(keep / f"{name}.gguf", key, value)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("llama_cpp", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("families", nargs="*")
    args = parser.parse_intermixed_args()
    sys.path[:0] = [str(args.llama_cpp / "gguf-py"), str(args.llama_cpp)]
    failed = []
    for name in args.families or [*FORMS, MXFP4]:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                if name == MXFP4:
                    make_mxfp4()
                else:
                    make_form(name, pathlib.Path(scratch), args.keep)
            except (Exception, SystemExit) as error:  # one that cannot be written keeps no other back
                failed.append(f"{name}: {type(error).__name__}: {error}")
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    main()

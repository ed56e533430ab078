#!/usr/bin/env python3
"""Writes a folder of BF16 weights once more in one of the encodings in which people publish models.

    .venvs/peers-transformers/bin/python scripts/make_encoded_model.py BF16_FOLDER ENCODING OUTPUT

ENCODING is one of those below. The matrices of attention and MLP are rounded to the nearest code and packed as the
checkpoints of the tests are (scripts/goldens/quantized_packing.py); embeddings, logits and norms stay as they are, as
these formats' tools leave them. Takes a minute and 3 GB of memory for the 1.1B shape.
"""

import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "goldens"))

import quantized_packing as packing  # noqa: E402
from quantized import KINDS, awq, bits_and_bytes, compressed, gptq  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

ENCODINGS = {
    "gptq": gptq(),
    "awq": awq(group_size=128),
    "nf4": bits_and_bytes("nf4", False) | {"bnb_4bit_compute_dtype": "bfloat16"},
    "nf4_double": bits_and_bytes("nf4", True) | {"bnb_4bit_compute_dtype": "bfloat16"},
    "fp8": compressed("float-quantized", 8, "channel", type="float", activations={
        "num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True}),
    "fp8_blocks": KINDS["fp8_blocks"],
}


def encode(source, quantization):
    """The tensors of the new checkpoint, by name."""
    tensors = {}
    with safe_open(source, framework="pt") as file:
        for name in file.keys():
            weight = file.get_tensor(name)
            if "_proj." not in name:
                tensors[name] = weight
                continue
            parts, _ = packing.pack(quantization, weight.float(), seed=weight.shape[1])
            module = name.removesuffix(".weight")
            tensors |= {f"{module}.{part}": value.contiguous() for part, value in parts.items()}
    return tensors


def main():
    if len(sys.argv) != 4 or sys.argv[2] not in ENCODINGS:
        sys.exit(f"{__doc__}\nENCODING: {', '.join(ENCODINGS)}")
    source, quantization, output = pathlib.Path(sys.argv[1]), ENCODINGS[sys.argv[2]], pathlib.Path(sys.argv[3])
    unfinished = output.with_name(output.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for path in source.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            shutil.copyfile(path, unfinished / path.name)
    save_file(encode(source / "model.safetensors", quantization), unfinished / "model.safetensors",
              metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text("utf-8"))
    (unfinished / "config.json").write_text(json.dumps({**config, "quantization_config": quantization}, indent=1))
    unfinished.rename(output)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures what each encoding costs stories260k, and writes docs/performance/encodings.md.

    .venvs/goldens/bin/python scripts/measure_encodings.py PROGRAM --ggml LIBRARY

PROGRAM is print_quality. The model lies in ../shared/models; its MLP is widened from 172 units to 256, 84 of which are
split in two halves, so that matrices have 64 or 256 inputs, and they are written in each encoding: all of them, or, where blocks
have 128 or 256 weights, the MLP's last ones alone. Embeddings stay float32. Hugging Face files are rounded as the
checkpoints of the tests are (scripts/goldens/quantized_packing.py): to the nearest code, without calibration. Those
of GGUF are made by ggml_quantize_chunk() of LIBRARY, llama.cpp's libggml-base.so, which scripts/install_peers.sh
llama.cpp brings. Needs what makes goldens (scripts/make_goldens.sh), and takes seconds.
"""

import argparse
import ctypes
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "goldens"))

import gguf  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

import quantized_packing as packing  # noqa: E402
from quantized import KINDS, awq, bits_and_bytes, compressed, gptq, hqq  # noqa: E402
from tiny_llama import gguf_name, rotary_rows  # noqa: E402

MODEL = ROOT.parent / "shared" / "models" / "stories260k"
PAGE = ROOT / "docs" / "performance" / "encodings.md"
TEXT = ROOT / "tests" / "data" / "quality" / "text.txt"
WIDTH = 256  # of the MLP

HUGGING_FACE = {
    "BF16": None,
    "GPTQ 8 bits, g32": gptq(bits=8, group_size=32, sym=False),
    "GPTQ 8 bits, one scale an output": gptq(bits=8, group_size=-1),
    "GPTQ 4 bits, g32": gptq(group_size=32, sym=False),
    "GPTQ 4 bits, g32, v2": gptq(group_size=32, sym=False, checkpoint_format="gptq_v2"),
    "GPTQ 4 bits, g32, desc_act": gptq(group_size=32, sym=False, desc_act=True),
    "GPTQ 4 bits, g64": gptq(group_size=64, sym=False),
    "GPTQ 4 bits, g64, symmetric": gptq(group_size=64),
    "GPTQ 3 bits, g32": gptq(bits=3, group_size=32, sym=False),
    "GPTQ 2 bits, g32": gptq(bits=2, group_size=32, sym=False),
    "AutoRound 4 bits, g64": KINDS["auto_round_w4_g64_asym"],
    "AWQ 4 bits, g64, GEMM": awq(),
    "AWQ 4 bits, g64, GEMV": awq(version="gemv"),
    "compressed-tensors int8, one scale an output": compressed("int-quantized", 8, "channel"),
    "compressed-tensors int4, g32": compressed("pack-quantized", 4, "group", 32),
    "compressed-tensors int4, g64, zero points": compressed("pack-quantized", 4, "group", 64, symmetric=False),
    "compressed-tensors FP8, one scale an output": compressed("float-quantized", 8, "channel", type="float"),
    "compressed-tensors NVFP4": compressed("nvfp4-pack-quantized", 4, "tensor_group", 16, type="float"),
    "compressed-tensors MXFP4": compressed("mxfp4-pack-quantized", 4, "group", 32, type="float"),
    "FP8, one scale": KINDS["fp8_tensor"],
    "LLM.int8()": KINDS["llm_int8"],
    "NF4, b64": bits_and_bytes("nf4", False),
    "NF4, b64, double quantization": bits_and_bytes("nf4", True),
    "NF4, b4096": bits_and_bytes("nf4", False, 4096),
    "FP4, b64": bits_and_bytes("fp4", False),
    "FP4, b64, double quantization": bits_and_bytes("fp4", True),
    "HQQ 8 bits, g64": hqq(8, 64),
    "HQQ 4 bits, g32": hqq(4, 32),
    "HQQ 4 bits, g64": hqq(4, 64),
    "HQQ 3 bits, g64": hqq(3, 64),
    "HQQ 2 bits, g64": hqq(2, 64),
    "torchao int8, one scale an output": KINDS["torchao_int8"],
    "torchao int4 unpacked, g32": KINDS["torchao_int4_unpacked"],
    "torchao FP8, one scale an output": KINDS["torchao_fp8"],
}
GGUF = ["F16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL", "MXFP4", "NVFP4"]

# With blocks that rows of 64 inputs do not fill.
WIDE_HUGGING_FACE = {
    "GPTQ 4 bits, g128": gptq(sym=False),
    "AutoRound 4 bits, g128": KINDS["auto_round_w4_g128"],
    "compressed-tensors int4, g128, zero points": KINDS["compressed_w4_g128_asym"],
    "FP8, blocks of 128 by 128": KINDS["fp8_blocks"],
    "HQQ 4 bits, g128": hqq(4, 128),
    "NF4, b256": bits_and_bytes("nf4", False, 256),
    "FP4, b128": KINDS["bnb_fp4_b128"],
}
WIDE_GGUF = ["Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K", "IQ4_XS", "IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS",
             "IQ1_M", "IQ1_S", "TQ2_0", "TQ1_0"]

PAGE_TEXT = """\
# What encodings cost

A model in each encoding beside float32: perplexity, and mean Kullback-Leibler divergence of the logits from float32's (nats a
token), on the {positions} tokens of `tests/data/quality/text.txt`. The model is stories260k, whose 260,000 weights have little to spare, so
larger ones lose less; its MLP is widened from 172 units to 256, 84 of which are split in two halves, which computes the same, and
embeddings stay float32.
Weights are rounded without calibration data: the tables compare formats, not the methods that choose codes better. *Float32* computes with the
very weights that the codes stand for; *default* is what runs without `--dtype` where weights are quantized: inputs rounded to 16 bits (8
where weights have 8 or are kept as blocks of 2 and 3 bits, of HQQ or of a table or grid) and a cache of bfloat16. What each encoding takes in memory is in
[models.md](../models.md#encodings). `scripts/measure_encodings.py` makes the page; it was run on {processor}, at level `{level}`.

## All matrices

{head}{rows}
## The MLP's last matrices alone

Blocks of 128 and 256 weights do not fill rows of 64 inputs, so these encodings are given the matrices of 256 inputs and the others
stay float32: figures of this table compare with each other and not with those above.

{head}{wide_rows}
Scales of compressed-tensors' MXFP4 are rounded down to powers of two here, as in the checkpoints of the tests, which cuts off the largest
weights; the same format with better scales is GGUF's MXFP4. TQ1_0 and TQ2_0 are for models that were trained with three values.
"""
HEAD = """\
| encoding | perplexity, float32 | perplexity, default | divergence, float32 | divergence, default |
|---|---|---|---|---|
"""


def load_model():
    """Configuration and weights, with the wider MLP: as many of its units as are missing become two halves."""
    config = json.loads((MODEL / "config.json").read_text("utf-8"))
    split = WIDTH - config["intermediate_size"]
    config["intermediate_size"] = WIDTH
    state = {name: weight.float() for name, weight in load_file(MODEL / "model.safetensors").items()}
    for name, weight in state.items():
        if "gate_proj" in name or "up_proj" in name:
            state[name] = torch.cat([weight, weight[:split]])
        elif "down_proj" in name:
            halves = weight[:, :split] / 2
            state[name] = torch.cat([halves, weight[:, split:], halves], dim=1)
    return config, state


def write_hugging_face(folder, config, state, which, quantization):
    """Matrices whose names have `which` are quantized, or, without `quantization`, BF16."""
    folder.mkdir()
    tensors = {}
    for name, weight in state.items():
        if which not in name:
            tensors[name] = weight
        elif not quantization:
            tensors[name] = weight.bfloat16()
        else:
            # Matrices with the same inputs have them in one order: that of the seed.
            parts, _ = packing.pack(quantization, weight, seed=weight.shape[1])
            module = name.removesuffix(".weight")
            tensors.update({f"{module}.{part}": value for part, value in parts.items()})
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    if quantization:
        config = {**config, "quantization_config": quantization}
    (folder / "config.json").write_text(json.dumps(config))
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copyfile(MODEL / file, folder / file)


def quantize(ggml, weights, kind):
    """Rows of blocks, by llama.cpp's own function; what wants an importance matrix gets one of ones."""
    rows, cols = weights.shape
    block, size = gguf.GGML_QUANT_SIZES[kind]
    out = np.zeros((rows, cols // block * size), np.uint8)
    ones = np.ones(cols, np.float32) if ggml.ggml_quantize_requires_imatrix(kind.value) else None
    written = ggml.ggml_quantize_chunk(
        ctypes.c_int(kind.value), weights.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(0), ctypes.c_int64(rows), ctypes.c_int64(cols),
        ones.ctypes.data_as(ctypes.c_void_p) if ones is not None else None)
    assert written == out.nbytes, (kind, written, out.nbytes)
    return out


def add_vocabulary(writer, config):
    vocab = json.loads((MODEL / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    types = gguf.TokenType
    special = {0: types.UNKNOWN, config["bos_token_id"]: types.CONTROL, config["eos_token_id"]: types.CONTROL}
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_token_types([special.get(i, types.BYTE if token.startswith("<0x") else types.NORMAL)
                            for i, token in enumerate(tokens)])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_unk_token_id(0)


def write_gguf(path, config, state, which, ggml, kind):
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads["q_proj"])
    writer.add_head_count_kv(heads["k_proj"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    add_vocabulary(writer, config)
    for name, weight in state.items():
        array = weight.numpy()
        for part, count in heads.items():
            if part in name:
                array = rotary_rows(array, count)
        array = np.ascontiguousarray(array)
        if which in name:
            writer.add_tensor(gguf_name(name), quantize(ggml, array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(name), array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def row(name, line):
    exact, default = line["float32"], line["default"]
    return (f"| {name} | {exact['perplexity']:.4f} | {default['perplexity']:.4f} "
            f"| {exact['divergence']:.5f} | {default['divergence']:.5f} |\n")


def processor():
    fields = dict(line.split(":", 1) for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    return f"{fields['model name']} (family {fields['cpu family']}, model {fields['model']})"


def load_ggml(path):
    ggml = ctypes.CDLL(path)
    ggml.ggml_quantize_requires_imatrix.restype = ctypes.c_bool
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    return ggml


def write_all(folder, ggml):
    """Paths by name: of float32, and of each table's encodings."""
    config, state = load_model()
    paths = {}
    for which, hugging_face, kinds in (("nothing", {"float32": None}, []), ("_proj.", HUGGING_FACE, GGUF),
                                       ("down_proj.", WIDE_HUGGING_FACE, WIDE_GGUF)):
        for name, quantization in hugging_face.items():
            paths[name] = folder / str(len(paths))
            write_hugging_face(paths[name], config, state, which, quantization)
        for kind in kinds:
            paths[f"GGUF {kind}"] = folder / f"{kind}.gguf"
            write_gguf(folder / f"{kind}.gguf", config, state, which, ggml, gguf.GGMLQuantizationType[kind])
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="print_quality")
    parser.add_argument("--ggml", required=True, help="llama.cpp's libggml-base.so")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        paths = write_all(pathlib.Path(temporary), load_ggml(arguments.ggml))
        printed = subprocess.run([arguments.program, TEXT, *paths.values()], check=True, stdout=subprocess.PIPE,
                                 text=True).stdout
    lines = [json.loads(line) for line in printed.splitlines()]
    rows = [row(name, line) for name, line in zip(paths, lines, strict=True)]
    narrow = 1 + len(HUGGING_FACE) + len(GGUF)
    PAGE.write_text(PAGE_TEXT.format(
        positions=lines[0]["positions"], processor=processor(), level=lines[0]["level"], head=HEAD,
        rows="".join(rows[:narrow]), wide_rows="".join(rows[:1] + rows[narrow:])))


if __name__ == "__main__":
    main()

"""tests/data/tiny_compact: a tiny Llama with random weights in all compact encodings, a matrix each.

The gguf package quantizes few of them, and random weights need no quantizer: a matrix is random
blocks, with scales that give its weights the deviation of the others. The reference runs the model
with what the package decodes the blocks to.
"""

import shutil

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from common import DATA, all_logits, versions, write_floats, write_json
from quant import COMPACT_OFFSETS
from tiny_kquants import HEAD_DIM, KINDS, KV_HEADS, VOCAB, WIDTH, write_model
from tiny_llama import gguf_name, rotary_rows

FOLDER = DATA / "tiny_compact"
LAYERS, HEADS, DEVIATION = 3, 2, 0.08

# A layer's matrices of 256 columns in turn, and those of 64.
WIDE = [KINDS.Q2_K, KINDS.Q3_K, KINDS.IQ4_XS, KINDS.IQ2_XXS, KINDS.IQ2_XS, KINDS.IQ2_S, KINDS.IQ3_XXS,
        KINDS.IQ3_S, KINDS.IQ1_S, KINDS.IQ1_M, KINDS.TQ1_0, KINDS.TQ2_0]
NARROW = [KINDS.IQ4_NL, KINDS.MXFP4, KINDS.NVFP4]


def half_bytes(value):
    return np.frombuffer(np.float16(value).tobytes(), np.uint8)


def random_matrix(rows, columns, kind, random):
    """Blocks of a matrix, and the values that they stand for."""
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (rows * columns // weights, size), np.uint8)

    def set_scale(value):
        for offset in COMPACT_OFFSETS[kind]:
            blocks[:, offset:offset + 2] = half_bytes(value)
        if kind == KINDS.IQ1_M:
            bits = int(np.float16(value).view(np.uint16))
            for word in range(4):
                blocks[:, 49 + 2 * word] = blocks[:, 49 + 2 * word] & 15 | (bits >> 4 * word & 15) << 4

    if kind == KINDS.MXFP4:
        blocks[:, 0] = random.integers(120, 124, len(blocks))
    elif kind == KINDS.NVFP4:
        blocks[:, :4] = random.integers(8, 24, (len(blocks), 4))
    else:
        set_scale(1)
        set_scale(DEVIATION / gguf.quants.dequantize(blocks, kind).std())
    encoded = blocks.reshape(rows, -1)
    return encoded, gguf.quants.dequantize(encoded, kind).astype(np.float32).reshape(rows, columns)


def head_rows(values, heads):
    """The inverse of rotary_rows()."""
    order = rotary_rows(np.arange(len(values))[:, None], heads)[:, 0]
    inverse = np.empty_like(values)
    inverse[order] = values
    return inverse


def make_model():
    """The model as the reference runs it, and its tensors as the file has them."""
    torch.manual_seed(20261124)
    random = np.random.default_rng(2026)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
        max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    model = LlamaForCausalLM(config).eval()
    tensors, wide, narrow = [], 0, 0
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                weight.copy_(torch.randn_like(weight) * 0.1 + 1)
                tensors.append((gguf_name(name), weight.numpy(), KINDS.F32))
                continue
            rows, columns = weight.shape
            if columns == WIDTH:
                kind = WIDE[wide % len(WIDE)]
                wide += 1
            else:
                kind = NARROW[narrow % len(NARROW)]
                narrow += 1
            encoded, values = random_matrix(rows, columns, kind, random)
            if "q_proj" in name or "k_proj" in name:
                values = head_rows(values, HEADS if "q_proj" in name else KV_HEADS)
            weight.copy_(torch.from_numpy(values))
            tensors.append((gguf_name(name), encoded, kind))
    assert {kind for _, _, kind in tensors} == {KINDS.F32, *WIDE, *NARROW} and wide > len(WIDE)
    return model, tensors


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    model, tensors = make_model()
    prompt = np.random.default_rng(7).integers(0, VOCAB, 32).tolist()
    write_model(FOLDER / "tiny_compact.gguf", "tiny llama of compact encodings", model.config, tensors)
    write_floats(FOLDER / "logits.bin", all_logits(model, prompt))
    write_json(FOLDER / "goldens.json", {**versions(), "vocab_size": VOCAB, "prompt_token_ids": prompt})


if __name__ == "__main__":
    main()

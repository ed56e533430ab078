"""tests/data/tiny_kquants: a tiny Llama with random weights in the K encodings, mixed as files mix them.

Their blocks hold 256 weights of a row, so that hidden size and feed-forward width are 256; one layer
and few tokens keep the file small. The reference reads the file itself and runs it with its weights
dequantized. There is no tokenizer worth the name: token ids are the input.
"""

import shutil

import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from common import DATA, all_logits, versions, write_floats, write_json
from kquants import KINDS, quantize
from tiny_llama import gguf_name, rotary_rows

FOLDER = DATA / "tiny_kquants"
VOCAB, WIDTH, HEADS, KV_HEADS, HEAD_DIM = 64, 256, 8, 2, 32


def make_model():
    torch.manual_seed(20261121)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=WIDTH, num_hidden_layers=1,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
        max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            scale, mean = (0.1, 1.0) if "norm" in name else (0.08, 0.0)
            weight.copy_(torch.randn_like(weight) * scale + mean)
    return model


def kind_of(tensor):
    if any(part in tensor for part in ("token_embd", "attn_v", "ffn_down")):
        return KINDS.Q6_K
    return KINDS.Q5_K if "ffn" in tensor else KINDS.Q4_K


def write_model(path, name, config, tensors):
    """A file with a model of this tokenizer: names, data and kinds of its tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(VOCAB)
    # One token for each printable byte from '!' on, and one of two bytes.
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([chr(33 + i) for i in range(VOCAB - 1)] + ["AB"])
    writer.add_token_types([gguf.TokenType.NORMAL] * VOCAB)
    writer.add_token_merges(["A B"])
    for tensor, data, kind in tensors:
        writer.add_tensor(tensor, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{path.name}: {path.stat().st_size} bytes")


def quantized_tensors(model):
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight":
            continue  # tied
        array = weight.numpy()
        if "q_proj" in name or "k_proj" in name:
            array = rotary_rows(array, HEADS if "q_proj" in name else KV_HEADS)
        name = gguf_name(name)
        kind = kind_of(name) if array.ndim == 2 else KINDS.F32
        yield name, quantize(np.ascontiguousarray(array), kind), kind


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    model = make_model()
    prompt = np.random.default_rng(7).integers(0, VOCAB, 32).tolist()
    unquantized = all_logits(model, prompt)
    path = FOLDER / "tiny_kquants.gguf"
    write_model(path, "tiny llama of K encodings", model.config, quantized_tensors(model))
    from_gguf = AutoModelForCausalLM.from_pretrained(FOLDER, gguf_file=path.name,
                                                     dtype=torch.float32).eval()
    logits = all_logits(from_gguf, prompt)
    difference = (logits - unquantized).abs().max().item()
    assert 0 < difference < 2, difference  # quantized, and still the same model
    print(f"largest difference of a logit {difference:.3f}, of {unquantized.abs().max():.1f}")
    write_floats(FOLDER / "logits.bin", logits)
    write_json(FOLDER / "goldens.json", {**versions(), "vocab_size": VOCAB, "prompt_token_ids": prompt})


if __name__ == "__main__":
    main()

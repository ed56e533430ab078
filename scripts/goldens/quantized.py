"""tests/data/quantized: a tiny Llama with random weights in each way that safetensors are quantized,
and a tiny gpt-oss with its experts in MXFP4, as it is published.

NAME/config.json, model.safetensors   the checkpoint, packed here by the format's published definition
NAME/logits.bin                       reference logits of the prompt, little-endian float32, [tokens, vocab]
goldens.json                          the prompt, and how near each checkpoint's resident weights are to
                                      the bytes of its files

The reference runs in float32 over the weights that the codes stand for. All have one tokenizer, that
of tests/data/families/llama, beside them.
"""

import json
import shutil
import sys

import torch
from safetensors.torch import save_file
from torchao import quantization as ao
from torchao.core.config import config_to_dict
from transformers import GptOssConfig, GptOssForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import quantized_packing as packing
from common import DATA, all_logits, versions, write_floats, write_json

FOLDER = DATA / "quantized"
VOCAB, HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 128, 64, 256, 1, 4, 2, 16
SAME_INPUTS = [("q_proj", "k_proj", "v_proj"), ("o_proj",), ("gate_proj", "up_proj"), ("down_proj",)]
PROMPT = [1] + [(37 * i * i + 11 * i) % 125 + 3 for i in range(11)]


def gptq(**changed):
    return {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True,
            "checkpoint_format": "gptq", **changed}


def awq(**changed):
    return {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True,
            "version": "gemm", "modules_to_not_convert": None, **changed}


def compressed(form, bits, strategy, group=None, symmetric=True, activations=None, **changed):
    weights = {"num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": strategy,
               "group_size": group, "dynamic": False, "actorder": None, **changed}
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
            "quantization_status": "compressed", "kv_cache_scheme": None,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights,
                                          "input_activations": activations}}}


KINDS = {
    "gptq_w4_g128": gptq(),
    "gptq_w4_g32_asym": gptq(group_size=32, sym=False),
    "gptq_v2_w4_g64_asym": gptq(group_size=64, sym=False, checkpoint_format="gptq_v2"),
    "gptq_w4_row_mixed": gptq(group_size=-1, sym=False),
    "gptq_w8_row": gptq(bits=8, group_size=-1),
    "gptq_v2_w8_g32_asym": gptq(bits=8, group_size=32, sym=False, checkpoint_format="gptq_v2"),
    "gptq_w4_g32_act_order": gptq(group_size=32, sym=False, desc_act=True),
    "gptq_w3_g32": gptq(bits=3, group_size=32, sym=False),
    "gptq_w2_g64": gptq(bits=2, group_size=64, sym=False),
    "auto_round_w4_g128": {"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq",
                           "bits": 4, "group_size": 128, "sym": True, "data_type": "int"},
    "auto_round_w4_g64_asym": {"quant_method": "auto-round", "packing_format": "auto_round", "bits": 4,
                               "group_size": 64, "sym": False, "data_type": "int"},
    "awq_gemm_g64": awq(),
    "awq_gemv_g64": awq(version="gemv"),
    "compressed_w4_g32": compressed("pack-quantized", 4, "group", 32),
    "compressed_w4_g128": compressed("pack-quantized", 4, "group", 128),
    "compressed_w4_g128_asym": compressed("pack-quantized", 4, "group", 128, symmetric=False),
    "compressed_w8a8": compressed("int-quantized", 8, "channel", activations={
        "num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}),
}


KINDS |= {
    "fp8_blocks": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                   "weight_block_size": [128, 128]},
    "fp8_tensor": {"quant_method": "fp8", "activation_scheme": "static"},
    "llm_int8": {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False,
                 "llm_int8_threshold": 6.0, "llm_int8_skip_modules": ["lm_head"]},
    "compressed_fp8_channel": compressed("float-quantized", 8, "channel", type="float"),
}


def bits_and_bytes(quant_type, double, blocksize=64):
    # The size of blocks is a matter of the tensors: transformers has no name for it.
    return {"quant_method": "bitsandbytes", "load_in_8bit": False, "load_in_4bit": True,
            "bnb_4bit_quant_type": quant_type, "bnb_4bit_use_double_quant": double,
            "bnb_4bit_compute_dtype": "float32", "bnb_4bit_quant_storage": "uint8",
            "llm_int8_skip_modules": ["lm_head"], "blocksize": blocksize}


KINDS |= {
    "bnb_nf4": bits_and_bytes("nf4", False),
    "bnb_nf4_double": bits_and_bytes("nf4", True),
    "bnb_fp4_b128": bits_and_bytes("fp4", False, 128),
    "bnb_fp4_double_b4096": bits_and_bytes("fp4", True, 4096),
}


KINDS |= {
    "compressed_nvfp4": compressed("nvfp4-pack-quantized", 4, "tensor_group", 16, type="float"),
    "compressed_mxfp4": compressed("mxfp4-pack-quantized", 4, "group", 32, type="float"),
}


def hqq(bits, group, dtype="float16"):
    # Of what type scales are is a matter of the model's: HqqConfig has no name for it.
    return {"quant_method": "hqq", "skip_modules": ["lm_head"], "compute_dtype": dtype,
            "quant_config": {"weight_quant_params": {
                "nbits": bits, "group_size": group, "axis": 1, "channel_wise": True, "optimize": True,
                "round_zero": False, "view_as_float": False},
                "scale_quant_params": None, "zero_quant_params": None, "offload_meta": False}}


KINDS |= {
    "hqq_w4_g64": hqq(4, 64),
    "hqq_w4_g128_bf16": hqq(4, 128, "bfloat16"),
    "hqq_w4_g32": hqq(4, 32),
    "hqq_w8_g64": hqq(8, 64),
    "hqq_w3_g64": hqq(3, 64),
    "hqq_w2_g64_bf16": hqq(2, 64, "bfloat16"),
    "hqq_w2_g256": hqq(2, 256),
}


def torchao(config):
    return {"quant_method": "torchao", "quant_type": {"default": config_to_dict(config)},
            "modules_to_not_convert": ["lm_head"]}


KINDS |= {
    "torchao_int8": torchao(ao.Int8WeightOnlyConfig()),
    "torchao_int4_unpacked": torchao(ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int4, granularity=ao.PerGroup(32), mapping_type=ao.MappingType.ASYMMETRIC)),
    "torchao_fp8": torchao(ao.Float8WeightOnlyConfig()),
}


GPT_OSS = "mxfp4_gpt_oss"


def make_model():
    torch.manual_seed(20261124)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
        max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        bos_token_id=1, eos_token_id=2)
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            scale, mean = (0.1, 1.0) if "norm" in name else (0.2, 0.0)
            weight.copy_((torch.randn_like(weight) * scale + mean).bfloat16().float())
    return model


def is_quantized(kind, name):
    linear = "_proj." in name
    # One matrix is left as it is: mixed models load.
    return linear and not ("mixed" in kind and "layers.0.self_attn.q_proj" in name)


def make(kind, quantization):
    model = make_model()
    state, tensors = model.state_dict(), {}
    for name, weight in state.items():
        if name == "lm_head.weight":
            continue
        if not is_quantized(kind, name):
            tensors[name] = weight.bfloat16()
            continue
        # Matrices with the same inputs have them in one order.
        inputs = next(i for i, names in enumerate(SAME_INPUTS) if any(n in name for n in names))
        parts, decoded = packing.pack(quantization, weight.float(), seed=inputs)
        module = name.removesuffix(".weight")
        tensors.update({f"{module}.{part}": value for part, value in parts.items()})
        state[name] = decoded
    model.load_state_dict(state)
    write(kind, quantization, model, tensors)


def make_gpt_oss():
    """Experts of random codes; the reference decodes them with the library's own function."""
    torch.manual_seed(20261125)
    config = GptOssConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
        num_local_experts=4, num_experts_per_tok=2, sliding_window=8, max_position_embeddings=256,
        tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        bos_token_id=1, eos_token_id=2, pad_token_id=0)
    model = GptOssForCausalLM(config).eval()
    state, tensors = model.state_dict(), {}
    for name, weight in state.items():
        if name.endswith(("gate_up_proj", "down_proj")):
            experts, inputs, outputs = weight.shape
            blocks = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), dtype=torch.uint8)
            scales = torch.randint(120, 125, blocks.shape[:3], dtype=torch.uint8)
            tensors[f"{name}_blocks"], tensors[f"{name}_scales"] = blocks, scales
            state[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
            continue
        scale, mean = (0.1, 1.0) if "norm" in name else (0.2, 0.0)
        tensors[name] = (torch.randn_like(weight) * scale + mean).bfloat16()
        state[name] = tensors[name].float()
    model.load_state_dict(state)
    write(GPT_OSS, {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]},
          model, tensors)


def write(kind, quantization, model, tensors):
    folder = FOLDER / kind
    folder.mkdir(parents=True)
    save_file({name: value.contiguous() for name, value in tensors.items()},
              folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads(model.config.to_json_string())
    config["architectures"] = [type(model).__name__]
    config["quantization_config"] = quantization
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(DATA / "families" / "llama" / "hf" / file, folder)
    write_floats(folder / "logits.bin", all_logits(model, PROMPT))


def main():
    only = sys.argv[1:]
    for kind, quantization in KINDS.items():
        if only and kind not in only:
            continue
        shutil.rmtree(FOLDER / kind, ignore_errors=True)
        make(kind, quantization)
    if not only or GPT_OSS in only:
        shutil.rmtree(FOLDER / GPT_OSS, ignore_errors=True)
        make_gpt_oss()
    write_json(FOLDER / "goldens.json",
               {**versions(), "prompt_token_ids": PROMPT, "checkpoints": [*KINDS, GPT_OSS]})


if __name__ == "__main__":
    main()

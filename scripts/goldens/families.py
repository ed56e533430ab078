"""tests/data/families: one tiny checkpoint with random weights for each family, and its goldens.

FAMILY/hf/          Hugging Face layout: BF16 safetensors, SentencePiece-style BPE
FAMILY/model.gguf   the same weights in F16 with the names, orders and keys of llama.cpp's converter,
                    of families that Quire reads from GGUF
FAMILY/goldens.json token ids, a greedy continuation, and variants: the same weights under a changed
                    configuration (rope scaling, windows)
FAMILY/*.bin        reference logits of the prompt, little-endian float32, [tokens, vocab]: of all tokens
                    or of the last `rows`; of variants those of the last third of them

The weights are exact in BF16 and in F16. The reference reads every GGUF file, too, but those of
mixtures of experts, of which it knows some architectures alone.
"""

import copy
import json
import math
import shutil
import sys

import gguf
import numpy as np
import tokenizers
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from common import DATA, all_logits, greedy, versions, write_floats, write_json

FOLDER = DATA / "families"
VOCAB, HIDDEN, FFN, HEADS, KV_HEADS = 128, 32, 64, 4, 2
UNK, BOS, EOS = 0, 1, 2
SPECIAL = ["<unk>", "<s>", "</s>"]
CORPUS = ["the cat sat on the mat and the dog sat on the log in the sun",
          "all of the pages are shared and then some of them are written again",
          "she sells sea shells by the sea shore and there is another one"]

COMMON = {
    "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": FFN,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5, "bos_token_id": BOS, "eos_token_id": EOS,
}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 32}

FAMILIES = {
    # Biases, which no published Llama has, are the architecture's too.
    "llama": {
        "class": "Llama",
        "config": {"num_hidden_layers": 2, "head_dim": 16, "attention_bias": True, "mlp_bias": True,
                   "tie_word_embeddings": False, "rope_parameters": LLAMA3},
        "variants": {
            "plain": {"rope_parameters": None, "rope_theta": 500.0},
            "linear": {"rope_parameters": None, "rope_theta": 10000.0,
                       "rope_scaling": {"type": "linear", "factor": 4.0}},
            "dynamic": {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0,
                                            "factor": 4.0}, "max_position_embeddings": 32},
            "yarn": {"rope_parameters": None, "rope_theta": 10000.0,
                     "rope_scaling": {"type": "yarn", "factor": 4.0,
                                      "original_max_position_embeddings": 32}},
            "yarn_mscale": {"rope_parameters": {
                "rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "mscale": 1.5,
                "mscale_all_dim": 0.5, "beta_fast": 8.0, "beta_slow": 0.5, "truncate": False,
                "original_max_position_embeddings": 64}},
        },
    },
    "mistral": {
        "class": "Mistral",
        "config": {"num_hidden_layers": 2, "head_dim": 24, "sliding_window": 20,
                   "tie_word_embeddings": False, "rope_parameters": PLAIN},
        "variants": {"no_window": {"sliding_window": None}},
    },
    "qwen2": {
        "class": "Qwen2",
        "config": {"num_hidden_layers": 3, "tie_word_embeddings": True, "num_key_value_heads": 1,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
        "variants": {"window": {"use_sliding_window": True, "sliding_window": 24,
                                "max_window_layers": 1, "layer_types": None}},
    },
    "qwen3": {
        "class": "Qwen3",
        "config": {"num_hidden_layers": 3, "head_dim": 24, "tie_word_embeddings": False,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
        "variants": {"window": {"use_sliding_window": True, "sliding_window": 17, "layer_types": [
            "sliding_attention", "full_attention", "sliding_attention"]}},
    },
    "gemma3": {
        "class": "Gemma3",
        "config": {"num_hidden_layers": 7, "head_dim": 24, "sliding_window": 16,
                   "query_pre_attn_scalar": 24, "num_key_value_heads": 1, "intermediate_size": 48,
                   "rope_parameters": {
                       "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                       "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
        # The older spelling, with every value another one.
        "variants": {"older": {
            "rope_parameters": None, "layer_types": None, "sliding_window_pattern": 3,
            "rope_theta": 100000.0, "rope_local_base_freq": 100.0, "query_pre_attn_scalar": 8,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0}}},
    },
    # Read from Hugging Face files alone. `scale`, `bias_scale` and `seed` make weights of which bfloat16
    # arithmetic stays within the test's tolerance and a greedy continuation has many tokens; so does
    # `embed_scale` where embeddings are tied.
    "granite": {
        "class": "Granite", "gguf": False, "seed": 1,
        "config": {"num_hidden_layers": 2, "tie_word_embeddings": True, "embedding_multiplier": 3.0,
                   "attention_multiplier": 0.25, "residual_multiplier": 0.6, "logits_scaling": 0.5,
                   "rope_parameters": PLAIN},
        "variants": {"scales": {"embedding_multiplier": 1.5, "attention_multiplier": 0.125,
                                "residual_multiplier": 1.0, "logits_scaling": 1.0}},
    },
    # An MLP whose gate and up do not end at a multiple of 16 rows.
    "phi3": {
        "class": "Phi3", "gguf": False, "scale": 0.2,
        "config": {"num_hidden_layers": 2, "tie_word_embeddings": False, "intermediate_size": 40,
                   "pad_token_id": UNK, "rope_parameters": PLAIN},
        "variants": {"window": {"sliding_window": 20},
                     "partial": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 0.75}}},
    },
    "smollm3": {
        "class": "SmolLM3", "gguf": False, "scale": 0.2, "seed": 4,
        "config": {"num_hidden_layers": 3, "tie_word_embeddings": True, "pad_token_id": UNK,
                   "no_rope_layers": [1, 0, 1],
                   "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}},
        "variants": {"first": {"no_rope_layers": [0, 1, 1]},
                     "interval": {"no_rope_layers": None, "no_rope_layer_interval": 3}},
    },
    "olmo2": {
        "class": "Olmo2", "gguf": False, "seed": 4,
        "config": {"num_hidden_layers": 3, "tie_word_embeddings": False, "pad_token_id": UNK,
                   "rope_parameters": PLAIN},
        "variants": {"base": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}},
    },
    "stablelm": {
        "class": "StableLm", "gguf": False,
        "config": {"num_hidden_layers": 2, "tie_word_embeddings": False, "use_qkv_bias": True,
                   "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.25}},
        "variants": {"half": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}}},
    },
    "starcoder2": {
        "class": "Starcoder2", "gguf": False, "scale": 0.3, "bias_scale": 0.125,
        "config": {"num_hidden_layers": 2, "tie_word_embeddings": False, "use_bias": True,
                   "hidden_act": "gelu_pytorch_tanh", "sliding_window": None,
                   "rope_parameters": PLAIN},
        "variants": {"window": {"sliding_window": 20}},
    },
    "cohere": {
        "class": "Cohere", "gguf": False,
        "config": {"num_hidden_layers": 2, "tie_word_embeddings": True, "pad_token_id": UNK,
                   "logit_scale": 0.5, "rope_parameters": PLAIN},
        "variants": {"scale": {"logit_scale": 2.0}},
    },
    # Mixtures of experts: sizes of experts that do not end at a multiple of 16 rows.
    "mixtral": {
        "class": "Mixtral",
        "config": {"num_hidden_layers": 2, "tie_word_embeddings": False, "intermediate_size": 40,
                   "num_local_experts": 6, "num_experts_per_tok": 2, "rope_parameters": PLAIN},
        "variants": {"window": {"sliding_window": 20}, "three": {"num_experts_per_tok": 3}},
    },
    "qwen2_moe": {
        "class": "Qwen2Moe", "gguf": False,
        "config": {"num_hidden_layers": 4, "tie_word_embeddings": False, "num_experts": 6,
                   "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                   "shared_expert_intermediate_size": 48, "decoder_sparse_step": 2,
                   "mlp_only_layers": [1],
                   "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
        "variants": {"normed": {"norm_topk_prob": True}},
    },
    "qwen3_moe": {
        "class": "Qwen3Moe",
        "config": {"num_hidden_layers": 2, "head_dim": 24, "tie_word_embeddings": False,
                   "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
                   "norm_topk_prob": True,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
        "variants": {"two": {"num_experts_per_tok": 2}, "as_it_is": {"norm_topk_prob": False}},
    },
    "olmoe": {
        "class": "Olmoe",
        "config": {"num_hidden_layers": 2, "tie_word_embeddings": False, "intermediate_size": 24,
                   "pad_token_id": UNK, "num_experts": 8, "num_experts_per_tok": 4,
                   "rope_parameters": PLAIN},
        "variants": {"normed": {"norm_topk_prob": True}},
    },
    "granite_moe": {
        "class": "GraniteMoe", "gguf": False,
        "config": {"num_hidden_layers": 2, "tie_word_embeddings": True, "intermediate_size": 40,
                   "num_local_experts": 5, "num_experts_per_tok": 2, "embedding_multiplier": 3.0,
                   "attention_multiplier": 0.25, "residual_multiplier": 0.6, "logits_scaling": 0.5,
                   "rope_parameters": PLAIN},
        "variants": {"scales": {"embedding_multiplier": 1.5, "residual_multiplier": 1.0},
                     "three": {"num_experts_per_tok": 3}},
    },
    "seed_oss": {
        "class": "SeedOss", "gguf": False, "rows": 48,
        "config": {"num_hidden_layers": 2, "tie_word_embeddings": False, "head_dim": 16,
                   "attention_out_bias": True, "mlp_bias": True, "rope_parameters": PLAIN},
        "variants": {"base": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}},
    },
    "ernie4_5": {
        "class": "Ernie4_5", "gguf": False, "rows": 48, "embed_scale": 0.125,
        "config": {"num_hidden_layers": 2, "head_dim": 16, "use_bias": True,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
        "variants": {"default_base": {"rope_parameters": None}},
    },
    "helium": {
        "class": "Helium", "gguf": False, "rows": 48, "scale": 0.2,
        "config": {"num_hidden_layers": 2, "head_dim": 8, "attention_bias": True, "mlp_bias": True,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
        "variants": {"default_base": {"rope_parameters": None}},
    },
    "glm": {
        "class": "Glm", "gguf": False, "rows": 48,
        "config": {"num_hidden_layers": 2, "head_dim": 16, "pad_token_id": UNK,
                   "rope_parameters": PLAIN},
        "variants": {"partial": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 0.75}}},
    },
    "glm4": {
        "class": "Glm4", "gguf": False, "rows": 48, "scale": 0.2,
        "config": {"num_hidden_layers": 2, "head_dim": 16, "pad_token_id": UNK,
                   "attention_bias": False, "rope_parameters": PLAIN},
        "variants": {"whole": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 1.0}}},
    },
    "olmo3": {
        "class": "Olmo3", "gguf": False, "rows": 48,
        "config": {"num_hidden_layers": 3, "intermediate_size": 40, "pad_token_id": UNK,
                   "sliding_window": 20, "layer_types": [
                       "sliding_attention", "full_attention", "sliding_attention"],
                   "rope_parameters": {
                       "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
                       "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}},
        # As published: one base, and scaling of the layers that see all keys.
        "variants": {"older": {
            "rope_parameters": None, "layer_types": None, "rope_theta": 500000.0,
            "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.2,
                             "original_max_position_embeddings": 32}}},
    },
    "exaone4": {
        "class": "Exaone4", "gguf": False, "rows": 48, "seed": 1,
        "config": {"num_hidden_layers": 3, "intermediate_size": 40, "sliding_window": 20,
                   "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                   "rope_parameters": PLAIN},
        "variants": {"pattern": {"layer_types": None, "sliding_window_pattern": 3},
                     "no_window": {"sliding_window": None, "layer_types": ["full_attention"] * 3}},
    },
    "cohere2": {
        "class": "Cohere2", "gguf": False, "rows": 48, "embed_scale": 0.125,
        "config": {"num_hidden_layers": 3, "intermediate_size": 40, "pad_token_id": UNK,
                   "logit_scale": 0.5, "sliding_window": 20, "attention_bias": True,
                   "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                   "rope_parameters": PLAIN},
        "variants": {"pattern": {"layer_types": None, "sliding_window_pattern": 3}},
    },
    "ministral": {
        "class": "Ministral", "gguf": False, "rows": 48, "scale": 0.2,
        "config": {"num_hidden_layers": 3, "intermediate_size": 40, "head_dim": 16,
                   "sliding_window": 20, "rope_parameters": PLAIN,
                   "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        "variants": {"every_layer": {"layer_types": None}},
    },
    "arcee": {
        "class": "Arcee", "gguf": False, "rows": 48, "scale": 0.2, "bias_scale": 0.125,
        "config": {"num_hidden_layers": 2, "head_dim": 16, "attention_bias": True, "mlp_bias": True,
                   "rope_parameters": PLAIN},
        "variants": {"gelu": {"hidden_act": "gelu"}},
    },
    # Norms whose weights are stored around 0.
    "nemotron": {
        "class": "Nemotron", "gguf": False, "rows": 48, "scale": 0.2, "bias_scale": 0.125,
        "norm_mean": 0.0,
        "config": {"num_hidden_layers": 2, "attention_bias": True, "mlp_bias": True,
                   "norm_eps": 1e-4, "head_dim": 16,
                   "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}},
        "variants": {"partial": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 0.75}}},
    },
    "phi": {
        "class": "Phi", "gguf": False, "rows": 48, "scale": 0.2, "bias_scale": 0.25,
        "config": {"num_hidden_layers": 2, "layer_norm_eps": 1e-4,
                   "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}},
        "variants": {"partial": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 0.25}}},
    },
    "olmo": {
        "class": "Olmo", "gguf": False, "rows": 48, "scale": 0.2,
        "config": {"num_hidden_layers": 2, "attention_bias": True, "pad_token_id": UNK,
                   "rope_parameters": PLAIN},
        "variants": {"base": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}},
    },
    "hunyuan": {
        "class": "HunYuanDenseV1", "gguf": False, "rows": 48, "scale": 0.2,
        "config": {"num_hidden_layers": 2, "head_dim": 16, "attention_bias": True,
                   "pad_token_id": UNK, "rope_parameters": {
                       "rope_type": "dynamic", "rope_theta": 100.0, "factor": 1.0, "alpha": 50.0}},
        "variants": {"plain": {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}},
    },
    "gpt_neox": {
        "class": "GPTNeoX", "gguf": False, "rows": 48, "scale": 0.2, "bias_scale": 0.25,
        "config": {"num_hidden_layers": 2, "num_key_value_heads": HEADS, "layer_norm_eps": 1e-4,
                   "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}},
        "variants": {"serial": {"use_parallel_residual": False},
                     "older": {"rope_parameters": None, "rotary_pct": 0.25,
                               "rotary_emb_base": 100}},
    },
    "gptj": {
        "class": "GPTJ", "gguf": False, "rows": 48, "scale": 0.4, "bias_scale": 0.125,
        "config": {"n_embd": HIDDEN, "n_head": HEADS, "n_layer": 2, "n_positions": 256,
                   "rotary_dim": 4, "layer_norm_epsilon": 1e-4, "n_inner": FFN},
        "variants": {"whole": {"rotary_dim": 8}},
    },
}


def make_tokenizer():
    """tokenizer.json of a Llama-style vocabulary: `▁` for spaces, merges, an unknown token."""
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=SPECIAL[UNK]))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    backend.train_from_iterator(CORPUS, tokenizers.trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=["▁"] + [chr(c) for c in range(0x21, 0x7F)]))
    model = json.loads(backend.to_str())["model"]
    assert len(model["vocab"]) == VOCAB
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    back = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": token, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}
                         for i, token in enumerate(SPECIAL)],
        "normalizer": {"type": "Sequence",
                       "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]},
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [BOS], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            back, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>",
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
                  "byte_fallback": True, "ignore_merges": False, "vocab": model["vocab"],
                  "merges": model["merges"]},
    }


def make_model(name, family):
    torch.manual_seed(sum(map(ord, name)) + 1000 * family.get("seed", 0))
    config_class = "Gemma3TextConfig" if name == "gemma3" else family["class"] + "Config"
    # Some classes write into what they are given, which other families share.
    settings = copy.deepcopy({**COMMON, **family["config"]})
    config = getattr(transformers, config_class)(**settings)
    model = getattr(transformers, family["class"] + "ForCausalLM")(config).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            # Wide enough that heads attend and best tokens stand out.
            scale, mean = family.get("scale", 0.25), 0.0
            if "bias" in key:
                scale = family.get("bias_scale", 0.5)
            elif name in ("gemma3", "cohere") and "embed" in key:
                scale = 0.125  # tied: else the last token's own embedding wins
            elif "embed_scale" in family and "embed" in key:
                scale = family["embed_scale"]
            elif "norm" in key:
                scale, mean = 0.1, 0.0 if name == "gemma3" else family.get("norm_mean", 1.0)
                if "q_norm" in key or "k_norm" in key:
                    mean += 0.0 if name == "gemma3" else 0.1
                elif name == "gemma3" and "post_" in key:
                    mean -= 0.25  # a sandwich norm sets how much its block adds
            weight.copy_(torch.randn_like(weight) * scale + mean)
            weight.copy_(weight.bfloat16().float())
            weight[weight.abs() < 2.0 ** -14] = 0.0
            assert torch.equal(weight, weight.half().float())
    return model


def save_hugging_face(folder, model, tokenizer):
    saved = type(model)(model.config).bfloat16()
    saved.load_state_dict(model.state_dict())
    saved.save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
         "unk_token": "<unk>"}), "utf-8")


def rotary_rows(array, heads):
    """Rows in the order of GGUF's llama architecture: rotated pairs side by side."""
    rows = array.shape[0]
    pairs = array.reshape(heads, 2, rows // heads // 2, *array.shape[1:])
    return pairs.swapaxes(1, 2).reshape(array.shape)


def llama3_factors(rope, head_dim):
    """What the converter writes as rope_freqs.weight."""
    factors = []
    for i in range(head_dim // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * i / head_dim)
        turns = rope["original_max_position_embeddings"] / wavelength
        low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)


def is_mixture(name):
    return "num_experts_per_tok" in FAMILIES[name]["config"]


def gguf_name(name, gemma):
    mlp_norm = "pre_feedforward_layernorm" if gemma else "post_attention_layernorm"
    for old, new in (
            ("model.embed_tokens.", "token_embd."), ("model.norm.", "output_norm."),
            ("lm_head.", "output."), ("model.layers.", "blk."), ("self_attn.q_proj", "attn_q"),
            ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
            ("self_attn.o_proj", "attn_output"), ("self_attn.q_norm", "attn_q_norm"),
            ("self_attn.k_norm", "attn_k_norm"), ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"),
            ("mlp.gate.", "ffn_gate_inp."), ("mlp.experts.down_proj", "ffn_down_exps.weight"),
            ("input_layernorm", "attn_norm"), (mlp_norm, "ffn_norm"),
            ("post_attention_layernorm", "post_attention_norm"),
            ("post_feedforward_layernorm", "post_ffw_norm")):
        name = name.replace(old, new)
    return name


def save_gguf(path, name, model, tokenizer):
    config = model.config
    llama = name in ("llama", "mistral", "mixtral")
    head_dim = getattr(config, "head_dim", None) or HIDDEN // HEADS
    writer = gguf.GGUFWriter(path, "llama" if llama else name.replace("_", ""))
    writer.add_name(f"tiny {name}")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    if llama:
        writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    if is_mixture(name):
        writer.add_expert_count(FAMILIES[name]["config"].get("num_experts", config.num_local_experts))
        writer.add_expert_used_count(config.num_experts_per_tok)
        if hasattr(config, "moe_intermediate_size"):
            writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if name in ("mistral", "gemma3"):
        writer.add_sliding_window(config.sliding_window)
    writer.add_vocab_size(VOCAB)
    vocab = tokenizer["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    kinds = gguf.TokenType
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0 if len(token) == 1 or token in SPECIAL else -float(i)
                             for i, token in enumerate(tokens)])
    writer.add_token_types([kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL]
                           + [kinds.NORMAL] * (VOCAB - len(SPECIAL)))
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(UNK)
    writer.add_add_bos_token(True)
    for key, weight in model.state_dict().items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = weight.numpy()
        if key.endswith("experts.gate_up_proj"):
            layer = key.split(".")[2]
            for part, half in zip(("gate", "up"), np.split(array.astype(np.float16), 2, axis=1)):
                writer.add_tensor(f"blk.{layer}.ffn_{part}_exps.weight", np.ascontiguousarray(half))
            continue
        if llama and ("q_proj" in key or "k_proj" in key):
            array = rotary_rows(array, HEADS if "q_proj" in key else config.num_key_value_heads)
        if name == "gemma3" and "norm" in key:
            array = array + np.float32(1)
        half = array.ndim > 1 and "mlp.gate." not in key
        array = np.ascontiguousarray(array, np.float16 if half else np.float32)
        writer.add_tensor(gguf_name(key, name == "gemma3"), array)
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(rope, head_dim))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{path.relative_to(DATA)}: {path.stat().st_size} bytes")


def check_gguf(path, name, model):
    """The reference reads the file and finds the weights that went in."""
    like = model
    if name == "mistral":  # which GGUF calls llama
        config = {**COMMON, **FAMILIES[name]["config"]}
        like = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config))
    loaded = load_gguf_checkpoint(path, return_tensors=True, model_to_load=like)["tensors"]
    for key, weight in model.state_dict().items():
        if "_proj.bias" in key and key not in loaded:
            continue  # the reference's reader of GGUF leaves out biases of the llama architecture
        if key == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        # It takes the norms' 1 away again, or leaves it there, by version.
        difference = torch.as_tensor(loaded[key]).float() - weight
        assert not difference.any() or (
            "norm" in key and torch.allclose(difference, torch.ones_like(weight), atol=1e-6)), key


def variant_model(folder, model, changes):
    config = json.loads((folder / "config.json").read_text("utf-8"))
    for key, value in changes.items():
        if value is None and key != "sliding_window":
            config.pop(key, None)
        else:
            config[key] = value
    config.pop("dtype", None)
    config.pop("transformers_version", None)
    changed = AutoConfig.for_model(config.pop("model_type"), **config)
    result = type(model)(changed).eval()
    result.load_state_dict(model.state_dict())
    return result


def pick_prompt(model):
    """A random prompt whose greedy continuation does not hang by a rounding."""
    for seed in range(100):
        random = np.random.default_rng(seed)
        prompt = [BOS] + random.integers(len(SPECIAL), VOCAB, 95).tolist()
        continuation = greedy(model, prompt, 64)
        gaps = [a - b for a, b in zip(continuation["logit_best"], continuation["logit_second"])]
        if min(gaps) > 3e-3 and len(set(continuation["tokens"])) > 4:
            return prompt, continuation
    raise SystemExit("every continuation hangs by a rounding")


def main():
    tokenizer = make_tokenizer()
    for name in sys.argv[1:] or FAMILIES:
        family, folder = FAMILIES[name], FOLDER / name
        shutil.rmtree(folder, ignore_errors=True)
        model = make_model(name, family)
        save_hugging_face(folder / "hf", model, tokenizer)
        if family.get("gguf", True):
            save_gguf(folder / "model.gguf", name, model, tokenizer)
            if not is_mixture(name):
                check_gguf(folder / "model.gguf", name, model)

        reference = AutoModelForCausalLM.from_pretrained(folder / "hf", dtype=torch.float32).eval()
        prompt, continuation = pick_prompt(reference)
        logits = all_logits(reference, prompt)
        rows = family.get("rows", len(prompt))
        write_floats(folder / "logits.bin", logits[-rows:].contiguous())

        variants = []
        for variant, changes in family["variants"].items():
            changed = all_logits(variant_model(folder / "hf", model, changes), prompt)
            difference = float((changed - logits).abs().max())
            assert difference > 0.5, f"{name}: {variant} changes next to nothing: {difference}"
            print(f"{name} {variant}: logits change by up to {difference:.2f}")
            write_floats(folder / f"logits_{variant}.bin", changed[-rows // 3:].contiguous())
            variants.append({"name": variant, "config": changes})
        write_json(folder / "goldens.json", {
            **versions(), "vocab_size": VOCAB, "prompt_token_ids": prompt,
            "greedy": continuation["tokens"], "variants": variants})


if __name__ == "__main__":
    main()

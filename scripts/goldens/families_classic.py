"""The families before Llama: learned positions, ALiBi, parallel blocks."""

from family_common import HIDDEN, FFN, HEADS, KV_HEADS, UNK, PLAIN, LN

CLASSICS = {
    "gpt_neox": {
        "class": "GPTNeoX", "counted": False, "rows": 48, "gguf": False, "scale": 0.2, "bias_scale": 0.25,
        "config": {"num_hidden_layers": 2, "num_key_value_heads": HEADS, "layer_norm_eps": 1e-4,
                   "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}},
        "variants": {"serial": {"use_parallel_residual": False},
                     "older": {"rope_parameters": None, "rotary_pct": 0.25,
                               "rotary_emb_base": 100}},
    },
    "gptj": {
        "class": "GPTJ", "counted": False, "rows": 48, "gguf": False, "scale": 0.4, "bias_scale": 0.125,
        "config": {"n_embd": HIDDEN, "n_head": HEADS, "n_layer": 2, "n_positions": 256,
                   "rotary_dim": 4, "layer_norm_epsilon": 1e-4, "n_inner": FFN},
        "variants": {"whole": {"rotary_dim": 8}},
    },
    # Of GPT's time: layer norms, which some call ln_*, and an MLP without a gate.
    "gpt2": {
        "class": "GPT2", "gguf": False, "scale": 0.3, "bias_scale": 0.125,
        "tensors": {**LN, "wte": (0.125, 0.0), "wpe": (0.25, 0.0)},
        "config": {"n_layer": 2, "n_inner": 48, "layer_norm_epsilon": 1e-4},
        "variants": {"by_layer": {"scale_attn_by_inverse_layer_idx": True},
                     "unscaled": {"scale_attn_weights": False}},
    },
    "opt": {
        "class": "OPT", "gguf": False, "scale": 0.3, "bias_scale": 0.125,
        "tensors": {"embed_tokens": (0.125, 0.0), "embed_positions": (0.25, 0.0)},
        "config": {"num_hidden_layers": 2, "ffn_dim": 48, "pad_token_id": UNK,
                   "word_embed_proj_dim": HIDDEN},
        "variants": {"gelu": {"activation_function": "gelu"}},
    },
    "bloom": {
        "class": "Bloom", "gguf": False, "scale": 0.3, "bias_scale": 0.125,
        "tensors": {"word_embeddings_layernorm.weight": (0.1, 1.0), **LN,
                    "word_embeddings.weight": (0.125, 0.0)},
        "config": {"n_layer": 2, "n_head": HEADS, "layer_norm_epsilon": 1e-4},
        "variants": {},
    },
    # Six heads: slopes of twice as many, every other one.
    "mpt": {
        "class": "Mpt", "gguf": False, "scale": 0.3,
        "tensors": {"wte": (0.125, 0.0)},
        "config": {"d_model": 48, "n_heads": 6, "n_layers": 2, "max_seq_len": 256,
                   "num_attention_heads": 6, "hidden_size": 48,
                   "attn_config": {"clip_qkv": 1.5}},
        "variants": {"unlimited": {"attn_config": {"softmax_scale": 0.6}}},
    },
    "falcon": {
        "class": "Falcon", "gguf": False, "scale": 0.3, "bias_scale": 0.125,
        "tensors": {**LN, "word_embeddings": (0.125, 0.0)},
        "config": {"num_hidden_layers": 2, "ffn_hidden_size": 48, "layer_norm_epsilon": 1e-4,
                   "rope_parameters": PLAIN},
        "variants": {"base": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}},
    },
    "falcon_grouped": {
        "class": "Falcon", "gguf": False, "scale": 0.3, "bias_scale": 0.125,
        "tensors": {**LN, "word_embeddings": (0.125, 0.0)},
        "config": {"num_hidden_layers": 2, "num_kv_heads": KV_HEADS,
                   "new_decoder_architecture": True, "layer_norm_epsilon": 1e-4,
                   "rope_parameters": PLAIN},
        "variants": {},
    },
    "falcon_rw": {
        "class": "Falcon", "gguf": False, "scale": 0.3, "bias_scale": 0.125,
        "tensors": {**LN, "word_embeddings": (0.125, 0.0)},
        "config": {"num_hidden_layers": 2, "alibi": True, "multi_query": False,
                   "parallel_attn": False, "bias": True, "layer_norm_epsilon": 1e-4},
        "variants": {},
    },
    "xglm": {
        "class": "XGLM", "gguf": False, "scale": 0.3, "bias_scale": 0.125,
        "tensors": {"embed_tokens": (0.0625, 0.0)},
        "config": {"num_layers": 2, "ffn_dim": 48, "pad_token_id": UNK},
        "variants": {"unscaled": {"scale_embedding": False}},
    },
    "phi": {
        "class": "Phi", "counted": False, "rows": 48, "gguf": False, "scale": 0.2, "bias_scale": 0.25,
        "config": {"num_hidden_layers": 2, "layer_norm_eps": 1e-4,
                   "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}},
        "variants": {"partial": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 0.25}}},
    },
    "olmo": {
        "class": "Olmo", "gguf": False, "scale": 0.3,
        "config": {"num_hidden_layers": 2, "clip_qkv": 1.5, "pad_token_id": UNK,
                   "rope_parameters": PLAIN},
        "variants": {"unlimited": {"clip_qkv": None}, "base": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}},
    },
}

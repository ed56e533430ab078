"""What the tiny configurations of family_configs.py have in common."""

VOCAB, HIDDEN, FFN, HEADS, KV_HEADS = 128, 32, 64, 4, 2
UNK, BOS, EOS = 0, 1, 2

COMMON = {
    "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": FFN,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5, "bos_token_id": BOS, "eos_token_id": EOS,
}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 32}

LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.5, 2.0, 3.0],
            "long_factor": [2.0, 8.0, 16.0, 40.0]}
# Of checkpoints of more than text: a vision tower as small as can be, and a text model.
VISION = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
          "num_attention_heads": 2, "image_size": 32, "patch_size": 16}
QWEN_VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2,
               "out_hidden_size": HIDDEN}


GEMMA4 = {
    "num_hidden_layers": 6, "head_dim": 16, "global_head_dim": 32, "num_global_key_value_heads": 2,
    "attention_k_eq_v": True, "sliding_window": 16, "num_kv_shared_layers": 2,
    "use_double_wide_mlp": True, "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": VOCAB, "final_logit_softcapping": 3.0, "intermediate_size": 48,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    "rope_parameters": {
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                           "rope_theta": 10000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0}}}

# The last two layers read the keys of the two before them.
GEMMA3N = {
    "num_hidden_layers": 6, "head_dim": 16, "sliding_window": 16, "num_kv_shared_layers": 2,
    "intermediate_size": 48, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCAB,
    "laurel_rank": 8, "final_logit_softcapping": 3.0,
    "activation_sparsity_pattern": [0.75, 0.5, 0.9, 0.0, 0.0, 0.0],
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 100000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}
# Wide enough that a token's router says something, and that streams differ.
GEMMA3N_TENSORS = {
    "modality_router": [4.0, 0.0], "_coefs": [0.25, 0.0], "correct_output_scale": [0.25, 1.0],
    "altup_": [0.2, 0.0], "q_norm": [0.1, 0.25], "k_norm": [0.1, 0.25], "post_": [0.1, 0.5]}


def text_config(model_type, **settings):
    return {**COMMON, "model_type": model_type, "num_hidden_layers": 2, **settings}


LN = {f"{name}.weight": (0.1, 1.0) for name in ("ln_1", "ln_2", "ln_f", "ln_attn", "ln_mlp")}

"""Families of one stack of layers without experts, among them the text parts of those that also see images."""

from family_common import UNK, PLAIN, LLAMA3, LONGROPE, VISION, QWEN_VISION, GEMMA3N, GEMMA3N_TENSORS, GEMMA4, VOCAB, text_config

DENSE = {
    # Biases, which no published Llama has, are the architecture's too.
    "llama": {
        "class": "Llama", "counted": False,
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
        "class": "Mistral", "counted": False,
        "config": {"num_hidden_layers": 2, "head_dim": 24, "sliding_window": 20,
                   "tie_word_embeddings": False, "rope_parameters": PLAIN},
        "variants": {"no_window": {"sliding_window": None}},
    },
    "qwen2": {
        "class": "Qwen2", "counted": False,
        "config": {"num_hidden_layers": 3, "tie_word_embeddings": True, "num_key_value_heads": 1,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
        "variants": {"window": {"use_sliding_window": True, "sliding_window": 24,
                                "max_window_layers": 1, "layer_types": None}},
    },
    "qwen3": {
        "class": "Qwen3", "counted": False,
        "config": {"num_hidden_layers": 3, "head_dim": 24, "tie_word_embeddings": False,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
        "variants": {"window": {"use_sliding_window": True, "sliding_window": 17, "layer_types": [
            "sliding_attention", "full_attention", "sliding_attention"]}},
    },
    "gemma3": {
        "class": "Gemma3", "config_class": "Gemma3TextConfig", "counted": False,
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
    # `embed_scale` where embeddings are tied. `tensors` has the deviation and the mean of tensors whose
    # names have a part in common: {part: (deviation, mean)}.
    "granite": {
        "class": "Granite", "counted": False, "gguf": False, "seed": 1,
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
                     "partial": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 0.75}},
                     # Prompts of 96 tokens are beyond the length of pre-training here, ...
                     "long": {"rope_parameters": {**LONGROPE, "original_max_position_embeddings": 32},
                              "original_max_position_embeddings": 32},
                     # ... and within it here.
                     "short": {"rope_parameters": {**LONGROPE, "original_max_position_embeddings": 128},
                               "original_max_position_embeddings": 128}},
    },
    "smollm3": {
        "class": "SmolLM3", "counted": False, "gguf": False, "scale": 0.2, "seed": 4,
        "config": {"num_hidden_layers": 3, "tie_word_embeddings": True, "pad_token_id": UNK,
                   "no_rope_layers": [1, 0, 1],
                   "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}},
        "variants": {"first": {"no_rope_layers": [0, 1, 1]},
                     "interval": {"no_rope_layers": None, "no_rope_layer_interval": 3},
                     # What a GGUF file can say: every fourth layer, which is none of three.
                     "usual": {"no_rope_layers": None}},
    },
    "olmo2": {
        "class": "Olmo2", "counted": False, "gguf": False, "seed": 4,
        "config": {"num_hidden_layers": 3, "tie_word_embeddings": False, "pad_token_id": UNK,
                   "rope_parameters": PLAIN},
        "variants": {"base": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}},
    },
    "stablelm": {
        "class": "StableLm", "counted": False, "gguf": False,
        "config": {"num_hidden_layers": 2, "tie_word_embeddings": False, "use_qkv_bias": True,
                   "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.25}},
        "variants": {"half": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}}},
    },
    "starcoder2": {
        "class": "Starcoder2", "counted": False, "gguf": False, "scale": 0.3, "bias_scale": 0.125,
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
    "seed_oss": {
        "class": "SeedOss", "counted": False, "rows": 48, "gguf": False,
        "config": {"num_hidden_layers": 2, "tie_word_embeddings": False, "head_dim": 16,
                   "attention_out_bias": True, "mlp_bias": True, "rope_parameters": PLAIN},
        "variants": {"base": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}},
    },
    "ernie4_5": {
        "class": "Ernie4_5", "counted": False, "rows": 48, "gguf": False, "embed_scale": 0.125,
        "config": {"num_hidden_layers": 2, "head_dim": 16, "use_bias": True,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
        "variants": {"default_base": {"rope_parameters": None}},
    },
    "helium": {
        "class": "Helium", "counted": False, "rows": 48, "gguf": False, "scale": 0.2,
        "config": {"num_hidden_layers": 2, "head_dim": 8, "attention_bias": True, "mlp_bias": True,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
        "variants": {"default_base": {"rope_parameters": None}},
    },
    "glm": {
        "class": "Glm", "gguf": False, "scale": 0.2, "bias_scale": 0.25,
        "config": {"num_hidden_layers": 2, "head_dim": 8, "pad_token_id": UNK,
                   "rope_parameters": PLAIN},
        "variants": {"partial": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 0.75}}},
    },
    "glm4": {
        "class": "Glm4", "counted": False, "rows": 48, "gguf": False, "scale": 0.2,
        "config": {"num_hidden_layers": 2, "head_dim": 16, "pad_token_id": UNK,
                   "attention_bias": False, "rope_parameters": PLAIN},
        "variants": {"whole": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 1.0}}},
    },
    "olmo3": {
        "class": "Olmo3", "counted": False, "rows": 48, "gguf": False,
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
        "class": "Exaone4", "counted": False, "rows": 48, "gguf": False, "seed": 1,
        "config": {"num_hidden_layers": 3, "intermediate_size": 40, "sliding_window": 20,
                   "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                   "rope_parameters": PLAIN},
        "variants": {"pattern": {"layer_types": None, "sliding_window_pattern": 3},
                     "no_window": {"sliding_window": None, "layer_types": ["full_attention"] * 3}},
    },
    "cohere2": {
        "class": "Cohere2", "counted": False, "rows": 48, "gguf": False, "embed_scale": 0.125,
        "config": {"num_hidden_layers": 3, "intermediate_size": 40, "pad_token_id": UNK,
                   "logit_scale": 0.5, "sliding_window": 20,
                   "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                   "rope_parameters": PLAIN},
        "variants": {"pattern": {"layer_types": None, "sliding_window_pattern": 3},
                     # What a GGUF file can say: all but every fourth layer.
                     "usual": {"layer_types": None, "sliding_window_pattern": 4}},
    },
    "ministral": {
        "class": "Ministral", "counted": False, "rows": 48, "gguf": False, "scale": 0.2,
        "config": {"num_hidden_layers": 3, "intermediate_size": 40, "head_dim": 16,
                   "sliding_window": 20, "rope_parameters": PLAIN,
                   "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        "variants": {"every_layer": {"layer_types": None}},
    },
    "ministral3": {
        "class": "Ministral3", "gguf": False, "scale": 0.2, "seed": 1,
        "config": {"num_hidden_layers": 2, "head_dim": 16, "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "beta_fast": 8.0,
            "beta_slow": 0.5, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5,
            "original_max_position_embeddings": 24}},
        "variants": {"steady": {"rope_parameters": {
            "rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "beta_fast": 8.0,
            "beta_slow": 0.5, "llama_4_scaling_beta": 0.0, "original_max_position_embeddings": 24}},
                     "window": {"sliding_window": 20}},
    },
    # The activation's numbers, so that each matters: beta and epsilon are those of all layers.
    "apertus": {
        "class": "Apertus", "gguf": False, "scale": 0.2, "bias_scale": 0.125,
        "tensors": {"act_fn.beta": (0.0, 0.75), "act_fn.eps": (0.0, -0.25),
                    "act_fn.alpha": (0.5, -0.5)},
        "config": {"num_hidden_layers": 2, "intermediate_size": 40, "attention_bias": True,
                   "pad_token_id": UNK, "rope_parameters": LLAMA3},
        "variants": {"plain": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}},
    },
    "cwm": {
        "class": "Cwm", "gguf": False, "scale": 0.2,
        "config": {"num_hidden_layers": 4, "head_dim": 16, "intermediate_size": 40,
                   "sliding_window": 20, "rope_parameters": LLAMA3},
        "variants": {"everywhere": {"layer_types": ["full_attention"] * 4}},
    },
    "jais2": {
        "class": "Jais2", "gguf": False, "scale": 0.2, "bias_scale": 0.125,
        "config": {"num_hidden_layers": 2, "intermediate_size": 40, "layer_norm_eps": 1e-4,
                   "rope_parameters": PLAIN},
        "variants": {"base": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}},
    },
    "arcee": {
        "class": "Arcee", "gguf": False, "scale": 0.2, "bias_scale": 0.125,
        "config": {"num_hidden_layers": 2, "head_dim": 16, "attention_bias": True, "mlp_bias": True,
                   "rope_parameters": PLAIN},
        "variants": {"gelu": {"hidden_act": "gelu"}},
    },
    # Norms whose weights are stored around 0.
    "nemotron": {
        "class": "Nemotron", "counted": False, "rows": 48, "gguf": False, "scale": 0.2, "bias_scale": 0.125,
        "norm_mean": 0.0,
        "config": {"num_hidden_layers": 2, "attention_bias": True, "mlp_bias": True,
                   "norm_eps": 1e-4, "head_dim": 16,
                   "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}},
        "variants": {"partial": {"rope_parameters": {**PLAIN, "partial_rotary_factor": 0.75}}},
    },
    "hunyuan": {
        "class": "HunYuanDenseV1", "counted": False, "rows": 48, "gguf": False, "scale": 0.2,
        "config": {"num_hidden_layers": 2, "head_dim": 16, "attention_bias": True,
                   "pad_token_id": UNK, "rope_parameters": {
                       "rope_type": "dynamic", "rope_theta": 100.0, "factor": 1.0, "alpha": 50.0}},
        "variants": {"plain": {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}},
    },
    # Norms whose weights are stored around 0, as in every Gemma to the third.
    "gemma": {
        "class": "Gemma", "embed_scale": 0.125, "norm_mean": 0.0,
        "config": {"num_hidden_layers": 2, "head_dim": 24, "num_key_value_heads": 1,
                   "rope_parameters": PLAIN},
        "variants": {"base": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}},
    },
    "gemma2": {
        "class": "Gemma2", "embed_scale": 0.125, "norm_mean": 0.0,
        "tensors": {"post_": [0.1, -0.25]},
        "config": {"num_hidden_layers": 3, "head_dim": 24, "num_key_value_heads": 1,
                   "query_pre_attn_scalar": 24, "sliding_window": 16, "intermediate_size": 48,
                   "attn_logit_softcapping": 2.0, "final_logit_softcapping": 8.0,
                   "rope_parameters": PLAIN},
        "variants": {
            "layers": {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]},
            "caps": {"attn_logit_softcapping": 20.0, "final_logit_softcapping": 20.0,
                     "query_pre_attn_scalar": 8}},
    },
    # Heads of two sizes, keys that are values, layers that read others' keys, an embedding a layer.
    "gemma4": {
        "class": "Gemma4", "config_class": "Gemma4TextConfig", "gguf": False, "embed_scale": 0.125,
        "scale": 0.2, "seed": 2,
        "tensors": {"layer_scalar": [0.1, 0.9], "q_norm": [0.1, 0.25], "k_norm": [0.1, 0.25],
                    "post_": [0.1, 0.5]},
        "config": GEMMA4,
        "variants": {
            "window": {"sliding_window": 8, "rope_parameters": {
                "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5,
                                   "rope_theta": 1000.0, "factor": 2.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}},
            "no_cap": {"final_logit_softcapping": None}},
    },
    # Streams of a token that predict and correct each other, sparse gates, a low-rank residual.
    "gemma3n": {
        "class": "Gemma3n", "config_class": "Gemma3nTextConfig", "gguf": False, "embed_scale": 0.125,
        "scale": 0.2, "tensors": GEMMA3N_TENSORS, "config": GEMMA3N,
        "variants": {
            "window": {"sliding_window": 8, "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}},
            "cap": {"final_logit_softcapping": 30.0},
            "dense": {"activation_sparsity_pattern": [0.0] * 6},
            "active": {"altup_active_idx": 2},
            "unscaled": {"altup_correct_scale": False}},
    },
    # Three streams, MLPs of three sizes, and tokens that have no embedding for the layers.
    "gemma3n_sizes": {
        "class": "Gemma3n", "config_class": "Gemma3nTextConfig", "gguf": False, "embed_scale": 0.125,
        "scale": 0.2, "tensors": GEMMA3N_TENSORS,
        "config": {**GEMMA3N, "num_hidden_layers": 3, "num_kv_shared_layers": 0,
                   "layer_types": ["full_attention", "sliding_attention", "full_attention"],
                   "altup_num_inputs": 3, "altup_active_idx": 1, "intermediate_size": [48, 40, 64],
                   "activation_sparsity_pattern": None, "vocab_size_per_layer_input": VOCAB - 30},
        "variants": {},
    },
    # Checkpoints of more than text, each under other names.
    "gemma3_images": {
        "class": "Gemma3", "gguf": False, "embed_scale": 0.125, "norm_mean": 0.0,
        "config": {
            "text_config": text_config(
                "gemma3_text", head_dim=24, sliding_window=16, query_pre_attn_scalar=24,
                layer_types=["sliding_attention", "full_attention"], rope_parameters={
                    "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
            "vision_config": {**VISION, "model_type": "siglip_vision_model"},
            "mm_tokens_per_image": 4},
        "variants": {},
    },
    "mistral3": {
        "class": "Mistral3", "gguf": False, "scale": 0.2,
        "config": {
            "text_config": text_config("mistral", head_dim=16, sliding_window=None,
                                       tie_word_embeddings=False, rope_parameters=PLAIN),
            "vision_config": {**VISION, "model_type": "pixtral", "head_dim": 8},
            "tie_word_embeddings": False},
        "variants": {},
    },
    "llava": {
        "class": "Llava", "gguf": False, "scale": 0.2,
        "config": {
            "text_config": text_config("llama", head_dim=16, tie_word_embeddings=False,
                                       rope_parameters=PLAIN),
            "vision_config": {**VISION, "model_type": "clip_vision_model", "projection_dim": 16,
                              "vocab_size": 8}},
        "variants": {},
    },
    "qwen2_5_vl": {
        "class": "Qwen2_5_VL", "gguf": False, "scale": 0.2, "bias_scale": 0.25,
        "config": {
            "text_config": text_config("qwen2_5_vl_text", rope_parameters={
                "rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1000.0}),
            "vision_config": {**QWEN_VISION}},
        "variants": {},
    },
    "qwen3_vl": {
        "class": "Qwen3VL", "gguf": False, "scale": 0.2,
        "config": {
            "text_config": text_config("qwen3_vl_text", head_dim=16, rope_parameters={
                "rope_type": "default", "mrope_section": [3, 3, 2], "mrope_interleaved": True,
                "rope_theta": 1000.0}),
            "vision_config": {**QWEN_VISION, "num_position_embeddings": 16,
                              "deepstack_visual_indexes": [0]}},
        "variants": {},
    },
    # Two kinds of layers: some keep a state, the others keys and values.
    "lfm2": {
        "class": "Lfm2", "gguf": False, "scale": 0.3,
        "config": {"num_hidden_layers": 5, "tie_word_embeddings": False, "norm_eps": 1e-5,
                   "layer_types": ["conv", "conv", "full_attention", "conv", "full_attention"],
                   "conv_L_cache": 3, "intermediate_size": 80,
                   "block_multiple_of": 16, "block_ffn_dim_multiplier": 1.1,
                   "rope_parameters": PLAIN},
        "variants": {"base": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}},
    },
}

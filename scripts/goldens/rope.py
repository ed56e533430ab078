"""tests/data/rope.json: frequencies and scale of rotary positions, by the reference, for the scalings
of published models in both spellings of config.json."""

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from common import DATA, versions, write_json

CASES = {
    "default": {"max_position_embeddings": 4096, "rope_theta": 10000.0},
    "default_theta": {"max_position_embeddings": 4096},
    "new_spelling": {"max_position_embeddings": 8192,
                     "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
    "linear": {"max_position_embeddings": 4096, "rope_theta": 10000.0,
               "rope_scaling": {"type": "linear", "factor": 4.0}},
    "dynamic": {"max_position_embeddings": 2048, "rope_theta": 10000.0,
                "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
    "dynamic_within": {"max_position_embeddings": 16384, "rope_theta": 10000.0,
                       "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
    "llama3": {"max_position_embeddings": 131072, "rope_theta": 500000.0,
               "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                "high_freq_factor": 4.0,
                                "original_max_position_embeddings": 8192}},
    "llama3_new": {"max_position_embeddings": 131072, "rope_parameters": {
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}},
    "yarn": {"max_position_embeddings": 131072, "rope_theta": 1000000.0,
             "rope_scaling": {"type": "yarn", "factor": 4.0,
                              "original_max_position_embeddings": 32768}},
    "yarn_mscale": {"max_position_embeddings": 163840, "rope_theta": 10000.0,
                    "rope_scaling": {"type": "yarn", "factor": 40.0, "beta_fast": 32,
                                     "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.707,
                                     "original_max_position_embeddings": 4096}},
    "yarn_not_truncated": {"max_position_embeddings": 131072, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0,
        "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 4096}},
    "yarn_attention_factor": {"max_position_embeddings": 65536, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "attention_factor": 0.9,
        "beta_fast": 16.0, "beta_slow": 2.0, "original_max_position_embeddings": 4096}},
}
HEAD_DIM, MAX_POSITIONS = 64, 8192


def main():
    cases = []
    for name, keys in CASES.items():
        config = LlamaConfig(hidden_size=256, num_attention_heads=4, head_dim=HEAD_DIM,
                             **{key: dict(value) if isinstance(value, dict) else value
                                for key, value in keys.items()})
        kind = config.rope_parameters["rope_type"]
        if kind == "default":
            frequencies, scale = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
        else:
            frequencies, scale = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=MAX_POSITIONS)
        cases.append({"name": name, "config": keys, "attention_factor": float(scale),
                      "frequencies": frequencies.to(torch.float32).tolist()})
    write_json(DATA / "rope.json", {**versions(), "head_dim": HEAD_DIM,
                                    "max_positions": MAX_POSITIONS, "cases": cases})


if __name__ == "__main__":
    main()

"""tests/data/families/NAME: checkpoints with layers that draft from a model's states, and what they guess.

glm4_moe_mtp, deepseek_v3_mtp  the family's checkpoint and a layer behind its last, as DeepSeek-V3 and
                               GLM-4.5 are published (model.layers.N.{eh_proj,enorm,hnorm,shared_head})
llama_eagle                    EAGLE's layer for the family llama (fc, layers.0, no norms around it)
llama_eagle3                   EAGLE-3's layer for it (fc, midlayer, norm, lm_head), which reads states of three layers
llama_medusa                   Medusa's heads for the family llama, in FasterDecoding's layout (0.0.linear, 0.2)
llama_medusa_vllm              the same in vLLM's layout (blocks.0.layers.0, lm_heads.0)

NAME/hf/config.json, weights.json  as of the families (families.py)
NAME/drafts.json                   token ids, which the model continues greedily after the first `num_prompt`,
                                   and of each position from there on the guesses at what follows; of Medusa
                                   the best two choices of each head, of EAGLE-3 also the guesses of a vocabulary
                                   of the even tokens alone (guesses_even)

The reference is the family's own class with one layer, which is given the joined inputs as embeddings.
Run families.py before.
"""

import json
import pathlib
import shutil
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from common import DATA, greedy, versions, write_json
from counted_weights import write_counted
from family_common import BOS, COMMON, HIDDEN, VOCAB

FOLDER = DATA / "families"
NUM_PROMPT, NUM_MORE, NUM_GUESSES = 80, 12, 5
MEDUSA_HEADS, MEDUSA_LAYERS = 4, 2
INNER_LAYERS = [0, 1, 2]  # of the family's few
MATRIX, NORM = (0.25, 0.0), (0.1, 1.0)
# A layer that says something else for each state: what joins has most of the weight.
JOINS = (0.4, 0.0)


def entry(name, shape, numbers):
    return [name, shape, *numbers]


def mtp_tensors(family):
    """The family's tensors, with those of the layer that drafts."""
    tensors = json.loads((FOLDER / family / "weights.json").read_text("utf-8"))["tensors"]
    config = json.loads((FOLDER / family / "hf" / "config.json").read_text("utf-8"))
    last = config["num_hidden_layers"]
    own, before = f"model.layers.{last}.", f"model.layers.{last - 1}."
    added = [[own + name.removeprefix(before), *rest] for name, *rest in tensors if name.startswith(before)]
    added += [entry(own + "enorm.weight", [HIDDEN], NORM), entry(own + "hnorm.weight", [HIDDEN], NORM),
              entry(own + "eh_proj.weight", [HIDDEN, 2 * HIDDEN], JOINS),
              entry(own + "shared_head.norm.weight", [HIDDEN], NORM),
              # What published checkpoints repeat, which is not read.
              entry(own + "embed_tokens.weight", [VOCAB, HIDDEN], MATRIX),
              entry(own + "shared_head.head.weight", [VOCAB, HIDDEN], MATRIX)]
    return {**config, "num_nextn_predict_layers": 1}, tensors + added, last


def eagle_tensors():
    config = {**COMMON, "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 1,
              "hidden_act": "silu", "dtype": "bfloat16", "tie_word_embeddings": False, "rope_theta": 10000.0,
              "intermediate_size": 48}
    shapes = {"self_attn.q_proj": [32, 32], "self_attn.k_proj": [16, 32], "self_attn.v_proj": [16, 32],
              "self_attn.o_proj": [32, 32], "mlp.gate_proj": [48, 32], "mlp.up_proj": [48, 32],
              "mlp.down_proj": [32, 48]}
    tensors = [entry(f"layers.0.{name}.weight", shape, MATRIX) for name, shape in shapes.items()]
    tensors += [entry("layers.0.post_attention_layernorm.weight", [HIDDEN], NORM),
                entry("fc.weight", [HIDDEN, 2 * HIDDEN], JOINS), entry("fc.bias", [HIDDEN], MATRIX),
                entry("embed_tokens.weight", [VOCAB, HIDDEN], MATRIX)]
    return config, tensors


def load(folder, config, tensors, **changes):
    """The reference of these tensors, in the folder `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**config, **changes}), "utf-8")
    kind = getattr(transformers, config["architectures"][0])
    return kind.from_pretrained(folder, dtype=torch.float32).eval()


class Mtp:
    """hidden = layer(eh_proj([enorm(embedding), hnorm(state)])), logits = head(shared_head.norm(hidden))."""

    def __init__(self, scratch, config, weights, last, model):
        own = f"model.layers.{last}."
        layer = {f"model.layers.0.{name.removeprefix(own)}": value for name, value in weights.items()
                 if name.startswith(own)}
        part = {name: layer.pop(f"model.layers.0.{name}.weight").float() for name in ("enorm", "hnorm", "eh_proj")}
        norm = layer.pop("model.layers.0.shared_head.norm.weight")
        layer = {name: value for name, value in layer.items()
                 if "shared_head" not in name and "embed_tokens" not in name}
        shared = {name: weights[name] for name in ("model.embed_tokens.weight", "lm_head.weight")}
        self.reference = load(scratch / "layer", config, {**layer, **shared, "model.norm.weight": norm},
                              num_hidden_layers=1, first_k_dense_replace=0, num_nextn_predict_layers=0)
        self.part, self.epsilon, self.model = part, config["rms_norm_eps"], model

    def normed(self, x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * weight

    def run(self, token_ids, states):
        """States to go on with, and logits: of each pair of a token and the state before it."""
        embeddings = self.model.model.embed_tokens(torch.tensor([token_ids]))
        joined = torch.cat([self.normed(embeddings, self.part["enorm"]),
                            self.normed(states[None], self.part["hnorm"])], -1)
        kept = {}
        layer = self.reference.model.layers[0]
        hook = layer.register_forward_hook(lambda module, given, out: kept.update(out=out))
        logits = self.reference(inputs_embeds=joined @ self.part["eh_proj"].T).logits[0]
        hook.remove()
        return kept["out"].reshape(-1, HIDDEN), logits


class Eagle:
    """hidden = layer(fc([embedding, state])), whose attention has no norm before it; logits = head(hidden)."""

    def __init__(self, scratch, config, weights, model):
        layer = {f"model.{name}": value for name, value in weights.items() if name.startswith("layers.")}
        ones = torch.ones(HIDDEN, dtype=torch.bfloat16)
        shared = {"model.embed_tokens.weight": model.model.embed_tokens.weight.data.bfloat16(),
                  "lm_head.weight": model.lm_head.weight.data.bfloat16(), "model.norm.weight": ones,
                  "model.layers.0.input_layernorm.weight": ones.clone()}
        self.reference = load(scratch / "layer", config, {**layer, **shared})
        self.reference.model.norm = torch.nn.Identity()
        self.reference.model.layers[0].input_layernorm = torch.nn.Identity()
        self.fc, self.bias, self.model = weights["fc.weight"].float(), weights["fc.bias"].float(), model

    def run(self, token_ids, states):
        embeddings = self.model.model.embed_tokens(torch.tensor([token_ids]))
        joined = torch.cat([embeddings, states[None]], -1) @ self.fc.T + self.bias
        out = self.reference.model(inputs_embeds=joined).last_hidden_state
        return out.reshape(-1, HIDDEN), self.reference.lm_head(out)[0]


def eagle3_tensors():
    config = {**COMMON, "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1,
              "hidden_act": "silu", "dtype": "bfloat16", "tie_word_embeddings": False, "rope_theta": 10000.0,
              "intermediate_size": 48, "draft_vocab_size": VOCAB,
              "eagle_aux_hidden_state_layer_ids": INNER_LAYERS}
    shapes = {"self_attn.q_proj": [32, 64], "self_attn.k_proj": [16, 64], "self_attn.v_proj": [16, 64],
              "self_attn.o_proj": [32, 32], "mlp.gate_proj": [48, 32], "mlp.up_proj": [48, 32],
              "mlp.down_proj": [32, 48]}
    tensors = [entry(f"midlayer.{name}.weight", shape, MATRIX) for name, shape in shapes.items()]
    tensors += [entry(f"midlayer.{name}.weight", [HIDDEN], NORM)
                for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm")]
    tensors += [entry("fc.weight", [HIDDEN, 3 * HIDDEN], JOINS), entry("norm.weight", [HIDDEN], NORM),
                entry("lm_head.weight", [VOCAB, HIDDEN], MATRIX)]
    return config, tensors


def medusa_tensors(vllm):
    """Heads of two residual blocks each; vLLM's have no biases."""
    config = {"num_heads": MEDUSA_HEADS, "num_hidden_layers": MEDUSA_LAYERS, "hidden_size": HIDDEN,
              "vocab_size": VOCAB, "model_type": "medusa", "architectures": ["MedusaModel"]}
    if not vllm:
        config = {"medusa_num_heads": MEDUSA_HEADS, "medusa_num_layers": MEDUSA_LAYERS,
                  "base_model_name_or_path": "llama"}
    tensors = []
    for head in range(MEDUSA_HEADS):
        for layer in range(MEDUSA_LAYERS):
            block = f"blocks.{head}.layers.{layer}." if vllm else f"{head}.{layer}.linear."
            tensors.append(entry(block + "weight", [HIDDEN, HIDDEN], JOINS))
            if not vllm:
                tensors.append(entry(block + "bias", [HIDDEN], MATRIX))
        output = f"lm_heads.{head}.weight" if vllm else f"{head}.{MEDUSA_LAYERS}.weight"
        tensors.append(entry(output, [VOCAB, HIDDEN], MATRIX))
    return config, tensors


class Eagle3:
    """x = fc(states of three layers); x += attention([norm(embedding), norm(x)]); x += mlp(norm(x)); head(norm(x))."""

    def __init__(self, config, weights, model, step=1):
        weights = {name: value.float() for name, value in weights.items()}
        changed = transformers.LlamaConfig(**{**config, "head_dim": config.get("head_dim")})
        self.layer = transformers.models.llama.modeling_llama.LlamaDecoderLayer(changed, 0)
        for name in "qkv":
            matrix = weights[f"midlayer.self_attn.{name}_proj.weight"]
            setattr(self.layer.self_attn, f"{name}_proj", torch.nn.Linear(*reversed(matrix.shape), bias=False))
        own = {name.removeprefix("midlayer."): value for name, value in weights.items() if "midlayer" in name}
        self.hidden_norm = own.pop("hidden_norm.weight")
        self.layer.load_state_dict(own)
        self.rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(changed)
        self.weights, self.model, self.step, self.epsilon = weights, model, step, config["rms_norm_eps"]

    def normed(self, x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * weight

    def states(self, token_ids):
        ids = torch.tensor([token_ids])
        given = [self.model.model.embed_tokens(ids)]  # as they enter each layer, and what the last one gives
        hooks = [layer.register_forward_hook(lambda module, args, out: given.append(out))
                 for layer in self.model.model.layers]
        self.model.model(ids)
        for hook in hooks:
            hook.remove()
        return torch.cat([given[layer].reshape(-1, HIDDEN) for layer in INNER_LAYERS], -1) @ self.weights["fc.weight"].T

    def run(self, token_ids, states):
        embeddings = self.model.model.embed_tokens(torch.tensor([token_ids]))
        x = states[None]
        read = torch.cat([self.layer.input_layernorm(embeddings), self.normed(x, self.hidden_norm)], -1)
        angles = self.rotary(x, torch.arange(len(token_ids))[None])
        x = x + self.layer.self_attn(read, position_embeddings=angles, attention_mask=None)[0]
        x = x + self.layer.mlp(self.layer.post_attention_layernorm(x))
        logits = self.normed(x, self.weights["norm.weight"])[0] @ self.weights["lm_head.weight"].T
        logits[:, torch.arange(VOCAB) % self.step != 0] = -1e9
        return x[0], logits


class Medusa:
    """Of each head x += SiLU(W x + b), twice, from the last state; logits = output(x)."""

    def __init__(self, weights, vllm):
        self.weights, self.vllm = {name: value.float() for name, value in weights.items()}, vllm

    def logits(self, head, x):
        for layer in range(MEDUSA_LAYERS):
            block = f"blocks.{head}.layers.{layer}." if self.vllm else f"{head}.{layer}.linear."
            y = x @ self.weights[block + "weight"].T
            x = x + torch.nn.functional.silu(y + self.weights.get(block + "bias", 0))
        output = f"lm_heads.{head}.weight" if self.vllm else f"{head}.{MEDUSA_LAYERS}.weight"
        return x @ self.weights[output].T

    def guesses(self, token_ids, states):
        """The best two choices of each head behind `token_ids`, and the least gap."""
        choices, gap = [], 1e9
        for head in range(MEDUSA_HEADS):
            top = torch.topk(self.logits(head, states[len(token_ids) - 2]), 3)
            gap = min(gap, float((top.values[:-1] - top.values[1:]).min()))
            choices.append(top.indices[:2].tolist())
        return choices, gap


@torch.inference_mode()
def guesses(drafter, token_ids, states):
    """The chain after `token_ids`, and its least gap: states[i] is the model's at token i."""
    if isinstance(drafter, Medusa):
        return drafter.guesses(token_ids, states)
    tokens, given, chain, gap = list(token_ids[1:]), states[:len(token_ids) - 1], [], 1e9
    for _ in range(NUM_GUESSES):
        out, logits = drafter.run(tokens, given)
        top = torch.topk(logits[-1], 2)
        gap = min(gap, float(top.values[0] - top.values[1]))
        chain.append(int(top.indices[0]))
        tokens.append(chain[-1])
        given = torch.cat([given, out[-1:]])
    return chain, gap


@torch.inference_mode()
def make_drafts(model, drafter, **others):
    """Tokens where nothing hangs by a rounding; the same of `others`, under their names."""
    for seed in range(2000):
        random = np.random.default_rng(seed)
        prompt = [BOS] + random.integers(3, VOCAB, NUM_PROMPT - 1).tolist()
        continuation = greedy(model, prompt, NUM_MORE)
        gaps = [a - b for a, b in zip(continuation["logit_best"], continuation["logit_second"])]
        if min(gaps) < 2e-3:
            continue
        tokens = prompt + continuation["tokens"]
        all_chains, least = {}, 1e9
        for name, each in {"guesses": drafter, **others}.items():
            states = (each.states(tokens) if isinstance(each, Eagle3) else
                      model.model(torch.tensor([tokens])).last_hidden_state[0])
            found = [guesses(each, tokens[:count], states) for count in range(NUM_PROMPT + 1, len(tokens) + 1)]
            all_chains[name] = [chain for chain, _ in found]
            least = min([least, *[gap for _, gap in found]])
        if least < 2e-3 or len(set(np.array(all_chains["guesses"]).ravel().tolist())) < 8:
            continue
        return {**versions(), "token_ids": tokens, "num_prompt": NUM_PROMPT, **all_chains}
    raise SystemExit("everything hangs by a rounding")


def write_checkpoint(name, config, tensors, scratch):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "hf").mkdir(parents=True)
    (folder / "hf" / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
    file = scratch / f"{name}.safetensors"
    write_json(folder / "weights.json", write_counted(file, tensors, 0))
    return load_file(file)


def main():
    with tempfile.TemporaryDirectory(prefix="drafts-") as temporary:
        scratch = pathlib.Path(temporary)
        for family in ("glm4_moe", "deepseek_v3"):
            name = f"{family}_mtp"
            config, tensors, last = mtp_tensors(family)
            weights = write_checkpoint(name, config, tensors, scratch)
            own = {key: value for key, value in weights.items() if not key.startswith(f"model.layers.{last}.")}
            model = load(scratch / "model", config, own)
            write_json(FOLDER / name / "drafts.json",
                       make_drafts(model, Mtp(scratch, config, weights, last, model)))
        config, tensors = eagle_tensors()
        weights = write_checkpoint("llama_eagle", config, tensors, scratch)
        llama = FOLDER / "llama" / "hf"
        model = transformers.LlamaForCausalLM.from_pretrained(llama, dtype=torch.float32).eval()
        assert AutoConfig.from_pretrained(llama).hidden_size == HIDDEN
        write_json(FOLDER / "llama_eagle" / "drafts.json",
                   make_drafts(model, Eagle(scratch, config, weights, model)))
        config, tensors = eagle3_tensors()
        weights = write_checkpoint("llama_eagle3", config, tensors, scratch)
        write_json(FOLDER / "llama_eagle3" / "drafts.json",
                   make_drafts(model, Eagle3(config, weights, model),
                               guesses_even=Eagle3(config, weights, model, step=2)))
        for name, vllm in (("llama_medusa", False), ("llama_medusa_vllm", True)):
            weights = write_checkpoint(name, *medusa_tensors(vllm), scratch)
            write_json(FOLDER / name / "drafts.json", make_drafts(model, Medusa(weights, vllm)))


if __name__ == "__main__":
    main()

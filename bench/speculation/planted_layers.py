#!/usr/bin/env python3
"""Makes a model with random weights and a layer that drafts for it, which agree at a given rate.

    bench/speculation/planted_layers.py TOKENIZER_FOLDER OUTPUT_FOLDER --method eagle|eagle3|mtp|medusa [--rate 0.8]

Writes OUTPUT_FOLDER/model, and OUTPUT_FOLDER/eagle, eagle3 or medusa. Any measurement of speed needs the price of real
layers, and a rate of right guesses that is known. So the model's text is planted: the output row of token
permutation(x) is what the embedding of x is, and layers add little to that, so that permutation(x) follows
x. The layer that drafts computes as much as one of the model, and guesses permutation(x), too, but for a share of
1 - rate of the tokens: these have a mark, a small number in one place of the embedding, which the layer's first
matrices make a large one, and for which the output matrix votes at random. So guesses are right at the given rate,
place by place. EAGLE-3's layer adds only to states, so its attention brings x's embedding, as much of it as the heads
of keys and values hold: queries and keys are one number, turned by the position, which agrees best with itself. Of
Medusa, head i has the embedding of x as the row of what is i + 2 places behind x; for a share of 1 - rate of all x,
drawn for each head, a wrong token has it, and for --second of these the right one has most of it, so that it is the
second choice. Weights are bfloat16; the shape is that of a Llama (eagle, eagle3, medusa) or of a GLM-4 MoE whose
layers are all dense (mtp), with 1.1 billion weights. Tokens that the tokenizer does not have are text without letters.
Needs numpy.
"""

import argparse
import json
import pathlib
import shutil

import numpy as np

MARK = 2  # its place in the embedding
ONE, ONES = 3, 4.0  # a place where all embeddings have one value, for what has to be the same at all positions
SMALL, LARGE = 0.05, 1000.0  # what it is there, and what it is multiplied by


def bfloat16(values):
    word = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((word + np.uint32(0x7FFF) + ((word >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype("<u2")


class Writer:
    """A safetensors file of bfloat16, tensor by tensor."""

    def __init__(self, path, shapes):
        header, at = {"__metadata__": {"format": "pt"}}, 0
        for name, shape in shapes.items():
            size = 2 * int(np.prod(shape))
            header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.file = open(path, "wb")
        self.file.write(len(text).to_bytes(8, "little") + text)
        self.names = iter(shapes)

    def write(self, name, values):
        assert next(self.names) == name
        self.file.write(bfloat16(values).tobytes())


def layer_shapes(prefix, args):
    kv = args.kv_heads * args.hidden // args.heads
    h, f = args.hidden, args.intermediate
    return {f"{prefix}self_attn.q_proj.weight": (h, h), f"{prefix}self_attn.k_proj.weight": (kv, h),
            f"{prefix}self_attn.v_proj.weight": (kv, h), f"{prefix}self_attn.o_proj.weight": (h, h),
            f"{prefix}mlp.gate_proj.weight": (f, h), f"{prefix}mlp.up_proj.weight": (f, h),
            f"{prefix}mlp.down_proj.weight": (h, f), f"{prefix}input_layernorm.weight": (h,),
            f"{prefix}post_attention_layernorm.weight": (h,)}


def values_of(name, shape, random):
    """Of what neither embeds nor joins: what adds to the residual adds little."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    scale = 1e-3 if any(part in name for part in ("o_proj", "down_proj", ".linear.")) else 1.0
    return random.standard_normal(shape, np.float32) * np.float32(scale / np.sqrt(shape[1]))


def join(hidden):
    """Embeddings as they are, but with a large mark; nothing of states."""
    values = np.zeros((hidden, 2 * hidden), np.float32)
    np.fill_diagonal(values, 1.0)
    values[MARK, MARK] = LARGE
    return values


def vocabulary(args, random):
    """Embeddings, the output matrix, and what follows each token."""
    shape = (args.vocab, args.hidden)
    embedding = random.standard_normal(shape, np.float32)
    marked = random.random(args.vocab) >= args.rate
    embedding[:, MARK], embedding[:, ONE] = 0.0, 0.0
    following = random.permutation(args.vocab)
    output = np.empty(shape, np.float32)
    output[following] = embedding
    # A large mark counts three times what an embedding says to itself, its square, a small one nearly nothing.
    embedding[:, MARK] = np.where(marked, np.float32(SMALL), np.float32(0))
    embedding[:, ONE] = ONES
    output[:, MARK] = votes(args.hidden, args.vocab, random)
    return embedding, output, following


def votes(places, vocab, random):
    """What the output rows say of a large mark, where an embedding of so many places is compared."""
    return np.float32(3 * places / (SMALL * LARGE)) * random.random(vocab, np.float32)


def eagle3(args, embedding, following, random):
    """Its layer: {name: values or, of random ones, a shape}. See above how it is planted."""
    size = args.hidden // args.heads
    carried = args.kv_heads * size
    alone = np.zeros((size, 2 * args.hidden), np.float32)
    alone[:12, ONE] = 4.0  # of the pairs that a position turns most
    values = np.zeros((carried, 2 * args.hidden), np.float32)
    np.fill_diagonal(values, 1.0)
    values[MARK, MARK] = LARGE
    brought = 1e-3 / np.sqrt(args.hidden) * random.standard_normal((args.hidden, args.hidden), np.float32)
    place = np.arange(carried)
    brought[place, place // size * (args.heads // args.kv_heads) * size + place % size] = 1.0
    output = np.zeros_like(embedding)
    output[following, :carried] = embedding[:, :carried]
    output[:, ONE] = 0.0
    output[:, MARK] = votes(carried, args.vocab, random)
    shapes = layer_shapes("midlayer.", args)
    return shapes | {
        "midlayer.self_attn.q_proj.weight": np.tile(alone, (args.heads, 1)),
        "midlayer.self_attn.k_proj.weight": np.tile(alone, (args.kv_heads, 1)),
        "midlayer.self_attn.v_proj.weight": values, "midlayer.self_attn.o_proj.weight": brought,
        "midlayer.hidden_norm.weight": np.full(args.hidden, 1e-3, np.float32),
        "fc.weight": (args.hidden, 3 * args.hidden), "norm.weight": (args.hidden,), "lm_head.weight": output}


def heads(args, embedding, following, random):
    """Medusa's, as {name: values or, of random ones, a shape}."""
    tensors = {}
    ahead = following
    for head in range(args.heads_ahead):
        ahead = following[ahead]  # of each token what is head + 2 places behind it
        wrong = np.flatnonzero(random.random(args.vocab) >= args.rate)
        share = np.ones(args.vocab, np.float32)
        share[wrong] = np.where(random.random(len(wrong)) < args.second, np.float32(0.8), np.float32(0))
        output = np.empty_like(embedding)
        output[ahead] = share[:, None] * embedding
        output[random.permutation(args.vocab)[:len(wrong)]] += embedding[wrong]
        tensors[f"{head}.0.linear.weight"] = (args.hidden, args.hidden)
        tensors[f"{head}.0.linear.bias"] = np.zeros(args.hidden, np.float32)
        tensors[f"{head}.1.weight"] = output
    return tensors


def config_of(args):
    config = {"vocab_size": args.vocab, "hidden_size": args.hidden, "intermediate_size": args.intermediate,
              "num_attention_heads": args.heads, "num_key_value_heads": args.kv_heads, "hidden_act": "silu",
              "num_hidden_layers": args.layers, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "tie_word_embeddings": False, "dtype": "bfloat16", "bos_token_id": 1,
              "eos_token_id": 2, "head_dim": args.hidden // args.heads}
    if args.method != "mtp":
        return {**config, "architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    return {**config, "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "use_qk_norm": False,
            "attention_bias": False, "partial_rotary_factor": 0.5, "num_nextn_predict_layers": 1,
            "first_k_dense_replace": args.layers + 1, "n_routed_experts": 8, "num_experts_per_tok": 2,
            "moe_intermediate_size": args.intermediate // 8, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
            "norm_topk_prob": True, "routed_scaling_factor": 1.0}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=pathlib.Path, help="a folder with tokenizer.json")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--method", choices=["eagle", "eagle3", "mtp", "medusa"], required=True)
    parser.add_argument("--rate", type=float, default=0.8, help="of right guesses")
    parser.add_argument("--second", type=float, default=0.5, help="of wrong guesses: where the second choice is right")
    parser.add_argument("--heads-ahead", type=int, default=4, help="of Medusa")
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--intermediate", type=int, default=5632)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=4)
    args = parser.parse_args()
    random = np.random.default_rng(0)
    embedding, output, following = vocabulary(args, random)
    given = {"model.embed_tokens.weight": embedding, "lm_head.weight": output}
    shapes = {name: values.shape for name, values in given.items()} | {"model.norm.weight": (args.hidden,)}
    for layer in range(args.layers):
        shapes |= layer_shapes(f"model.layers.{layer}.", args)
    own = f"model.layers.{args.layers}."
    if args.method == "mtp":
        shapes |= layer_shapes(own, args)
        shapes |= {f"{own}{name}.weight": (args.hidden,) for name in ("enorm", "hnorm", "shared_head.norm")}
        given[f"{own}eh_proj.weight"] = join(args.hidden)
        shapes[f"{own}eh_proj.weight"] = (args.hidden, 2 * args.hidden)
    write(args.output / "model", config_of(args), shapes, given, random)
    for file in args.tokenizer.glob("*token*.json"):
        shutil.copy(file, args.output / "model")
    if args.method == "eagle":
        shapes = layer_shapes("layers.0.", args) | {"fc.weight": (args.hidden, 2 * args.hidden)}
        del shapes["layers.0.input_layernorm.weight"]
        write(args.output / "eagle", {**config_of(args), "num_hidden_layers": 1}, shapes,
              {"fc.weight": join(args.hidden)}, random)
    if args.method == "eagle3":
        config = {**config_of(args), "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1,
                  "draft_vocab_size": args.vocab, "norm_before_residual": True}
        write_tensors(args.output / "eagle3", config, eagle3(args, embedding, following, random), random)
    if args.method == "medusa":
        config = {"medusa_num_heads": args.heads_ahead, "medusa_num_layers": 1}
        write_tensors(args.output / "medusa", config, heads(args, embedding, following, random), random)


def write_tensors(folder, config, tensors, random):
    shapes = {name: getattr(values, "shape", values) for name, values in tensors.items()}
    given = {name: values for name, values in tensors.items() if isinstance(values, np.ndarray)}
    write(folder, config, shapes, given, random)


def write(folder, config, shapes, given, random):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), "utf-8")
    writer = Writer(folder / "model.safetensors", shapes)
    for name, shape in shapes.items():
        writer.write(name, given[name] if name in given else values_of(name, shape, random))
    writer.file.close()


if __name__ == "__main__":
    main()

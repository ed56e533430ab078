"""tests/data/families: one tiny checkpoint with random weights for each family, and its goldens.

FAMILY/hf/          Hugging Face layout: BF16 safetensors, SentencePiece-style BPE; or config.json alone
FAMILY/weights.json the tensors of such a family, whose weights are counted: the tests make the same
                    (tests/make_families.cpp)
tokenizer/          the tokenizer of all families
FAMILY/model.gguf   the same weights in F16 with the names, orders and keys of llama.cpp's converter,
                    of the first families that were read from GGUF; of others gguf_forms.py makes gguf.json,
                    again after each run of this script
FAMILY/goldens.json token ids, a greedy continuation, and variants: the same weights under a changed
                    configuration (rope scaling, windows)
FAMILY/*.bin        reference logits of the prompt, little-endian float32, [tokens, vocab]: of all tokens
                    or of the last `rows`, 32 where weights are counted; of variants those of the last third of them

The weights are exact in BF16 and in F16. The reference reads every GGUF file, too, but that of Gemma 1
and those of mixtures of experts, of which it knows some architectures alone.
"""

import copy
import json
import math
import pathlib
import shutil
import sys
import tempfile

import gguf
import numpy as np
import tokenizers
import torch
import transformers
from transformers import AutoConfig
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from common import DATA, all_logits, greedy, versions, write_floats, write_json
from counted_weights import safetensors_shapes, write_counted
from family_common import BOS, COMMON, EOS, HEADS, HIDDEN, UNK, VOCAB
from family_configs import FAMILIES

FOLDER = DATA / "families"
SPECIAL = ["<unk>", "<s>", "</s>"]
CORPUS = ["the cat sat on the mat and the dog sat on the log in the sun",
          "all of the pages are shared and then some of them are written again",
          "she sells sea shells by the sea shore and there is another one"]


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


def random_model(name, family):
    torch.manual_seed(sum(map(ord, name)) + 1000 * family.get("seed", 0))
    config_class = family.get("config_class", family["class"] + "Config")
    # Some classes write into what they are given, which other families share.
    common = {} if "text_config" in family["config"] else COMMON
    settings = copy.deepcopy({**common, **family["config"]})
    config = getattr(transformers, config_class)(**settings)
    return model_class(family)(config).eval()


def model_class(family):
    if family["class"] == "GPT2":
        return transformers.GPT2LMHeadModel
    kind = "ForConditionalGeneration" if "text_config" in family["config"] else "ForCausalLM"
    return getattr(transformers, family["class"] + kind)


def deviation_and_mean(name, family, key):
    """Of the tensor `key`: wide enough that heads attend and best tokens stand out."""
    for part, numbers in family.get("tensors", {}).items():
        if part in key:
            return numbers
    if "bias" in key:
        return family.get("bias_scale", 0.5), 0.0
    if name in ("gemma3", "cohere") and "embed" in key:
        return 0.125, 0.0  # tied: else the last token's own embedding wins
    if "embed_scale" in family and "embed" in key:
        return family["embed_scale"], 0.0
    if "norm" not in key:
        return family.get("scale", 0.25), 0.0
    mean = 0.0 if name == "gemma3" else family.get("norm_mean", 1.0)
    if "q_norm" in key or "k_norm" in key:
        mean += 0.0 if name == "gemma3" else 0.1
    elif name == "gemma3" and "post_" in key:
        mean -= 0.25  # a sandwich norm sets how much its block adds
    return 0.1, mean


def make_model(name, family):
    """A model of which the weights are committed."""
    model = random_model(name, family)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            scale, mean = deviation_and_mean(name, family, key)
            weight.copy_(torch.randn_like(weight) * scale + mean)
            weight.copy_(weight.bfloat16().float())
            weight[weight.abs() < 2.0 ** -14] = 0.0
            assert torch.equal(weight, weight.half().float())
    return model


def save_tokenizer(folder, tokenizer):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
         "unk_token": "<unk>"}), "utf-8")


def save_hugging_face(folder, model):
    saved = type(model)(model.config).bfloat16()
    saved.load_state_dict(model.state_dict())
    saved.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)


def save_counted(folder, checkpoint, name, family):
    """Saves a model with counted weights in the folder `checkpoint`, and in `folder` what the tests
    make it from."""
    save_hugging_face(checkpoint, random_model(name, family))
    file = checkpoint / "model.safetensors"
    tensors = [[key, shape, *deviation_and_mean(name, family, key)]
               for key, shape in safetensors_shapes(file).items()]
    write_json(folder / "weights.json", write_counted(file, tensors, family.get("seed", 0)))
    (folder / "hf").mkdir()
    shutil.copy(checkpoint / "config.json", folder / "hf")


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


def has_norms_of_gemma(name):
    """Whose weights GGUF has with 1 added."""
    return name in ("gemma", "gemma2", "gemma3")


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
    if name in ("mistral", "gemma2", "gemma3"):
        writer.add_sliding_window(config.sliding_window)
    if name == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
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
        if has_norms_of_gemma(name) and "norm" in key:
            array = array + np.float32(1)
        half = array.ndim > 1 and "mlp.gate." not in key
        array = np.ascontiguousarray(array, np.float16 if half else np.float32)
        writer.add_tensor(gguf_name(key, name in ("gemma2", "gemma3")), array)
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


def make_family(name, tokenizer, scratch):
    family, folder = FAMILIES[name], FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    if family.get("counted", True):
        checkpoint = scratch / name
        save_counted(folder, checkpoint, name, family)
    else:
        checkpoint = folder / "hf"
        save_hugging_face(checkpoint, make_model(name, family))
    save_tokenizer(checkpoint, tokenizer)
    reference = model_class(family).from_pretrained(checkpoint, dtype=torch.float32).eval()
    if family.get("gguf", True):
        save_gguf(folder / "model.gguf", name, reference, tokenizer)
        if not is_mixture(name) and name != "gemma":
            check_gguf(folder / "model.gguf", name, reference)

    prompt, continuation = pick_prompt(reference)
    logits = all_logits(reference, prompt)
    rows = 32 if family.get("counted", True) else family.get("rows", len(prompt))
    write_floats(folder / "logits.bin", logits[-rows:].contiguous())

    variants = []
    for variant, changes in family["variants"].items():
        changed = all_logits(variant_model(checkpoint, reference, changes), prompt)
        difference = float((changed - logits).abs().max())
        assert difference > 0.5, f"{name}: {variant} changes next to nothing: {difference}"
        print(f"{name} {variant}: logits change by up to {difference:.2f}")
        write_floats(folder / f"logits_{variant}.bin", changed[-rows // 3:].contiguous())
        variants.append({"name": variant, "config": changes})
    write_json(folder / "goldens.json", {
        **versions(), "vocab_size": VOCAB, "prompt_token_ids": prompt,
        "greedy": continuation["tokens"], "variants": variants})


def main():
    tokenizer = make_tokenizer()
    save_tokenizer(FOLDER / "tokenizer", tokenizer)
    with tempfile.TemporaryDirectory(prefix="families-") as scratch:
        for name in sys.argv[1:] or FAMILIES:
            make_family(name, tokenizer, pathlib.Path(scratch))


if __name__ == "__main__":
    main()

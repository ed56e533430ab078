"""tests/data/tiny_llama: a tiny Llama with random weights in every format that Quire reads.

hf/            Hugging Face layout: BF16 safetensors in two shards with an index, byte-level BPE
*.gguf         the same weights as GGUF in F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1
goldens.json   token ids, greedy continuations, rendered chats
logits_*.bin   reference logits, little-endian float32, [tokens, vocab]

The weights are exact in BF16 and in F16, so that the safetensors and the F32, F16 and BF16 files are
one model with one set of logits. Each quantized file is another model, run with its weights
dequantized. The reference reads every GGUF file itself, so that these files are known to be right.
"""

import json
import shutil

import gguf
import numpy as np
import tokenizers
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from common import DATA, all_logits, greedy, versions, write_floats, write_json

FOLDER = DATA / "tiny_llama"
VOCAB, HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 320, 32, 64, 2, 4, 2, 16
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"]
BOS, EOS, IM_END = 0, 1, 3

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog does not mind.",
    "A quire is a gathering of pages; the engine keeps its cache in pages, too.",
    "One page is shared, another is copied on write, and a third is free again.",
    "There is no prefill phase and no decode phase: there are only tokens.",
    "She sells sea shells by the sea shore in the summer and in the winter.",
    "for (int i = 0; i < n; ++i) { sum += values[i] * weights[i]; }",
]
TEXTS = ["", " ", "The quick brown fox", "pages and pages; 1234 tokens!\n\n  indented", "it's the dog's",
         "naïve café — 고양이 🐈 ok", "<|im_start|>user\nhi<|im_end|>", "\t\ttabs\r\nand the end "]
CHATS = [
    [{"role": "user", "content": "What is a quire?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  Hello! "},
     {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Bye."}],
]


def make_tokenizer():
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.train_from_iterator(CORPUS, tokenizers.trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    backend.post_processor = tokenizers.processors.Sequence([
        tokenizers.processors.ByteLevel(trim_offsets=False),
        tokenizers.processors.TemplateProcessing(
            single=f"{SPECIAL[0]} $A", pair=f"{SPECIAL[0]} $A {SPECIAL[0]}:1 $B:1",
            special_tokens=[(SPECIAL[0], BOS)])])
    assert backend.get_vocab_size() == VOCAB
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=SPECIAL[0], eos_token=SPECIAL[IM_END],
        clean_up_tokenization_spaces=False)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def make_model():
    torch.manual_seed(20240607)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
        max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        bos_token_id=BOS, eos_token_id=IM_END)
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # Wide enough that heads attend and best tokens stand out.
            scale, mean = (0.1, 1.0) if "norm" in name else (0.25, 0.0)
            weight.copy_(torch.randn_like(weight) * scale + mean)
            weight.copy_(weight.bfloat16().float())
            weight[weight.abs() < 2.0 ** -14] = 0.0
            assert torch.equal(weight, weight.half().float())
    return model


def save_hugging_face(model, tokenizer):
    folder = FOLDER / "hf"
    saved = LlamaForCausalLM(model.config).bfloat16()
    saved.load_state_dict(model.state_dict())
    saved.generation_config.eos_token_id = [IM_END, EOS]
    saved.save_pretrained(folder, max_shard_size="48KB")
    tokenizer.save_pretrained(folder, save_jinja_files=False)
    shards = sorted(path.name for path in folder.glob("*.safetensors"))
    assert len(shards) == 2, shards
    return folder


def rotary_rows(weight, heads):
    """GGUF's row order for the Llama architecture's query and key projections.

    Rotary pairs are rows (i, i + d/2) of a head in the Hugging Face layout and rows (2i, 2i + 1) here.
    """
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def gguf_name(name):
    for old, new in (
            ("model.embed_tokens.", "token_embd."), ("model.norm.", "output_norm."),
            ("lm_head.", "output."), ("model.layers.", "blk."), ("self_attn.q_proj", "attn_q"),
            ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
            ("self_attn.o_proj", "attn_output"), ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"),
            ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm")):
        name = name.replace(old, new)
    return name


def save_gguf(path, model, tokenizer, type_of):
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(VOCAB)
    backend = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    tokens = sorted(backend["vocab"], key=backend["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL
                            for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in backend["merges"]])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(IM_END)
    writer.add_add_bos_token(True)
    writer.add_chat_template(TEMPLATE)
    for name, weight in model.state_dict().items():
        array = weight.numpy()
        if "q_proj" in name or "k_proj" in name:
            array = rotary_rows(array, HEADS if "q_proj" in name else KV_HEADS)
        name = gguf_name(name)
        qtype = type_of(name) if array.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(array), qtype),
                          raw_dtype=qtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{path.name}: {path.stat().st_size} bytes")


def load(folder, **source):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **source).eval()


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    tokenizer, model = make_tokenizer(), make_model()
    folder = save_hugging_face(model, tokenizer)
    reference = load(folder)

    random = np.random.default_rng(7)
    prompt = [BOS] + random.integers(len(SPECIAL), VOCAB, 95).tolist()
    short = prompt[:32]
    logits = all_logits(reference, prompt)
    write_floats(FOLDER / "logits_full.bin", logits)
    goldens = {
        **versions(), "vocab_size": VOCAB, "prompt_token_ids": prompt,
        "greedy": greedy(reference, prompt, 64),
        "encodings": [{"text": text, "token_ids": tokenizer(text).input_ids} for text in TEXTS],
        "chats": [{"messages": chat,
                   "rendered": tokenizer.apply_chat_template(chat, tokenize=False,
                                                             add_generation_prompt=True),
                   "token_ids": tokenizer.apply_chat_template(
                       chat, add_generation_prompt=True, return_dict=False)} for chat in CHATS],
        "files": [],
    }

    kinds = gguf.GGMLQuantizationType
    for name, type_of in {
            "f32": lambda _: kinds.F32, "f16": lambda _: kinds.F16, "bf16": lambda _: kinds.BF16,
            "q8_0": lambda _: kinds.Q8_0, "q4_0": lambda _: kinds.Q4_0,
            "q5_0": lambda _: kinds.Q5_0, "q5_1": lambda _: kinds.Q5_1,
            # The bundled model's mixture.
            "q4_1": lambda tensor: kinds.Q8_0 if tensor == "token_embd.weight" else kinds.Q4_1,
    }.items():
        path = FOLDER / f"tiny_llama_{name}.gguf"
        save_gguf(path, model, tokenizer, type_of)
        from_gguf = load(FOLDER, gguf_file=path.name)
        assert from_gguf.config.head_dim == HEAD_DIM
        entry = {"file": path.name}
        if name in ("f32", "f16", "bf16"):
            for key, weight in reference.state_dict().items():
                assert torch.equal(weight, from_gguf.state_dict()[key]), (name, key)
            entry |= {"logits": "logits_full.bin", "num_tokens": len(prompt)}
        else:
            difference = (all_logits(from_gguf, prompt) - logits).abs().max()
            assert 0 < difference, "quantizing changed nothing"
            write_floats(FOLDER / f"logits_{name}.bin", all_logits(from_gguf, short))
            entry |= {"logits": f"logits_{name}.bin", "num_tokens": len(short),
                      "greedy": greedy(from_gguf, short, 32)}
        goldens["files"].append(entry)
    write_json(FOLDER / "goldens.json", goldens)


if __name__ == "__main__":
    main()

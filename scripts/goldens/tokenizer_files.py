"""tests/data/tokenizers/files: vocabularies in the files that are no tokenizer.json, with the ids of their
own libraries for some of the strings of tokenizer_strings.py.

spm_bpe, spm_bytes, spm_plain   tokenizer.model, by SentencePiece: with byte fallback; with digits apart and
                                no space before the text; with neither bytes nor a space
tiktoken                        vocab.tiktoken, by tiktoken, with Qwen's way to cut words
tekken                          tekken.json, by tiktoken, as mistral-common uses it
gpt2, qwen2                     vocab.json and merges.txt, by tokenizers
spm_unigram                     tokenizer.model of a unigram model, by SentencePiece
unigram, unigram_bytes,         tokenizer.json of the models that are no BPE, by tokenizers, with what the ids
word_piece, word_level           decode to
"""

import base64
import io
import json

import sentencepiece
import tiktoken
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import tokenizer_pipelines as pipelines
from tokenizer import OUT
from tokenizer_strings import strings

FILES = OUT / "files"
STEP = 11


def put(name, content):
    path = FILES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def sentencepiece_model(name, texts, configs, **options):
    model = io.BytesIO()
    options.setdefault("model_type", "bpe")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, normalization_rule_name="identity",
        remove_extra_whitespaces=False, num_threads=1, minloglevel=2, max_sentence_length=100_000, **options)
    put(name + "/tokenizer.model", model.getvalue())
    put(name + "/tokenizer_config.json", json.dumps(configs))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return lambda text: processor.encode(text)


def byte_model(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=700, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]


def byte_ranks(vocab):
    """Tokens as bytes in the order of their merging: the 256 bytes first."""
    letters = {}
    free = 0
    for byte in range(256):
        printable = 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte <= 255
        letters[chr(byte) if printable else chr(256 + free)] = byte
        free += not printable
    tokens = [bytes(letters[c] for c in token) for token, _ in sorted(vocab.items(), key=lambda item: item[1])]
    tokens.sort(key=lambda token: (len(token) > 1, token if len(token) == 1 else b""))
    return {token: rank for rank, token in enumerate(tokens)}


def other_models(corpus):
    decode = {"unigram": decoders.Metaspace(prepend_scheme="always"), "word": decoders.WordPiece()}
    for name in ("unigram", "unigram_bytes"):
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=name == "unigram")
        special = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256) if name == "unigram_bytes")]
        tokenizer.train_from_iterator([text for text in corpus if "<0x" not in text and "<unk>" not in text], trainers.UnigramTrainer(
            vocab_size=1500, show_progress=False, special_tokens=special, unk_token="<unk>", max_piece_length=8))
        definition = json.loads(tokenizer.to_str())
        definition["model"]["byte_fallback"] = name == "unigram_bytes"
        definition["added_tokens"] = [each for each in definition["added_tokens"] if each["content"] == "<unk>"]
        tokenizer = Tokenizer.from_str(json.dumps(definition))
        if name == "unigram":
            tokenizer.decoder = decode["unigram"]
        else:
            tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                                   decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        yield name, tokenizer
    word_piece = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    word_piece.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    word_piece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    word_piece.train_from_iterator(corpus, trainers.WordPieceTrainer(
        vocab_size=1200, show_progress=False, special_tokens=["[UNK]", "[CLS]"]))
    word_piece.decoder = decode["word"]
    yield "word_piece", word_piece
    word_level = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    word_level.pre_tokenizer = pre_tokenizers.Whitespace()
    word_level.train_from_iterator(corpus, trainers.WordLevelTrainer(
        vocab_size=400, show_progress=False, special_tokens=["[UNK]"]))
    word_level.decoder = decode["word"]
    yield "word_level", word_level


def main():
    all_texts = strings()
    texts = all_texts[::STEP]
    corpus = [line for text in all_texts for line in text.split("\n") if line and "\0" not in line]
    encoders = {
        "spm_bpe": sentencepiece_model("spm_bpe", corpus, {"tokenizer_class": "LlamaTokenizer"}, vocab_size=2200,
                                       byte_fallback=True, character_coverage=0.98),
        "spm_bytes": sentencepiece_model("spm_bytes", corpus, {"add_bos_token": False}, vocab_size=2000,
                                         byte_fallback=True, split_digits=True, add_dummy_prefix=False,
                                         character_coverage=0.98, user_defined_symbols=["<user>", "    "]),
        "spm_plain": sentencepiece_model("spm_plain", corpus, {"add_eos_token": True}, vocab_size=1700,
                                         character_coverage=0.98, split_by_whitespace=False, add_dummy_prefix=False),
    }
    encoders["spm_unigram"] = sentencepiece_model(
        "spm_unigram", corpus, {}, model_type="unigram", vocab_size=2200, byte_fallback=True, character_coverage=0.98)
    vocab, merges = byte_model(corpus)
    ranks = byte_ranks(vocab)
    put("tiktoken/vocab.tiktoken", "".join(f"{base64.b64encode(token).decode()} {rank}\n"
                                           for token, rank in ranks.items()))
    put("tiktoken/tokenizer_config.json", json.dumps({"tokenizer_class": "QWenTokenizer"}))
    qwen = tiktoken.Encoding("qwen", pat_str=pipelines.QWEN2, mergeable_ranks=ranks, special_tokens={})
    nfc = normalizers.NFC()
    encoders["tiktoken"] = lambda text: qwen.encode_ordinary(nfc.normalize_str(text))

    specials, kept = 30, len(ranks) - 50  # tekken's vocabulary ends before its file does
    entries = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
               for token, rank in ranks.items()]
    put("tekken/tekken.json", json.dumps({
        "config": {"pattern": pipelines.TEKKEN, "num_vocab_tokens": len(entries), "default_vocab_size": kept + specials,
                   "default_num_special_tokens": specials, "version": "v3"}, "vocab": entries}))
    tekken = tiktoken.Encoding("tekken", pat_str=pipelines.TEKKEN, special_tokens={},
                               mergeable_ranks={token: rank for token, rank in ranks.items() if rank < kept})
    encoders["tekken"] = lambda text: [specials + rank for rank in tekken.encode_ordinary(text)]

    for name, step in (("gpt2", pipelines.BYTE_LEVEL_GPT2), ("qwen2", pipelines.pre(pipelines.split(pipelines.QWEN2), pipelines.BYTE_LEVEL))):
        end = len(vocab)
        put(name + "/vocab.json", json.dumps(vocab, ensure_ascii=False))
        put(name + "/merges.txt", "#version: 0.2\n" + "\n".join(merges) + "\n")
        put(name + "/added_tokens.json", json.dumps({"<|endoftext|>": end}))
        put(name + "/tokenizer_config.json", json.dumps({
            "tokenizer_class": {"gpt2": "GPT2Tokenizer", "qwen2": "Qwen2TokenizerFast"}[name],
            "eos_token": "<|endoftext|>", "added_tokens_decoder": {
                str(end + 1): {"content": "<|im_start|>", "special": True, "normalized": False}}}))
        definition = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
                      "normalizer": {"type": "NFC"} if name == "qwen2" else None, "pre_tokenizer": step,
                      "post_processor": None, "decoder": pipelines.BYTES_DECODER,
                      "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                                "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                                "ignore_merges": False, "vocab": vocab, "merges": merges}}
        tokenizer = Tokenizer.from_str(json.dumps(definition))
        encoders[name] = lambda text, tokenizer=tokenizer: tokenizer.encode(text).ids

    models_ = dict(other_models(corpus))
    for name, tokenizer in models_.items():
        put(name + "/tokenizer.json", tokenizer.to_str())
        encoders[name] = lambda text, tokenizer=tokenizer: tokenizer.encode(text).ids
    lines = []
    for name, encode in encoders.items():
        entry = {"name": name, "ids": [encode(text) for text in texts]}
        if name == "unigram_bytes":  # Quire never takes text for a byte token, the library does: not compared
            entry["ids"] = [None if "<0x" in text else ids for text, ids in zip(texts, entry["ids"])]
        if name in models_:
            entry["texts"] = [models_[name].decode(ids or []) for ids in entry["ids"]]
        lines.append(json.dumps(entry, ensure_ascii=False, separators=(",", ":")))
    put("ids.json", "[\n" + ",\n".join(lines) + "\n]\n")
    for path in sorted(FILES.rglob("*")):
        if path.is_file():
            print(path.relative_to(FILES), path.stat().st_size)


if __name__ == "__main__":
    main()

"""tests/data/tokenizers: ids and texts from the tokenizers library for 5,200 strings.

strings.json      the strings, from tokenizer_strings.py
bytes.json,       two small BPE models (vocabulary and merges), trained on the strings without any cut, so
characters.json   that merges cross words and a word that is cut elsewhere has other ids
pipelines.json    what stands around them, from tokenizer_pipelines.py, with the ids of some strings
pipelines.bin     for each pipeline and each string the hash of its ids and of what they decode to
ggml.json, .bin   the same for the vocabularies of ../shared/data/tokenizers and for SmolLM2's, as
                  tokenizer.json files with the steps that the vendors publish

Hashes are two bytes: FNV-1a over the ids (4 bytes each), the text with and without special tokens, each
text followed by a zero byte; its upper half XORed into its lower. 0 is "not compared": characters that
the regular-expression engine behind patterns without a scanner is too old for.
"""

import json
import pathlib
import struct
import unicodedata

import tokenizers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import tokenizer_pipelines as pipelines
from tokenizer_strings import strings

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "tests" / "data" / "tokenizers"
GGML = ROOT.parent / "shared" / "data" / "tokenizers"
SMOLLM2 = ROOT / "models" / "SmolLM2-135M-Instruct" / "SmolLM2-135M-Instruct.Q4_1.gguf"
SAMPLES = range(1, 60, 7)


def write_json(name, value):
    path = OUT / name
    dump = lambda item: json.dumps(item, ensure_ascii=False, separators=(",", ":"))  # noqa: E731
    if isinstance(value, list):
        path.write_text("[\n" + ",\n".join(map(dump, value)) + "\n]\n", encoding="utf-8")
    else:
        path.write_text(dump(value) + "\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


def hash_of(tokenizer, text):
    ids = tokenizer.encode(text).ids
    data = struct.pack(f"<{len(ids)}I", *ids)
    for skip in (False, True):
        data += tokenizer.decode(ids, skip_special_tokens=skip).encode() + b"\0"
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 % 2**32
    return ids, (value ^ (value >> 16)) & 0xFFFF


def train(texts, byte_level):
    model = models.BPE() if byte_level else models.BPE(unk_token="<unk>", byte_fallback=True)
    tokenizer = Tokenizer(model)
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        trainer = trainers.BpeTrainer(vocab_size=1500, show_progress=False, max_token_length=12,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    else:
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        special = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
        trainer = trainers.BpeTrainer(vocab_size=1500, show_progress=False, max_token_length=12,
                                      limit_alphabet=300, special_tokens=special)
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return {key: model[key] for key in ("type", "unk_token", "byte_fallback", "vocab", "merges")}


def tokenizer_json(pipeline, model):
    """The whole tokenizer.json: added tokens get ids after the vocabulary's."""
    vocab = model["vocab"]
    added, next_id = [], len(vocab)
    for token in pipeline["added_tokens"]:
        token = dict(token)
        if token["content"] in vocab:
            token["id"] = vocab[token["content"]]
        else:
            token["id"], next_id = next_id, next_id + 1
        added.append(token)
    ids = {token["content"]: token["id"] for token in added}
    post = json.loads(json.dumps(pipeline.get("post_processor")))
    for step in [] if post is None else post.get("processors", [post]):
        if step["type"] == "TemplateProcessing":
            step["special_tokens"] = {name: {"id": name, "ids": [ids[name]], "tokens": [name]}
                                      for name in ("<bos>", "<eos>")}
        for key in ("sep", "cls"):
            if key in step:
                step[key] = [step[key][0], ids[step[key][0]]]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": pipeline.get("normalizer"), "pre_tokenizer": pipeline.get("pre_tokenizer"),
            "post_processor": post, "decoder": pipeline["decoder"],
            "model": {"dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "ignore_merges": False, **model, **pipeline.get("model", {})}}


def younger_than_pcre2(text):
    """Whether PCRE2 10.42 (Unicode 14.0, as Python 3.11 has it) may not know a character's category."""
    assert unicodedata.unidata_version == "14.0.0", "needs Python 3.11"
    return any(unicodedata.category(c) == "Cn" for c in text)


def compare(definition, texts, on_pcre2=False):
    tokenizer = Tokenizer.from_str(json.dumps(definition))
    results = [hash_of(tokenizer, text) for text in texts]
    if on_pcre2:
        results = [(ids, 0 if younger_than_pcre2(text) else value)
                   for text, (ids, value) in zip(texts, results)]
    samples = [[i, results[i][0]] for i in SAMPLES]
    return samples, struct.pack(f"<{len(texts)}H", *(value for _, value in results))


def merges_of_scores(tokens, scores):
    """SentencePiece's rule as merges: as transformers converts such vocabularies."""
    vocab = {token: i for i, token in enumerate(tokens)}
    merges = []
    for token, score in zip(tokens, scores):
        local = []
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in vocab and right in vocab:
                local.append((left, right, score))
        merges += sorted(local, key=lambda m: (vocab[m[0]], vocab[m[1]]))
    merges.sort(key=lambda m: m[2], reverse=True)
    return [[left, right] for left, right, _ in merges]


PUBLISHED = {name: step for name, step in pipelines.published()}
GGML_PRE = {"gpt-2": "gpt2", "falcon": "falcon_ggml", "deepseek-coder": "deepseek_coder", "smollm": "smollm"}


def from_gguf(path):
    from gguf import GGUFReader
    fields = GGUFReader(path).fields

    def value(key):
        field = fields.get("tokenizer.ggml." + key)
        return None if field is None else field.contents()

    tokens, types = value("tokens"), value("token_type")
    added = [{**pipelines.token(tokens[i]), "id": i, "special": types[i] in (2, 3)}
             for i in range(len(tokens)) if types[i] in (2, 3, 4)]
    model = {"type": "BPE", "dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "vocab": {token: i for i, token in enumerate(tokens)}}
    if value("model") == "gpt2":
        step, decoder, normalizer = PUBLISHED[GGML_PRE[value("pre")]], pipelines.BYTES_DECODER, None
        model |= {"unk_token": None, "fuse_unk": False, "byte_fallback": False,
                  "merges": [merge.split(" ") for merge in value("merges")]}
    else:
        step, decoder = None, pipelines.LLAMA_DECODER
        normalizer = pipelines.sequence("normalizers", pipelines.PREPEND, pipelines.ESCAPE_SPACES)
        model |= {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
                  "merges": merges_of_scores(tokens, value("scores"))}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": step, "post_processor": None, "decoder": decoder, "model": model}


def main():
    texts = strings()
    OUT.mkdir(parents=True, exist_ok=True)
    write_json("strings.json", texts)
    # (Without text that spells byte tokens: Quire never merges text into one, the library does.)
    corpus = [text for text in texts if "<0x" not in text]
    bases = {"bytes": train(corpus, True), "characters": train(corpus, False)}
    for name, model in bases.items():
        write_json(name + ".json", model)

    entries, hashes = [], b""
    for pipeline in pipelines.pipelines():
        definition = tokenizer_json(pipeline, bases[pipeline["base"]])
        samples, values = compare(definition, texts, pipeline.get("on_pcre2", False))
        model = {key: item for key, item in definition.pop("model").items() if key not in ("vocab", "merges")}
        entries.append({"name": pipeline["name"], "base": pipeline["base"], "model": model,
                        "tokenizer": definition, "samples": samples})
        hashes += values
    write_json("pipelines.json", entries)
    (OUT / "pipelines.bin").write_bytes(hashes)

    entries, hashes = [], b""
    for path in [*sorted(GGML.glob("*.gguf")), SMOLLM2]:
        samples, values = compare(from_gguf(path), texts)
        entries.append({"file": path.name, "samples": samples})
        hashes += values
    write_json("ggml.json", entries)
    (OUT / "ggml.bin").write_bytes(hashes)
    print(f"tokenizers {tokenizers.__version__}: {len(texts)} strings")


if __name__ == "__main__":
    main()

"""The pipelines around two small vocabularies that tokenizers are compared on.

Each is a tokenizer.json without its vocabulary: "base" says which of the two it takes. Together they have
every step that Quire reads, every split behavior, and the pre-tokenizers of published models as their
vendors write them.
"""

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LINES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
ANY_CASE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LLAMA3 = ANY_CASE + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + LINES
QWEN2 = ANY_CASE + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + LINES
QWEN35 = ANY_CASE + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + LINES
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ANY_CASE}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ANY_CASE}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + LINES)
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + LINES)
DEEPSEEK3 = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
             "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# No scanner: these run on a regular-expression engine in Quire too.
GPT4_POSSESSIVE = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
                   r"|\s*[\r\n]|\s+(?!\S)|\s+")
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
DIGIT_GROUPS = r"\d{1,3}(?=(?:\d{3})*(?!\d))"

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
BYTE_LEVEL_GPT2 = {**BYTE_LEVEL, "use_regex": True}
BYTES_DECODER = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
LLAMA_DECODER = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
GEMMA_DECODER = {"type": "Sequence", "decoders": LLAMA_DECODER["decoders"][:3]}
ESCAPE_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND = {"type": "Prepend", "prepend": "▁"}


def split(pattern, behavior="Isolated", invert=False):
    kind = "String" if isinstance(pattern, tuple) else "Regex"
    text = pattern[0] if isinstance(pattern, tuple) else pattern
    return {"type": "Split", "pattern": {kind: text}, "behavior": behavior, "invert": invert}


def sequence(key, *steps):
    return {"type": "Sequence", key: list(steps)}


def pre(*steps):
    return sequence("pretokenizers", *steps)


def metaspace(scheme, cut):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}


def token(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False, **flags}


SPECIAL = [token("<bos>", special=True), token("<eos>", special=True)]
FLAGGED = [*SPECIAL, token("[MASK]", special=True, lstrip=True), token("[SEP]", special=True, rstrip=True),
           token("Word", single_word=True), token("word", normalized=True), token("<|user|>", special=True),
           token("<|sp|>", lstrip=True, rstrip=True), token("<extra>", normalized=True), token("  ", rstrip=False),
           token("é", normalized=True), token("中", single_word=True, normalized=True)]
TEMPLATE = {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "<eos>", "type_id": 0}}, {"SpecialToken": {"id": "<eos>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]}


def published():
    """Pre-tokenizers of published models, on bytes."""
    yield "gpt2", BYTE_LEVEL_GPT2
    yield "gpt2_prefix_space", {**BYTE_LEVEL_GPT2, "add_prefix_space": True}
    yield "no_regex", BYTE_LEVEL
    yield "llama3", pre(split(LLAMA3), BYTE_LEVEL)
    yield "qwen2", pre(split(QWEN2), BYTE_LEVEL)
    yield "qwen35", pre(split(QWEN35), BYTE_LEVEL)
    yield "o200k", pre(split(O200K), BYTE_LEVEL)
    yield "tekken", pre(split(TEKKEN), BYTE_LEVEL)
    yield "deepseek_v3", pre(split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                             split(DEEPSEEK3), BYTE_LEVEL)
    yield "deepseek_coder", pre(split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK),
                                {"type": "Digits", "individual_digits": True}, BYTE_LEVEL)
    yield "falcon", pre({"type": "Punctuation", "behavior": "Contiguous"}, BYTE_LEVEL_GPT2,
                        {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]"))
    yield "smollm", pre({"type": "Digits", "individual_digits": True}, BYTE_LEVEL_GPT2)
    yield "falcon_ggml", pre(split(r"[\p{P}\$\+<=>\^~\|`]+"), split(GPT2), split("[0-9][0-9][0-9]"), BYTE_LEVEL)
    yield "gpt4_possessive", pre(split(GPT4_POSSESSIVE), BYTE_LEVEL)
    yield "bloom", pre(split(BLOOM), BYTE_LEVEL)
    yield "digit_groups", pre(split(DIGIT_GROUPS), split(r"\w+|[^\w\s]+"), BYTE_LEVEL)
    yield "line_ends", pre(split(r"\s+$"), split("^."), split(r"\p{N}+"), BYTE_LEVEL)


def behaviors():
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        yield f"regex_{behavior}", pre(split(r"\p{N}", behavior), BYTE_LEVEL)
        yield f"inverted_{behavior}", pre(split(r"[aeiou ]x*", behavior, True), BYTE_LEVEL)
        yield f"string_{behavior}", pre(split((" ",), behavior), {"type": "Punctuation", "behavior": behavior},
                                        BYTE_LEVEL)


def normalizers():
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
        yield form, {"type": form}
    yield "strip_left", {"type": "Strip", "strip_left": True, "strip_right": False}
    yield "strip_accents", sequence("normalizers", {"type": "NFD"}, {"type": "StripAccents"},
                                    {"type": "Strip", "strip_left": True, "strip_right": True})
    yield "replace", sequence("normalizers", {"type": "Replace", "pattern": {"Regex": r"\s{2,}"}, "content": " "},
                              {"type": "Replace", "pattern": {"String": "e"}, "content": "é"},
                              {"type": "Prepend", "prepend": ">"})


def pipelines():
    for name, step in published():
        yield {"name": name, "base": "bytes", "pre_tokenizer": step, "decoder": BYTES_DECODER,
               "added_tokens": SPECIAL, "on_pcre2": name in ("gpt4_possessive", "bloom", "digit_groups")}
    for name, step in behaviors():
        yield {"name": name, "base": "bytes", "pre_tokenizer": step, "decoder": BYTES_DECODER, "added_tokens": []}
    for name, step in normalizers():
        yield {"name": name, "base": "bytes", "normalizer": step, "pre_tokenizer": pre(split(LLAMA3), BYTE_LEVEL),
               "decoder": BYTES_DECODER, "added_tokens": FLAGGED}
    yield {"name": "byte_level_normalizer", "base": "bytes", "normalizer": {"type": "ByteLevel"},
           "pre_tokenizer": split("Ġ", "MergedWithNext"), "decoder": BYTES_DECODER, "added_tokens": SPECIAL}
    yield {"name": "template", "base": "bytes", "pre_tokenizer": BYTE_LEVEL_GPT2, "decoder": BYTES_DECODER,
           "added_tokens": FLAGGED, "model": {"ignore_merges": True},
           "post_processor": sequence("processors", BYTES_DECODER, TEMPLATE)}
    for kind in ("RobertaProcessing", "BertProcessing"):
        yield {"name": kind, "base": "bytes", "pre_tokenizer": BYTE_LEVEL_GPT2, "decoder": BYTES_DECODER,
               "added_tokens": FLAGGED, "post_processor": {
                   "type": kind, "sep": ["<eos>"], "cls": ["<bos>"],
                   **({"trim_offsets": True, "add_prefix_space": False} if kind[0] == "R" else {})}}
    llama = {"base": "characters", "decoder": LLAMA_DECODER, "added_tokens": SPECIAL, "post_processor": TEMPLATE}
    yield {**llama, "name": "llama2", "normalizer": sequence("normalizers", PREPEND, ESCAPE_SPACES)}
    yield {**llama, "name": "llama2_flagged", "normalizer": sequence("normalizers", PREPEND, ESCAPE_SPACES),
           "added_tokens": FLAGGED}
    yield {**llama, "name": "gemma", "normalizer": ESCAPE_SPACES, "decoder": GEMMA_DECODER,
           "pre_tokenizer": split((" ",), "MergedWithPrevious")}
    for scheme in ("always", "first", "never"):
        for cut in (True, False):
            yield {**llama, "name": f"metaspace_{scheme}_{cut}", "pre_tokenizer": metaspace(scheme, cut),
                   "decoder": metaspace(scheme, cut), "added_tokens": FLAGGED,
                   "model": {"byte_fallback": False, "fuse_unk": cut}}
    yield {**llama, "name": "metaspace_first_strip", "pre_tokenizer": metaspace("first", True),
           "normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}, "decoder": LLAMA_DECODER}
    words = {"base": "characters", "decoder": GEMMA_DECODER, "added_tokens": FLAGGED,
             "model": {"byte_fallback": False}}
    yield {**words, "name": "whitespace", "pre_tokenizer": {"type": "Whitespace"}}
    yield {**words, "name": "whitespace_split", "pre_tokenizer": {"type": "WhitespaceSplit"}}
    # (Both ends at once would be a panic in the library for a token that is only the character.)
    yield {**words, "name": "delimiter", "pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "e"},
           "decoder": {"type": "Strip", "content": "s", "start": 0, "stop": 1}}
    yield {**words, "name": "digits", "pre_tokenizer": {"type": "Digits", "individual_digits": True}}
    yield {**words, "name": "digit_runs", "pre_tokenizer": {"type": "Digits", "individual_digits": False},
           "decoder": {"type": "Strip", "content": "▁", "start": 1, "stop": 0}, "model": {"fuse_unk": True}}
    yield {**words, "name": "no_unknown", "pre_tokenizer": {"type": "Punctuation", "behavior": "Isolated"},
           "model": {"byte_fallback": False, "unk_token": None}}

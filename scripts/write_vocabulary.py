#!/usr/bin/env python3
"""Writes a model's vocabulary as tests/follow_schemas.cpp reads it: a line for each token, its bytes in hexadecimal, "-"
for one without text, "end" for one that ends a sequence.

    write_vocabulary.py MODEL.gguf|NAME.tiktoken OUTPUT

A tiktoken file (ranks in base64, as in packages that bring one along) gets a token behind its last that ends a
sequence. A GGUF needs Python with `gguf` (that of scripts/make_goldens.sh).
"""

import base64
import sys

NORMAL, USER_DEFINED, BYTE = 1, 4, 6  # tokenizer.ggml.token_type


def spelled_bytes():
    """The characters by which byte-level BPE writes bytes (GPT-2)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


def of_tiktoken(path):
    with open(path, "rb") as lines:
        ranks = {int(rank): base64.b64decode(text) for text, rank in map(bytes.split, lines)}
    return [ranks.get(i, b"") for i in range(max(ranks) + 1)] + ["end"]


def of_gguf(path):
    import gguf
    fields = gguf.GGUFReader(path).fields

    def field(name):
        return fields[f"tokenizer.ggml.{name}"].contents()

    byte_level, end = field("model") == "gpt2", field("eos_token_id")
    of_character = spelled_bytes()
    for i, (text, kind) in enumerate(zip(field("tokens"), field("token_type"), strict=True)):
        if i == end:
            yield "end"
        elif kind == BYTE:
            yield bytes([int(text[3:5], 16)])  # "<0x0A>"
        elif kind not in (NORMAL, USER_DEFINED):
            yield b""
        elif byte_level:
            yield text.encode() if kind == USER_DEFINED else bytes(of_character[c] for c in text)
        else:
            yield text.replace("\u2581", " ").encode()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    _, source, output = sys.argv
    tokens = of_gguf(source) if source.endswith(".gguf") else of_tiktoken(source)
    with open(output, "w") as file:
        for token in tokens:
            file.write((token if token == "end" else token.hex() or "-") + "\n")


if __name__ == "__main__":
    main()

"""tests/data/quant/*.json: blocks of each encoding and what the gguf package decodes them to.

Each case has `encoded`, the blocks' bytes, and `decoded`, the values as little-endian float32; both
in hexadecimal, so that a decoder is compared bit for bit.
"""

import importlib.metadata

import gguf
import numpy as np

from common import DATA, write_json
from kquants import KINDS, quantize

# Where a block's half-precision numbers lie; all other bytes hold codes and integer factors.
HALF_OFFSETS = {KINDS.Q8_0: [0], KINDS.Q4_0: [0], KINDS.Q4_1: [0, 2], KINDS.Q5_0: [0], KINDS.Q5_1: [0, 2],
                KINDS.Q4_K: [0, 2], KINDS.Q5_K: [0, 2], KINDS.Q6_K: [208]}

# The same of compact blocks, which stay as they are in memory: their cases are random blocks.
COMPACT_OFFSETS = {KINDS.Q2_K: [80, 82], KINDS.Q3_K: [108], KINDS.IQ4_NL: [0], KINDS.IQ4_XS: [0],
                   KINDS.MXFP4: [], KINDS.NVFP4: [], KINDS.IQ2_XXS: [0], KINDS.IQ2_XS: [0],
                   KINDS.IQ2_S: [0], KINDS.IQ3_XXS: [0], KINDS.IQ3_S: [0], KINDS.IQ1_S: [0],
                   KINDS.IQ1_M: [], KINDS.TQ1_0: [52], KINDS.TQ2_0: [64]}

# IEEE half-precision bit patterns that a decoder may get wrong.
HALVES = {"smallest subnormal": 0x0001, "largest subnormal": 0x03FF, "smallest normal": 0x0400,
          "one": 0x3C00, "minus one": 0xBC00, "negative subnormal": 0x8155, "largest": 0x7BFF,
          "most negative": 0xFBFF, "zero": 0x0000, "minus zero": 0x8000, "a third": 0x3555}


def rows(random):
    yield "normal", random.standard_normal(512)
    yield "wide range", random.standard_normal(256) * np.exp2(random.integers(-20, 14, 256))
    yield "near the largest half", random.uniform(-60000, 60000, 64)
    yield "tiny", random.standard_normal(64) * 1e-7
    yield "zeros", np.zeros(32)
    yield "constant", np.full(64, -3.25)
    yield "one spike", np.concatenate([np.zeros(31), [1000.0]])
    yield "all positive", random.uniform(5, 6, 64)


def decoded(encoded, qtype):
    # The package multiplies as numpy does; an overflow there would not be a value to hold on to.
    with np.errstate(over="raise", invalid="raise"):
        values = gguf.quants.dequantize(encoded, qtype).astype("<f4").reshape(-1)
    assert np.isfinite(values).all()
    return values.tobytes().hex()


def compact_blocks(qtype, offsets):
    """Labels and blocks: every byte random, then with the scales that a decoder may get wrong."""
    random = np.random.default_rng(2026)
    size = gguf.GGML_QUANT_SIZES[qtype][1]

    def blocks(count):
        return random.integers(0, 256, (count, size), np.uint8)

    if qtype == KINDS.MXFP4:
        exponents = [0, 1, 2, 3, 64, 120, 126, 127, 128, 200, 251, 252]
        for exponent in exponents:
            block = blocks(1)
            block[:, 0] = exponent
            yield f"exponent {exponent}", block
    elif qtype == KINDS.NVFP4:
        every_scale = blocks(64)
        every_scale[:, :4] = np.arange(256, dtype=np.uint8).reshape(64, 4)
        for first in range(0, 64, 8):
            yield f"scales from {first * 4}", every_scale[first:first + 8]
    elif qtype == KINDS.IQ1_M:  # four bits of the scale in the top of each of four words
        for label, bits in list(HALVES.items())[::2]:
            block = blocks(1)
            for word in range(4):
                block[:, 49 + 2 * word] = block[:, 49 + 2 * word] & 15 | (bits >> 4 * word & 15) << 4
            yield f"scale {label}", block
    else:
        for label, bits in list(HALVES.items())[::2]:
            block = blocks(1)
            for number, offset in enumerate(offsets):
                block[:, offset:offset + 2] = np.frombuffer(
                    (bits if number == 0 else 0x2E66).to_bytes(2, "little"), np.uint8)
            yield f"scale {label}", block


def write(qtype, cases):
    weights, size = gguf.GGML_QUANT_SIZES[qtype]
    write_json(DATA / "quant" / f"{qtype.name.lower()}.json", {
        "encoding": qtype.name, "gguf": importlib.metadata.version("gguf"),
        "block_size": weights, "block_bytes": size, "cases": cases})


def main():
    for qtype, offsets in COMPACT_OFFSETS.items():
        write(qtype, [{"name": label, "encoded": blocks.tobytes().hex(), "decoded": decoded(blocks, qtype)}
                      for label, blocks in compact_blocks(qtype, offsets)])
    for qtype, offsets in HALF_OFFSETS.items():
        random = np.random.default_rng(2024)
        weights, size = gguf.GGML_QUANT_SIZES[qtype]
        cases = []

        def add(label, encoded):
            cases.append({"name": label, "encoded": encoded.tobytes().hex(),
                          "decoded": decoded(encoded, qtype)})

        for label, row in rows(random):
            row = np.resize(row, -(-len(row) // weights) * weights).astype(np.float32)
            add(f"quantized {label}", quantize(row[None, :], qtype))
        head = 2 * len(offsets) if offsets[0] == 0 else 0
        every_code = np.array([(17 * (i - head) + 8) % 256 for i in range(size)], np.uint8)
        extremes = np.roll(np.resize(np.array([0x80, 0x7F, 0x00, 0xFF], np.uint8), size), head)
        if weights == 256:  # long blocks: scales and minima all at one end, too
            for fill in (0x00, 0xFF):
                block = np.full(size, fill, np.uint8)
                for offset in offsets:
                    block[offset:offset + 2] = (0x00, 0x3C)
                add(f"all bytes {fill:#04x}", block[None, :])
        firsts = list(HALVES.items())
        for number, (label, first) in enumerate(firsts):
            seconds = [None] if len(offsets) == 1 else list(HALVES.values())[::2]
            if weights == 256 and len(offsets) == 2:  # keep the file small
                seconds = [seconds[number % len(seconds)]]
            for second in seconds:
                blocks = np.stack([every_code, extremes])
                for offset, bits in zip(offsets, (first, second)):
                    blocks[:, offset:offset + 2] = np.frombuffer(bits.to_bytes(2, "little"), np.uint8)
                add(f"scale {label}" + ("" if second is None else f", minimum {second:#06x}"),
                    blocks if weights == 32 else blocks[number % 2:][:1])
        write(qtype, cases)


if __name__ == "__main__":
    main()

"""tests/data/quant/{q8_0,q4_0,q4_1}.json: blocks and what the gguf package decodes them to.

Each case has `encoded`, the blocks' bytes, and `decoded`, the values as little-endian float32; both
in hexadecimal, so that a decoder is compared bit for bit.
"""

import importlib.metadata

import gguf
import numpy as np

from common import DATA, write_json

TYPES = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0,
         "q4_1": gguf.GGMLQuantizationType.Q4_1}
CODE_BYTES = {"q8_0": 32, "q4_0": 16, "q4_1": 16}
SCALE_FIELDS = {"q8_0": 1, "q4_0": 1, "q4_1": 2}

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


def main():
    for name, qtype in TYPES.items():
        random = np.random.default_rng(2024)
        cases = []
        for label, row in rows(random):
            encoded = gguf.quants.quantize(row.astype(np.float32)[None, :], qtype)
            cases.append({"name": f"quantized {label}", "encoded": encoded.tobytes().hex(),
                          "decoded": decoded(encoded, qtype)})
        every_code = bytes((17 * i + 8) % 256 for i in range(CODE_BYTES[name]))
        extremes = bytes([0x80, 0x7F, 0x00, 0xFF] * (CODE_BYTES[name] // 4))
        for label, half in HALVES.items():
            for second in (list(HALVES.values())[::2] if SCALE_FIELDS[name] == 2 else [None]):
                head = half.to_bytes(2, "little")
                if second is not None:
                    head += second.to_bytes(2, "little")
                block = np.frombuffer(head + every_code + head + extremes, np.uint8)[None, :]
                minimum = "" if second is None else f", minimum {second:#06x}"
                cases.append({"name": f"scale {label}{minimum}", "encoded": block.tobytes().hex(),
                              "decoded": decoded(block, qtype)})
        write_json(DATA / "quant" / f"{name}.json", {
            "encoding": name.upper(), "gguf": importlib.metadata.version("gguf"),
            "block_size": 32, "block_bytes": 2 * SCALE_FIELDS[name] + CODE_BYTES[name],
            "cases": cases})


if __name__ == "__main__":
    main()

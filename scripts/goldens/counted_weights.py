"""Checkpoints whose weights are counted random numbers: tests/support/counted_weights.h, bit for bit.

Each weight is a function of a seed, its tensor's name and its place in the tensor. So a list of tensors
(weights.json) is committed instead of the weights, and both sides make the same ones from it.
"""

import json

import numpy as np

MASK = (1 << 64) - 1
DEVIATION = 37837.0  # of the sum of four uniform 16-bit integers: 2^16 / sqrt(3), nearly


def fnv1a64(data, value=0xCBF29CE484222325):
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def mix64(z):
    """SplitMix64's finaliser on an array of uint64, as src/base/random.h has it."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def counted_bits(name, shape, scale, mean, seed):
    """A tensor's elements as bits of bfloat16, uint16 of `shape`."""
    key = np.array([(fnv1a64(name.encode()) + seed) & MASK], np.uint64)
    count = np.arange(int(np.prod(shape)), dtype=np.uint64)
    bits = mix64(mix64(key) ^ mix64(count * np.uint64(0xD1B54A32D192ED03) + np.uint64(1)))
    total = np.full(bits.shape, -2 * 0xFFFF, np.int64)
    for part in range(4):
        total += ((bits >> np.uint64(16 * part)) & np.uint64(0xFFFF)).astype(np.int64)
    exact = total.astype(np.float64) * (scale / DEVIATION) + mean
    word = exact.astype(np.float32).view(np.uint32)
    half = ((word + np.uint32(0x7FFF) + ((word >> np.uint32(16)) & np.uint32(1)))
            >> np.uint32(16)).astype(np.uint16)
    rounded = (half.astype(np.uint32) << np.uint32(16)).view(np.float32)
    half[np.abs(rounded) < np.float32(2.0 ** -14)] = 0
    return half.reshape(shape)


def safetensors_shapes(path):
    """Names and shapes of a safetensors file's tensors, by name."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: header[name]["shape"] for name in sorted(header) if name != "__metadata__"}


def write_counted(path, tensors, seed):
    """Writes a safetensors file of [name, shape, scale, mean] and returns the contents of weights.json."""
    header, data = {}, b""
    for name, shape, scale, mean in tensors:
        part = counted_bits(name, shape, scale, mean, seed).astype("<u2").tobytes()
        header[name] = {"dtype": "BF16", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return {"seed": seed, "fnv1a64": f"{fnv1a64(data):016x}", "tensors": tensors}

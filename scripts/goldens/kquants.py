"""Quantizers for Q4_K, Q5_K and Q6_K, which the gguf package only decodes.

Plain rounding, without ggml's search for better scales: the goldens are what the package decodes the
blocks to, whatever they were made from.
"""

import gguf
import numpy as np

KINDS = gguf.GGMLQuantizationType


def half(values):
    """Rounded to half precision: the bytes, and the values that they stand for."""
    values = values.astype(np.float16)
    return values[:, None].view(np.uint8), values.astype(np.float32)


def divide(a, b):
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(a.shape, b.shape), np.float32), where=b != 0)


def factors(values, largest):
    """Each row as half * integers in 0..largest."""
    head, scale = half(values.max(axis=1) / largest)
    return head, scale, np.clip(np.rint(divide(values, scale[:, None])), 0, largest).astype(np.uint8)


def pack_factors(scales, minima):
    """Eight 6-bit scales and eight minima in 12 bytes."""
    return np.concatenate([
        scales[:, :4] | (scales[:, 4:] >> 4 << 6), minima[:, :4] | (minima[:, 4:] >> 4 << 6),
        (scales[:, 4:] & 15) | ((minima[:, 4:] & 15) << 4)], axis=1)


def quantize_with_minima(blocks, bits):
    groups = blocks.reshape(-1, 8, 32)
    low = np.minimum(groups.min(axis=2), 0)
    top = (1 << bits) - 1
    d_bytes, d, scales = factors((groups.max(axis=2) - low) / top, 63)
    dmin_bytes, dmin, minima = factors(-low, 63)
    step = (d[:, None] * scales)[:, :, None]
    codes = divide(groups + (dmin[:, None] * minima)[:, :, None], step)
    codes = np.clip(np.rint(codes), 0, top).astype(np.uint8)
    nibbles = (codes[:, 0::2] & 15) | ((codes[:, 1::2] & 15) << 4)
    parts = [d_bytes, dmin_bytes, pack_factors(scales, minima)]
    if bits == 5:
        parts.append(np.bitwise_or.reduce((codes >> 4) << np.arange(8, dtype=np.uint8)[:, None], axis=1))
    return np.concatenate(parts + [nibbles.reshape(-1, 128)], axis=1)


def quantize_q6_k(blocks):
    groups = blocks.reshape(-1, 16, 16)
    peak = np.take_along_axis(groups, abs(groups).argmax(axis=2)[:, :, None], axis=2)[:, :, 0] / -32
    largest = np.take_along_axis(peak, abs(peak).argmax(axis=1)[:, None], axis=1)[:, 0]
    d_bytes, d = half(largest / -128)
    scales = np.clip(np.rint(divide(peak, d[:, None])), -128, 127).astype(np.int8)
    codes = np.rint(divide(groups, (d[:, None] * scales)[:, :, None]))
    codes = (np.clip(codes, -32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = (codes[:, :, :2] & 15) | ((codes[:, :, 2:] & 15) << 4)
    high = np.bitwise_or.reduce((codes >> 4) << np.array([0, 2, 4, 6], np.uint8)[:, None], axis=2)
    return np.concatenate([low.reshape(-1, 128), high.reshape(-1, 64), scales.view(np.uint8), d_bytes],
                          axis=1)


def quantize(rows, kind):
    """As gguf.quants.quantize, for these kinds too: bytes of each row."""
    if kind not in (KINDS.Q4_K, KINDS.Q5_K, KINDS.Q6_K):
        return gguf.quants.quantize(rows, kind)
    blocks = rows.astype(np.float32).reshape(-1, 256)
    if kind == KINDS.Q6_K:
        encoded = quantize_q6_k(blocks)
    else:
        encoded = quantize_with_minima(blocks, 4 if kind == KINDS.Q4_K else 5)
    return np.ascontiguousarray(encoded.reshape(*rows.shape[:-1], -1))

#!/usr/bin/env python3
"""Whether KV blocks in files would come back sooner if they were compressed.

    bench/kv_offload/compress.py PROGRAM MODEL TEXT... [--kv-cache-dtype auto] [--tokens 2048] [--json] [--flag=FLAG...]

Computes the beginning of the texts (files, one after the other) with --kv-offload-path, takes the blocks from the files, and
compresses each by itself: as it lies; with the bytes of its two-byte numbers apart, the high ones first; and the high bytes
alone, with the low ones stored as they are. Rates are those of the codec on one core, in uncompressed bytes of whole blocks:
the best of five rounds. Moving the bytes apart and together is not in them, as if it took no time. Needs numpy, zstandard and lz4
from PyPI.

What counts is the last columns: the rate at which blocks arrive from a disk of so many GB/s, where reading and decompressing
overlap completely: the slower of the two.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import tempfile
import time

import lz4.frame
import numpy
import zstandard

DISKS = (0.6, 1.0, 1.4, 1.8)  # GB/s
ENTRY_BYTES = 64  # as src/tier/block_file.h says
HEADER = struct.Struct("<QQ32sQQ")


def blocks_of(folder):
    """The blocks that are in the files of a tier."""
    index = (folder / "index").read_bytes()
    _, _, _, block_bytes, _ = HEADER.unpack_from(index)
    blocks = []
    with open(folder / "blocks", "rb") as file:
        for place, offset in enumerate(range(HEADER.size, len(index), ENTRY_BYTES)):
            if any(index[offset:offset + ENTRY_BYTES]):
                file.seek(place * block_bytes)
                blocks.append(file.read(block_bytes))
    return blocks


def computed_blocks(options):
    text = "\n\n".join(path.read_text() for path in options.texts)
    command = [options.program, "tokenize", options.model, "--input", "-"]
    told = subprocess.run(command, input=json.dumps({"text": text}), stdout=subprocess.PIPE, text=True, check=True).stdout
    ids = json.loads(told)["token_ids"]
    if len(ids) < options.tokens:
        raise SystemExit(f"compress: the texts have {len(ids)} tokens, {options.tokens} are wanted: give more")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        line = json.dumps({"prompt_token_ids": ids[:options.tokens], "max_tokens": 1})
        flags = ["--max-num-seqs", 1, "--max-model-len", options.tokens + 16, "--kv-cache-dtype", options.kv_cache_dtype,
                 "--kv-offload-path", folder, "--kv-offloading-size", 1, *options.flags]
        command = [options.program, "generate", options.model, "--input", "-", *flags]
        subprocess.run([str(word) for word in command], input=line, stdout=subprocess.DEVNULL, text=True, check=True)
        return blocks_of(next(pathlib.Path(folder).glob("quire-kv-*")))


def as_it_lies(block):
    return block, b""


def bytes_apart(block):
    return numpy.frombuffer(block, numpy.uint8).reshape(-1, 2).T[::-1].tobytes(), b""


def high_bytes(block):
    low, high = numpy.frombuffer(block, numpy.uint8).reshape(-1, 2).T
    return high.tobytes(), low.tobytes()


# Of a block, what is compressed and what is stored beside it.
WAYS = {"as it lies": as_it_lies, "bytes apart": bytes_apart, "high bytes alone": high_bytes}


def codecs():
    for level in (1, 3):
        yield (f"zstd -{level}", zstandard.ZstdCompressor(level=level).compress,
               zstandard.ZstdDecompressor().decompress)
    yield "lz4", lambda piece: lz4.frame.compress(piece, compression_level=0), lz4.frame.decompress


def best_rate(call, items, num_bytes):
    """GB/s, and what the calls gave."""
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        results = [call(item) for item in items]
        best = min(best, time.perf_counter() - begin)
    return num_bytes / best / 1e9, results


def measure(blocks):
    num_bytes = sum(map(len, blocks))
    rows = []
    for name, compress, decompress in codecs():
        for way, parts in WAYS.items():
            pieces = [parts(block) for block in blocks]
            compress_rate, packed = best_rate(compress, [piece for piece, _ in pieces], num_bytes)
            decompress_rate, again = best_rate(decompress, packed, num_bytes)
            if again != [piece for piece, _ in pieces]:
                raise SystemExit(f"compress: {name}, {way}: other bytes come back")
            ratio = num_bytes / (sum(map(len, packed)) + sum(len(stored) for _, stored in pieces))
            rows.append({"codec": name, "way": way, "ratio": ratio, "compress_gbs": compress_rate,
                         "decompress_gbs": decompress_rate,
                         "arrives_gbs": {disk: min(ratio * disk, decompress_rate) for disk in DISKS}})
    return {"blocks": len(blocks), "block_bytes": len(blocks[0]), "codecs": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("texts", nargs="+", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--kv-cache-dtype", default="auto")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--flag", dest="flags", action="append", default=[], help="a further flag of quire generate")
    options = parser.parse_args()
    result = measure(computed_blocks(options))
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{result['blocks']} blocks of {result['block_bytes']} bytes")
    arrives = " ".join(f"{f'at {disk}':>8}" for disk in DISKS)
    print(f"{'codec':<8} {'what':<17} {'ratio':>6} {'compress':>9} {'decompress':>11} {arrives}")
    for row in result["codecs"]:
        rates = " ".join(f"{row['arrives_gbs'][disk]:8.2f}" for disk in DISKS)
        print(f"{row['codec']:<8} {row['way']:<17} {row['ratio']:6.3f} {row['compress_gbs']:9.2f} "
              f"{row['decompress_gbs']:11.2f} {rates}")


if __name__ == "__main__":
    main()

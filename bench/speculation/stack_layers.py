#!/usr/bin/env python3
"""Makes a large model that a small one agrees with, to measure a draft model without downloading two.

    bench/speculation/stack_layers.py SMALL.gguf LARGE.gguf --layers 300 [--scale 0.02]

LARGE is SMALL with layers behind its own, up to so many. They are copies of SMALL's, of which the two
matrices that add to the residual (attn_output, ffn_down) are multiplied by --scale: with 0 LARGE says
what SMALL says, at the price of its layers, and with more it agrees less. Matrices must be Q4_0, Q4_1
or Q8_0, whose blocks begin with float16 factors. Needs the package gguf.
"""

import argparse
import pathlib
import re

import gguf
import numpy

# Bytes of a block, and how many float16 factors it begins with.
BLOCKS = {gguf.GGMLQuantizationType.Q4_0: (18, 1), gguf.GGMLQuantizationType.Q4_1: (20, 2),
          gguf.GGMLQuantizationType.Q8_0: (34, 1)}
ADDS = re.compile(r"\.(attn_output|ffn_down)\.weight$")


def scaled(tensor, scale):
    """The tensor's bytes with every weight multiplied by `scale`."""
    if tensor.tensor_type not in BLOCKS:
        raise SystemExit(f"{tensor.name} is {tensor.tensor_type.name}; expected Q4_0, Q4_1 or Q8_0")
    size, count = BLOCKS[tensor.tensor_type]
    data = numpy.array(tensor.data, dtype=numpy.uint8)
    blocks = data.reshape(-1, size)
    factors = blocks[:, :2 * count].copy().view(numpy.float16)
    blocks[:, :2 * count] = (factors.astype(numpy.float32) * scale).astype(numpy.float16).view(numpy.uint8)
    return data


def copy_keys(reader, writer, num_layers):
    architecture = reader.get_field("general.architecture").contents()
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = num_layers if name == f"{architecture}.block_count" else field.contents()
        kind = field.types[0]
        writer.add_key_value(name, value, kind, sub_type=field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("small", type=pathlib.Path)
    parser.add_argument("large", type=pathlib.Path)
    parser.add_argument("--layers", type=int, required=True, help="layers of the large model")
    parser.add_argument("--scale", type=float, default=0.0, help="of what added layers add to the residual")
    args = parser.parse_args()
    reader = gguf.GGUFReader(args.small)
    architecture = reader.get_field("general.architecture").contents()
    own = reader.get_field(f"{architecture}.block_count").contents()
    if args.layers <= own:
        raise SystemExit(f"--layers {args.layers}: the small model has {own} already")
    writer = gguf.GGUFWriter(args.large, architecture)
    copy_keys(reader, writer, args.layers)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    for layer in range(own, args.layers):
        prefix = f"blk.{layer % own}."
        for tensor in reader.tensors:
            if not tensor.name.startswith(prefix):
                continue
            data = scaled(tensor, args.scale) if ADDS.search(tensor.name) else tensor.data
            writer.add_tensor(f"blk.{layer}.{tensor.name.removeprefix(prefix)}", data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes docs/models.md from the registry of families and the golden checkpoints of the tests.

    make_models.py PROGRAM            # PROGRAM: build/release/tests/print_models
    make_models.py PROGRAM --check    # exit code 1 where the committed file is another
"""

import argparse
import json
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "models.md"

INTRODUCTION = """\
# Models

The architectures that Quire runs, and what is tested for each. `scripts/make_models.py` makes this page from the registry of
families ([registry.cpp](../src/models/registry.cpp)) and from the tiny checkpoints in `tests/data/families`; a test checks that it
is up to date. Each line lists what the checkpoint has, in its configuration or a variant of it.
`family_reference_test` compares its logits and greedy tokens with the reference's: in float32 within 1e-4, at the levels
of the machine. `matrix_test` runs it under every setting that must not change a token (chunks, block sizes,
preemption, prefix hits, threads), `remote_device_test` on a device whose memory cannot be read directly, and
`packed_cache_test` from packed weights. Features of a configuration that are not supported are refused by name:
[architecture.md](architecture.md#families).

Encodings belong to matrices, not to families. Hugging Face files in all [encodings](#encodings) run for all lines, and files
that are not quantized can be quantized to int8 or int4 at load; GGUF files run for the lines that name them.

- **keys**: the keys that a query attends to: all before it, those of a window, or those of its chunk.
- **besides**: further features of the checkpoint.
"""

TABLE = "\n| architecture | files | keys | positions | norms | feed-forward | besides |\n|---|---|---|---|---|---|---|\n"

ENCODINGS = """
## Encodings

The encodings of matrices in files, by the names of `quire inspect`, and their form in memory: bits per weight of a 4096 by 4096
matrix, with scales, and the layout ([architecture.md](architecture.md#encodings)). Each line has a test checkpoint with such matrices.
For Hugging Face files it is in `tests/data/quantized`: `quantized_reference_test` compares its logits with the
reference's for the decoded weights (within 1e-4 in float32, at each level). For GGUF files it is in
`tests/data/tiny_*`, with the same comparison in `reference_test`, and in `tests/data/quant`, whose blocks `quant_test` decodes to
exactly the reference's bits. `matrix_test` and `remote_device_test` run all of them. The loss in quality:
[encodings.md](performance/encodings.md).

| encoding | files | bits in memory | layout | checkpoints of the tests |
|---|---|---|---|---|
"""

MULTIMODAL = """
## Checkpoints with images

The text part of these checkpoints runs as its family; tensors for images are skipped, and requests with images are refused.

"""

UNTESTED = """
## Other names

These are read as one of the families above, because they compute the same.

"""

REFUSED = """
## What does not run

These are refused by name, with the reason. Unknown names are refused with the list of those that run.

| what is missing | architectures |
|---|---|
"""


def names(values):
    return ", ".join(f"`{value}`" for value in values)


def page(models):
    parts = [INTRODUCTION, TABLE]
    for family in models["families"]:
        cells = [f"`{family['architecture']}`"]
        cells += [", ".join(family[column]) for column in
                  ("files", "keys", "positions", "norms", "feed_forward", "besides")]
        parts.append("| " + " | ".join(cells).replace("|  |", "| |") + " |\n")
    parts.append(ENCODINGS)
    for row in models["encodings"]:
        cells = [row["format"], row["files"], ", ".join(dict.fromkeys(layout["bits"] for layout in row["layouts"])),
                 names(layout["name"] for layout in row["layouts"]), names(row["checkpoints"])]
        parts.append("| " + " | ".join(cells) + " |\n")
    if models["untested"]:
        parts += [UNTESTED, names(models["untested"]), "\n"]
    parts += [MULTIMODAL, names(models["multimodal"]), "\n", REFUSED]
    parts += [f"| {group['why']} | {names(group['names'])} |\n" for group in models["refused"]]
    return "".join(parts).replace("|  |", "| |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="prints what there is as JSON")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    printed = subprocess.run([arguments.program], check=True, capture_output=True, text=True).stdout
    text = page(json.loads(printed))
    if not arguments.check:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit(f"{PAGE.name} is not what the registry and the tests say: "
                 f"run scripts/make_models.py {arguments.program}")


if __name__ == "__main__":
    main()

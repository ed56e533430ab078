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

Which architectures run, and what of each is tested. This page is made by `scripts/make_models.py` from the registry of
families ([registry.cpp](../src/models/registry.cpp)) and from the tiny checkpoints in `tests/data/families`; a test compares
the two. What a row says is what that checkpoint has, under its configuration or a variant of it, and
`family_reference_test` compares its logits and greedy tokens with the reference's: in float32 within 1e-4, at the levels
that the machine has. `matrix_test` then runs it under every setting that must not change a token (chunks, sizes of blocks,
preemption, prefix hits, threads), `remote_device_test` on a device whose memory nobody may look into, and
`packed_cache_test` from packed weights. What of a configuration is not computed is refused by name:
[architecture.md](architecture.md#families).

Encodings belong to matrices and not to families: Hugging Face files of all [encodings](#encodings) run for all rows, those
that are not quantized with int8 or int4 at load, too; GGUF files for the rows that name them.

- **keys**: which keys a query sees: all before it, those of a window, those of its chunk.
- **besides**: what else the checkpoint has.
"""

TABLE = "\n| architecture | files | keys | positions | norms | feed-forward | besides |\n|---|---|---|---|---|---|---|\n"

ENCODINGS = """
## Encodings

How matrices are written, as `quire inspect` names it, and what they are in memory: bits a weight of a matrix of 4096 by 4096,
scales included, and the layout ([architecture.md](architecture.md#encodings)). A row is there because some checkpoint of the tests
has such matrices: those of Hugging Face files in `tests/data/quantized`, whose logits `quantized_reference_test` compares with the
reference's over the weights that the codes stand for (within 1e-4 in float32, at each level); those of GGUF files in
`tests/data/tiny_*`, the same in `reference_test`, and `tests/data/quant`, whose blocks `quant_test` decodes to the reference's
very bits. `matrix_test` and `remote_device_test` run them all. What each costs: [quality.md](performance/quality.md).

| encoding | files | bits in memory | layout | checkpoints of the tests |
|---|---|---|---|---|
"""

MULTIMODAL = """
## Checkpoints of more than text

Their text part runs, as the family that it is; tensors of images are skipped, requests with images refused.

"""

UNTESTED = """
## Names without a checkpoint of their own

Read as a family above that computes the same.

"""

REFUSED = """
## What does not run

Refused by name, with the reason. Other names are refused, too, with the list of those that run.

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

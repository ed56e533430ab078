#!/usr/bin/env python3
"""Writes docs/compatibility.md from the tables of request fields that the server reads requests by.

    make_compatibility.py PROGRAM            # PROGRAM: build/release/tests/print_request_fields
    make_compatibility.py PROGRAM --check    # exit code 1 where the committed file is another
"""

import argparse
import json
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "compatibility.md"

INTRODUCTION = """\
# Compatibility

How the server treats each field of a request, by route. `scripts/make_compatibility.py` makes this page from the tables
with which the server itself reads requests ([request_fields.cpp](../src/serve/protocols/openai/request_fields.cpp)); a test
checks that it is up to date.

- **works**: the field has its documented effect.
- **no effect**: the field is accepted and does not change the answer; clients send it on their own.
- **refused**: the field would change the meaning of an answer, and Quire does not have it: 400 with the code
  `unsupported_parameter` and the field's name, unless its value requests nothing (`null`, `false`, `""`, `[]`, `{}`) or is
  one of those in the last column.

The columns OpenAI and vLLM say whether the field is part of their APIs. Other fields are llama.cpp's, SGLang's, another route's or,
if they work, Quire's own. A field that is in no table is ignored and named in the answer's header `X-Ignored-Fields` and,
once a minute, in the log (a misspelt one with the nearest known name); with `--strict-fields` it is refused.
"""

EFFECTS = {"works": "works", "none": "no effect", "refused": "refused"}


def mark(has_it):
    return "yes" if has_it else ""


def remark(field):
    note = field["note"]
    if not note:
        return ""
    if field["effect"] == "refused":
        return f"accepted: {note}".replace("|", "\\|")
    return note.replace("|", "\\|")


def page(tables):
    parts = [INTRODUCTION]
    for table in tables:
        rows = [f"| `{field['name']}` | {mark(field['openai'])} | {mark(field['vllm'])} "
                f"| {EFFECTS[field['effect']]} | {remark(field)} |".replace("|  |", "| |").replace("|  |", "| |")
                for field in table["fields"]]
        parts.append("\n".join([f"\n## `{table['route']}`\n", "| field | OpenAI | vLLM | Quire | |", "|---|---|---|---|---|",
                                *rows, ""]))
    return "".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="prints the tables as JSON")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    printed = subprocess.run([arguments.program], check=True, capture_output=True, text=True).stdout
    text = page(json.loads(printed))
    if not arguments.check:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit(f"{PAGE.name} is not what the tables say: run scripts/make_compatibility.py {arguments.program}")


if __name__ == "__main__":
    main()

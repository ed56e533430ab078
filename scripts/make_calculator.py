#!/usr/bin/env python3
"""Makes the calculator of docs/: one HTML file that needs no server.

    scripts/make_calculator.py PROGRAM OUTPUT

Its numbers are what `quire plan --calculator` prints of every model of examples/configs, its looks and parts those of the
server's page, which has a calculator too; docs/calculator has the rest. PROGRAM is the built `quire`.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CALCULATOR = ROOT / "docs" / "calculator"
PAGE = ROOT / "src" / "serve" / "page" / "assets"
MODULES = tuple(PAGE / name for name in ("dom.js", "format.js", "shares.js", "plan.js", "plan_view.js"))
STYLES = (PAGE / "base.css", PAGE / "calculator.css", CALCULATOR / "calculator.css")


def call(program, *args):
    result = subprocess.run([str(each) for each in (program, "plan", *args, "--json")], capture_output=True, text=True)
    if result.stdout:  # also of what does not fit
        return json.loads(result.stdout)
    raise SystemExit(f"make_calculator: quire plan {args}: {result.stderr}")


def numbers(program):
    configs = sorted((ROOT / "examples" / "configs").glob("*.json"))
    found = call(program, "--calculator", "--models", ",".join(str(each) for each in configs))
    for name, model in found["models"].items():
        model["command"] = f"examples/configs/{name}.json"
    return found


def script(found):
    """All modules as one: each name is there once, so that imports and exports can go."""
    parts = []
    for module in MODULES:
        text = re.sub(r"^import .*?;\n", "", module.read_text(), flags=re.M | re.S)
        parts.append(re.sub(r"^export ", "", text, flags=re.M))
    data = json.dumps(found, separators=(",", ":")).replace("<", "\\u003c")
    return "\n".join(parts) + f"\nshow(document.getElementById('calculator'), {data}, {{inAddress: true}});\n"


def style():
    text = "\n".join(each.read_text() for each in STYLES)
    # The page's font is another file: this page takes the system's.
    return re.sub(r"@font-face \{.*?\}\n", "", text, flags=re.S)


def make(program, output):
    page = (CALCULATOR / "calculator.html").read_text()
    page = page.replace("/*STYLE*/", style()).replace("/*SCRIPT*/", script(numbers(program)))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    make(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))

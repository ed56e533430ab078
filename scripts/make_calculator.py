#!/usr/bin/env python3
"""Makes the calculator of docs/: one HTML file that needs no server.

    scripts/make_calculator.py PROGRAM OUTPUT

Its numbers are those of `quire plan --json` for every model of examples/configs, its looks and parts those of the
server's page; docs/calculator has the rest. PROGRAM is the built `quire`.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CALCULATOR = ROOT / "docs" / "calculator"
PAGE = ROOT / "src" / "serve" / "page" / "assets"
MODULES = (PAGE / "dom.js", PAGE / "format.js", PAGE / "shares.js", CALCULATOR / "plan.js", CALCULATOR / "view.js")
STYLES = (PAGE / "base.css", CALCULATOR / "calculator.css")
DTYPES = ("fp32", "bf16", "fp8", "int8", "int4", "fp4")
SPLITS = (1, 2, 4, 8)


def call(program, *args):
    """What `quire plan` prints; None where it refuses to split the model so."""
    result = subprocess.run([str(each) for each in (program, "plan", *args, "--json")], capture_output=True, text=True)
    if result.stdout:  # also of what does not fit
        return json.loads(result.stdout)
    if "--tp" in result.stderr:
        return None
    raise SystemExit(f"make_calculator: quire plan {args}: {result.stderr}")


def numbers(program):
    devices = call(program, "--list-devices")["devices"]
    # What a device has of a model is the same on all; one that is split as far as any.
    device = max(devices, key=lambda each: each["max_tp"])["name"]
    models, dtypes, multiplied_in = {}, {}, {}
    for config in sorted((ROOT / "examples" / "configs").glob("*.json")):
        model = models[config.stem] = {"footprints": {}}
        for dtype in DTYPES:
            splits = model["footprints"][dtype] = {}
            for tp in SPLITS:
                planned = call(program, config, "--dtype", dtype, "--device", device, "--tp", tp, "--kv-cache-dtype", "bf16")
                if planned is None:
                    continue
                model["maxLen"] = planned["max_model_len"]
                dtypes[dtype], multiplied_in[dtype] = planned["bits_per_weight"], planned["multiplied_in"]
                splits[tp] = planned["plans"][0]["footprint"]
    return {"models": models, "dtypes": dtypes, "multipliedIn": multiplied_in, "devices": devices, "blockSize": 16}


def script(found):
    """All modules as one: each name is there once, so that imports and exports can go."""
    parts = []
    for module in MODULES:
        text = re.sub(r"^import .*?;\n", "", module.read_text(), flags=re.M | re.S)
        parts.append(re.sub(r"^export ", "", text, flags=re.M))
    data = json.dumps(found, separators=(",", ":")).replace("<", "\\u003c")
    return "\n".join(parts) + f"\nshow(document.getElementById('calculator'), {data});\n"


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

#!/usr/bin/env python3
"""The manual page: a template with the version and the commands of the program itself filled in.

    scripts/make_man_page.py PROGRAM TEMPLATE OUTPUT
"""

import json
import pathlib
import subprocess
import sys


def ask(program, *arguments):
    return subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


def escaped(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def main(program, template, output):
    commands = json.loads(ask(program, "completion", "json"))["commands"]
    entries = [f".TP\n.B {each['name'].partition(' ')[2]}\n{escaped(each['description'])}." for each in commands]
    page = pathlib.Path(template).read_text(encoding="utf-8")
    page = page.replace("@COMMANDS@", "\n".join(entries))
    page = page.replace("@VERSION@", ask(program, "--version").strip())
    pathlib.Path(output).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

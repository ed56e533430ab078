#!/usr/bin/env python3
"""The manual page: a template with the version and the commands of the program itself filled in.

    scripts/make_man_page.py PROGRAM TEMPLATE OUTPUT
"""

import pathlib
import re
import subprocess
import sys


def ask(program, flag):
    return subprocess.run([program, flag], stdout=subprocess.PIPE, text=True, check=True).stdout


def escaped(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def main(program, template, output):
    listed = ask(program, "--help").partition("Subcommands:\n")[2]
    commands = re.findall(r"^  ([a-z]+) +(.+)$", listed, re.MULTILINE)
    if not commands:
        sys.exit(f"make_man_page: {program} --help lists no commands")
    entries = [f".TP\n.B {name}\n{escaped(text)}." for name, text in commands]
    page = pathlib.Path(template).read_text(encoding="utf-8")
    page = page.replace("@COMMANDS@", "\n".join(entries))
    page = page.replace("@VERSION@", ask(program, "--version").strip())
    pathlib.Path(output).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

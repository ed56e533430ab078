#!/usr/bin/env python3
"""Rejects functions that a file compiled for one instruction set shares with other files.

    scripts/check_level_symbols.py NM LIBRARY

Of an inline function that several object files hold the linker keeps one, for all of them: if that
came from src/kernels/cpu/<level>/, any processor would run that level's instructions. So such files
may hold no such (weak) symbols: what they include is always inlined, or has internal linkage.
"""

import re
import subprocess
import sys

# A line of `nm -A`: library, member, address, kind, name.
SYMBOL = re.compile(r"[^:]*:([^:]+):[0-9a-f ]+ ([A-Za-z]) (.*)")
LEVEL_FILE = re.compile(r".*_(avx2|avx512|avx512_vnni_bf16|amx)\.cpp\.o")
WEAK = set("WVu")


def level_symbols(listing):
    """(member, kind, name) of what the levels' files define."""
    symbols = [match.groups() for match in map(SYMBOL.match, listing.splitlines()) if match]
    return [symbol for symbol in symbols if LEVEL_FILE.fullmatch(symbol[0])]


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 64
    nm, library = arguments
    listing = subprocess.run([nm, "-A", "-C", "--defined-only", library], check=True,
                             capture_output=True, text=True).stdout
    symbols = level_symbols(listing)
    if not symbols:
        print(f"{library}: no file of an instruction set in it", file=sys.stderr)
        return 1
    shared = [(member, name) for member, kind, name in symbols if kind in WEAK]
    for member, name in shared:
        print(f"{member}: {name} could take the place of another file's; inline it always, or make "
              "it a template over a type of an unnamed namespace", file=sys.stderr)
    return 1 if shared else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

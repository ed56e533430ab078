"""The program that comes with the package: every command of ``quire``."""

from __future__ import annotations

import os
import pathlib
import sys

from quire.errors import NotFoundError

__all__ = ["main", "program"]


def program() -> str:
    """Where it lies."""
    path = pathlib.Path(__file__).parent / "bin" / "quire"
    if not path.is_file():
        raise NotFoundError(f"the program is not at {path}", "install the package again")
    return str(path)


def main() -> None:
    """Becomes the program."""
    path = program()
    os.execv(path, ["quire", *sys.argv[1:]])


if __name__ == "__main__":
    main()

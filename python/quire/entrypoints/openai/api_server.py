"""``python -m quire.entrypoints.openai.api_server --model M --port 8000``: ``quire serve``."""

from __future__ import annotations

import os
import sys

from quire._program import program


def main() -> None:
    """Becomes the server, which takes vLLM's flags."""
    os.execv(program(), ["quire", "serve", *sys.argv[1:]])


if __name__ == "__main__":
    main()

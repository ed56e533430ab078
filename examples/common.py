"""The flags that all examples take."""

import argparse
import os


def arguments(description):
    """A parser with --base-url, --model and --api-key; the example adds its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--base-url", default="http://localhost:8000/v1")
    parser.add_argument("--model", help="default: the first that the server lists")
    parser.add_argument("--api-key", default=os.environ.get("QUIRE_API_KEY", "EMPTY"),
                        help="default: $QUIRE_API_KEY; a server without a key accepts any")
    return parser

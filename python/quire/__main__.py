"""``python -m quire``: the program."""

from quire._program import main

main()

#!/usr/bin/env python3
"""Rejects a source that has grown too long to be read in one sitting.

    scripts/check_lengths.py [PROJECT_ROOT]

A source has at most MAX_LINES lines; each function of SHORT_FUNCTIONS, the scheduler's and those of
the engine's loop, fewer than MAX_FUNCTION_LINES.
"""

import pathlib
import re
import sys

MAX_LINES = 450
MAX_FUNCTION_LINES = 60
SHORT_FUNCTIONS = {
    "src/core/scheduler_plan.cpp": ["Scheduler::schedule"],
    "src/engine/engine_core.cpp": ["EngineCore::run", "EngineCore::run_round",
                                   "EngineCore::take_commands", "EngineCore::begin_steps",
                                   "EngineCore::end_step"],
}


def function_lines(text, name):
    """Lines of a function's definition, from its name to the brace in the first column; None: the
    text has none."""
    for match in re.finditer(rf"^[^\s/#].*\b{re.escape(name)}\(", text, re.M):
        rest = text[match.start():]
        opening, semicolon = rest.find("{"), rest.find(";")
        end = re.search(r"^}", rest, re.M)
        if opening >= 0 and end and (semicolon < 0 or opening < semicolon):
            return rest[:end.end()].count("\n") + 1
    return None


def check(root, short_functions=None):
    """All violations below `root`, each one line starting with file:line."""
    root = pathlib.Path(root)
    problems = []
    for top in ("src", "tests", "bench", "python", "scripts", "examples"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh", ".py", ".js", ".css", ".html", ".sh"):
                continue
            count = len(path.read_text(encoding="utf-8").splitlines())
            if count > MAX_LINES:
                problems.append(f"{path.relative_to(root)}:{MAX_LINES + 1}: the file has {count} "
                                f"lines, more than {MAX_LINES}; split it by what it is about")
    named = SHORT_FUNCTIONS if short_functions is None else short_functions
    for name, functions in named.items():
        path = root / name
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for function in functions:
            count = function_lines(text, function)
            if count is None:
                problems.append(f"{name}:1: {function} is not here; SHORT_FUNCTIONS of "
                                "scripts/check_lengths.py says that it is")
            elif count >= MAX_FUNCTION_LINES:
                problems.append(f"{name}:1: {function} has {count} lines; it stays under "
                                f"{MAX_FUNCTION_LINES}")
    return problems


def main(arguments):
    root = arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent
    problems = check(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"check_lengths: {len(problems)} violations", file=sys.stderr)
        return 1
    print("check_lengths: every source can be read in one sitting")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

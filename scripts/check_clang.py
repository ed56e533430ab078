#!/usr/bin/env python3
"""Parses every source with clang, which takes other things amiss than GCC does.

    scripts/check_clang.py BUILD_DIR [FILE...]

BUILD_DIR holds compile_commands.json. Each command there is run as clang++-14 -fsyntax-only, with its
warnings, which are errors; nothing is generated. What several files include of the system and of
libraries is parsed once: it lies precompiled in BUILD_DIR/clang. Files with the flags of an
instruction set do without. FILE: only these.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPILER = "clang++-14"
INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.MULTILINE)
FEW = 3  # what fewer files include is not precompiled


def flags_of(command):
    """What clang has to know of a compile command: no output, nothing that only code depends on."""
    words = iter(shlex.split(command))
    flags = []
    for word in words:
        if word in ("-o", "-c"):
            next(words)
        elif word == "-isystem":
            flags.append(word + next(words))
        elif re.match(r"-(D|I|m|std=|W)", word):
            flags.append(word)
    return tuple(flags)


def has_instruction_set(flags):
    return any(flag.startswith("-m") for flag in flags)


def is_switch(flag):
    """Whether it is a definition that changes what the project's sources are, not only a value."""
    return flag.startswith("-DQUIRE_") and "=" not in flag


def common_headers(sources):
    """The headers of the system and of libraries that the sources and the project's headers include."""
    counts = collections.Counter()
    for folder in ("src", "tests", "bench"):
        sources = sources | set((ROOT / folder).rglob("*.h"))
    for path in sources:
        counts.update(set(INCLUDE.findall(path.read_text(encoding="utf-8"))))
    return sorted(name for name, count in counts.items()
                  if count >= FEW and not name.endswith("intrin.h"))


def clang(*arguments):
    # The commands' warnings are GCC's: clang need not know all of them.
    result = subprocess.run([COMPILER, "-Wno-unknown-warning-option", *arguments],
                            capture_output=True, text=True)
    return result.returncode, (result.stdout + result.stderr).strip()


def precompile(folder, flags, names):
    """Gives the path of a precompiled header of all that is named."""
    folder.mkdir(exist_ok=True)
    header, precompiled = folder / "common.h", folder / "common.pch"
    header.write_text("#pragma once\n" + "".join(f"#include <{name}>\n" for name in names))
    code, output = clang(*flags, "-fpch-instantiate-templates", "-x", "c++-header", str(header), "-o",
                         str(precompiled))
    if code != 0:
        sys.exit(f"check_clang: what all include does not compile\n{output}")
    return precompiled


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    build = pathlib.Path(arguments[0]).resolve()
    named = {pathlib.Path(name).resolve() for name in arguments[1:]}
    jobs = set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.suffix == ".cpp" and not path.is_relative_to(build):
            jobs.add((path, flags_of(entry["command"])))
    for path in sorted(named - {path for path, _ in jobs}):
        sys.exit(f"check_clang: {path} is not in {build / 'compile_commands.json'}")

    start = time.monotonic()
    plain = [job for job in jobs if not has_instruction_set(job[1])]
    # Of all of them: a file may see more include paths and definitions than it asks for, so that one
    # precompiled header suits all, and a file of two programs is parsed once.
    shared = list(dict.fromkeys(flag for _, flags in sorted(plain) for flag in flags
                                if not is_switch(flag)))
    header = precompile(build / "clang", shared, common_headers({path for path, _ in plain}))

    def check(job):
        path, flags = job
        if not has_instruction_set(flags):
            flags = ["-include-pch", str(header), *shared, *filter(is_switch, flags)]
        return clang("-fsyntax-only", *flags, str(path))

    todo = {(path, tuple(flag for flag in flags if is_switch(flag) or flag.startswith("-m"))):
            (path, flags) for path, flags in sorted(jobs) if not named or path in named}
    # Those with an instruction set take longest: they come first.
    todo = sorted(todo.values(), key=lambda job: (not has_instruction_set(job[1]), job))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for (path, _), (code, output) in zip(todo, pool.map(check, todo)):
            if code != 0:
                failed += 1
                print(f"check_clang: {path.relative_to(ROOT)}\n{output}", flush=True)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"check_clang: {len(todo)} compilations, {failed} with errors, "
          f"{time.monotonic() - start:.0f} s, {spent.ru_utime + spent.ru_stime:.0f} s of processors")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

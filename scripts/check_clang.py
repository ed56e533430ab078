#!/usr/bin/env python3
"""Parses every source with clang, which takes other things amiss than GCC does.

    scripts/check_clang.py BUILD_DIR [FILE...]

BUILD_DIR holds compile_commands.json. Its commands are run as clang++-14 -fsyntax-only, with their
warnings, which are errors; nothing is generated. As in a release, the sources of a folder that a
target compiles alike are parsed together, in BUILD_DIR/clang, one behind the other rather than
included: clang says less of what is unused in an included file. What several files include of the
system and of libraries is parsed once: it lies there precompiled. Files with the flags of an
instruction set do without, and each is parsed alone. FILE: only these, each alone.
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


def target_of(command):
    return re.search(r" -o (\S*?CMakeFiles/[^/]+\.dir)/", command).group(1)


def jobs_of(build):
    """(path, flags, target) of everything that is compiled."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.name.startswith("unity_"):
            sys.exit(f"check_clang: {path.name} stands for the sources of a folder, which would be passed "
                     f"over: configure {build} with -DQUIRE_COMPILE_BY_FOLDER=OFF")
        if path.suffix == ".cpp" and not path.is_relative_to(build):
            yield path, flags_of(entry["command"]), target_of(entry["command"])


def parted(flags):
    """Those of a file's flags that are not the same for all."""
    return tuple(flag for flag in flags if is_switch(flag) or flag.startswith("-m"))


def together(jobs):
    """The jobs as lists of those that are parsed together; a file of two targets is parsed once."""
    once = {}
    for job in sorted(jobs):
        once.setdefault((job[0], parted(job[1])), job)
    units = collections.defaultdict(list)
    for path, flags, target in once.values():
        alone = path if has_instruction_set(flags) or not by_folder(path) else None
        units[path.parent, target, flags, alone].append((path, flags))
    return list(units.values())


def by_folder(path):
    """Whether names are unique within its folder (cmake/QuireLibrary.cmake)."""
    return path.relative_to(ROOT).parts[0] in ("src", "python")


def joined(paths):
    """The text of several sources as one, in which the compiler names each with its lines."""
    return "".join(f'#line 1 "{path}"\n{path.read_text(encoding="utf-8")}\n' for path in paths)


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    build = pathlib.Path(arguments[0]).resolve()
    named = {pathlib.Path(name).resolve() for name in arguments[1:]}
    jobs = list(jobs_of(build))
    for path in sorted(named - {path for path, _, _ in jobs}):
        sys.exit(f"check_clang: {path} is not in {build / 'compile_commands.json'}")

    start = time.monotonic()
    plain = [(path, flags) for path, flags, _ in jobs if not has_instruction_set(flags)]
    # Of all of them: a file may see more include paths and definitions than it asks for, so that one
    # precompiled header suits all.
    shared = list(dict.fromkeys(flag for _, flags in sorted(plain) for flag in flags
                                if not is_switch(flag)))
    folder = build / "clang"
    header = precompile(folder, shared, common_headers({path for path, _ in plain}))

    def parse(path, flags):
        if not has_instruction_set(flags):
            flags = ["-include-pch", str(header), *shared, *filter(is_switch, flags)]
        return clang("-fsyntax-only", *flags, str(path))

    def check(numbered):
        """[(path, what clang says)] of those that have errors."""
        number, unit = numbered
        if len(unit) > 1:
            path = folder / f"unit_{number}.cpp"
            path.write_text(joined([source for source, _ in unit]), encoding="utf-8")
            if parse(path, unit[0][1])[0] == 0:
                return []
        # Or it is only together that something is amiss: that a name is another file's too.
        parsed = [(path, *parse(path, flags)) for path, flags in unit]
        return [(path, output) for path, code, output in parsed if code != 0]

    if named:
        units = [[job] for unit in together(jobs) for job in unit if job[0] in named]
    else:
        units = together(jobs)
    # Those with an instruction set take longest: they come first, and then the largest.
    units.sort(key=lambda unit: (not has_instruction_set(unit[0][1]), -len(unit), unit))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for errors in pool.map(check, enumerate(units)):
            for path, output in errors:
                failed += 1
                print(f"check_clang: {path.relative_to(ROOT)}\n{output}", flush=True)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"check_clang: {sum(map(len, units))} files in {len(units)} compilations, "
          f"{failed} with errors, {time.monotonic() - start:.0f} s, {spent.ru_utime + spent.ru_stime:.0f} s of processors")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""clang-tidy over the project's own sources, one process per core.

    scripts/lint.py BUILD_DIR [FILE...]

BUILD_DIR holds compile_commands.json. Tests and benchmarks are looked at only when named: their
macros are most of what clang-tidy would spend its time on. A file that passed is not looked at again
until it, a project header that it includes, its compile command or .clang-tidy changes; what passed
is remembered in BUILD_DIR/lint.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def with_headers(source):
    """The file and every project header that it includes, directly or not."""
    seen, todo = set(), [source]
    while todo:
        path = todo.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            todo += [ROOT / "src" / name, path.parent / name]
    return sorted(seen)


def key_of(source, command):
    digest = hashlib.sha256(command.encode())
    checks = [folder / ".clang-tidy" for folder in source.parents if folder.is_relative_to(ROOT)]
    for path in [*filter(pathlib.Path.is_file, checks), *with_headers(source)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def lint(build, source):
    # The compile commands are GCC's: clang need not know all of its warnings.
    result = subprocess.run(["clang-tidy", "-p", str(build), "--quiet",
                             "--extra-arg=-Wno-unknown-warning-option", str(source)],
                            capture_output=True, text=True)
    noise = re.compile(r"^\d+ warnings? (generated|treated as error)")
    errors = [line for line in result.stderr.splitlines() if not noise.match(line)]
    return result.returncode, "\n".join(filter(None, [result.stdout.strip(), *errors]))


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    build = pathlib.Path(arguments[0]).resolve()
    named = {pathlib.Path(name).resolve() for name in arguments[1:]}
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        default = not re.search(r"_(test|benchmark)\.cpp$", path.name) and not named
        if path in named or (default and (ROOT / "src") in path.parents):
            commands[path] = entry["command"]
    for path in sorted(named - commands.keys()):
        sys.exit(f"lint: {path} is not in {build / 'compile_commands.json'}")

    passed = build / "lint"
    passed.mkdir(exist_ok=True)
    keys = {path: key_of(path, command) for path, command in commands.items()}
    todo = sorted(path for path in keys if not (passed / keys[path]).exists())
    start, failed = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        jobs = {pool.submit(lint, build, path): path for path in todo}
        for job in concurrent.futures.as_completed(jobs):
            path = jobs[job]
            code, output = job.result()
            if code == 0:
                (passed / keys[path]).touch()
            else:
                failed += 1
                print(f"lint: {path.relative_to(ROOT)}\n{output}", flush=True)
    print(f"lint: {len(todo)} of {len(keys)} files looked at, {failed} with findings, "
          f"{time.monotonic() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""What is in a wheel of the Python package: all of it, the program, the libraries, and nothing else.

    wheel_contents.py WHEEL SOURCE_DIR
"""

import pathlib
import re
import stat
import sys
import zipfile

NEWEST_GLIBC = 36  # Debian 12's


def problems(wheel, source):
    names = {info.filename: info for info in wheel.infolist()}
    package = source / "python"
    for path in sorted(package.glob("quire/**/*")):
        if path.is_file() and path.suffix in (".py", ".pyi", ".typed") and str(path.relative_to(package)) not in names:
            yield f"{path.relative_to(package)} is missing"
    extensions = [name for name in names if re.fullmatch(r"quire/_quire\.(abi3|cpython-3\d+-\S+)\.so", name)]
    if len(extensions) != 1:
        yield f"extension modules: {extensions}"
    program = names.get("quire/bin/quire")
    if program is None:
        yield "the program is missing"
    elif not stat.S_IMODE(program.external_attr >> 16) & stat.S_IXUSR:
        yield "the program may not be run"
    for name in names:
        if not re.match(r"quire/|quire\.libs/|quire-[\d.]+\.dist-info/", name) or "__pycache__" in name:
            yield f"{name} does not belong in it"
    libraries = [name for name in names if name.startswith("quire.libs/")]
    if not libraries:
        yield "no library came along"
    for name in [*extensions, *libraries, *(["quire/bin/quire"] if program else [])]:
        if str(source.resolve()).encode() in wheel.read(name):
            yield f"{name} has a path of the machine that built it"


def main():
    path, source = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    found = []
    glibc = re.search(r"-manylinux_2_(\d+)_x86_64", path.name)
    if glibc is None or int(glibc.group(1)) > NEWEST_GLIBC:
        found.append(f"{path.name} is not for glibc 2.{NEWEST_GLIBC}")
    with zipfile.ZipFile(path) as wheel:
        found += problems(wheel, source)
    for problem in found:
        print(f"wheel_contents: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

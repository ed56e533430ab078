#!/usr/bin/env python3
"""Rejects an include that crosses an undeclared edge between the folders of src/.

    scripts/check_edges.py [PROJECT_ROOT]

Two lists have to agree: EDGES below, which is the shape of the project (docs/architecture.md), and
the DEPS that each src/<folder>/CMakeLists.txt declares, which is what the folder is linked with. An
include has to be allowed by the first and covered by the second, and no folder may declare a
dependency that the first does not allow. Headers need `#pragma once`, and files compiled with the
flags of one instruction set may not use the standard library's containers and algorithms: the linker
could pick such a file's copy of an inline function for a machine that cannot run it. Folders that run
on any device include nothing that is the CPU's alone.

Within a folder of LAYERED its own subfolders (the files beside them count as one more) may not
depend on each other in a circle; tests and what only they include may look anywhere.
"""

import pathlib
import re
import sys

# X: {Y: None} means that X may include Y and whatever Y may. X: {Y: {"a.h"}} means only Y/a.h, and
# nothing through it. Everything may include base.
EDGES = {
    "base": {},
    "tensor": {},
    "quant": {"tensor": None},
    "kernels": {"quant": None},
    "nn": {"kernels": None},
    "weights": {"quant": None},
    "hub": {"weights": None},
    "models": {"nn": None, "weights": None},
    "text": {},
    "core": {},
    "draft": {},
    "plan": {"models": {"spec.h"}, "weights": None, "kernels": {"sizing.h"}},
    "tier": {},
    "exec": {"models": None, "tier": None, "core": {"step.h", "sampling_params.h"}},
    "sim": {"core": None, "plan": None, "exec": {"executor.h"}},
    "load": {"models": None, "weights": None, "text": None,
             "core": {"sampling_params.h", "sampling_table.h"}},
    "engine": {"load": None, "exec": None, "tier": None, "core": None, "draft": None, "plan": None,
               "text": None},
    "serve": {"engine": {"api.h"}, "text": None},
}
EDGES["apps"] = {folder: None for folder in EDGES}

# Under src/kernels/cpu/<level>/.
LEVEL_FORBIDDEN = set("""
    algorithm any array deque execution forward_list functional iostream list map memory mutex
    numeric optional queue ranges regex set sstream stack stdexcept string string_view thread tuple
    unordered_map unordered_set utility variant vector""".split())

# Folders whose code runs on whatever device it is given, and what they may see of kernels/ and not of
# tensor/. Their tests, benchmarks and test support make a device of their own.
ANY_DEVICE = {"nn", "models", "exec"}
OF_ANY_DEVICE = {"attention_plan.h", "device.h", "kv_layout.h", "op_args.h", "packed_weight.h",
                 "row_args.h", "sampling_args.h", "sizing.h", "state_runs.h",
                 "weight_layout.h"}
OF_THE_CPU = {"thread_pool.h", "cpu_count.h"}
MAKES_A_DEVICE = re.compile(r"(_test|_benchmark|_test_support)\.(cpp|h)$")

# Folders whose subfolders form no circle.
LAYERED = {"serve"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def allowed_by_edges(folder):
    """{folder: None or a set of header names} that `folder` may include, itself not among them."""
    reach = {"base": None} if folder != "base" else {}

    def add(target, headers):
        if headers is None or reach.get(target, set()) is None:
            reach[target] = None
        else:
            reach[target] = reach.get(target, set()) | headers

    for target, headers in EDGES[folder].items():
        add(target, headers)
        if headers is None:
            for further, further_headers in allowed_by_edges(target).items():
                add(further, further_headers)
    return reach


def describe(reach):
    names = [name if headers is None else
             " and ".join(f"{name}/{header}" for header in sorted(headers))
             for name, headers in sorted(reach.items())]
    return ", ".join(names) or "nothing"


def declared_deps(cmake_text):
    """The Quire folders that a CMakeLists.txt depends on: quire_library's DEPS and linked quire_*."""
    text = re.sub(r"#.*", "", cmake_text)
    deps = set()
    for call in re.findall(r"\bquire_library\s*\(([^)]*)\)", text):
        words = call.split()
        if "DEPS" in words:
            for word in words[words.index("DEPS") + 1:]:
                if word.isupper():  # the next keyword
                    break
                deps.add(word)
    for call in re.findall(r"\btarget_link_libraries\s*\(([^)]*)\)", text):
        deps |= {word.removeprefix("quire_") for word in call.split()[1:]
                 if word.startswith("quire_")}
    return deps


def closure(folder, deps):
    reach, todo = set(), [folder]
    while todo:
        for target in deps.get(todo.pop(), ()):
            if target not in reach:
                reach.add(target)
                todo.append(target)
    return reach


def check_declarations(root, deps):
    for folder, targets in deps.items():
        where = f"src/{folder}/CMakeLists.txt"
        reach = allowed_by_edges(folder)
        for target in sorted(targets):
            if target not in EDGES:
                yield f"{where}:1: DEPS names {target}, which is no folder of src/"
            elif target not in reach and target != folder:
                yield (f"{where}:1: {folder} -> {target} is no edge; "
                       f"{folder} may depend on {describe(reach)}")


def check_includes(root, path, folder, linked):
    relative = path.relative_to(root)
    parts = relative.parts
    level_file = (parts[1:3] == ("kernels", "cpu") and len(parts) > 4
                  and not re.search(r"_(test|benchmark)\.cpp$", path.name))
    any_device = folder in ANY_DEVICE and not MAKES_A_DEVICE.search(path.name)
    reach = allowed_by_edges(folder)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, name = match.groups()
        where = f"{relative}:{number}"
        if quote == "<" and not (root / "src" / name).is_file():
            if level_file and name in LEVEL_FORBIDDEN:
                yield (f"{where}: <{name}> in a file compiled with instruction-set flags; "
                       "it takes plain pointers and sizes")
            continue
        target, _, header = name.partition("/")
        if target not in EDGES or not header:
            yield f'{where}: "{name}" does not start with a folder of src/; write "folder/file.h"'
        elif target == folder:
            continue
        elif target not in reach:
            yield (f"{where}: {folder} may not include {name}: {folder} -> {target} is no edge; "
                   f"{folder} may include {describe(reach)}")
        elif reach[target] is not None and header not in reach[target]:
            yield (f"{where}: {folder} may not include {name}: of {target} it may include only "
                   f"{' and '.join(sorted(reach[target]))}")
        elif any_device and ((target == "kernels" and header not in OF_ANY_DEVICE)
                             or (target == "tensor" and header in OF_THE_CPU)):
            yield (f"{where}: {folder} may not include {name}: it is the CPU's, and {folder} runs on "
                   "any device (kernels/device.h)")
        elif target not in linked:
            yield (f"{where}: {folder} includes {name}, but src/{folder}/CMakeLists.txt does not "
                   f"declare {target} among its DEPS")


def is_test(path):
    return bool(re.search(r"_(test|benchmark)\.cpp$|(^|/)test_[a-z_]+\.h$|_(fixture|support)\.h$",
                          path.as_posix()))


def subfolder_edges(root, folder):
    """{subfolder: {other: "file:line" of the first include of it}}, of paths below src/."""
    edges = {}
    base = root / "src" / folder
    for path in sorted(base.rglob("*")):
        if path.suffix not in (".h", ".cpp") or is_test(path):
            continue
        own = path.parent.relative_to(root / "src").as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or not match.group(2).startswith(folder + "/"):
                continue
            other = match.group(2).rpartition("/")[0]
            if other != own:
                edges.setdefault(own, {}).setdefault(
                    other, f"{path.relative_to(root)}:{number}")
    return edges


def find_circle(edges):
    """Subfolders of a circle in the order of their includes, the first again at its end; or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for other in sorted(edges.get(node, {})):
            circle = visit(other)
            if circle:
                return circle
        done.add(path.pop())
        return None

    for node in sorted(edges):
        circle = visit(node)
        if circle:
            return circle
    return None


def check_circles(root):
    for folder in sorted(LAYERED):
        edges = subfolder_edges(root, folder)
        circle = find_circle(edges)
        if circle:
            where = edges[circle[0]][circle[1]]
            yield f"{where}: folders of {folder} depend on each other: {' -> '.join(circle)}"


def check(root):
    """All violations below `root`, each one line starting with file:line."""
    root = pathlib.Path(root)
    problems = []
    folders = sorted(path for path in (root / "src").iterdir() if path.is_dir())
    deps = {}
    for path in folders:
        if path.name not in EDGES:
            problems.append(f"src/{path.name}:1: not a layer of the project; "
                            "add it to EDGES in scripts/check_edges.py and to docs/architecture.md")
            continue
        cmake = path / "CMakeLists.txt"
        deps[path.name] = declared_deps(cmake.read_text(encoding="utf-8")) if cmake.exists() else set()
    problems += check_declarations(root, deps)
    for path in sorted((root / "src").rglob("*")):
        folder = path.relative_to(root / "src").parts[0]
        if path.suffix in (".h", ".cpp", ".cu", ".cuh") and folder in deps:
            problems += check_includes(root, path, folder, closure(folder, deps))
    for top in ("src", "tests", "bench", "python"):
        for path in sorted((root / top).rglob("*.h")):
            if not re.search(r"^\s*#\s*pragma\s+once\b", path.read_text(encoding="utf-8"), re.M):
                problems.append(f"{path.relative_to(root)}:1: a header needs #pragma once")
    problems += check_circles(root)
    return problems


def main(arguments):
    root = arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent
    problems = check(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"check_edges: {len(problems)} violations", file=sys.stderr)
        return 1
    print("check_edges: every include stays within the declared edges")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

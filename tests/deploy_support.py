"""What the tests of deploy/ share: its files, as what they say, and the tools that know their formats.

Run by `make check-deploy`, by the Python of .venvs/deploy (scripts/install_deploy_tools.sh). A tool that
is not there skips its test, and fails it in CI.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import yaml

from cli_support import PROGRAM, SOURCE, facts
from serve_support import missing

DEPLOY = SOURCE / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
TIMEOUT = 120
VERSION = re.search(r"project\(quire VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]


def tool(name):
    """The path of a tool, of .venvs/deploy or of the system."""
    own = pathlib.Path(sys.executable).parent / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        missing(name, "run `make check-deploy`, which installs it")
    return found


def run_tool(name, *args):
    """Runs it; what it printed where it is content, else an AssertionError with what it printed."""
    done = subprocess.run([tool(name), *map(str, args)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, f"{name} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def load(path):
    return yaml.safe_load(path.read_text())


def unit(name):
    """A systemd unit as {section: [(key, value), ...]}, in order."""
    sections = {}
    text = (DEPLOY / "systemd" / name).read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if match := re.match(r"\[(\w+)\]$", line):
            section = sections.setdefault(match[1], [])
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.append((key, value))
    return sections


def flag_value(args, name):
    """The value of --name=value, or of --name value."""
    for i, each in enumerate(args):
        if each == name:
            return args[i + 1]
        if each.startswith(name + "="):
            return each.partition("=")[2]
    return None


def with_flag(args, name, value):
    """The arguments with another value of --name."""
    out = []
    rest = iter(args)
    for each in rest:
        if each == name:
            next(rest)
        elif not each.startswith(name + "="):
            out.append(each)
    return out + [f"{name}={value}"]


def serve_flags():
    """The flags that `quire serve` knows."""
    return {name for flag in facts("serve")["flags"] for name in flag["names"] + flag["negated"]
            if name.startswith("--")}

#!/usr/bin/env bash
# clang-tidy over the project's own sources, one process per core.
#
#   scripts/lint.sh BUILD_DIR [REVISION]
#
# BUILD_DIR holds compile_commands.json. With REVISION only sources that changed since then are
# looked at, and those that include a changed header of theirs by the same name (foo.h: foo.cpp).
set -euo pipefail

build=$1
since=${2:-}
cd "$(dirname "$0")/.."

mapfile -t known < <(python3 - "$build/compile_commands.json" <<'PY'
import json, os, sys
files = {os.path.relpath(entry["file"]) for entry in json.load(open(sys.argv[1]))}
print("\n".join(sorted(file for file in files if not file.startswith(("build/", "..")))))
PY
)

selected=()
if [[ -n $since ]]; then
  changed=$(git diff --name-only "$since" -- '*.cpp' '*.h' | sed -E 's/\.(cpp|h)$//')
  for file in "${known[@]}"; do
    if grep -qxF -- "${file%.cpp}" <<<"$changed"; then selected+=("$file"); fi
  done
else
  selected=("${known[@]}")
fi
if [[ ${#selected[@]} -eq 0 ]]; then
  echo "lint: no source to look at"
  exit 0
fi

echo "lint: clang-tidy on ${#selected[@]} files"
start=$SECONDS
printf '%s\0' "${selected[@]}" |
  xargs -0 -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet 2> >(grep -vE 'warnings? generated|^$' >&2)
echo "lint: clean, $((SECONDS - start)) s"

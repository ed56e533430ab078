#!/usr/bin/env bash
# Makes the golden data under tests/data again from the reference implementations.
#
#   scripts/make_goldens.sh [NAME...]     names as below; default: all
#
# Python packages with pinned versions go into .venvs/goldens (about 6 GB, most of it torch). smollm2
# and gemma3_270m run models for some minutes, and fetch them where they are missing; stories260k needs
# ../shared/models. Neither building nor testing Quire needs any of this.
set -euo pipefail
cd "$(dirname "$0")/.."

all=(quant tiny_llama tiny_kquants tiny_compact quantized families pooling rope stories260k smollm2 gemma3_270m chat_template
  tokenizer tokenizer_files sampling beam_search host_names)
goldens=("$@")
[[ ${#goldens[@]} -gt 0 ]] || goldens=("${all[@]}")
for golden in "${goldens[@]}"; do
  if [[ " ${all[*]} " != *" $golden "* ]]; then
    echo "make_goldens: unknown golden '$golden' (${all[*]})" >&2
    exit 64
  fi
done

venv=.venvs/goldens
requirements=scripts/goldens/requirements.txt
if ! cmp -s "$requirements" "$venv/installed.txt"; then
  echo "make_goldens: installing the reference implementations into $venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet -r "$requirements"
  cp "$requirements" "$venv/installed.txt"
fi

for golden in "${goldens[@]}"; do
  if [[ $golden == smollm2 || $golden == tokenizer ]]; then scripts/fetch_model.py; fi
  if [[ $golden == gemma3_270m ]]; then scripts/fetch_model.py gemma3-270m; fi
  if [[ $golden == stories260k && ! -d ../shared/models/stories260k ]]; then
    echo "make_goldens: ../shared/models/stories260k is not there; stories260k is left as it is" >&2
    continue
  fi
  echo "make_goldens: $golden"
  "$venv/bin/python" "scripts/goldens/$golden.py"
done

#!/usr/bin/env bash
# The wheel of the Python package, held to what it promises: what is in it, and that a bare Debian 12 installs it
# without a network, generates a text and serves.
#
#   tests/wheel_test.sh WHEEL     as root; by `make check-wheel`
set -euo pipefail
wheel=$(realpath "$1")
cd "$(dirname "$0")/.."
model=models/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf
# shellcheck source=tests/bare_debian.sh
source tests/bare_debian.sh
[[ $EUID -eq 0 ]] || fail "needs root, for chroot"
[[ -e $model ]] || fail "$model is missing; run scripts/fetch_model.py"

python3 -B tests/wheel_contents.py "$wheel" .
passed "its contents"

can_mount || { echo "wheel_test: NOT tried: a bare Debian 12, which needs the right to mount"; exit 0; }
root=$(mktemp -d)
trap remove_bare_debian EXIT
make_bare_debian python3-venv
passed "a bare Debian 12 with Python"
cp "$wheel" "$root/tmp/"
cp "$model" "$root/tmp/model.gguf"
cp examples/python/first.py "$root/tmp/"

within /usr/bin/python3 -m venv /opt/quire
within /opt/quire/bin/pip install --quiet --no-index "/tmp/${wheel##*/}"
passed "it installs without a network"

text=$(within /opt/quire/bin/python /tmp/first.py /tmp/model.gguf)
[[ $text == *"capital of Japan is Tokyo"* ]] || fail "first.py says: $text"
passed "LLM.generate: ${text%%$'\n'*}"

text=$(within /opt/quire/bin/quire generate --model /tmp/model.gguf --prompt "The capital of France is" \
         --max-tokens 2 --temperature 0 2>/dev/null)
[[ $text == *Paris* ]] || fail "quire generate says: $text"
passed "quire generate: $text"

cat >"$root/tmp/serve.py" <<'PYTHON'
import json, urllib.request, quire
with quire.serve("/tmp/model.gguf", max_num_seqs=2) as server:
    body = {"prompt": "The capital of France is", "max_tokens": 2, "temperature": 0}
    request = urllib.request.Request(server.base_url + "/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    print(json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["text"])
PYTHON
text=$(within /opt/quire/bin/python /tmp/serve.py)
[[ $text == *Paris* ]] || fail "quire.serve says: $text"
passed "quire.serve: $text"
within /opt/quire/bin/python -m quire.entrypoints.openai.api_server --help >/dev/null
passed "python -m quire.entrypoints.openai.api_server"

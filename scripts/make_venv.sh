#!/usr/bin/env bash
# Makes an environment of Python with the packages of a list, or does nothing, and asks the network
# nothing, where it is there already:
#
#     scripts/make_venv.sh FOLDER REQUIREMENTS [PYTHON]
#
# By uv (scripts/uv.txt, in .venvs/uv), which installs in a third of the time that pip takes. The
# environment has no pip of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
requirements=$2
python=${3:-python3}
cmp -s "$requirements" "$folder/installed.txt" && exit 0

uv=.venvs/uv
if ! cmp -s scripts/uv.txt "$uv/installed.txt"; then
  python3 -m venv "$uv"
  "$uv/bin/pip" install --quiet --disable-pip-version-check -r scripts/uv.txt
  cp scripts/uv.txt "$uv/installed.txt"
fi
# uv does not read pip's settings, where a user may have named an index and certificates.
setting() { "$uv/bin/pip" config get "global.$1" 2>/dev/null || true; }
index=${PIP_INDEX_URL:-$(setting index-url)}
[[ -z $index ]] || export UV_DEFAULT_INDEX=$index
certificates=${SSL_CERT_FILE:-${PIP_CERT:-$(setting cert)}}
[[ -z $certificates ]] || export SSL_CERT_FILE=$certificates

echo "make_venv: installing into $folder" >&2
"$python" -m venv --without-pip "$folder"
if ! "$uv/bin/uv" pip install --quiet --compile-bytecode --python "$folder/bin/python" -r "$requirements"; then
  echo "make_venv: uv cannot install these; pip, which reads more settings, tries it" >&2
  "$uv/bin/pip" --python "$folder/bin/python" install --quiet --disable-pip-version-check -r "$requirements"
fi
cp "$requirements" "$folder/installed.txt"

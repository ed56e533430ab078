#!/usr/bin/env bash
# Runs a test by the Python of .venvs/clients, or of the environment that is named before it:
# with_clients.sh [--venv NAME] TEST... Where that is not there the test is skipped (77), and fails in CI.
set -euo pipefail

venv=clients
if [[ $1 == --venv ]]; then
  venv=$2
  shift 2
fi
python=$(dirname "$0")/../.venvs/$venv/bin/python
[[ -x $python ]] && exec "$python" -B "$@"
echo ".venvs/$venv is not there: run \`make test-clients\` for the tests of the server's clients" >&2
[[ -z ${CI:-} ]] || exit 1
exit 77

#!/usr/bin/env bash
# Runs a test by the Python of .venvs/clients. Where that is not there the test is skipped (77), and
# fails in CI.
set -euo pipefail

python=$(dirname "$0")/../.venvs/clients/bin/python
[[ -x $python ]] && exec "$python" -B "$@"
echo ".venvs/clients is not there: run \`make test-clients\` for the tests of the server's clients" >&2
[[ -z ${CI:-} ]] || exit 1
exit 77

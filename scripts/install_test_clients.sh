#!/usr/bin/env bash
# Makes .venvs/clients: the clients that the server is tested with (openai, aiohttp), a validator of
# JSON Schema, and the messages of OpenTelemetry. Does nothing, and asks the network nothing, when
# they are there already. Building and running Quire needs none of this; docs/dependencies.md gives
# the reason for each package.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venvs/clients
requirements=scripts/test_clients.txt
cmp -s "$requirements" "$venv/installed.txt" && exit 0

echo "install_test_clients: installing into $venv" >&2
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
cp "$requirements" "$venv/installed.txt"

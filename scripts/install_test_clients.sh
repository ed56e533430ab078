#!/usr/bin/env bash
# Makes the environments of the clients that the server is tested with: .venvs/clients (openai, aiohttp;
# a validator of JSON Schema, the messages of OpenTelemetry), .venvs/frameworks (LiteLLM, LangChain, Pydantic
# AI, OpenAI's agents, llm) and .venvs/llama_index, which wants another openai than those. Does nothing, and
# asks the network nothing, when they are there already. Building and running Quire needs none of this;
# docs/dependencies.md gives the reason for each package.
set -euo pipefail
cd "$(dirname "$0")/.."

for name in clients frameworks llama_index; do
  venv=.venvs/$name
  requirements=scripts/test_$name.txt
  cmp -s "$requirements" "$venv/installed.txt" && continue

  echo "install_test_clients: installing into $venv" >&2
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
  cp "$requirements" "$venv/installed.txt"
done

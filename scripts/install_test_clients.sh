#!/usr/bin/env bash
# Makes the environments of the clients that the server is tested with: .venvs/clients (openai, aiohttp;
# a validator of JSON Schema, the messages of OpenTelemetry), .venvs/frameworks (LiteLLM, LangChain, Pydantic
# AI, OpenAI's agents, llm), .venvs/instructor and .venvs/llama_index, which want other versions of openai
# than those, and .venvs/python, for which the Python package is built in the build tree
# (-DQUIRE_PYTHON=ON). Does nothing, and asks the network nothing, when they are there already. Building
# and running Quire needs none of this; docs/dependencies.md gives the reason for each package.
set -euo pipefail
cd "$(dirname "$0")/.."

# The extension module is compiled against Debian's headers, so by Debian's interpreter.
python_of() {
  if [[ $1 == python && -x /usr/bin/python3 ]]; then echo /usr/bin/python3; else echo python3; fi
}

for name in clients frameworks instructor llama_index python; do
  scripts/make_venv.sh ".venvs/$name" "scripts/test_$name.txt" "$(python_of "$name")"
done

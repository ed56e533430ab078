#!/usr/bin/env bash
# The API with curl alone: wait until the server is ready, then a completion, a chat, a stream.
#
#   examples/curl.sh [BASE_URL] [MODEL]      default: http://localhost:8000, the server's own model
#
# The server:  quire serve      A key, where it has one:  QUIRE_API_KEY=... examples/curl.sh
set -euo pipefail

base=${1:-http://localhost:8000}
key=${QUIRE_API_KEY:-EMPTY}  # a server without a key accepts any

call() {  # path, and the rest is curl's
  local path=$1
  shift
  curl --silent --show-error --fail-with-body -H "Authorization: Bearer $key" "$@" "$base$path"
}

for _ in {1..300}; do
  call /v1/models --output /dev/null 2>/dev/null && break
  sleep 0.2
done

# The name of the first model that the server lists, where none is given.
model=${2:-$(call /v1/models | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["id"])')}
echo "model: $model"

echo "== completion"
call /v1/completions -H "Content-Type: application/json" -d @- <<EOF
{"model": "$model", "prompt": "The capital of Japan is", "max_tokens": 16, "temperature": 1}
EOF
echo

echo "== chat"
call /v1/chat/completions -H "Content-Type: application/json" -d @- <<EOF
{"model": "$model", "max_tokens": 16, "temperature": 0,
 "messages": [{"role": "system", "content": "Answer in one sentence."},
              {"role": "user", "content": "What is the capital of Japan?"}]}
EOF
echo

echo "== stream"
call /v1/chat/completions --no-buffer -H "Content-Type: application/json" -d @- <<EOF
{"model": "$model", "max_tokens": 16, "temperature": 0, "stream": true,
 "messages": [{"role": "user", "content": "Count from one to five."}]}
EOF

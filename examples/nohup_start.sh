#!/usr/bin/env bash
# Starts a server in the background that outlives this shell, and waits until it answers.
#
#   examples/nohup_start.sh MODEL [PORT] [more flags of quire serve]
#
# Prints the process id; the log is in quire.log. Stop it with: kill PID
set -euo pipefail

model=${1:?which model? a folder, or a .gguf file}
port=${2:-8888}
quire=${QUIRE:-quire}  # the program

nohup "$quire" serve --model "$model" --host 127.0.0.1 --port "$port" --max-model-len 256 \
  --gpu-memory-utilization 0.5 --dtype bfloat16 "${@:3}" >quire.log 2>&1 </dev/null &
pid=$!

until curl --silent --fail --output /dev/null "http://localhost:$port/v1/models"; do
  if ! kill -0 "$pid" 2>/dev/null; then
    echo "the server did not start:" >&2
    tail -n 5 quire.log >&2
    exit 1
  fi
  sleep 0.1
done
echo "$pid"

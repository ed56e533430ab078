#!/usr/bin/env bash
# lm-eval's `local-completions` against a server of the bundled model, on the two small tasks of
# scripts/lm_eval: one scored by log probabilities, one by what is written. Installs lm-eval into
# .venvs/lm_eval (760 MB) the first time, and then asks the network nothing.
#
#     scripts/run_lm_eval.sh [PROGRAM]      build/release/quire unless another is named
set -euo pipefail
cd "$(dirname "$0")/.."

program=${1:-build/release/quire}
venv=.venvs/lm_eval
requirements=scripts/lm_eval/requirements.txt
if ! cmp -s "$requirements" "$venv/installed.txt"; then
  echo "run_lm_eval: installing into $venv" >&2
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
  cp "$requirements" "$venv/installed.txt"
fi

folder=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server" || true; wait; rm -rf "$folder"' EXIT
"$program" serve --model models/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf \
  --served-model-name smollm2 --port 0 --batch-database "$folder/batches.sqlite3" 2>"$folder/log" &
server=$!
until url=$(grep -om1 'http://[0-9.]*:[0-9]*' "$folder/log" 2>/dev/null) && curl -sf "$url/ready" >/dev/null; do
  kill -0 "$server" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
  sleep 0.2
done

# A task names its data by a whole path.
for task in scripts/lm_eval/*.yaml; do
  sed "s|DATA|$PWD/scripts/lm_eval|" "$task" >"$folder/${task##*/}"
done
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME=$folder/hf no_proxy='*'
"$venv/bin/lm_eval" run --model local-completions --include_path "$folder" \
  --tasks capitals_choice,capitals_written \
  --model_args "model=smollm2,base_url=$url/v1/completions,num_concurrent=4,max_retries=1"

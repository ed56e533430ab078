#!/usr/bin/env bash
# Runs fuzz targets under libFuzzer with the address and undefined-behaviour sanitizers, one after the
# other, and puts what they found into their corpora. `make fuzz` builds them and calls this.
#   scripts/fuzz.sh run BUILD_FOLDER SECONDS [TARGET...]
#   scripts/fuzz.sh minimize BUILD_FOLDER [TARGET...]
# New inputs lie in BUILD_FOLDER/fresh/TARGET. What fails lies as BUILD_FOLDER/found/TARGET/{crash,
# timeout,oom}-*, with the log, and makes the exit status 1. `minimize` copies those of the new inputs
# into tests/fuzz/corpus that reach code which its cases do not reach; those stay as they are.
set -euo pipefail
# A case is replayed by every run of the tests, so they are few and small.
max_case_bytes=4096
max_new_cases=60

source_folder=$(cd "$(dirname "$0")/.." && pwd)
command=$1
build=$2
shift 2
if [[ $command == run ]]; then
  seconds=$1
  shift
fi
targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
  for source in "$source_folder"/tests/fuzz/fuzz_*.cpp; do
    target=$(basename "$source" .cpp)
    targets+=("${target#fuzz_}")
  done
fi

run() {
  local target=$1 status=0 log=$build/found/$1/log
  "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -max_len=$max_case_bytes -timeout=20 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$build/found/$target/" \
    "$build/fresh/$target" "$source_folder/tests/fuzz/corpus/$target" >"$log" 2>&1 || status=$?
  printf '%-16s %12s inputs in %s s, %s edges, %s features\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)" "$seconds" \
    "$(grep -oE 'cov: [0-9]+' "$log" | tail -1 | cut -c6-)" \
    "$(grep -oE 'ft: [0-9]+' "$log" | tail -1 | cut -c5-)"
  if [[ $status -ne 0 ]]; then
    grep -aE '^(SUMMARY|.*ERROR: |.*runtime error|.*Test unit written)' "$log" || tail -5 "$log"
  fi
  return "$status"
}

# Those of the new inputs that a merge keeps beside the corpus, the smallest first.
minimize() {
  local target=$1 corpus=$source_folder/tests/fuzz/corpus/$1 merged
  merged=$(mktemp -d)
  cp "$corpus"/* "$merged"
  "$build/tests/fuzz/fuzz_$target" -merge=1 -max_len=$max_case_bytes "$merged" \
    "$build/fresh/$target" >"$build/found/$target/merge.log" 2>&1
  local count=0 file
  while read -r file; do
    [[ -e $corpus/$file ]] && continue
    cp "$merged/$file" "$corpus/found_${file:0:12}"
    count=$((count + 1))
    [[ $count -lt $max_new_cases ]] || break
  done < <(ls -Sr "$merged")
  rm -r "$merged"
  printf '%-16s %3d new cases, %s in all\n' "$target" "$count" "$(du -bsh "$corpus" | cut -f1)"
}

failed=0
for target in "${targets[@]}"; do
  mkdir -p "$build/found/$target" "$build/fresh/$target"
  "$command" "$target" || failed=1
done
exit "$failed"

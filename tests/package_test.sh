#!/usr/bin/env bash
# The Debian package, held to what it promises: lintian finds no error, and in a bare Debian 12 it
# installs, runs, serves, and goes again.
#
#   tests/package_test.sh PACKAGE.deb [--boot]     as root; by `make check-package`
#
# With --boot the bare system is also booted by systemd-nspawn, and the services run under its systemd.
set -euo pipefail
deb=$(realpath "$1")
boot=${2:-}
cd "$(dirname "$0")/.."
model=models/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf

# shellcheck source=tests/bare_debian.sh
source tests/bare_debian.sh
[[ $EUID -eq 0 ]] || fail "needs root, for chroot"
[[ -z $boot || $boot == --boot ]] || fail "what is $boot?"
[[ -e $model ]] || fail "$model is missing; run scripts/fetch_model.py"

lintian --allow-root --fail-on error "$deb"
passed "lintian finds no error"
if dpkg-deb --fsys-tarfile "$deb" | grep -aqF "$PWD/src"; then
  fail "the package has a path of the machine that built it"
fi
passed "no path of this machine is in it"

files=$(dpkg-deb --fsys-tarfile "$deb" | tar -t)
for completion in bash-completion/completions/quire zsh/vendor-completions/_quire fish/vendor_completions.d/quire.fish; do
  grep -qx "./usr/share/$completion" <<<"$files" || fail "it has no /usr/share/$completion"
done
passed "it completes commands in bash, zsh and fish"

# Without a bare system the package's files are run from a folder of their own.
if ! can_mount; then
  prefix=$(mktemp -d)
  trap 'rm -rf "$prefix"' EXIT
  dpkg-deb --extract "$deb" "$prefix"
  text=$("$prefix/usr/bin/quire" generate --model "$model" --prompt "The capital of France is" \
           --max-tokens 2 --temperature 0 2>/dev/null)
  [[ $text == *Paris* ]] || fail "quire generate says: $text"
  passed "quire generate in a clean prefix: $text"
  echo "package_test: NOT tried: installing it in a bare Debian 12, which needs the right to mount"
  exit 0
fi

root=$(mktemp -d)
server=
finish() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  remove_bare_debian
}
trap finish EXIT
# shellcheck disable=SC2119
make_bare_debian
passed "a bare Debian 12"

cp "$deb" "$root/tmp/quire.deb"
within apt-get -qq install -y --no-install-recommends /tmp/quire.deb >"$root/tmp/install.log" 2>&1 ||
  { cat "$root/tmp/install.log" >&2; fail "it does not install"; }
passed "it installs"

version=$(within quire --version)
[[ $version == "$(dpkg-deb --field "$deb" Version)" ]] || fail "quire --version says $version"
within id quire >/dev/null
[[ $(within stat -c %U:%G:%a /var/lib/quire) == quire:quire:755 ]] || fail "/var/lib/quire is wrong"
[[ $(within stat -c %U:%G:%a /etc/quire/quire.env) == root:root:640 ]] || fail "quire.env is open"
[[ -e $root/usr/lib/systemd/system/quire.service ]] || fail "no quire.service"
passed "quire $version, its user, its folders"

code=0
within quire generate --prompt hi 2>"$root/tmp/no_model" || code=$?
[[ $code == 66 ]] || fail "without a model the exit code is $code"
grep -q /var/lib/quire/models "$root/tmp/no_model" || fail "it does not say where the model should be"
mkdir -p "$root/var/lib/quire/models/SmolLM2-135M-Instruct"
cp "$model" "$root/var/lib/quire/models/SmolLM2-135M-Instruct/"
text=$(within quire generate --prompt "The capital of France is" --max-tokens 2 --temperature 0 \
         2>/dev/null)
[[ $text == *Paris* ]] || fail "quire generate says: $text"
passed "quire generate: $text"

# With the arguments of its own settings, as its own user.
socket=/var/lib/quire/test.sock
arguments=$(sed -n 's/^QUIRE_ARGS=//p' "$root/etc/quire/quire.env" | sed 's/--host [^ ]* --port [^ ]*//')
# shellcheck disable=SC2086  # words, as systemd splits them
chroot --userspec quire:quire "$root" env -i PATH=/usr/bin XDG_STATE_HOME=/var/lib \
  quire serve --uds "$socket" $arguments 2>"$root/tmp/serve.log" &
server=$!
ask() { curl --silent --show-error --fail --max-time 60 --unix-socket "$root$socket" "$@"; }
for _ in $(seq 300); do
  ask http://localhost/ready >/dev/null 2>&1 && break
  kill -0 "$server" 2>/dev/null || { cat "$root/tmp/serve.log" >&2; fail "quire serve ended"; }
  sleep 0.2
done
ask http://localhost/health >/dev/null || fail "it is not healthy"
answer=$(ask http://localhost/v1/completions -H 'Content-Type: application/json' \
           -d '{"prompt": "The capital of France is", "max_tokens": 2, "temperature": 0}')
[[ $answer == *Paris* ]] || fail "quire serve says: $answer"
kill -TERM "$server"
wait "$server" || fail "quire serve ended with $?"
server=
passed "quire serve is ready, answers and ends"

boot_it() {
  within apt-get -qq install -y --no-install-recommends systemd systemd-sysv curl \
    >"$root/tmp/install.log" 2>&1 || { cat "$root/tmp/install.log" >&2; fail "no systemd"; }
  umount "$root/proc" "$root/dev"
  install -m 755 tests/package_boot.sh "$root/usr/local/bin/package_boot.sh"
  cat >"$root/etc/systemd/system/package-boot.service" <<UNIT
[Service]
Type=oneshot
ExecStart=/usr/local/bin/package_boot.sh
StandardOutput=file:/boot.log
StandardError=file:/boot.log
TimeoutStartSec=400
ExecStopPost=/bin/systemctl --no-block poweroff
[Install]
WantedBy=multi-user.target
UNIT
  within systemctl -q enable package-boot.service
  timeout 450 systemd-nspawn --quiet --directory "$root" --register=no --keep-unit --boot \
    --console=pipe >"$root/tmp/console.log" 2>&1 </dev/null ||
    { tail "$root/tmp/console.log" >&2; fail "it does not boot"; }
  [[ $(tail -n 1 "$root/boot.log") == passed ]] || { cat "$root/boot.log" >&2; fail "see above"; }
  mount -t proc proc "$root/proc"
  passed "its services start, answer, are restarted when they hang, and stop"
}
[[ -z $boot ]] || boot_it

within dpkg --remove quire >/dev/null
[[ -e $root/etc/quire/quire.env ]] || fail "removing it removed the settings"
within dpkg --purge quire >/dev/null
[[ ! -e $root/etc/quire && ! -e $root/usr/bin/quire ]] || fail "something of it stayed"
[[ -e $root/var/lib/quire/models/SmolLM2-135M-Instruct ]] || fail "a purge removed the models"
passed "it goes again, and leaves the models"

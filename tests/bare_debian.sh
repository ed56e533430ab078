# A bare Debian 12 in a temporary folder, for tests of what is installed in one; they source this as root.
# It is made from the machine's own sources of packages.
# shellcheck shell=bash disable=SC2120,SC2154  # packages may be none; $root is the test's
fail() { echo "${0##*/}: $1" >&2; exit 1; }
passed() { printf 'ok  %4d s  %s\n' "$SECONDS" "$1"; }

# Without the right to mount (an unprivileged container) there is no bare system.
can_mount() { unshare --mount true 2>/dev/null; }

apt_sources() {
  if [[ -e /etc/apt/sources.list.d/debian.sources ]]; then
    cat /etc/apt/sources.list.d/debian.sources
  else
    cat /etc/apt/sources.list
  fi
}

# Makes it in $root, with the packages that are named.
make_bare_debian() {
  local packages
  packages=$(IFS=,; echo "$*")
  apt_sources | mmdebstrap --quiet --mode=root --variant=apt --skip=cleanup/apt/lists \
    --dpkgopt=force-unsafe-io ${packages:+--include="$packages"} bookworm "$root" -
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
}

remove_bare_debian() {
  local folder
  for folder in proc dev; do ! mountpoint -q "$root/$folder" || umount "$root/$folder"; done
  rm -rf --one-file-system "$root"
}

within() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
             DEBIAN_FRONTEND=noninteractive "$@"; }

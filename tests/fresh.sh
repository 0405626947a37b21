#!/usr/bin/env bash
# Run README's two commands, `make demo` and `make test`, on a bare Debian, and tell how long they take.
#
#   tests/fresh.sh SUITE          bookworm has Python 3.11, trixie 3.13, sid 3.14
#
# It takes root, debootstrap, the network, and 15 GB of disk with PyPI's torch. An ordinary user of
# the new system clones the last commit of this repository; changes that are not committed are not
# tested. pip's settings, certificates and proxies of this machine hold there, too. Variables:
#
#   FRESH                folder for the system, which must not exist, and is removed at the end
#   FRESH_MOUNTS         folders of this machine that it sees too: pip's cache, a folder of wheels
#   MIRROR               of Debian's packages, as debootstrap takes it
#   DEBOOTSTRAP_OPTIONS  for example --no-check-gpg, where the keys of sid are missing
#   TORCH, NEWEST, WORKERS   as for make
set -euo pipefail

fail() { echo "fresh.sh: $1" >&2; exit 2; }
suite=${1:-}
[ -n "$suite" ] || fail "which Debian? make fresh SUITE=bookworm|trixie|sid"
[ "$(id -u)" = 0 ] || fail "needs root, to make a system and to change into it"
for program in debootstrap unshare chroot git; do
  command -v $program >/dev/null || fail "needs $program; on Debian: apt-get install debootstrap git"
done
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
root=${FRESH:-$(mktemp -u /var/tmp/nmt-fresh-XXXXXX)}
mkdir "$root" || fail "FRESH must name a folder that does not exist"
trap 'rm -rf --one-file-system "$root"' EXIT

packages=git,make,g++,python3,python3-venv,ca-certificates
# shellcheck disable=SC2086
debootstrap --variant=minbase --include=$packages ${DEBOOTSTRAP_OPTIONS:-} \
  "$suite" "$root" ${MIRROR:-} >"$root.log" 2>&1 ||
  { tail -n 20 "$root.log"; fail "debootstrap failed"; }
rm "$root.log"

# What reaches the network from here, reaches it from there.
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/xdg/pip /etc/ssl/certs/ca-certificates.crt; do
  if [ -e $file ]; then
    mkdir -p "$root$(dirname $file)"
    cp -rL $file "$root$(dirname $file)"
  fi
done
names='^(PIP_|TORCH=|NEWEST=|WORKERS=|SSL_CERT_|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=)'
env | grep -E "$names" >"$root/etc/fresh.environment" || true

useradd --root "$root" --create-home user
git clone --quiet --no-local . "$root/home/user/nmt"
chown -R --reference="$root/home/user" "$root/home/user/nmt"

cat >"$root/etc/fresh" <<'END'
cd ~/nmt
mapfile -t given </etc/fresh.environment
python=$(python3 -c 'import sys; print("Python %d.%d.%d" % sys.version_info[:3])')
status=0
for target in install demo test; do
  start=$SECONDS
  env "${given[@]}" make $target && result=passed || { result=FAILED; status=1; }
  times+=("$1, $python: make $target $result after $((SECONDS - start)) s")
done </dev/null
printf '%s\n' "${times[@]}"
exit $status
END
mounts() {
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  for folder in ${FRESH_MOUNTS:-}; do
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
  done
}
export -f mounts
export root suite
# In its own space of mounts and processes, which end with it, so that nothing is left to undo.
unshare --mount --pid --fork bash -euc 'mounts
  exec env -i HOME=/home/user USER=user LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin \
    chroot --userspec=user:user "$root" bash /etc/fresh "$suite"'

#!/usr/bin/env bash
# Fetches etcd, which tests keep records in, and unpacks its program into the cache: the package, installed, would start a
# server of its own. Usage: get_etcd.sh          does what is missing, prints the program's path
#                           get_etcd.sh --where  prints the path without doing anything
set -euo pipefail

cache=${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}
program=$cache/etcd/usr/bin/etcd

if [ "${1:-}" != --where ] && [ ! -x "$program" ]; then
  mkdir -p "$cache"
  exec 9>"$cache/etcd.lock"
  flock 9
  work=$(mktemp -d "$cache/etcd.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  log=$work/log
  # The list of packages may be absent or old; what is downloaded is checked against it by apt.
  (cd "$work" && { apt-get download -q etcd-server || { apt-get update -q && apt-get download -q etcd-server; }; }) >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    echo "  could not fetch etcd-server: is the network up?" >&2
    exit 1
  }
  dpkg-deb -x "$work"/etcd-server_*.deb "$work/unpacked"
  rm -rf "$cache/etcd"
  mv -T "$work/unpacked" "$cache/etcd"
fi
printf '%s\n' "$program"

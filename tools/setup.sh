#!/usr/bin/env bash
# Brings a Debian 12 machine to where Baton builds: the packages of packages.txt, then llama.cpp and the model.
# Usage: setup.sh            installs what is missing; a second run changes nothing and takes well under a second
#        setup.sh --check    only reports what is missing; exit status 1 if anything is
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '  %s\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

check_only=no
case ${1:-} in
  '') ;;
  --check) check_only=yes ;;
  *) die "unknown argument '$1' (only --check is known)" ;;
esac

command -v apt-get >/dev/null ||
  die "this needs Debian 12 or a relative with apt; elsewhere install the equivalents of $PWD/packages.txt by hand"

missing_packages() {
  local wanted installed
  wanted=$(sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' packages.txt | sort -u)
  # dpkg-query fails when it does not know a name, which is one of the answers we are after.
  # shellcheck disable=SC2086
  installed=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^ii *//p' || true)
  comm -23 <(printf '%s\n' "$wanted") <(printf '%s\n' "$installed" | sort -u)
}

# Package lists may be absent or stale; they are fetched only when installing without that did not work.
install_packages() {
  local log as_root=() apt
  [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null || die "not root and no sudo; as root: apt-get install $*"; as_root=(sudo); }
  log=$(mktemp)
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300)
  if ! "${apt[@]}" install --no-install-recommends "$@" </dev/null >"$log" 2>&1; then
    say "fetching package lists"
    # apt-get update reports success when no list could be reached; install is the judge.
    "${apt[@]}" update </dev/null >"$log" 2>&1 || true
    "${apt[@]}" install --no-install-recommends "$@" </dev/null >>"$log" 2>&1 || {
      tail -n 15 "$log" >&2
      if grep -qE 'resol(ve|ving)|connect|Failed to fetch|Unable to locate' "$log"; then
        die "packages could not be fetched: is the network up, and is this Debian 12? (log: $log)"
      fi
      die "packages could not be installed (log: $log)"
    }
  fi
  rm -f "$log"
}

mapfile -t missing < <(missing_packages)

if [ $check_only = yes ]; then
  status=0
  if [ ${#missing[@]} -gt 0 ]; then say "missing packages: ${missing[*]}"; status=1; fi
  while IFS='=' read -r name path; do
    [ -e "$path" ] || { say "missing $name: $path"; status=1; }
  done < <(./get_llama.sh --where)
  [ $status = 1 ] || say "all set up"
  exit $status
fi

if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${#missing[@]} packages: ${missing[*]}"
  started=$SECONDS
  install_packages "${missing[@]}"
  say "packages installed in $((SECONDS - started)) s"
fi
./get_llama.sh >/dev/null

#!/usr/bin/env bash
# Makes the Python environment of the end-to-end tests, once, in the cache outside the tree; prints its path.
# Usage: python_env.sh            makes it if it is not there
#        python_env.sh --where    prints the path without doing anything
# Keyed by requirements.txt and the interpreter, so that a changed pin or a new Python makes a new environment.
set -euo pipefail
cd "$(dirname "$0")"

interpreter=$(python3 -c 'import sys; print(sys.executable, *sys.version_info[:2])')
key=$({ cat requirements.txt; printf '%s\n' "$interpreter"; } | sha256sum | cut -c 1-16)
cache=${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}
environment=$cache/venv-$key

if [ "${1:-}" = --where ] || [ -e "$environment/complete" ]; then
  printf '%s\n' "$environment"
  exit 0
fi

mkdir -p "$cache"
exec 9>"$cache/venv.lock"
flock 9
if [ ! -e "$environment/complete" ]; then
  printf '  making the Python environment of the tests\n' >&2
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/python" -m pip install -q --disable-pip-version-check --no-input --require-hashes --only-binary :all: \
    -r requirements.txt </dev/null >&2
  touch "$environment/complete"
fi
printf '%s\n' "$environment"

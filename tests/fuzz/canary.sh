#!/usr/bin/env bash
# Succeeds if the fuzzer finds the planted bug of the canary within 60 seconds.
# Usage: canary.sh PROGRAM
set -euo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
"$1" -max_len=16 -max_total_time=60 -seed=1 -artifact_prefix="$(dirname "$1")/canary-" >"$log" 2>&1 || status=$?
if [ $status = 0 ] || ! grep -q 'heap-buffer-overflow' "$log"; then
  tail -n 30 "$log"
  echo "the planted bug was not found (exit status $status)"
  exit 1
fi
echo "found after $(grep -c . "$log") lines of log: $(grep -m1 heap-buffer-overflow "$log")"

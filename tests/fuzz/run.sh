#!/usr/bin/env bash
# Fuzzes one target for FUZZ_SECONDS (default 20), beginning with its committed corpus; what it finds in addition is kept in
# the build directory for the next run.
# Usage: run.sh PROGRAM CORPUS [libFuzzer options]
set -euo pipefail

program=$1 corpus=$2
shift 2
kept=$(dirname "$program")/found/$(basename "$corpus")
crashes=$(dirname "$program")/crashes/
mkdir -p "$kept" "$crashes"

# 2 GiB bounds what all sanitizers need beside the target's own memory, which the targets measure themselves.
options=(-rss_limit_mb=2048 -timeout=10 -print_final_stats=1 -artifact_prefix="$crashes$(basename "$corpus")-" "$@")
"$program" "${options[@]}" -max_total_time="${FUZZ_SECONDS:-20}" "$kept" "$corpus" 2>&1 | tail -n 60 || {
  echo
  echo "to repeat: $program $* FILE, with the file that is named above as 'Test unit written to'"
  exit 1
}

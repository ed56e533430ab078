# The front door. `make help` lists what there is; docs/ and CONTRIBUTING.md say more.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
ARGS ?=
TESTS ?= .
# Of the kernels, what is compiled: those of this machine's instruction-set level alone, which takes
# less than half the time, or all. Who once built all keeps them.
LEVELS ?= $(shell grep -qs '^QUIRE_LEVELS:STRING=all' build/release/CMakeCache.txt && echo all || echo native)
# What one preset has compiled alike, another takes from ccache.
export CCACHE_BASEDIR := $(CURDIR)
say = printf '\033[1m== %s\033[0m\n' "$(1)" >&2

# Tests wait, for other threads and processes, as long as they compute: so many at once keep all
# processors busy.
TEST_JOBS ?= $(shell echo $$((2 * $(JOBS))))

# Tests of a preset, by further options of ctest; what they reported is for scripts/test_table.py.
ctest = mkdir -p build/$(1)/reports && \
  ctest --preset $(1) -j $(TEST_JOBS) --no-tests=error $(2) --output-junit $(CURDIR)/build/$(1)/reports/ctest.xml

# Folders whose tests `make test` runs before anything else is compiled: those that need no kernels. With FIRST=
# it compiles everything first, as it does where TESTS selects.
FIRST ?= $(if $(filter .,$(TESTS)),base tensor quant text core weights hub tier draft)
first_tests = ^($(subst $() $(),|,$(FIRST)))\.

CPP_FILES = $(shell git ls-files --cached --others --exclude-standard 'src/*.cpp' 'src/*.h' 'src/*.cu' 'src/*.cuh' 'tests/*.cpp' 'tests/*.h' 'bench/*.cpp' 'bench/*.h' 'python/*.cpp' 'python/*.h')

.PHONY: help docs run build build-tests python wheel package test test-asan test-tsan bench bench-peers deps model test-models test-clients test-browser check-edges check-links check-clang check-deploy check-package check-wheel format format-check lint fuzz fuzz-minimize goldens clean

help:  ## this list
	@grep -hE '^[a-z -]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z -]+):.*## */\1\t/' | expand -t 16

run:  ## install, fetch the model, build and serve it: make run ARGS="--port 8000"
	@$(call say,1 of 4: packages that are missing)
	@$(MAKE) --no-print-directory deps
	@$(call say,2 of 4: the bundled model)
	@$(MAKE) --no-print-directory model
	@$(call say,3 of 4: the program; the first time this takes minutes: [done/all] and seconds so far)
	@$(MAKE) --no-print-directory build
	@$(call say,4 of 4: serving; Ctrl-C ends it)
	@exec build/release/quire serve $(ARGS)

build: deps  ## the program, optimized: build/release/quire (LEVELS=all for every processor)
	@cmake --preset release -DQUIRE_LEVELS=$(LEVELS) >/dev/null
	@NINJA_STATUS='[%f/%t, %e s] ' cmake --build --preset release --target quire -j $(JOBS)

# Objects are kept in build/python-*, so that a second time compiles what has changed; by the compiler's names that
# the presets find, so that a first time takes from ccache what `make run` has compiled.
python:  ## the Python package, for this machine's processor, in .venv: then .venv/bin/python examples/python/first.py
	@scripts/install_deps.sh build python
	@$(MAKE) --no-print-directory model
	@[[ -x .venv/bin/python ]] || $(firstword $(wildcard /usr/bin/python3) python3) -m venv .venv
	@CC=cc CXX=c++ CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) .venv/bin/pip install --disable-pip-version-check --config-settings=cmake.define.QUIRE_LEVELS=$(LEVELS) .

wheel:  ## a wheel of the Python package with every library that it needs, for every processor: build/wheel/*.whl
	@scripts/install_deps.sh build python
	@scripts/make_wheel.sh

package:  ## a Debian package of the program and its services: build/package/quire_*.deb
	@scripts/install_deps.sh build package
	@cmake --preset package >/dev/null
	@cmake --build --preset package -j $(JOBS)
	@rm -f build/package/quire_*.deb
	@cpack -B build/package --config build/package/CPackConfig.cmake >build/package/cpack.log || { cat build/package/cpack.log >&2; exit 1; }
	@for deb in build/package/quire_*.deb; do \
	  echo "made $$deb ($$(stat -c %s $$deb) bytes); install it with: sudo apt install ./$$deb"; \
	  dpkg-deb --field $$deb Package Version Architecture Installed-Size Depends; done

# The Python package is built and tested where `make test-clients` has made the environment for it.
PYTHON_BUILD = $(shell test -f .venvs/python/installed.txt && echo -DQUIRE_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/.venvs/python/bin/python || echo -DQUIRE_PYTHON=OFF)

# Every level: by the machine's instructions where it has them, else emulated.
TESTED_LEVELS = -DQUIRE_LEVELS=all -DQUIRE_EMULATE=missing

build-tests: deps  ## what `make test` runs, but the Python package, compiled and not run
	@cmake --preset release $(TESTED_LEVELS) -DQUIRE_BUILD_BENCHMARKS=OFF >/dev/null
	@NINJA_STATUS='[%f/%t, %e s] ' cmake --build --preset release -j $(JOBS)

test: deps test-models test-clients test-browser check-edges  ## every test, optimized build (TESTS=regex selects)
	@cmake --preset release $(TESTED_LEVELS) -DQUIRE_BUILD_BENCHMARKS=OFF $(PYTHON_BUILD) >/dev/null
	@if [[ '$(FIRST)' ]]; then \
	  $(call say,1 of 2: the tests of what compiles in two minutes); \
	  NINJA_STATUS='[%f/%t, %e s] ' cmake --build --preset release -j $(JOBS) --target $(FIRST:%=%_test); \
	  $(call ctest,release,-R '$(first_tests)'); \
	  $(call say,2 of 2: all others); fi
	@NINJA_STATUS='[%f/%t, %e s] ' cmake --build --preset release -j $(JOBS)
	@$(call ctest,release,-R '$(TESTS)' -E '$(first_tests)')

test-asan test-tsan: test-%: deps test-models test-clients  ## tests under address+undefined or thread sanitizers (TESTS=regex selects)
	@$(if $(filter asan,$*),scripts/install_deps.sh clang)
	@cmake --preset $* -DQUIRE_BUILD_BENCHMARKS=OFF >/dev/null
	@cmake --build --preset $* -j $(JOBS)
	@$(call ctest,$*,-R '$(TESTS)')

bench: deps model  ## microbenchmarks, then speed of the program on the bundled model
	@cmake --preset release $(TESTED_LEVELS) -DQUIRE_BUILD_BENCHMARKS=ON >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@for program in build/release/src/*/*_benchmark; do [[ -x $$program ]] || continue; echo "== $$program"; $$program $(ARGS); done
	@build/release/quire bench limits
	@build/release/quire bench latency
	@build/release/quire bench throughput

bench-peers: build model  ## Quire beside llama.cpp, OpenVINO, vLLM and transformers, installed as needed (ARGS="--only llama.cpp")
	@scripts/install_peers.sh
	@bench/peers/compare.py $(ARGS)

deps:  ## install the Debian packages that are missing
	@scripts/install_deps.sh build test

model:  ## fetch the bundled model into models/
	@scripts/fetch_model.py

# Without the models their tests are skipped, each with a message; in CI they have to be there.
test-models:  ## fetch every model that tests use: the bundled one and Gemma 3 270M (253 MB)
	@scripts/fetch_model.py smollm2 gemma3-270m || { \
	  if [[ "$${CI:-}" != true ]]; then \
	    echo "warning: going on without a model; tests that need it are skipped" >&2; \
	  else exit 1; fi; }

# The same for the clients.
test-clients:  ## install the clients that the server is tested with (openai, LangChain, ...) into .venvs
	@scripts/install_test_clients.sh || { \
	  if [[ "$${CI:-}" != true ]]; then \
	    echo "warning: going on without the server's clients; tests that need them are skipped" >&2; \
	  else exit 1; fi; }

# A browser is much to install for one test: in CI it has to be there, elsewhere the test is skipped.
test-browser:
	@if [[ "$${CI:-}" == true ]]; then scripts/install_deps.sh browser; fi

check-edges:  ## includes stay within the declared edges between folders, sources within their length
	@python3 scripts/check_edges.py
	@python3 scripts/check_lengths.py

check-links:  ## links of the documentation name files and headings that are there
	@python3 scripts/check_links.py

docs: build  ## the documentation as a site: build/docs/index.html
	@scripts/make_docs.py build/release/quire

check-clang:  ## every source parsed by clang, with its warnings (FILES=... names files)
	@scripts/install_deps.sh build test clang
	@cmake --preset dev >/dev/null
	@scripts/check_clang.py build/dev $(FILES)

check-deploy: build  ## what is in deploy/, by the linters of each format and against the program
	@scripts/install_deps.sh deploy
	@scripts/install_deploy_tools.sh
	@for test in deploy_test deploy_metrics_test; do \
	  .venvs/deploy/bin/python -B tests/$$test.py build/release/quire .; done

check-wheel: wheel model  ## the wheel: its contents, then installed and run in a bare Debian 12 (as root)
	@scripts/install_deps.sh deploy
	@tests/wheel_test.sh build/wheel/quire-*.whl

check-package: package model  ## the package: lintian, then installed and run in a bare Debian 12 (as root)
	@scripts/install_deps.sh deploy
	@tests/package_test.sh build/package/quire_*.deb $(ARGS)

format:  ## clang-format every file in place
	@scripts/install_deps.sh format
	@clang-format -i $(CPP_FILES)

format-check:  ## fail where clang-format would change something
	@scripts/install_deps.sh format
	@clang-format --dry-run --Werror $(CPP_FILES)

lint: deps  ## clang-tidy over src/, only what changed since it last passed (FILES=... names files)
	@scripts/install_deps.sh lint
	@cmake --preset dev >/dev/null
	@scripts/lint.py build/dev $(FILES)

# SECONDS is bash's own clock, so the shell gets it under another name. Clang 19 calls what GCC's
# std::stable_sort uses deprecated.
FUZZ_SECONDS := $(if $(filter command line,$(origin SECONDS)),$(SECONDS),600)
FUZZ_BUILD = scripts/install_deps.sh build test fuzz && cmake -S . -B build/fuzz -G Ninja \
  -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS=-Wno-deprecated-declarations -DQUIRE_BUILD_FUZZERS=ON \
  -DQUIRE_BUILD_BENCHMARKS=OFF >/dev/null && \
  cmake --build build/fuzz -j $(JOBS) --target $(if $(TARGETS),$(addprefix fuzz_,$(TARGETS)),fuzzers)

fuzz:  ## every parser under libFuzzer and sanitizers, one after the other (SECONDS=600 each, TARGETS="gguf http")
	@$(FUZZ_BUILD)
	@scripts/fuzz.sh run build/fuzz $(FUZZ_SECONDS) $(TARGETS)

fuzz-minimize:  ## put what fuzzing found into tests/fuzz/corpus, no more than reaches new code
	@$(FUZZ_BUILD)
	@scripts/fuzz.sh minimize build/fuzz $(TARGETS)

goldens:  ## make tests/data again from the reference implementations (needs about 6 GB for torch)
	@scripts/make_goldens.sh

clean:  ## remove everything that was built
	@rm -rf build

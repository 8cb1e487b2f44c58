# `make run` is the quickstart, `make test` the whole suite; both set up what is missing first.
# ACCEL=cpu (default) or ACCEL=cuda chooses the lock file. ARGS="..." is handed on to the program.

ACCEL ?= cpu
ARGS ?=
PYTHON ?= $(shell command -v python3.11 || command -v python3)
LOCK := requirements/$(ACCEL).txt
BIN := .venv/bin
# The installation is up to date while the stamp of the lock's and the project file's content exists.
STAMP := .venv/.ready-$(ACCEL)-$(shell cat $(LOCK) pyproject.toml 2>/dev/null | sha256sum | cut -c1-16)
ENVS_STAMP := .venv/.envs-$(shell cat requirements/envs.txt requirements/browser.txt requirements/install-envs.sh 2>/dev/null | sha256sum | cut -c1-16)

# Small models and many processes: threads within one only get into each other's way.
run test test-envs chaos bench: export OMP_NUM_THREADS ?= 1
run test test-envs chaos bench: export RAY_USAGE_STATS_ENABLED ?= 0

BENCHMARKS ?= envs replay learner engine

.PHONY: setup setup-envs run test test-envs chaos bench lint audit lock clean

setup: $(STAMP)

$(STAMP): | $(LOCK)
	@PYTHON="$(PYTHON)" requirements/install.sh "$(ACCEL)" "$@"

setup-envs: $(ENVS_STAMP)

$(ENVS_STAMP): $(STAMP)
	@requirements/install-envs.sh "$@"

run: setup
	$(BIN)/agentmem run lamer-minesweeper $(ARGS)

# Two test processes side by side, a file each (tests/conftest.py): most tests wait for other processes. ARGS="-n 0 -k lease" for one.
test: setup-envs
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadgroup $(ARGS)

# The long tests of the environments, too (about an hour).
test-envs: setup-envs
	$(BIN)/python -m pytest tests/envs $(ARGS)

# The whole chaos matrix (about half an hour); it goes on where it stopped. ARGS="--again --only 'engine, mid-turn'".
chaos: setup-envs
	$(BIN)/python -m pytest -m slow tests/chaos
	$(BIN)/python -m tests.chaos $(ARGS)

# BENCHMARKS="replay envs" chooses; each prints its own tables (benchmarks/*.py).
bench: setup
	set -e; for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name $(ARGS); done

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Known vulnerabilities of what the lock files name; needs the network. ARGS=requirements/cpu.txt for one of them.
audit:
	@PYTHON="$(PYTHON)" requirements/audit.sh $(ARGS)

# Resolve pyproject.toml's extras into requirements/cpu.txt and requirements/cuda.txt (ARGS=--upgrade renews).
lock:
	@PYTHON="$(PYTHON)" requirements/lock.sh $(ARGS)

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

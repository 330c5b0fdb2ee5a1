# `make smoke` and `make test` do all the set-up on a machine with git, Python 3.11+, make and a package index.

PYTHON ?= python3
VENV ?= .venv
TORCH ?=
BIN := $(VENV)/bin
# Much of a test is waiting for a process, so several run at once; a file's tests stay together for their fixtures.
AT_ONCE := -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/python -m pip
EXTRAS := all,dev
CONSTRAINTS := $(VENV)/constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install smoke smoke-runpod test test-long check format mutants pictures reference gpu-check bench clean

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# The stamp carries the wanted torch, so `make test TORCH=2.14.1` installs once and switches back later.
STAMP := $(VENV)/installed-$(or $(TORCH),pinned)
install: $(STAMP)  ## Create .venv and install lab with everything that needs no compiler
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@sed -e '$(if $(TORCH),s/^torch==.*/torch==$(TORCH)/)' constraints.txt > $(CONSTRAINTS)
	@echo "installing torch and then lab with its libraries into $(VENV): a few minutes the first time"
	@# A CPU wheel calls itself 2.13.0+cpu; pip takes it for torch==2.13.0 only when asked by name first.
	@$(PIP) install --disable-pip-version-check -c $(CONSTRAINTS) torch
	@$(PIP) install --disable-pip-version-check -c $(CONSTRAINTS) -e '.[$(EXTRAS)]'
	@rm -f $(VENV)/installed-* && touch $@

smoke: install  ## Train the smoke experiment on this machine and name its report
	@$(BIN)/lab run smoke

smoke-runpod: install  ## The same experiment on a simulated RunPod on this machine, training for real
	@$(BIN)/python tests/simulator/smoke.py

test: install  ## Every test that needs no GPU
	@$(BIN)/python -m pytest -p honest_skips $(AT_ONCE) $(ARGS)

test-long: install  ## The long walks that CI does not wait for
	@$(BIN)/python -m pytest -p honest_skips -m "long" $(ARGS)

check: install  ## ruff, format, mypy strict, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: install  ## Sort imports and format
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

mutants: install  ## Break the code on purpose; each break must turn its named test red
	@$(BIN)/python tests/mutants/run.py $(ARGS)

pictures: install  ## Screenshots of the report under docs/pictures (needs chromium)
	@$(BIN)/python tests/report/pictures.py

reference: install  ## Write docs/commands.md from what every command says about itself
	@$(BIN)/python tests/command_reference.py

gpu-check: install  ## Kernel checks and timings on one H100 or H200
	@$(BIN)/python benchmarks/gpu_check/run.py $(ARGS)

bench: install  ## Every benchmark, as ratios measured in turn
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:  ## Remove the environment and caches; runs and stores stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist

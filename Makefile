# Every target does its own set-up: all it needs is Python 3.11 or later with pip, and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What pip is asked for. README.md says how to choose a build.
TORCH ?= torch==2.13.0

.DEFAULT_GOAL := help
.PHONY: help install demo multi30k wmt14 iwslt14 test test-slow lint bench profile gpu pretended-gpu clean

help:  ## List the targets.
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

install: $(VENV)/installed  ## Create .venv and install nmt in it, editable.

# torch comes first and by itself: its range in pyproject.toml would fetch the newest release, of a
# build that nobody chose. One that is in .venv already stays.
$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "nmt needs Python 3.11 or later: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/pip install $(TORCH)
	$(BIN)/pip install --quiet --editable '.[dev,zstd]' --config-settings editable_mode=compat
	@touch $@

demo: install  ## Run the whole pipeline on the embedded example: under 5 minutes on 2 cores.
	$(MAKE) --no-print-directory -C examples/toy NMT=$(abspath $(BIN)/nmt) PYTHON=$(abspath $(BIN)/python)

multi30k: install  ## Train on Multi30k, English to German and French: hours on 2 cores.
	for tgt in de fr; do \
	  $(MAKE) --no-print-directory -C examples/multi30k PYTHON=$(abspath $(BIN)/python) TGT=$$tgt || exit; \
	done

wmt14: install  ## Reproduce the paper: make wmt14 MODEL=en-de-base (README.md there lists others).
	$(MAKE) --no-print-directory -C examples/wmt14 PYTHON=$(abspath $(BIN)/python) $(or $(MODEL),help)

iwslt14: install  ## Compare on IWSLT14, German to English: make iwslt14 [MODEL=post-norm|modern].
	$(MAKE) --no-print-directory -C examples/iwslt14 PYTHON=$(abspath $(BIN)/python)

lint: install  ## Check style and types.
	$(BIN)/ruff check nmt tests examples
	$(BIN)/ruff format --check nmt tests examples
	$(BIN)/mypy

# Idle workers take over tests from busy ones: most start processes, and take seconds each. Some
# wait, so there is a worker more than there are cores.
WORKERS := $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 8 ? n + 1 : 8)))
test: lint  ## Check style and types, and run the tests.
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

pretended-gpu: install  ## Run the GPU tests on a pretended GPU, which takes a C++ compiler.
	$(BIN)/python -m pytest tests/pretended_gpu

test-slow: install  ## Run the tests that take longer.
	$(BIN)/python -m pytest -m slow

bench: install  ## Measure speed.
	$(BIN)/python -m pytest -m benchmark -s tests/benchmarks

profile: install  ## Show where training time goes: make profile PROFILE='DATA --model PRESET'.
	PYTHONPATH=tests $(BIN)/python -m benchmarks.profile_training $(PROFILE)

# Installs nothing: a PYTHON and a PYTHONPATH that you give are used as they are. GPU_OUT is where the report goes.
GPU_OUT ?= work-gpu
GPU_PYTHON := $(if $(filter file,$(origin PYTHON)),$(BIN)/python,$(PYTHON))
gpu:  ## Try, test and measure a GPU in 25 minutes: make gpu PYTHON=python3 [PART=train] [REHEARSE=1].
	PYTHONPATH=$(CURDIR):$(CURDIR)/tests:$$PYTHONPATH $(GPU_PYTHON) -m benchmarks.gpu \
	  --out $(GPU_OUT) $(if $(REHEARSE),--rehearse) $(PART)

clean:  ## Remove everything that was installed or made here.
	rm -rf $(VENV) *.egg-info build dist .mypy_cache .ruff_cache .pytest_cache
	rm -rf examples/*/work* work-gpu tests/pretended_gpu/built
	find nmt tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# Every target does its own set-up: all it needs is Python 3.11 or later with pip, and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The build of torch to install, in pip's words. If it is empty, `make torch` chooses one.
TORCH ?=
TESTED_TORCH := torch==2.13.0

.DEFAULT_GOAL := help
.PHONY: help install torch demo multi30k wmt14 iwslt14 test test-slow lint wheel fresh bench lock \
  gpu pretended-gpu clean

help:  ## List the targets.
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

install: $(VENV)/installed  ## Create .venv and install nmt in it, editable.

# pip takes the versions that were tested, which .locks holds. With NEWEST=1, or with a Python that
# has no file there, it takes the newest. torch comes first and by itself: its range in
# pyproject.toml would fetch the newest release, of a build that nobody chose.
PIP_INSTALL := $(BIN)/pip install --quiet --constraint $(VENV)/versions.txt
$(VENV)/installed: pyproject.toml $(wildcard .locks/*)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "nmt needs Python 3.11 or later: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@lock=.locks/python$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])').txt; \
	  if [ -z "$(NEWEST)" ] && [ -e $$lock ]; then cat $$lock; fi > $(VENV)/versions.txt
	@$(MAKE) --no-print-directory torch
	$(PIP_INSTALL) 'setuptools>=77'
	$(PIP_INSTALL) --no-build-isolation --config-settings editable_mode=compat \
	  --editable '.[arrow,ctranslate2,langid,plot,terms,xlsx,zstd]'
	@touch $@

# Put torch into .venv, unless it is there. The usual wheel for x86-64 brings CUDA, 3.4 GB that a
# machine without an NVIDIA GPU has no use for. PyTorch's own index has a wheel without it. That index
# must first answer in time, since pip by itself waits for each of a host's addresses, and longer for
# its name. If it does not, the wheel comes from where pip looks by its own settings.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
TORCH_WAIT ?= 10
CPU_INDEX := --timeout 10 --retries 0 --index-url $(TORCH_CPU_INDEX)
# Empty if there is none. With `make install GPU=`, a machine that has one gets the wheel without CUDA.
GPU ?= $(shell command -v nvidia-smi 2>/dev/null)$(wildcard /proc/driver/nvidia)
torch:
	@set -e; \
	without_cuda() { \
	  timeout $(TORCH_WAIT) $(BIN)/pip index versions torch $(CPU_INDEX) >/dev/null 2>&1 || \
	    { echo "$(TORCH_CPU_INDEX) does not answer: taking the usual wheel of torch"; return 1; }; \
	  if command -v uv >/dev/null && UV_HTTP_TIMEOUT=10 \
	    uv pip install --python $(BIN)/python --torch-backend auto $(TESTED_TORCH); then return; fi; \
	  $(BIN)/pip install $(CPU_INDEX) $(TESTED_TORCH); \
	}; \
	$(BIN)/python -c 'import torch' 2>/dev/null || \
	  $(if $(TORCH)$(GPU),,without_cuda ||) $(BIN)/pip install $(or $(TORCH),$(TESTED_TORCH)); \
	version=$$($(BIN)/python -c 'import torch; print(torch.__version__)'); \
	echo "torch $$version: $(VENV) takes $$(du -sm $(VENV) | cut -f 1) MB so far"

# What only tests and lint need.
$(VENV)/installed-dev: $(VENV)/installed
	$(PIP_INSTALL) --no-build-isolation --config-settings editable_mode=compat --editable '.[dev]'
	@touch $@

demo: install  ## Run the whole pipeline on the embedded example: under 5 minutes on 2 cores.
	$(MAKE) --no-print-directory -C examples/toy NMT=$(abspath $(BIN)/nmt) PYTHON=$(abspath $(BIN)/python)
	@echo; echo "next: \"Train your own\" or \"Make a web page\" in README.md, or try the model:"
	@echo "  . $(BIN)/activate"
	@echo '  echo "The man buys the lamp." | nmt translate examples/toy/work/run'

multi30k: install  ## Train on Multi30k, English to German and French: 23 minutes to 1 hour each on 2 cores.
	for tgt in de fr; do \
	  $(MAKE) --no-print-directory -C examples/multi30k PYTHON=$(abspath $(BIN)/python) TGT=$$tgt || exit; \
	done

wmt14: install  ## Reproduce the paper: make wmt14 MODEL=en-de-base (README.md there lists others).
	$(MAKE) --no-print-directory -C examples/wmt14 PYTHON=$(abspath $(BIN)/python) $(or $(MODEL),help)

iwslt14: install  ## Compare on IWSLT14, German to English: make iwslt14 [MODEL=post-norm|modern].
	$(MAKE) --no-print-directory -C examples/iwslt14 PYTHON=$(abspath $(BIN)/python)

lint: $(VENV)/installed-dev  ## Check style and types.
	$(BIN)/ruff check nmt tests examples
	$(BIN)/ruff format --check nmt tests examples
	$(BIN)/mypy

# Idle workers take over tests from busy ones: most start processes, and take seconds each. Some
# wait, so there is a worker more than there are cores.
WORKERS := $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 8 ? n + 1 : 8)))
test: $(VENV)/installed-dev  ## Run the tests.
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

pretended-gpu: $(VENV)/installed-dev  ## Run the GPU tests on a pretended GPU, which takes a C++ compiler.
	$(BIN)/python -m pytest -m "" tests/pretended_gpu

test-slow: $(VENV)/installed-dev  ## Run the tests that take longer.
	$(BIN)/python -m pytest -m slow --numprocesses 2 --dist worksteal tests/test_planted_faults.py
	$(BIN)/python -m pytest -m slow --ignore tests/test_planted_faults.py

# An earlier build may hold modules that are gone.
wheel: $(VENV)/installed  ## Build dist/*.whl, which pip installs on other machines.
	rm -rf build
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

fresh:  ## Run `make demo` and `make test` on a bare Debian: make fresh SUITE=bookworm|trixie|sid.
	tests/fresh.sh $(SUITE)

bench: $(VENV)/installed-dev  ## Measure speed.
	$(BIN)/python -m pytest -m benchmark -s tests/benchmarks

lock: $(VENV)/installed  ## Renew .locks: the newest versions for each Python.
	$(BIN)/pip install --quiet uv
	for version in 3.11 3.12 3.13 3.14; do \
	  { echo "# Versions that were tested with Python $$version. \`make lock\` renews them."; \
	    echo $(TESTED_TORCH) | $(BIN)/uv pip compile pyproject.toml --quiet --python-version $$version \
	      --constraint - --no-config --no-header --no-annotate --no-emit-index-url \
	      $(addprefix --extra ,arrow ctranslate2 dev langid plot terms xlsx zstd) > $(VENV)/lock && \
	    grep -vE '^(torch|triton|nvidia-.*|cuda-.*)==' $(VENV)/lock; \
	  } > .locks/python$$version.txt || exit; \
	done

# Installs nothing: a PYTHON and a PYTHONPATH that you give are used as they are. GPU_OUT is where the report goes.
GPU_OUT ?= work-gpu
GPU_PYTHON := $(if $(filter file,$(origin PYTHON)),$(BIN)/python,$(PYTHON))
gpu:  ## Try, test and measure a GPU in 25 minutes: make gpu PYTHON=python3 [PART=train] [REHEARSE=1].
	PYTHONPATH=$(CURDIR):$(CURDIR)/tests:$$PYTHONPATH $(GPU_PYTHON) -m benchmarks.gpu \
	  --out $(GPU_OUT) $(if $(REHEARSE),--rehearse) $(PART)

clean:  ## Remove everything that was installed or made here.
	rm -rf $(VENV) *.egg-info build dist .mypy_cache .ruff_cache .pytest_cache
	rm -rf examples/*/work* work-gpu tests/support/pretended_gpu/built
	find nmt tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

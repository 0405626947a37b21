# What recipes share that may train in several processes: the interpreter, and how many there are.

PYTHON ?= python3

# One process for each GPU, or one on CPUs. Without torch it is empty, and the first command names
# what is missing.
PROCESSES ?= $(shell $(PYTHON) -c 'import torch; print(max(1, torch.cuda.device_count()))' \
  2>/dev/null)

NMT := $(PYTHON) -m nmt
TORCHRUN := $(PYTHON) -m torch.distributed.run --standalone --nproc-per-node
# How many seconds torchrun waits for processes that it has stopped, before it kills them.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT ?= 120

# $(call train,DATA,RUN,OPTIONS). torchrun reports a stop and a failure in the same way. status.json
# says which it was. One process takes the place of the shell, since make sends SIGTERM on only to
# that, and training would go on without it.
define train
processes=$(PROCESSES); \
if [ "$$processes" = 1 ]; then start="exec $(NMT)"; else start="$(TORCHRUN) $$processes -m nmt"; fi; \
$$start train $(1) --out $(2) $(3) $(TRAIN_OPTIONS) || \
  { cat $(2)/status.json 1>&2 2>/dev/null; exit 1; }
endef

# $(call one_path,NAME): refuse a path with a blank, which make takes for two.
one_path = $(if $(filter 1-1,$(words $($(1)))-$(words .$($(1)).)),,\
  $(error $(1)='$($(1))' must be a path without blanks, which make does not take))

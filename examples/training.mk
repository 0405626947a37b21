# How recipes train that may use several processes.

PYTHON ?= python3
NMT := $(PYTHON) -m nmt

# How many; empty: as many as the run had, or as `nmt train` chooses.
PROCESSES ?=

# $(call train,DATA,RUN,OPTIONS). `nmt` takes the place of the shell, since make sends SIGTERM on only
# to that, and training would go on without it.
define train
exec $(NMT) train $(1) --out $(2) $(PROCESSES:%=--processes %) $(3) $(TRAIN_OPTIONS)
endef

# $(call dry_run,DATA,RUN,OPTIONS): how long training would take. It makes nothing.
define dry_run
@test -e $(PREPARED) || { echo "$(1) is not prepared: run \`make prepare\` first" >&2; exit 1; }
$(call train,$(1),$(2),$(3) --dry-run --verbose)
endef

# $(call one_path,NAME): refuse a path with a blank, which make takes for two.
one_path = $(if $(filter 1-1,$(words $($(1)))-$(words .$($(1)).)),,\
  $(error $(1)='$($(1))' must be a path without blanks, which make does not take))

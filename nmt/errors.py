"""Errors for the user, and their exit statuses.

Each error is one line: what was found, what was expected, what to do. The command line prints it
after `nmt: error:`, without a traceback.
"""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_STOPPED = 75  # EX_TEMPFAIL of sysexits.h: everything is saved, run the same command again

# How the message ends if the disk is full. A program that reads it knows that no input is to blame.
DISK_IS_FULL = "the disk is full; make room and run the same command again"


class NMTError(Exception):
    """The work failed for a reason that the user can act on."""

    exit_status = EXIT_FAILED
    is_said = False
    """Whether other processes of the same work tell the user."""


class UsageError(NMTError):
    """An option, a value or a combination of them makes no sense."""

    exit_status = EXIT_USAGE


class MissingKernel(UsageError):
    """This device lacks the requested kernel for matrix products."""


class DataError(NMTError):
    """An input file is missing, damaged, of another version or of another kind."""


class Stopped(NMTError):
    """The work was stopped on request, and everything is saved."""

    exit_status = EXIT_STOPPED


class HeldOff(Stopped):
    """Another process holds a lock; nothing was started."""


class WorkerDied(NMTError):
    """A worker process was killed; the others stop, too."""


_EPOCHS = "max_updates, which counts updates: --dry-run says how many an epoch has"
_GPU = "cuda, and choose the GPU by CUDA_VISIBLE_DEVICES"
_MICRO_BATCHES = "batch_tokens, whatever number of micro-batches that takes"
_CURVES = "tensorboard, true or false; metrics.jsonl holds the same numbers"
_TIED = "tie_embeddings, all, decoder or none"
_ROWS = {
    "gpu": "cuda",
    "cuda:N gpu:N": _GPU,
    # recipes
    "lr learn_rate initial_learning_rate": "learning_rate",
    "lr_scheduler decay_method learning_rate_scheduler_type lr_decay_inv_sqrt": "schedule",
    "epochs max_epoch after_epochs max_num_epochs": _EPOCHS,
    "max_update train_steps max_steps after after_batches": "max_updates",
    "max_tokens mini_batch_words": "batch_tokens",
    "batch_size mini_batch": "batch_tokens, counted in target tokens",
    "update_freq optimizer_delay accum_count update_interval": _MICRO_BATCHES,
    "warmup warmup_steps lr_warmup learning_rate_warmup": "warmup_updates",
    "ema": "ema_decay",
    "exponential_smoothing average_decay": "ema_decay, which is 1 minus that value",
    "wandb wandb_project tensorboard_logdir": _CURVES,
    "save_interval save_interval_updates save_freq save_checkpoint_steps": "save_every",
    "log_interval disp_freq report_every": "log_every",
    "eval_every valid_freq valid_steps validate_interval_updates": "validate_every",
    "checkpoint_interval": "save_every, and validate_every",
    "keep_last_epochs keep_interval_updates keep_checkpoint keep_last_params": "keep_last",
    "early_stopping max_num_checkpoint_not_improved": "patience",
    "valid_metrics eval_bleu": "validate_metric, for example bleu",
    "best_checkpoint_metric optimized_metric": "best_metric, of those of validate_metric",
    "max_grad_norm gradient_clipping_threshold": "clip_norm",
    "adam_betas optimizer_betas": "adam_beta1, and adam_beta2",
    "heads encoder_attention_heads transformer_heads": "num_heads",
    "hidden_size dim_emb encoder_embed_dim transformer_model_size word_vec_size": "d_model",
    "encoder_ffn_embed_dim transformer_dim_ffn transformer_ff": "d_ff",
    "encoder_layers enc_layers enc_depth": "num_encoder_layers",
    "decoder_layers dec_layers dec_depth": "num_decoder_layers",
    "layers num_layers": "num_encoder_layers, and num_decoder_layers",
    "transformer_dropout": "dropout",
    "encoder_normalize_before transformer_preprocess": "pre_norm, true or false",
    "share_all_embeddings tied_embeddings_all share_embeddings weight_tying_type": _TIED,
    # presets and formats
    "transformers": "huggingface",
    "transformer transformer_wmt_en_de base": "transformer_base",
    "big transformer_vaswani_wmt_en_de_big": "transformer_big",
    "small": "transformer_small",
    "transformer_iwslt_de_en": "transformer_iwslt",
}
"""What people write, and its name here, where the nearest name would be wrong."""
SYNONYMS = {name: ours for names, ours in _ROWS.items() for name in names.split()}


def synonym(name: str) -> tuple[str, str]:
    """Return our name of what other toolkits call so, and what to say of it; both may be `name`."""
    meant = SYNONYMS.get(re.sub(r":\d+$", ":N", name.lower()), name)
    return re.split(r"\W", meant, maxsplit=1)[0], meant


_MOST_NAMED = 20


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'nearest'?` for a mistyped name, or a short list of what is known."""
    names = sorted(known)
    ours, meant = synonym(name)
    if ours in names and ours != name:
        return f"; write {meant}"
    nearest = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    if nearest:
        return f"; did you mean {nearest[0]!r}?"
    return f"; known: {', '.join(names)}" if len(names) <= _MOST_NAMED else ""


_MISSING_MEMORY = re.compile(
    "DefaultCPUAllocator|ALLOC_FAILED|out of memory|CUDA calloc|bad_alloc"
    "|Cannot allocate memory|can't allocate memory|failed to map segment"
    "|could not create a primitive|can't start new thread|Resource temporarily unavailable"
)
"""What errors say if memory is missing; most libraries raise a RuntimeError or ImportError. What
stands last is of threads."""


def is_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory is missing."""
    return isinstance(error, MemoryError) or _MISSING_MEMORY.search(str(error)) is not None


def describe(error: NMTError | OSError) -> str:
    """Return the message of an error, in one line."""
    if not isinstance(error, OSError):
        return str(error)
    name = "" if error.filename is None else f"{error.filename}: "
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{name}{DISK_IS_FULL}"
    return f"{name}{error.strerror or error}"

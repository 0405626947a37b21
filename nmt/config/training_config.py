"""How a model is trained, and how its text is changed: the values of a recipe for that."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

from nmt.config.fields import fraction, value

_resumable = partial(value, resumable=True)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a model is trained; defaults are the paper's (sections 5.1 to 5.4)."""

    seed: int = value(1, "Seed of initial weights, data order and dropout.", minimum=0)
    batch_tokens: int = value(
        25_000,
        "Target tokens of one update, over all ranks and micro-batches; the source side has the "
        "same limit.",
        minimum=1,
    )
    micro_batch_tokens: int = _resumable(
        0,
        "Tokens of one forward pass on either side. Lower it if memory runs out; the pairs of an "
        "update stay the same. 0: as many as fit, up to 2048 on a CPU (4096 in bf16 and fp16) and "
        "a process's share of the update on a GPU; halved when memory runs out.",
        minimum=0,
    )
    max_updates: int = _resumable(
        100_000,
        "Updates after which training ends at the latest. You can resume a finished run with more; "
        "with schedule=linear, cosine or until_flat, the learning rate then jumps up from 0.",
        minimum=1,
    )
    patience: int = _resumable(
        0, "Stop after this many validations in a row without a better result; 0: never.", minimum=0
    )
    precision: str = value(
        "auto",
        "Type of weights and activations in the forward and backward pass. The optimiser always "
        "keeps an fp32 copy of the weights. tf32: fp32, but GPUs since Ampere compute products of "
        "matrices in TF32. auto: bf16 on those GPUs, and on CPUs where a trial is at least 1.2 "
        "times as fast and d_model at least 128; else fp32.",
        choices=("auto", "fp32", "tf32", "bf16", "fp16"),
    )
    device: str = _resumable(
        "auto", "Where to compute; auto: a GPU if there is one.", choices=("auto", "cpu", "cuda")
    )
    threads: int = _resumable(
        0,
        "CPU threads of each process; 0: the cores divided by the processes, at most "
        "OMP_NUM_THREADS. A run resumed with as many processes keeps its number.",
        minimum=0,
        maximum=1_024,
    )
    compile: str = _resumable(
        "auto",
        "Whether to compile the model with torch.compile, which takes some minutes at the start. "
        "loss: only the loss, which takes seconds. auto: on GPUs, true in bf16 and fp16, else "
        "loss; false on CPUs, and where torch.compile does not work. Unless false, a GPU also "
        "computes attention of large batches in a kernel for short sentences.",
        choices=("auto", "true", "loss", "false"),
    )
    matmul: str = value(
        "auto",
        "Library for fp32 matrix products on CPUs. auto: torch, unless a trial is at least 1.1 "
        "times as fast with onednn. A resumed run keeps its choice.",
        choices=("auto", "torch", "onednn"),
    )
    label_smoothing: float = fraction(
        0.1, "Share of probability spread evenly over the vocabulary."
    )
    guided_alignment: float = value(
        0.0,
        "Weight of a second loss, which guides one head of attention to the source towards word "
        "links; 0: none. Alignments and --markup are then read off that head; 0.05 is the value of "
        "Garg et al. (2019). For Transformers.",
        minimum=0.0,
        below=100.0,
    )
    subword_dropout: float = fraction(
        0.0,
        "BPE dropout: probability that a merge of a token is undone, drawn anew in each epoch. "
        "0.06 splits as much as the 0.1 of Provilkov et al. (2020). Sentences become longer than "
        "batch_tokens counts.",
    )
    schedule: str = value(
        "inverse_sqrt",
        "Learning rate after linear warm-up: it falls with the inverse square root of the update "
        "(the paper's), falls to 0 at max_updates (linear, or cosine for half a cosine), or stays "
        "constant. until_flat: as inverse_sqrt until flat_gain says that validation is flat, then "
        "to 0, where training ends.",
        choices=("inverse_sqrt", "linear", "cosine", "constant", "until_flat"),
    )
    flat_gain: float = value(
        0.13,
        "With schedule=until_flat, validation is flat if best_metric got better by less than this "
        "since half as many updates: the loss in nats, BLEU or chrF by a share. BLEU below 5 is "
        "never flat. Training ends after 1.6 times as many as it takes until then. Less trains "
        "for longer.",
        minimum=0.0,
    )
    learning_rate: float = value(
        0.0,
        "Peak learning rate, reached at the end of the warm-up; 0: the paper's, "
        "(d_model * warmup_updates)^-0.5.",
        minimum=0.0,
    )
    warmup_updates: int = value(4_000, "Updates of linear warm-up.", minimum=1)
    adam_beta1: float = fraction(0.9, "Adam's decay of the mean gradient.")
    adam_beta2: float = fraction(0.98, "Adam's decay of the mean square.")
    adam_epsilon: float = value(1e-9, "Adam's epsilon.", minimum=0.0)
    weight_decay: float = fraction(
        0.0, "Each update takes this share, times the learning rate, off all weights (AdamW's)."
    )
    clip_norm: float = value(
        0.0, "Largest norm of an update's gradient; 0: no clipping.", minimum=0.0
    )
    ema_decay: float = fraction(
        0.0,
        "Decay of an exponential moving average of the weights, which is then validated and "
        "saved; 0: none.",
    )
    freeze: str = value(
        "",
        "Weights that training does not change: patterns for their names, separated by commas, "
        "such as encoder.*,src_embedding.*; a tied weight matches by any of its names.",
    )
    lora_rank: int = value(
        0,
        "Train only a change of this rank for each matrix of the layers (LoRA), which takes far "
        "less memory; 0: train the weights themselves. What is saved has the changes added.",
        minimum=0,
        below=1e4,
    )
    log_every: int = _resumable(
        100, "Updates between two lines of the log and of metrics.jsonl.", minimum=1
    )
    validate_every: int = _resumable(1_000, "Updates between two validations.", minimum=1)
    validate_metric: str = value(
        "none",
        "Metrics for which validation also translates the valid text, by beam search: sacreBLEU's "
        "BLEU, chrF2 (chrf), or both.",
        choices=("none", "bleu", "chrf", "bleu,chrf"),
    )
    validate_tokenizer: str = value(
        "auto",
        "BLEU's tokenizer in validation, as of nmt score --tokenize: one for all pairs of "
        "languages, or one for each, as en-de:13a,en-zh:zh. auto: by the target language; the run "
        "keeps the choice.",
    )
    sample_translations: int = _resumable(
        3, "Number of valid lines whose translations each validation shows; 0: none.", minimum=0
    )
    best_metric: str = value(
        "loss",
        "Metric that selects the best checkpoints, and that patience goes by: smoothed valid loss, "
        "BLEU or chrF (which validate_metric must name).",
        choices=("loss", "bleu", "chrf"),
    )
    save_every: int = _resumable(
        1_500, "Updates between two checkpoints, which averaging uses.", minimum=1
    )
    save_minutes: float = _resumable(
        15.0,
        "Minutes between two saves of the training state, from which a killed run resumes.",
        minimum=0.1,
    )
    keep_last: int = _resumable(5, "Newest checkpoints kept.", minimum=1)
    keep_best: int = _resumable(1, "Best checkpoints kept.", minimum=1)
    tensorboard: bool = _resumable(
        False, "Whether to write all metrics for TensorBoard too (needs the extra tensorboard)."
    )

    @property
    def compiles(self) -> bool:
        """Whether the model is compiled; never as long as `auto` is not resolved."""
        return self.compile == "true"

    @property
    def compiles_loss(self) -> bool:
        """Whether the loss is compiled."""
        return self.compile in ("true", "loss")

    @property
    def metrics(self) -> list[str]:
        """The metrics of the valid text's translations; empty if only samples are translated."""
        return [] if self.validate_metric == "none" else self.validate_metric.split(",")

    def problems(self) -> list[str]:
        """Return the problems of the combination of values."""
        problems = []
        if self.best_metric not in ("loss", *self.metrics):
            needed = ",".join(sorted({*self.metrics, self.best_metric}))
            problems.append(f"best_metric {self.best_metric!r} needs validate_metric = {needed}")
        if self.lora_rank and (self.freeze or self.compile == "true"):
            problems.append("lora_rank cannot be combined with freeze or compile; leave them out")
        return problems


def _share(help: str) -> Any:
    return value(0.0, f"Share of pairs: {help}", minimum=0.0, maximum=1.0)


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """Which pairs are changed on their way to training; needs data with text (--keep-text)."""

    upper_case: float = _share("both sides are put into upper case.")
    title_case: float = _share("each word of both sides begins with a capital.")
    typos: float = _share("the source gets a typo for each started 40 characters.")
    drop_punctuation: float = _share(
        "the source loses its last mark, or all marks at the edges of words."
    )
    drop_diacritics: float = _share("the source loses its accents.")
    placeholders: float = _share(
        "both sides get the same number or placeholder, such as {name}, which is to be copied."
    )
    merged: float = _share("the next line of the text is joined to both sides.")

    @property
    def any(self) -> bool:
        """Whether pairs are changed at all."""
        return any(astuple(self))

    def problems(self) -> list[str]:
        """Return the problems of the combination of values."""
        if self.upper_case + self.title_case > 1:
            return ["upper_case and title_case are more than 1 together; lower them"]
        return []

"""The report of a run: log, metrics.jsonl, curves, TensorBoard and the bar on the terminal.

The trainer reports each event once. `Report` decides where it is written, and in which words. This
is the only module that uses `torch.utils.tensorboard`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from nmt import console
from nmt.config.training_config import TrainingConfig
from nmt.data.language_tokens import spell_pair
from nmt.errors import UsageError
from nmt.models.model_file import find_model
from nmt.runs.checkpoint import RunState, card_of_file
from nmt.runs.run_folder import RunFolder
from nmt.system.plot import short_number

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from nmt.scoring.metrics import Score

Record = Mapping[str, Any]

_LOSS = {"nll": "nll {:.3f}", "perplexity": "ppl {}"}
_RARE = {"padding": (0.2, "padding {:.0%}"), "skipped_updates": (1, "skipped updates {:,}")}
"""Metrics that are worth a word only from this value on."""
_WAIT = {"data_wait": (0.05, "data wait {:.0%}")}
"""The same for those who look for speed."""
_VALID = {
    "nll": "nll {:.4f}",
    "perplexity": "perplexity {:.3f}",
    "bleu": "BLEU {:.2f}",
    "chrf": "chrF {:.2f}",
}
_SAMPLE = ("source", "reference", "translation")

_CURVES_SECONDS = 60.0
_CURVES_SHARE = 0.01  # largest share of the time spent drawing curves


def _metrics(record: Record, formats: Mapping[str, str]) -> str:
    """Format the metrics that a record has; those without a format of their own shortly."""
    return ", ".join(
        form.format(record[key] if ":" in form else short_number(record[key]))
        for key, form in formats.items()
        if key in record
    )


def require_tensorboard() -> None:
    """Check that TensorBoard is installed; UsageError if the package is missing."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise UsageError(
            "tensorboard = true needs the package tensorboard; run `pip install "
            "tensorboard` or set tensorboard = false"
        ) from None


class TextResult(NamedTuple):
    langs: tuple[str, str]
    nll: float  # nats per token
    scores: Mapping[str, Score] = {}  # of its translations, by metric


class ValidationResult(NamedTuple):
    """The metrics of a validation, and some sample translations."""

    loss: float  # smoothed, as in training; nats per token
    nll: float  # nats per token
    texts: tuple[TextResult, ...] = ()
    samples: Sequence[Mapping[str, Any]] = ()
    """Each with the number of a valid line (from 1), source, reference and translation."""

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.nll, 700.0))

    @property
    def scores(self) -> dict[str, float]:
        """The mean of each metric of translations over the pairs of languages."""
        names = self.texts[0].scores if self.texts else ()
        return {name: fmean(text.scores[name].score for text in self.texts) for name in names}

    def best_by(self, metric: str) -> float:
        """Return the loss or a score as a number that is lower for a better model."""
        return self.loss if metric == "loss" else -self.scores[metric]

    @property
    def by_pair(self) -> dict[str, float]:
        """With several pairs of languages, the nll and scores of each, as `nll/en-de`."""
        if len(self.texts) < 2:
            return {}
        pairs = {spell_pair(text.langs): text for text in self.texts}
        nlls = {f"nll/{pair}": text.nll for pair, text in pairs.items()}
        return nlls | {
            f"{name}/{pair}": text.scores[name].score
            for name in self.scores
            for pair, text in pairs.items()
        }

    @property
    def signatures(self) -> dict[str, str]:
        """sacreBLEU's signatures as `bleu_signature`, or `bleu_signature/en-de` if pairs differ."""
        signatures = dict[str, str]()
        for name in self.scores:
            of_pairs = {
                f"{name}_signature/{spell_pair(text.langs)}": text.scores[name].signature
                for text in self.texts
            }
            shared = set(of_pairs.values())
            signatures |= {f"{name}_signature": shared.pop()} if len(shared) == 1 else of_pairs
        return signatures

    def metrics(self) -> dict[str, float]:
        """Return the metrics by name; without the scores that were not computed."""
        metrics = {"loss": self.loss, "nll": self.nll, "perplexity": self.perplexity}
        return metrics | self.scores | self.by_pair


class Report:
    """The report of one run, used in a `with` statement.

    Only the first rank reports events; every rank calls `advance`.
    """

    def __init__(self, run: RunFolder, config: TrainingConfig, update: int, last: int) -> None:
        """Write to a run folder.

        update: the updates done before.
        last: the update after which training ends, as far as is known.
        """
        self.run = run
        self.config = config
        self._last = last
        self._progress = console.progress("training", total=last, unit="updates", initial=update)
        self._events = run.path / "tensorboard"
        self._tensorboard: SummaryWriter | None = None
        self._signed: dict[str, object] = {}  # the signatures that stand in the log
        self._draw_at = 0.0
        self._began = (update, 0.0)
        """(update, time) from which the time left is estimated."""

    def __enter__(self) -> Self:
        self._bar = self._progress.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._progress.__exit__(*failure)
        if self._tensorboard is not None:
            with self.run.best_effort(self._events):
                self._tensorboard.close()

    def advance(self) -> None:
        self._bar.update()

    def started(self, state: RunState, description: str) -> None:
        """Report that the run starts or resumes; `description` is empty if it is finished."""
        verb = f"resuming at update {state.update:,}" if state.update else "starting"
        if description:
            self.run.log(f"{verb}: {description}")
        self._began = (state.update, time.monotonic())
        for record in self.run.metrics():
            self._signed |= {key: record[key] for key in record if "_signature" in key}
        if self.config.tensorboard:  # what its files have of later updates becomes void
            from torch.utils.tensorboard import SummaryWriter

            with self.run.best_effort(self._events):
                self._tensorboard = SummaryWriter(str(self._events), purge_step=state.update + 1)
        self._draw_at = time.monotonic() + _CURVES_SECONDS

    def trained(self, state: RunState, record: Record) -> None:
        """Report the metrics of the updates since the last report."""
        self._record(record)
        update, head = state.update, f"update {state.update:,}"
        metrics = _metrics(record, {**_LOSS, "tokens_per_second": "{} tokens/s"})
        self.run.log(f"{head} epoch {record['epoch']:.2f}: {metrics}{self._time_left(update)}")
        for table in (_RARE, _WAIT):
            rare = {
                key: form for key, (least, form) in table.items() if record.get(key, 0) >= least
            }
            if rare:
                self.run.log(f"{head}: {_metrics(record, rare)}", aloud=table is _RARE)
        status = f"epoch {record['epoch']:.2f}, nll {record['nll']:.3f}"
        self._bar.set_postfix_str(status, refresh=False)
        self._draw_if_due(state)

    def validated(self, state: RunState, result: ValidationResult, seconds: float) -> None:
        """Report a validation's metrics and samples."""
        update = state.update
        record: dict[str, Any] = {"kind": "valid", "update": update, **result.metrics()}
        record |= result.signatures
        if result.samples:
            record["samples"] = result.samples
        self._record(record)
        # Each stands in the log once, and in metrics.jsonl beside each score.
        signatures = {
            key: signed
            for key, signed in result.signatures.items()
            if self._signed.get(key) != signed
        }
        self._signed |= signatures
        shared = dict.fromkeys(sign for key, sign in signatures.items() if "/" not in key)
        head = f"update {update:,} valid"
        best = ", best so far" if state.best_updates[:1] == [update] else ""
        self.run.log(f"{head}: {_metrics(record, _VALID)}{best}; {seconds:.1f} s")
        for signed in shared:
            self.run.log(f"{head}: signature {signed}")
        by_pair = []
        for name, value in result.by_pair.items():
            signature = signatures.get(name.replace("/", "_signature/", 1))
            by_pair.append(f"{name} {value:.4g}" + (f" ({signature})" if signature else ""))
        if by_pair:
            self.run.log(f"{head}: {', '.join(by_pair)}")
        for sample in result.samples:
            for label in _SAMPLE:
                line = f"valid line {sample['line']:,} {label}: {sample[label]}"
                self.run.log(line, aloud=False)
        self._draw_if_due(state)

    def ends_at(self, last: int) -> None:
        """Report that training ends after another update than was known."""
        if last != self._last:
            self._last = self._bar.total = last
            flat = f"validation is flat (flat_gain {self.config.flat_gain:g})"
            self.run.log(f"{flat}: the learning rate falls to 0 at update {last:,}")

    def finished(self, state: RunState, reason: str, *, longer: str = "") -> None:
        """Report the end of training.

        longer: the options that train the run for longer, if it was finished before.
        """
        self._draw_curves(state)
        said = f"finished at update {state.update:,} ({reason})"
        if longer:
            said = f"{self.run.path} is {said}; give {longer} to train it for longer"
        else:
            said += f" after {state.seconds / 60:.1f} minutes"
        self.run.log(said)
        self.run.log(self._model())
        console.next_step("nmt translate", self.run.path, "< text > translation")

    def _model(self) -> str:
        """Describe the model that the run ends with, by its file."""
        path = find_model(self.run.path)
        if (card := card_of_file(path)) is None:
            return f"{path.stem} model: {path}, which is damaged"
        metrics = f", {_metrics(card.valid, _VALID)}" if card.valid else ""
        return f"{path.stem} model: {path}, of update {card.update:,}{metrics}"

    def _time_left(self, update: int) -> str:
        """Return how long the rest will take at the pace since the first update, in words.

        The first one also waits for its data and for compilation, so it counts only for itself.
        """
        since, at = self._began
        now, left = time.monotonic(), self._last - update
        if update == since or left <= 0:
            return ""
        if update == since + 1:
            self._began = (update, now)
        return f", {console.clock(left * (now - at) / (update - since))} left"

    def _record(self, record: Record) -> None:
        self.run.record(record)
        if self._tensorboard is not None:
            with self.run.best_effort(self._events):
                for key, value in record.items():
                    if isinstance(value, int | float) and key != "update":
                        tag = f"{record['kind']}/{key}"
                        self._tensorboard.add_scalar(tag, value, record["update"])
                self._tensorboard.flush()

    def _draw_if_due(self, state: RunState) -> None:
        if time.monotonic() > self._draw_at:
            self._draw_curves(state)

    def _draw_curves(self, state: RunState) -> None:
        """Draw the curves, and set the time from which they are drawn again."""
        started = time.monotonic()
        self.run.draw_curves(next(iter(state.best_updates), None))
        ended = time.monotonic()
        self._draw_at = ended + max(_CURVES_SECONDS, (ended - started) / _CURVES_SHARE)

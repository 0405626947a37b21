"""The report of a run: log, metrics.jsonl, curves, TensorBoard and the live view on the terminal.

The trainer reports each event once. `Report` decides where it is written, and in which words.
Only `TensorBoard` uses `torch.utils.tensorboard`.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nmt import console
from nmt.config import TrainingConfig
from nmt.errors import UsageError
from nmt.runs.checkpoint import Progress
from nmt.runs.run_folder import RunFolder

Record = Mapping[str, Any]

_TRAINING = {
    "nll": "nll {:.3f}",
    "perplexity": "perplexity {:.2f}",
    "loss": "smoothed loss {:.3f}",
    "learning_rate": "learning rate {:.3g}",
    "grad_norm": "gradient {:.3f}",
}
_SPEED = {
    "tokens_per_second": "{:,.0f} tokens/s",
    "mfu": "mfu {:.1%}",
    "padding": "padding {:.1%}",
    "data_wait": "data wait {:.1%}",
    "skipped_updates": "skipped updates {:,}",
}
_VALID = {
    "nll": "nll {:.4f}",
    "perplexity": "perplexity {:.3f}",
    "loss": "smoothed loss {:.4f}",
    "bleu": "BLEU {:.2f}",
}
_HISTORY = {"nll": "valid nll", "bleu": "valid BLEU"}
_BARS = "▁▂▃▄▅▆▇█"
_NEWEST = 40  # validations in a sparkline

_PACE_SECONDS = 10.0  # time after which the log says how long the run will take
_CURVES_SECONDS = 60.0
_CURVES_SHARE = 0.01  # largest share of the time spent drawing curves


def rows(train: Record, valid: Sequence[Record], best: int | None) -> list[tuple[str, str]]:
    """Return the rows of the live view: label and text.

    Args:
        train: the latest training record; empty if there is none yet.
        valid: all validation records, in order.
        best: the update with the best validation.
    """
    found = []
    if train:
        found += [("training", _metrics(train, _TRAINING)), ("speed", _metrics(train, _SPEED))]
    if valid:
        found.append(("last valid", _at_update(valid[-1])))
    found += [("best valid", _at_update(record)) for record in valid if record["update"] == best]
    for key, label in _HISTORY.items():
        values = [record[key] for record in valid if key in record][-_NEWEST:]
        if len(values) > 1:
            found.append((label, f"{sparkline(values)} {values[0]:.4g} to {values[-1]:.4g}"))
    for sample in valid[-1].get("samples", ()) if valid else ():
        found += [(label, sample[label]) for label in ("source", "reference", "translation")]
    return found


def _at_update(valid: Record) -> str:
    return f"update {valid['update']:,}: {_metrics(valid, _VALID)}"


def _metrics(record: Record, formats: Mapping[str, str]) -> str:
    """Format the metrics that a record has."""
    found = [(form, record.get(key)) for key, form in formats.items()]
    return ", ".join(form.format(value) for form, value in found if value is not None)


def sparkline(values: Sequence[float]) -> str:
    """Draw values as bars of eight heights, from the lowest value to the highest."""
    finite = [value for value in values if math.isfinite(value)]
    low = min(finite, default=0.0)
    step = (max(finite, default=0.0) - low) / (len(_BARS) - 1) or 1.0
    return "".join(
        _BARS[round((value - low) / step)] if math.isfinite(value) else " " for value in values
    )


def require_tensorboard() -> None:
    """Check that TensorBoard is installed.

    Raises:
        UsageError: if the package is missing.
    """
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise UsageError(
            "tensorboard = true needs the package tensorboard; run `pip install "
            "'nmt[tensorboard]'` or set tensorboard = false"
        ) from None


class TensorBoard:
    """Event files of scalars, named by kind and metric: train/loss, valid/bleu."""

    def __init__(self, folder: Path, update: int) -> None:
        """Continue at an update; later entries in the folder's older files become void."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=update + 1)

    def add(self, record: Mapping[str, object]) -> None:
        """Write the numbers of a record of metrics.jsonl, at its update."""
        for key, value in record.items():
            if isinstance(value, int | float) and key != "update":
                self._writer.add_scalar(f"{record['kind']}/{key}", value, record["update"])
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


@dataclass(frozen=True)
class Sample:
    """A line of the valid text and the model's translation."""

    line: int  # from 1
    source: str
    reference: str
    translation: str


@dataclass(frozen=True)
class ValidationResult:
    """The metrics of a validation, and some sample translations."""

    loss: float  # smoothed, as in training; nats per token
    nll: float  # nats per token
    bleu: float | None
    bleu_signature: str | None
    samples: tuple[Sample, ...] = ()

    @property
    def perplexity(self) -> float:
        """exp(nll), per subword."""
        return math.exp(min(self.nll, 700.0))

    def metrics(self) -> dict[str, float]:
        """Return the metrics by name; without BLEU if it was not computed."""
        metrics = {"loss": self.loss, "nll": self.nll, "perplexity": self.perplexity}
        return metrics if self.bleu is None else metrics | {"bleu": self.bleu}


class Report:
    """The report of one run, used in a `with` statement.

    Only the first rank reports events; every rank calls `advance`.
    """

    def __init__(self, run: RunFolder, config: TrainingConfig, progress: Progress) -> None:
        """Set up.

        Args:
            run: the run folder to write to.
            config: decides about TensorBoard and the end of training.
            progress: the run's progress, which the trainer updates.
        """
        self.run = run
        self.config = config
        self.progress = progress
        self._view = console.Progress(
            "training", total=config.max_updates, unit="updates", initial=progress.update
        )
        self._events = run.path / "tensorboard"
        self._tensorboard: TensorBoard | None = None
        self._train: Record = {}
        self._valid: list[Record] = []
        self._draw_at = 0.0
        self._marks: list[tuple[int, float]] = []
        """(update, time) at the start and after the first update, until the pace is logged."""

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._view.__exit__(kind, error, trace)
        self._close_tensorboard()

    def advance(self) -> None:
        """Count one update."""
        self._view.update()
        if self._marks:
            self._tell_pace()

    def started(self, description: str) -> None:
        """Report that the run starts or resumes."""
        update = self.progress.update
        verb = f"resuming at update {update:,}" if update else "starting"
        self.run.log(f"{verb}: {description}")
        self._marks = [(update, time.monotonic())]
        self._valid = [record for record in self.run.metrics() if record.get("kind") == "valid"]
        self._open_tensorboard()
        self._draw_at = time.monotonic() + _CURVES_SECONDS
        self._show()

    def trained(self, record: Record) -> None:
        """Report the metrics of the updates since the last report."""
        self._record(record)
        skipped = console.counted(record["skipped_updates"], "update", "updates")
        passed_over = f"; {skipped} skipped (gradient not finite)"
        self.run.log(
            f"update {record['update']:,} epoch {record['epoch']:.2f}: nll {record['nll']:.3f}, "
            f"perplexity {record['perplexity']:.2f} (smoothed loss {record['loss']:.3f}), "
            f"learning rate {record['learning_rate']:.3g}, gradient {record['grad_norm']:.3f}; "
            f"{record['tokens_per_second']:,.0f} tokens/s, "
            f"mfu {record['mfu']:.0%}, data wait {record['data_wait']:.1%}, padding "
            f"{record['padding']:.1%}" + (passed_over if record["skipped_updates"] else "")
        )
        self._train = record
        self._show()
        if time.monotonic() > self._draw_at:
            self._draw_curves()

    def validated(self, result: ValidationResult, improved: bool, seconds: float) -> None:
        """Report a validation's metrics and samples, and whether it is the best so far."""
        update = self.progress.update
        record: dict[str, Any] = {"kind": "valid", "update": update, **result.metrics()}
        if result.bleu_signature is not None:
            record["bleu_signature"] = result.bleu_signature
        if result.samples:
            record["samples"] = [dataclasses.asdict(sample) for sample in result.samples]
        self._record(record)
        bleu = "" if result.bleu is None else f", BLEU {result.bleu:.2f} ({result.bleu_signature})"
        self.run.log(
            f"update {update:,} valid: nll {result.nll:.4f}, perplexity {result.perplexity:.3f} "
            f"(smoothed loss {result.loss:.4f}){bleu}{', the best so far' if improved else ''}; "
            f"{seconds:.1f} s"
        )
        for sample in result.samples:
            for label in ("source", "reference", "translation"):
                text = console.printable(getattr(sample, label))
                self.run.log(f"valid line {sample.line:,} {label}: {text}", aloud=False)
        self._valid.append(record)
        self._show()
        self._draw_curves()

    def went_back(self, why: str) -> None:
        """Report that the run has gone back to an earlier update."""
        self.run.warn(why)
        self.run.record({"kind": "event", "update": self.progress.update, "went_back": why})
        self._valid = [one for one in self._valid if one["update"] <= self.progress.update]
        self._view.go_back(self.progress.update)
        self._marks.clear()
        self._close_tensorboard()
        self._open_tensorboard()
        self._show()

    def finished(self, reason: str) -> None:
        """Report the end of training."""
        self._draw_curves()
        model = "best" if (self.run.path / "best.safetensors").exists() else "last"
        self.run.log(
            f"finished at update {self.progress.update:,} ({reason}) after "
            f"{self.progress.seconds / 60:.1f} minutes; model: "
            f"{self.run.path / model}.safetensors"
        )

    def _tell_pace(self) -> None:
        """Log once, early, how long the run will take.

        The first update also waits for its data, so it counts only if there is no other.
        """
        update, now = self.progress.update, time.monotonic()
        if len(self._marks) == 1:
            self._marks.append((update, now))
        start, first = self._marks
        left = self.config.max_updates - update
        if now - start[1] < _PACE_SECONDS or not left:
            return
        since, at = first if update > first[0] else start
        seconds = (now - at) / (update - since)
        self._marks.clear()
        self.run.log(
            f"update {update:,}: {seconds:,.3g} s per update, so {left:,} more will take about "
            f"{console.duration(left * seconds)}, plus validation and saving"
        )

    def _record(self, record: Record) -> None:
        self.run.record(record)
        if self._tensorboard is not None:
            with self.run.dispensable(self._events):
                self._tensorboard.add(record)

    def _open_tensorboard(self) -> None:
        if self.config.tensorboard:
            with self.run.dispensable(self._events):
                self._tensorboard = TensorBoard(self._events, self.progress.update)

    def _close_tensorboard(self) -> None:
        if self._tensorboard is not None:
            with self.run.dispensable(self._events):
                self._tensorboard.close()
            self._tensorboard = None

    def _show(self) -> None:
        best = self.progress.best[0][1] if self.progress.best else None
        self._view.rows = rows(self._train, self._valid, best)

    def _draw_curves(self) -> None:
        """Draw the curves, and set the time from which training metrics cause the next drawing."""
        started = time.monotonic()
        self.run.draw_curves()
        ended = time.monotonic()
        self._draw_at = ended + max(_CURVES_SECONDS, (ended - started) / _CURVES_SHARE)

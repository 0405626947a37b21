"""The run folder: the files of a training run, except its checkpoints.

config.toml       all resolved values, each with an explanation
metrics.jsonl     training and validation metrics, one JSON object per line
train.log         the same for people, with sample translations
curves.svg        learning curves of the same metrics
tensorboard/      the same for TensorBoard, if the recipe asks for it
evaluation.json   the scores on test sets, by the last `nmt evaluate`
status.json       running, stopped, finished or failed; which update; why
checkpoints/      see `nmt.runs.checkpoint`
best.safetensors, last.safetensors
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import errno
import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from nmt import __version__, console
from nmt.config.model_config import MODEL_CONFIGS
from nmt.config.recipes import Recipe, format_toml, read_toml, resumable_keys, with_keys_of_today
from nmt.config.training_config import TrainingConfig
from nmt.data.folder import DataFolder
from nmt.errors import DataError, NMTError, UsageError
from nmt.system import files
from nmt.system.plot import Panel, Point, draw_curves

FORMAT_VERSION = 2
WORK = "distill"
"""The folder in which `nmt distill` makes what a student learns, before there is a run."""
EVALUATION = "evaluation.json"
_CHOSEN = "matmul", "precision", "compile", "validate_tokenizer"  # where they were auto
_STRINGS = (
    "preset architecture data data_path init_from_checksum init_from command nmt date checksum"
)
_RUN = {"ranks": int} | dict.fromkeys(_STRINGS.split(), str)
"""The values of [run] in config.toml, and their types."""
_OWN_FILES = frozenset(
    "config.toml metrics.jsonl train.log curves.svg evaluation.json status.json lock "
    "best.safetensors last.safetensors".split()
)


_CURVES: tuple[tuple[str, str, list[tuple[str, str]]], ...] = (
    (
        "nll",
        "unsmoothed negative log-likelihood, nats per token",
        [("train", "nll"), ("valid", "nll")],
    ),
    ("Perplexity", "log scale", [("train", "perplexity"), ("valid", "perplexity")]),
    ("BLEU", "percent", [("valid", "bleu")]),
    ("chrF", "percent", [("valid", "chrf")]),
    ("Learning rate", "", [("train", "learning_rate")]),
    ("Speed", "source and target tokens per second", [("train", "tokens_per_second")]),
    ("Gradient norm", "", [("train", "grad_norm")]),
)
"""The panels of curves.svg: title, explanation, and which key of which kind of record they show."""


def curves_from_metrics(
    records: Sequence[Mapping[str, object]], title: str = "Learning curves", best: int | None = None
) -> str:
    """Draw the records of `metrics.jsonl`, and mark the update of the best model."""
    newest = next((record for record in reversed(records) if record.get("kind") == "valid"), {})
    panels = []
    for name, explanation, shown in _CURVES:
        # Those of single pairs of languages, such as `bleu/en-de` besides `bleu`, come last.
        valid = tuple(f"{key}/" for kind, key in shown if kind == "valid")
        of_pairs = [("valid", key) for key in newest if key.startswith(valid)]
        series = tuple(
            (key.partition("/")[2] or kind, points)
            for kind, key in (*shown, *of_pairs)
            if (points := _points(records, kind, key)) or name not in ("BLEU", "chrF")
        )
        if series:
            panels.append(Panel(name, series, explanation, log_scale=name == "Perplexity"))
    return draw_curves(panels, title, best=best)


def _points(records: Sequence[Mapping[str, object]], kind: str, key: str) -> list[Point]:
    """Return (update, value) for the records of one kind that have a number under `key`."""
    return [
        (update, value)
        for record in records
        if record.get("kind") == kind
        and isinstance(update := record.get("update"), int | float)
        and isinstance(value := record.get(key), int | float)
    ]


InitialModel = tuple[str, str]
"""Path and checksum of the model that a run starts from; both empty for random weights."""


class RunFolder:
    """One run's folder, held by one training process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.config = path / "config.toml"
        self._metrics = path / "metrics.jsonl"
        self._lock: BinaryIO | None = None
        self._unwritten: set[Path] = set()  # files whose failure we have warned of

    @property
    def exists(self) -> bool:
        return self.config.is_file()

    @property
    def data_path(self) -> Path:
        """Where the data folder was when the run was started last."""
        return Path(self._read_config()["run"]["data_path"])

    def check(self) -> None:
        """Refuse a path that cannot be written, or has anything other than a run (UsageError)."""
        folder = next(path for path in (self.path, *self.path.parents) if files.is_there(path))
        if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            raise UsageError(
                f"{folder} is not a folder that you can write to; choose another --out"
            )
        is_used = folder == self.path and not self.exists
        if is_used and not all(map(_may_come_before, folder.iterdir())):
            raise UsageError(f"{folder} has other files and no run; choose an empty or new --out")

    def check_run(self) -> None:
        """Refuse a path that holds no run, with UsageError."""
        if self.exists:
            return
        if not files.is_there(self.path):
            raise UsageError(f"{self.path}: no such run folder; `nmt train` makes one")
        if (self.path / "dataset.json").is_file():
            raise UsageError(f"{self.path}: is a data folder; give the run folder of `nmt train`")
        raise UsageError(f"{self.path}: not a run folder (it has no config.toml)")

    def create(self) -> None:
        """Make the folder if it is missing; UsageError if something else is in its place."""
        self.check()
        self.checkpoints.mkdir(parents=True, exist_ok=True)

    def lock(self) -> str:
        """Lock the folder until `unlock`, or until this process ends; return a mark for `has_mark`.

        HeldOff if another process is training in it.
        """
        path = self.path / "lock"
        busy = f"{self.path}: another process is training here; wait for it or choose another --out"
        self._lock = files.open_unlinked(path)
        files.lock(self._lock.fileno(), path, busy)
        mark = uuid.uuid4().hex
        self._lock.write(mark.encode())
        self._lock.flush()
        os.fsync(self._lock.fileno())  # other machines may read it
        return mark

    def has_mark(self, mark: str) -> bool:
        """Tell whether this folder has the mark of another process, also if it is on NFS."""
        with contextlib.suppress(OSError):
            list(self.path.parent.iterdir())  # NFS looks anew, whatever it has seen before
            return (self.path / "lock").read_text() == mark
        return False

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def fill_in_choices(self, training: TrainingConfig, ranks: int, cores: int) -> TrainingConfig:
        """Fill in open values as the run in this folder chose them.

        Threads stay open if the number of processes has changed, or if each has too few cores.
        Otherwise they stay the same, whatever OMP_NUM_THREADS says, because another number of
        threads rounds differently.
        """
        config = self._read_config()
        before, threads = config["training"], int(config["training"]["threads"])
        same = config["run"]["ranks"] == ranks and threads <= cores
        return dataclasses.replace(
            training,
            threads=training.threads or (threads if same else 0),
            **{key: before[key] for key in _CHOSEN if getattr(training, key) == "auto"},
        )

    def ranks(self) -> int:
        """Return the number of processes that the run had last."""
        return int(self._read_config()["run"]["ranks"])

    def own_values(self) -> tuple[str, str, dict[str, object]]:
        """Return the preset, architecture and values of the run, if not edited (UsageError)."""
        run = self._read_config()["run"]
        document = files.parse_toml(self.config.read_bytes())
        del document["run"]
        if run["checksum"] != _checksum(document):
            raise UsageError(
                f"{self.config} was edited; undo that, and give changes on the command line, such "
                "as --set patience=5"
            )
        if run["architecture"] not in MODEL_CONFIGS:
            raise DataError(f"{self.config}: damaged: it names no known architecture")
        values = read_toml(self.config)
        is_open = {"threads", *_CHOSEN}
        settled = {key: value for key, value in values.items() if key not in is_open}
        return run["preset"], run["architecture"], settled

    def other_data(self, data: DataFolder) -> list[str]:
        """Return how a data folder differs from that of the run, as `changes` does."""
        run, now = self._read_config()["run"], str(data.path.absolute())
        if run["data"] == data.fingerprint:
            return []
        if (was := run["data_path"]) != now:
            return [f"DATA was {was} and is now {now}, with other content"]
        return [f"DATA {now} has other content than when the run began; was it prepared again?"]

    def changes(
        self, recipe: Recipe, initial: InitialModel = ("", "")
    ) -> tuple[list[str], list[str]]:
        """Compare a recipe that has all values chosen, and the model that it starts from.

        Returns changes that are allowed, and those that are not. With another preset, no values are
        compared.
        """
        before = self._read_config()
        run = before["run"]
        allowed, refused = list[str](), list[str]()
        if run["preset"] != recipe.preset:
            refused.append(f"preset was {run['preset']!r} and is now {recipe.preset!r}")
        for section, values in {} if refused else recipe.sections.items():
            # A key that the run lacks came with a later version: it has its default.
            old = dataclasses.asdict(type(values)()) | before.get(section, {})
            for key, value in dataclasses.asdict(values).items():
                if old[key] == value:
                    continue
                changed = allowed if key in resumable_keys() else refused
                changed.append(f"{key} was {old[key]!r} and is now {value!r}")
        path, checksum = initial
        if run["init_from_checksum"] != checksum:
            was, now = run["init_from"] or "not given", path or "not given"
            refused.append(f"--init-from was {was} and is now {now}, with other weights")
        return allowed, refused

    def initial_model(self) -> InitialModel:
        run = self._read_config()["run"]
        return run["init_from"], run["init_from_checksum"]

    def best_metric(self) -> str:
        """Return the metric that selects the run's best checkpoints: loss, bleu or chrf."""
        return str(self._read_config()["training"]["best_metric"])

    def _read_config(self) -> dict[str, Any]:
        try:
            document = files.parse_toml(files.read_file(self.config))
        except ValueError as error:
            raise DataError(f"{self.config}: damaged: {error}") from None
        run, training = document.get("run"), document.get("training")
        if not (isinstance(run, dict) and isinstance(training, dict)):
            raise DataError(f"{self.config}: damaged: it lacks [run] or [training]")
        if (version := run.get("format_version")) != FORMAT_VERSION:
            raise DataError(
                f"{self.config} has format version {version}, but this nmt reads "
                f"{FORMAT_VERSION}; choose another --out"
            )
        if wrong := [key for key, kind in _RUN.items() if type(run.get(key)) is not kind]:
            raise DataError(f"{self.config}: damaged: [run] has no valid {wrong[0]}")
        training = with_keys_of_today(training, str(self.config))
        document["training"] = dataclasses.asdict(TrainingConfig()) | training
        return document

    def write_config(
        self, recipe: Recipe, data: DataFolder, initial: InitialModel, *, ranks: int, command: str
    ) -> None:
        """Write all values; log what has changed in a run that goes on.

        recipe: all values of the sections.
        data: the data folder, where it is now.
        initial: the model that the run starts from.
        ranks: the present number of processes.
        command: the command line, recorded with date and version if the run starts now.
        """
        now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        start = {"command": command, "nmt": __version__, "date": now}
        if self.exists:
            before, changes = self._read_config()["run"], self.changes(recipe, initial)[0]
            if before["ranks"] != ranks:
                changes.append(f"processes were {before['ranks']} and are now {ranks}")
            if changes:
                self.log(f"{self.path}: {'; '.join(changes)}")
            start = {key: before[key] for key in start}
        path, checksum = initial
        run = {
            "format_version": FORMAT_VERSION,
            "preset": recipe.preset,
            "architecture": recipe.architecture,
            "data": data.fingerprint,
            "data_path": str(data.path.absolute()),
            "init_from_checksum": checksum,
            "init_from": path,
            "ranks": ranks,
        }
        values = files.parse_toml(format_toml(recipe.sections).encode())
        run |= start | {"checksum": _checksum(values)}
        files.write_text(self.config, format_toml({"run": run, **recipe.sections}))

    def write_status(self, status: str, update: int, reason: str = "") -> None:
        """Write the status of the run, for recipes and cron."""
        record = {"status": status, "update": update, "reason": reason}
        files.write_text(self.path / "status.json", json.dumps(record) + "\n")

    def write_evaluation(self, scores: Sequence[Mapping[str, object]]) -> None:
        """Write the scores of `nmt evaluate`, an object for each test set."""
        path = self.path / EVALUATION
        with self.best_effort(path):
            files.write_text(path, json.dumps(scores, indent=2, ensure_ascii=False) + "\n")

    def log(self, line: str, *, aloud: bool = True) -> None:
        """Add a line to the log, and print it; if it is not `aloud`, only with --verbose."""
        (console.notice if aloud else console.detail)(line)
        self._append_to_log(line)

    def warn(self, line: str) -> None:
        """Print a warning, also with --quiet, and add it to the log."""
        console.warning(line)
        self._append_to_log(f"warning: {line}")

    def _append_to_log(self, line: str) -> None:
        line = f"{time.strftime('%m-%d %H:%M:%S')} {console.printable(line)}\n"
        self._append(self.path / "train.log", line)

    def record(self, record: Mapping[str, object]) -> None:
        """Add one object to metrics.jsonl."""
        self._append(self._metrics, json.dumps(record) + "\n")

    def _append(self, path: Path, line: str) -> None:
        """Append a whole line or nothing."""
        data = line.encode()
        with self.best_effort(path), path.open("ab", buffering=0) as file:
            end = file.tell()
            if file.write(data) < len(data):  # the disk has room for only a part of it
                file.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @contextlib.contextmanager
    def best_effort(self, path: Path) -> Iterator[None]:
        """Go on if a line or a picture cannot be written; warn once per file."""
        try:
            yield
        except (OSError, NMTError) as error:
            if path not in self._unwritten:
                self._unwritten.add(path)
                why = error.strerror if isinstance(error, OSError) else error
                console.warning(f"{path}: {why}; going on without writing it")

    def metrics(self) -> list[dict[str, Any]]:
        """Read metrics.jsonl; skip lines that are cut short or damaged."""
        if not self._metrics.exists():
            return []
        records = []
        for line in files.read_file(self._metrics).splitlines():
            with contextlib.suppress(ValueError):
                records.append(files.parse_json(line))
        return [record for record in records if _is_metric(record)]

    def cut_metrics(self, update: int, validated: int) -> None:
        """Drop records after `update` and validations after `validated`, which come again."""
        if not self._metrics.exists():
            return
        ends = {"train": update, "valid": validated}
        records = [r for r in self.metrics() if r["update"] <= ends.get(r.get("kind", ""), update)]
        with files.atomic_writer(self._metrics) as file:
            file.writelines((json.dumps(record) + "\n").encode() for record in records)

    def draw_curves(self, best: int | None = None) -> None:
        """Draw metrics.jsonl as curves.svg; `best` is the update of the best model."""
        path = self.path / "curves.svg"
        run, data = files.resolved(self.path).name, self.data_path.name if self.exists else ""
        with self.best_effort(path):
            title = f"{run} on {data}" if data else run
            files.write_text(path, curves_from_metrics(self.metrics(), title, best))


def _is_metric(record: object) -> bool:
    return (
        isinstance(record, dict)
        and type(record.get("update")) is int
        and isinstance(record.get("kind"), str)
        and all(abs(value) < 2**1000 for value in record.values() if type(value) is int)
    )


def _checksum(values: Mapping[str, object]) -> str:
    """Return a checksum of a run's values, in which no edit of the file goes unseen."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def run_of(path: Path) -> RunFolder | None:
    """Return the run that writes the file of this path; None if none does."""
    folder = path.parent
    if folder.name == "checkpoints":
        folder = folder.parent
    elif path.name not in _OWN_FILES:
        return None
    run = RunFolder(folder)
    return run if run.exists else None


def _may_come_before(entry: Path) -> bool:
    """Return whether this entry may be there before a run has written config.toml."""
    if entry.name == "checkpoints" and entry.is_dir():
        return not any(entry.iterdir())
    if entry.name == WORK:
        return entry.is_dir()
    return entry.name in ("lock", "status.json") or entry.name.endswith(files.TEMPORARY_SUFFIX)

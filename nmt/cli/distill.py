"""`nmt distill`: a run to a student that learns what the run's model says.

The text of the student is made in this process. Everything else is done by the other commands, each
in a process of its own, so that they show progress, stop and go on as they always do. What a step
has made is not made again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from nmt import console
from nmt.cli.options import Quiet, argument, preset_names
from nmt.cli.train import number_of_processes
from nmt.config import presets
from nmt.config.fields import like, value
from nmt.config.recipes import Recipe, parse_overrides, refuse_two_values, resolve_recipe
from nmt.config.training_config import AugmentConfig, TrainingConfig
from nmt.data.manifest import FILE_NAME
from nmt.errors import EXIT_DONE, EXIT_FAILED, UsageError
from nmt.interchange.programs import CTRANSLATE2, PROGRAMS, needs
from nmt.jobs.options import JobOptions
from nmt.system.files import is_there, parse_json, read_file
from nmt.translate.options import TranslationConfig

if TYPE_CHECKING:
    from nmt.data.folder import DataFolder
    from nmt.models.model_file import ModelCard

EXAMPLES = (
    "nmt distill run --out student",
    "nmt distill run --ensemble run2 --out student",
    "nmt distill run --out student --max-updates 12000 --dry-run",
)

_text_value = partial(value, panel="What the student learns")
_MAY_CHANGE = ("device", "precision", "threads", "matmul", "compile")
"""Values that may be others when a student goes on, as far as `nmt train` allows it."""

Words = tuple[object, ...]
"""Of a command line, after `nmt`."""


def distill(
    run: Annotated[Path, argument("RUN", "Run folder of the teacher.")],
    *,
    out: Path = value(
        ..., "Run folder of the student to create, or to go on with.", short="-o", metavar="STUDENT"
    ),
    ensemble: tuple[Path, ...] = like(TranslationConfig, "ensemble", (), panel=None),
    model: str | None = value(
        None,
        "Preset of the student.",
        metavar="PRESET",
        shown="by the number of pairs",
        completion=preset_names,
    ),
    init_from: Path | None = value(
        None,
        "Start from the weights of this model or run, where they have the same names and shapes.",
        metavar="MODEL_OR_RUN",
    ),
    assignments: tuple[str, ...] = value(
        (),
        "Set one value of the student, as in `nmt train`. You can repeat it.",
        option="--set",
        metavar="KEY=VALUE",
    ),
    max_updates: int | None = like(
        TrainingConfig,
        "max_updates",
        metavar="N",
        help="Updates of the student.",
        shown="as many as the teacher had",
    ),
    data: Path | None = value(
        None, "Data folder whose text it learns.", metavar="DATA", shown="the teacher's"
    ),
    n_best: int = _text_value(
        8, "Translations that teachers make of each line.", minimum=1, maximum=1_000
    ),
    keep: int = _text_value(
        4,
        "How many of them the student learns: those with the best sentence BLEU against the "
        "reference.",
        minimum=1,
    ),
    min_chrf: float = _text_value(
        35.0, "It learns none with a lower chrF.", minimum=0, maximum=100
    ),
    tune: bool = _text_value(
        False,
        "Then learn only the likeliest translation of each line, for a tenth of the updates more.",
    ),
    precision: str | None = like(TrainingConfig, "precision", shown="auto"),
    device: str = like(JobOptions, "device", "auto"),
    processes: str | None = value(
        None, "Processes that train, as in `nmt train`.", metavar="auto|N", shown="auto"
    ),
    seed: int | None = like(TrainingConfig, "seed", shown="1"),
    dry_run: bool = value(False, "Write nothing, and show the steps with their commands."),
    quiet: Quiet = False,
) -> None:
    """Make a student of a finished run: a model that learns from the run's translations.

    By default it is a `transformer_portable`, or for fewer than 100,000 pairs a
    `transformer_portable_few`, which all programs of `nmt export` open. The teacher
    translates its training text. The student learns the translations that are nearest to the
    references. It has the teacher's vocabulary.

    STUDENT becomes a run folder as of `nmt train`, and keeps its data in STUDENT/distill. If the
    command is stopped or killed, run it again and it goes on.
    """
    from nmt.data.folder import DataFolder
    from nmt.models.model_file import find_model, model_checksum, read_card
    from nmt.runs.distillation import check_data, check_made_of, write_training_text
    from nmt.runs.run_folder import WORK, RunFolder
    from nmt.training.choose_recipe import moses_options

    if "WORLD_SIZE" in os.environ:
        raise UsageError("torchrun starts every step several times; use --processes instead")
    teacher, student, work = RunFolder(run), RunFolder(out), out / WORK
    teacher.check_run()
    student.check()
    if student.exists and not work.is_dir():
        raise UsageError(f"{out}: is a run, but not of `nmt distill`; choose another --out")
    source = data or teacher.data_path
    if not is_there(source):
        raise UsageError(f"{source}: the data of {run} is not there; say where it is with --data")
    folder, card = DataFolder.open(source), read_card(find_model(run))
    check_data(folder)
    pairs = folder.info.train.pairs
    model = model or presets.student_preset(pairs)
    if folder.info.langs != (card.src_lang, card.tgt_lang):
        raise UsageError(f"{source}: has other languages than {run}; choose another --data")
    number_of_processes(processes)
    overrides = parse_overrides(assignments)
    given = {"max_updates": max_updates, "seed": seed, "precision": precision, "device": device}
    given = {key: one for key, one in given.items() if one not in (None, "auto")}
    refuse_two_values(given, overrides)
    updates = int(str(teacher.own_values()[2]["max_updates"]))
    chosen = overrides | given
    values, recipe = _values(model, chosen, pairs, updates, card)
    _check_fit(recipe, folder, card)
    made_of = {
        "the teacher": ", ".join(model_checksum(one)[:12] for one in (run, *ensemble)),
        "its data": folder.fingerprint[:12],
        "--model": model,
        "--init-from": model_checksum(init_from)[:12] if init_from else None,
        "--n-best": n_best,
        "--keep": keep,
        "--min-chrf": min_chrf,
        "--tune": tune,
        **{key: one for key, one in chosen.items() if key not in _MAY_CHANGE},
        "max_updates": recipe.training.max_updates,
    }
    same: Words = ("--model", model, *(("--processes", processes) if processes else ()))
    to_prepare = [*moses_options(card).split(), *(["--keep-text"] * recipe.augment.any)]
    first = work / "student" if tune else out
    translating = f"translating its {pairs:,} pairs, with the {n_best} best of each"
    steps = {
        f"reading the text of {source}": [
            _Part(partial(write_training_text, work, folder), (work / "source").exists)
        ],
        translating: _translating(work, (run, *ensemble), card, n_best, device),
        "choosing what the student learns": [
            _choosing(work, folder.info.langs, keep, min_chrf),
            *_preparing(work, run, folder, to_prepare)[: 2 if tune else 1],
        ],
        "training the student": [_training(work / "data", first, init_from, values, same)],
    }
    if tune:
        values |= presets.tuning_values(recipe.training.max_updates, recipe.training.learning_rate)
        steps["tuning it"] = [_training(work / "first-data", out, first, values, same)]
    if dry_run:
        for number, (what, parts) in enumerate(steps.items(), start=1):
            console.print_row(f"# step {number} of {len(steps)}: {what}")
            for part in parts:
                if isinstance(part.do, tuple):
                    console.print_row(shlex.join(map(str, ("nmt", *part.do))))
        return
    check_made_of(work, made_of)
    for number, (what, parts) in enumerate(steps.items(), start=1):
        to_do = [part for part in parts if not part.is_done()]
        if to_do:
            console.notice(f"step {number} of {len(steps)}: {what}")
        for part in to_do:
            part.run(quiet=quiet)
    _report(out, work / "student", card, folder)


class _Part(NamedTuple):
    """A part of a step."""

    do: Callable[[], None] | Words
    """A function, or the words after `nmt`."""
    is_done: Callable[[], bool]

    def run(self, *, quiet: bool) -> None:
        """Do it; typer.Exit if another command fails, which has said why."""
        if callable(self.do):
            self.do()
            return
        status = _run_nmt([*self.do, *(["--quiet"] * quiet)])
        if not self.is_done():
            raise typer.Exit(status or EXIT_FAILED)


def _values(
    model: str, chosen: Mapping[str, object], pairs: int, updates: int, teacher: ModelCard
) -> tuple[dict[str, object], Recipe]:
    """Return the values of the student over those of its preset, and its recipe (UsageError).

    model: the preset.
    chosen: what the user has set.
    pairs: of the training data.
    updates: how many there are, unless the user has set that.
    teacher: whose vocabularies it has.
    """
    preset = presets.find_preset(model)

    def resolved(values: Mapping[str, object]) -> Recipe:
        layers = [(model, presets.preset_values(model)), ("a student", values), ("--set", chosen)]
        return resolve_recipe(model, preset.architecture, layers)

    updates = resolved({"max_updates": updates}).training.max_updates
    values = presets.student_values(model, pairs, updates)
    are_joint = teacher.src_vocabulary.has_ids_of(teacher.tgt_vocabulary)
    if not are_joint and preset.architecture == "transformer":
        values["tie_embeddings"] = "decoder"
    return {**values, **chosen}, resolved(values)


def _check_fit(recipe: Recipe, data: DataFolder, teacher: ModelCard) -> None:
    """Refuse a student that cannot be trained, before its text is made, with UsageError."""
    from nmt.training.setup import check_fit

    # Its text is kept, if its recipe changes that.
    plain = dataclasses.replace(recipe, augment=AugmentConfig())
    src, tgt = teacher.src_vocabulary, teacher.tgt_vocabulary
    check_fit(plain, dataclasses.replace(data, src_vocabulary=src, tgt_vocabulary=tgt))


def _translating(
    work: Path, models: Sequence[Path], card: ModelCard, n_best: int, device: str
) -> list[_Part]:
    """Return how the teachers translate: by CTranslate2 where that is faster, and the same."""
    teacher, *others = models
    lists, export = work / "lists", work / "teacher-ctranslate2"
    parts, engine = list[_Part](), teacher
    if not others and CTRANSLATE2.fault(card.config) is None and _has_ctranslate2(device):
        to_export: Words = ("export", "ctranslate2", teacher, export)
        # Which is no longer needed when the lists are there.
        parts.append(_Part(to_export, lambda: export.exists() or lists.exists()))
        engine = export
    words: Words = ("translate", engine)
    words += tuple(word for one in others for word in ("--ensemble", one))
    words += ("--n-best", n_best, "--beam-size", n_best)
    words += ("--length-penalty-form", "power", "--length-penalty", 1, "--device", device)
    words += ("--input", work / "source", "--output", lists)
    return [*parts, _Part(words, lists.exists)]


def _has_ctranslate2(device: str) -> bool:
    """Return whether to use CTranslate2: not on a GPU, on which the model itself is as fast."""
    if device == "cuda" or importlib.util.find_spec("ctranslate2") is None:
        return False
    import torch

    return device == "cpu" or not torch.cuda.is_available()


def _choosing(work: Path, langs: tuple[str, str], keep: int, min_chrf: float) -> _Part:
    from nmt.runs.distillation import choose_text
    from nmt.scoring.nearest_translations import NearestTranslations
    from nmt.scoring.tokenizers import tokenizer_for

    nearest = NearestTranslations(keep, min_chrf, tokenizer_for(langs[1]))
    is_done = (work / f"first.{langs[0]}").exists
    return _Part(partial(choose_text, work, langs, nearest), is_done)


def _preparing(work: Path, run: Path, data: DataFolder, options: Sequence[str]) -> list[_Part]:
    """Return how the data folders are made: of the training, and of the tuning."""
    (src, tgt), (valid,) = data.info.langs, data.valid_texts
    tests = [work / "tests" / split.name.removeprefix("test-") for split in data.info.tests]
    same: Words = ("--src", src, "--tgt", tgt, "--vocab", run, *options)
    same += ("--valid", str(valid.src).removesuffix(f".{src}"))
    same += tuple(word for test in tests for word in ("--test", test))
    return [
        _Part(("prepare", folder, "--train", work / text, *same), (folder / FILE_NAME).exists)
        for folder, text in ((work / "data", "chosen"), (work / "first-data", "first"))
    ]


def _training(
    data: Path, out: Path, start: Path | None, values: Mapping[str, object], same: Words
) -> _Part:
    words: Words = ("train", data, "--out", out, *same)
    words += ("--init-from", start) if start else ()
    for key, one in values.items():
        words += ("--set", f"{key}={str(one).lower() if isinstance(one, bool) else one}")
    return _Part(words, lambda: _is_finished(out / "status.json"))


def _is_finished(status: Path) -> bool:
    with contextlib.suppress(FileNotFoundError, ValueError):
        return bool(parse_json(read_file(status))["status"] == "finished")
    return False


def _run_nmt(words: Sequence[object]) -> int:
    """Run another command, and return its exit status; signals are passed on to it.

    KeyboardInterrupt if it ends well in spite of a signal, after which no other may start.
    """
    is_stopped = False
    python = os.environ.get("PYTHON_EXEC", sys.executable)  # as for processes that train
    environment = os.environ | {console.STEP: "1"}
    command = [python, "-m", "nmt", *map(str, words)]
    with subprocess.Popen(command, env=environment) as process:
        while process.returncode is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                is_stopped = True
                process.terminate()
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        console.error(f"`nmt {words[0]}` was ended by {name}; run the same command again")
        return EXIT_FAILED
    if is_stopped and process.returncode == EXIT_DONE:
        raise KeyboardInterrupt
    return process.returncode


def _report(out: Path, untuned: Path, teacher: ModelCard, data: DataFolder) -> None:
    """Say how good the student is, and what comes next."""
    from nmt.models.model_file import find_model, read_card

    student = read_card(find_model(out))
    if "bleu" in student.valid:
        has_same_text = "bleu" in teacher.valid and teacher.data == data.fingerprint
        others = [("teacher", teacher)] if has_same_text else []
        if untuned.is_dir():
            others.append((f"{untuned}, before it was tuned,", read_card(find_model(untuned))))
        bleu = [f"{name} {card.valid['bleu']:.2f}" for name, card in others]
        console.notice("; ".join([f"student: BLEU {student.valid['bleu']:.2f} on valid", *bleu]))
    if needs(student.config)[PROGRAMS["bergamot"].name] is None:
        console.next_step("nmt export bergamot", out, "FOLDER")

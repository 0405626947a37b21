"""`nmt distill`: a student that learns what a teacher says: a model, a command, or a file.

The text of the student is made in this process. Everything else is done by the other commands, each
in a process of its own, so that they show progress, stop and go on as they always do. What a step
has made is not made again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import math
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from nmt import console
from nmt.cli.options import Quiet, argument, preset_names
from nmt.cli.train import number_of_processes
from nmt.config import presets
from nmt.config.fields import check, like, value
from nmt.config.recipes import Recipe, parse_overrides, refuse_two_values, resolve_recipe
from nmt.config.training_config import AugmentConfig, TrainingConfig
from nmt.data.manifest import FILE_NAME
from nmt.errors import EXIT_DONE, EXIT_FAILED, UsageError
from nmt.interchange.ctranslate2_manifest import is_export
from nmt.interchange.programs import CTRANSLATE2, PROGRAMS, needs
from nmt.jobs.options import JobOptions
from nmt.prepare.options import PrepareOptions
from nmt.scoring.options import CRITERIA, REFERENCE, SCORE
from nmt.system.files import is_there, parse_json, read_file, sha256_file
from nmt.translate.options import TranslationConfig

if TYPE_CHECKING:
    from nmt.data.folder import DataFolder
    from nmt.data.vocabulary import Vocabulary
    from nmt.models.model_file import ModelCard

EXAMPLES = (
    "nmt distill run --out student",
    "nmt distill run --ensemble run2 --out student",
    "nmt distill opus-mt-en-de --source news.en.gz --valid valid --out student",
    "nmt distill --translations news.out --source news.en --from en --to de -o s",
)

_TEXT, _CHOICE = "Text and teachers", "What the student learns"
_text_value, _choice_value = partial(value, panel=_TEXT), partial(value, panel=_CHOICE)
_MAY_CHANGE = ("device", "precision", "threads", "matmul", "compile")
"""Values that may be others when a student goes on, as far as `nmt train` allows it."""
_N_BEST, _KEEP, _MIN_CHRF = 8, 4, 35.0
_HELD_OUT = 1_000
"""Lines that are drawn for valid if there is none, at most, and at most one of 20."""

Words = tuple[object, ...]
"""Of a command line, after `nmt`."""
Sides = tuple["Vocabulary", "Vocabulary"] | None
"""The vocabularies of source and target; None: a joint one is learnt."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions:
    """What the student learns."""

    data: Path | None = value(
        None, "Data folder whose text it learns.", metavar="DATA", shown="the teacher's"
    )
    source: tuple[Path, ...] = value(
        (),
        "Text of the source language that it learns instead. It needs no references, and may be "
        "compressed, a column such as crawl.tsv:1, or a document. You can repeat it.",
        metavar="FILE",
    )
    valid: str | None = value(
        None,
        "With --source: pairs to validate on.",
        metavar="PREFIX",
        shown="1,000 lines of it, or a twentieth",
    )
    test: tuple[str, ...] = _text_value(
        (), "With --source: a test set. You can repeat it.", metavar="PREFIX"
    )
    src_lang: str | None = like(
        TranslationConfig, "src_lang", panel=_TEXT, help="Language of --source."
    )
    tgt_lang: str | None = like(
        TranslationConfig, "tgt_lang", panel=_TEXT, help="Language of its translations."
    )
    teacher_command: str | None = _text_value(
        None,
        "Instead of TEACHER: a command for the shell that writes a translation of each line of its "
        "stdin. It is started for every 10,000 lines.",
        metavar="COMMAND",
    )
    translations: Path | None = value(
        None,
        "Instead of TEACHER: translations that anybody has made. They are lines of text, n-best "
        "lists of Moses or Marian, or what fairseq-generate writes.",
        metavar="FILE",
        panel=_TEXT,
    )
    ensemble: tuple[Path, ...] = like(TranslationConfig, "ensemble", (), panel=_TEXT)
    n_best: int | None = _text_value(
        None, "Translations that TEACHER makes of each line.", minimum=1, maximum=1_000, shown="8"
    )
    choose: str | None = _choice_value(
        None,
        "By what the best translations of a line are chosen: sentence BLEU against the reference, "
        "the teacher's score, or mean sentence BLEU against the others of the line.",
        choices=CRITERIA,
        shown="reference, and score with --source",
    )
    score_command: str | None = _choice_value(
        None,
        "Instead of --choose: a command for the shell that writes a number for each line "
        "`SOURCE<TAB>TRANSLATION` of its stdin. Higher is better.",
        metavar="COMMAND",
    )
    keep: int | None = _choice_value(
        None, "How many of them the student learns.", minimum=1, shown="4, and 1 with --source"
    )
    min_chrf: float | None = _choice_value(
        None,
        "It learns none with a lower chrF against the reference.",
        minimum=0,
        maximum=100,
        shown="35",
    )
    min_score: float | None = _choice_value(
        None, "It learns none with a lower score, if no reference chooses.", shown="none"
    )
    vocab_size: int | None = like(
        PrepareOptions,
        "vocab_size",
        panel=_CHOICE,
        help="Learn a vocabulary of this size for the student.",
        shown="the teacher's, if all programs can have it",
    )
    tune: bool = _choice_value(
        False,
        "Then learn only the likeliest translation of each line, for a tenth of the updates more.",
    )

    def __post_init__(self) -> None:
        check(self)

    @property
    def criterion(self) -> str:
        """By what translations are chosen; a command writes scores, too."""
        if self.score_command:
            return SCORE
        return self.choose or (SCORE if self.source else REFERENCE)

    def problems_with(self, teacher: Path | None) -> Iterator[str]:
        """Yield what is wrong with the combination of options."""
        by_reference, source = self.criterion == REFERENCE, self.source
        lacks_langs = not (teacher or self.data or (self.src_lang and self.tgt_lang))
        teachers = [teacher, self.teacher_command, self.translations]
        wrong: dict[str, object] = {
            "give one of TEACHER, --teacher-command and --translations": teachers.count(None) != 2,
            "give one of --data and --source": (
                bool(self.data) == bool(source) if teacher is None else self.data and source
            ),
            "name the languages of --source and its translations by --from and --to": lacks_langs,
            "--ensemble is for TEACHER": self.ensemble and not teacher,
            "--n-best is for TEACHER": self.n_best and not teacher,
            "--keep has no meaning for --teacher-command": self.keep and self.teacher_command,
            "--choose has no meaning for --teacher-command": self.choose and self.teacher_command,
            "give one of --choose and --score-command": self.choose and self.score_command,
            "--choose reference is for --data": self.choose == REFERENCE and source,
            "--min-chrf is for references": self.min_chrf is not None and not by_reference,
            "--min-score is for scores": self.min_score is not None
            and (by_reference or (self.teacher_command and not self.score_command)),
            "--valid is for --source": self.valid and not source,
            "--test is for --source": self.test and not source,
            "--from is for --source": self.src_lang and not source,
            "--to is for --source": self.tgt_lang and not source,
            "--tune is for --data, or for --valid": self.tune and source and not self.valid,
        }
        yield from (problem for problem, is_there in wrong.items() if is_there)


def distill(
    teacher: Annotated[
        Path | None,
        argument(
            "TEACHER",
            "A run folder, or any other model that `nmt translate` reads.",
            show_default=False,
        ),
    ] = None,
    *,
    out: Path = value(
        ..., "Run folder of the student to create, or to go on with.", short="-o", metavar="STUDENT"
    ),
    text: TextOptions,
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
        shown="the teacher's run's, or the preset's",
    ),
    precision: str | None = like(
        TrainingConfig, "precision", help="Precision of training.", shown="auto"
    ),
    device: str = like(JobOptions, "device", "auto"),
    processes: str | None = value(
        None, "Processes that train, as in `nmt train`.", metavar="auto|N", shown="auto"
    ),
    seed: int | None = like(TrainingConfig, "seed", shown="1"),
    dry_run: bool = value(False, "Write nothing, and show the steps with their commands."),
    quiet: Quiet = False,
) -> None:
    """Make a student of any teacher: a model that learns the teacher's translations.

    By default it is a `transformer_portable`, or for fewer than 100,000 pairs a
    `transformer_portable_few`, which all programs of `nmt export` open. A run translates its
    training text. Other models translate --data or --source. A --teacher-command may do so, too, or
    --translations are there. The student learns those that are nearest to the references, or
    without them the best ones by the teacher's score. It has the teacher's vocabulary if all
    programs can have it.

    STUDENT becomes a run folder as of `nmt train`, and keeps its data in STUDENT/distill. If the
    command is stopped or killed, run it again and it goes on.
    """
    from nmt.models.model_file import model_checksum
    from nmt.runs import distillation
    from nmt.runs.run_folder import WORK, RunFolder
    from nmt.scoring.choice import Choice
    from nmt.scoring.tokenizers import tokenizer_for

    if "WORLD_SIZE" in os.environ:
        raise UsageError("torchrun starts every step several times; use --processes instead")
    if problems := list(text.problems_with(teacher)):
        raise UsageError("; ".join(problems))
    student, work = RunFolder(out), out / WORK
    student.check()
    if student.exists and not work.is_dir():
        raise UsageError(f"{out}: is a run, but not of `nmt distill`; choose another --out")
    folder = None if text.source else _find_data(teacher, text.data)
    known = _find_teacher(teacher, text, folder)
    number_of_processes(processes)
    overrides = parse_overrides(assignments)
    given = {"max_updates": max_updates, "seed": seed, "precision": precision, "device": device}
    given = {key: one for key, one in given.items() if one not in (None, "auto")}
    refuse_two_values(given, overrides)
    if folder is not None:
        pairs, fingerprint = folder.info.train.pairs, folder.fingerprint
        read = partial(distillation.write_training_text, work, folder)
    else:
        pairs, fingerprint = distillation.survey_source(text.source)
        read = partial(distillation.write_source, work, text.source)
        _check_held_out(text, known.langs)
    model = model or presets.student_preset(pairs)
    of_vocabulary, sides = _find_vocabulary(text.vocab_size, known, folder, starts=bool(init_from))
    chosen = overrides | given
    values, recipe = _values(model, chosen, pairs, known.updates, sides)
    _check_fit(recipe, folder, sides)
    n_best = text.n_best or _N_BEST
    keep = text.keep or (1 if text.source else _KEEP)
    by_reference = text.criterion == REFERENCE
    minimum = text.min_chrf if by_reference else text.min_score
    if minimum is None:
        minimum = _MIN_CHRF if by_reference else -math.inf
    made_of = {
        "the teacher": known.name,
        "--from": known.langs[0],
        "--to": known.langs[1],
        "its data": fingerprint[:12],
        "--valid": text.valid,
        "--test": list(text.test) or None,
        "--model": model,
        "--init-from": model_checksum(init_from)[:12] if init_from else None,
        "--n-best": n_best if teacher else None,
        "--choose": None if by_reference else text.criterion,
        "--score-command": text.score_command,
        "--keep": keep,
        "--min-chrf": minimum if by_reference else None,
        "--min-score": text.min_score,
        "--vocab-size": text.vocab_size,
        "--tune": text.tune,
        **{key: one for key, one in chosen.items() if key not in _MAY_CHANGE},
        "max_updates": recipe.training.max_updates,
    }
    same: Words = ("--model", model, *(("--processes", processes) if processes else ()))
    first = work / "student" if text.tune else out
    steps = {
        "reading the text": [_Part(read, (work / "source").exists)],
        f"translating its {pairs:,} lines": _translating(work, text, known, n_best, device),
    }
    lists = "scored" if text.score_command else "lists"
    if text.score_command:
        scoring = partial(distillation.score_lists, work, text.score_command)
        steps["scoring the translations"] = [_Part(scoring, (work / lists).exists)]
    choice = Choice(text.criterion, keep, minimum, tokenizer_for(known.langs[1]))
    choosing = partial(distillation.choose_text, work, known.langs, lists, choice)
    held_out = _held_out(work, text, folder, pairs)
    to_prepare = (*of_vocabulary, *(["--keep-text"] * recipe.augment.any), *held_out)
    steps["choosing what the student learns"] = [
        _Part(choosing, (work / f"first.{known.langs[0]}").exists),
        *_preparing(work, known.langs, to_prepare)[: 2 if text.tune else 1],
    ]
    steps["training the student"] = [_training(work / "data", first, init_from, values, same)]
    if text.tune:
        values |= presets.tuning_values(recipe.training.max_updates, recipe.training.learning_rate)
        steps["tuning it"] = [_training(work / "first-data", out, first, values, same)]
    if dry_run:
        for number, (what, parts) in enumerate(steps.items(), start=1):
            console.print_row(f"# step {number} of {len(steps)}: {what}")
            for part in parts:
                if isinstance(part.do, tuple):
                    console.print_row(shlex.join(map(str, ("nmt", *part.do))))
        return
    distillation.check_made_of(work, made_of)
    for number, (what, parts) in enumerate(steps.items(), start=1):
        if to_do := [part for part in parts if not part.is_done()]:
            console.notice(f"step {number} of {len(steps)}: {what}")
        for part in to_do:
            part.run(quiet=quiet)
    if text.source and not text.valid:
        console.notice("valid is from the teacher: BLEU there tells how far the student agrees")
    _report(out, work / "student", known.card, fingerprint)


class _Teacher(NamedTuple):
    """What is known of whoever translates."""

    name: str
    """What identifies it."""
    langs: tuple[str, str]
    models: tuple[Path, ...] = ()
    card: ModelCard | None = None
    card_file: Path | None = None
    updates: int | None = None
    """Of its run."""


def _find_data(teacher: Path | None, data: Path | None) -> DataFolder:
    """Open the data folder whose text is learnt, that of the teacher's run by default."""
    from nmt.data.folder import DataFolder
    from nmt.runs.distillation import check_data
    from nmt.runs.run_folder import RunFolder

    if data is None:
        assert teacher is not None  # or it is a problem of the options
        run = RunFolder(teacher)
        if not run.exists and is_there(teacher) and not (teacher / FILE_NAME).is_file():
            raise UsageError(
                f"{teacher}: is not a run, whose text is known; give the text to be translated: "
                "--data or --source"
            )
        run.check_run()
        if not is_there(data := run.data_path):
            raise UsageError(f"{data}: the data of {teacher} is not there; say where by --data")
    folder = DataFolder.open(data)
    check_data(folder)
    return folder


def _find_teacher(teacher: Path | None, text: TextOptions, folder: DataFolder | None) -> _Teacher:
    """Return who translates, and between which languages (NMTError)."""
    from nmt.interchange.importers.imported_once import model_of
    from nmt.models.model_file import CARD, find_model, read_card
    from nmt.runs.run_folder import RunFolder

    src, tgt = folder.info.langs if folder else (text.src_lang, text.tgt_lang)
    if teacher is None:
        file = text.translations
        name = f"translations {sha256_file(file)[:12]}" if file else text.teacher_command
        return _Teacher(str(name), (str(src), str(tgt)))
    model = model_of(teacher)
    card_file = model / CARD if is_export(model) else find_model(model)
    card = read_card(card_file)
    try:
        card = card.for_pair(src, tgt)
    except UsageError as error:
        if folder is None:
            raise
        raise UsageError(f"{folder.path}: {error}; choose another --data") from None
    langs = (src or card.src_lang, tgt or card.tgt_lang)
    if not all(langs):
        raise UsageError(f"{teacher}: knows several languages; name two by --from and --to")
    config = TranslationConfig(
        models=(model, *text.ensemble), src_lang=langs[0], tgt_lang=langs[1]
    ).opened()
    name = ", ".join(checksum[:12] for checksum in config.identity()["models"])
    run = RunFolder(teacher)
    updates = int(str(run.own_values()[2]["max_updates"])) if run.exists else None
    return _Teacher(name, langs, config.models, card, card_file, updates)


def _find_vocabulary(
    size: int | None, teacher: _Teacher, data: DataFolder | None, *, starts: bool
) -> tuple[Words, Sides]:
    """Return how `prepare` takes the vocabulary of the teacher, or of the data, or learns one.

    It learns one if not all programs can have the other, unless a model needs that to start from.
    """
    if size is not None:
        return ("--vocab-size", size), None
    known = teacher.card or data
    if known is None or (teacher.card and teacher.card.languages):
        return (), None
    sides = known.src_vocabulary, known.tgt_vocabulary
    if not starts and any(side.moses or side.has_added_tokens for side in sides):
        console.notice("the student gets a vocabulary of its own, which all programs can have")
        return (), None
    steps = sides[0].moses.steps if sides[0].moses else ()
    path = teacher.card_file or (data and data.path)
    return ("--vocab", path, *(f"--moses-{step}" for step in steps)), sides


def _check_held_out(text: TextOptions, langs: tuple[str, str]) -> None:
    """Read --valid and --test, of which a fault would be found late otherwise (NMTError)."""
    from nmt.data.corpus import Encoding
    from nmt.prepare.corpora import Sources
    from nmt.prepare.readers.copies import copies_kept

    if given := [*filter(None, [text.valid]), *text.test]:
        texts: dict[str, Any] = {"train": (given[0],), "valid_lines": 1, "test": tuple(given)}
        options = PrepareOptions(src_lang=langs[0], tgt_lang=langs[1], **texts)
        with copies_kept(options.texts, Path(tempfile.gettempdir())) as copies:
            Sources.survey(options, Encoding.find("utf-8"), copies)


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
    model: str, chosen: Mapping[str, object], pairs: int, updates: int | None, sides: Sides
) -> tuple[dict[str, object], Recipe]:
    """Return the values of the student over those of its preset, and its recipe (UsageError).

    model: the preset.
    chosen: what the user has set.
    pairs: of the training data.
    updates: how many there are, unless the user has set that; None: as many as the preset has.
    """
    preset = presets.find_preset(model)

    def resolved(values: Mapping[str, object]) -> Recipe:
        layers = [(model, presets.preset_values(model)), ("a student", values), ("--set", chosen)]
        return resolve_recipe(model, preset.architecture, layers)

    updates = resolved({"max_updates": updates} if updates else {}).training.max_updates
    values = presets.student_values(model, pairs, updates)
    if sides and not sides[0].has_ids_of(sides[1]) and preset.architecture == "transformer":
        values["tie_embeddings"] = "decoder"
    return {**values, **chosen}, resolved(values)


def _check_fit(recipe: Recipe, data: DataFolder | None, sides: Sides) -> None:
    """Refuse a student that cannot be trained, before its text is made, with UsageError."""
    from nmt.training.setup import check_fit, check_guided_alignment

    if data is None:
        check_guided_alignment(recipe)
        return
    # Its text is kept, if its recipe changes that.
    plain = dataclasses.replace(recipe, augment=AugmentConfig())
    src, tgt = sides or (data.src_vocabulary, data.src_vocabulary)
    check_fit(plain, dataclasses.replace(data, src_vocabulary=src, tgt_vocabulary=tgt))


def _translating(
    work: Path, text: TextOptions, teacher: _Teacher, n_best: int, device: str
) -> list[_Part]:
    """Return how a command or models translate, or what takes the translations of a file.

    Models translate by CTranslate2 where that is faster, and the same.
    """
    from nmt.runs.distillation import ask_command, take_translations

    lists, export = work / "lists", work / "teacher-ctranslate2"
    if text.teacher_command is not None:
        return [_Part(partial(ask_command, work, text.teacher_command), lists.exists)]
    if text.translations is not None:
        is_by_score = text.criterion == SCORE and not text.score_command
        needs_scores = is_by_score and text.min_score is not None
        take = partial(take_translations, work, text.translations, needs_scores=needs_scores)
        return [_Part(take, lists.exists)]
    (model, *others), card = teacher.models, teacher.card
    assert card is not None
    parts, engine = list[_Part](), model
    is_alone = not others and not is_export(model)
    if is_alone and CTRANSLATE2.fault(card.config) is None and _has_ctranslate2(device):
        to_export: Words = ("export", "ctranslate2", model, export)
        # Which is no longer needed when the lists are there.
        parts.append(_Part(to_export, lambda: export.exists() or lists.exists()))
        engine = export
    words: Words = ("translate", engine)
    words += tuple(word for one in others for word in ("--ensemble", one))
    words += ("--from", teacher.langs[0], "--to", teacher.langs[1]) if card.languages else ()
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


def _held_out(work: Path, text: TextOptions, data: DataFolder | None, pairs: int) -> Words:
    """Return the options of `prepare` for valid and the test sets."""
    if data is not None:
        (valid,) = data.valid_texts
        prefix = str(valid.src).removesuffix(f".{data.info.langs[0]}")
        tests = [work / "tests" / split.title for split in data.info.tests]
        return ("--valid", prefix, *(word for test in tests for word in ("--test", test)))
    drawn = min(_HELD_OUT, max(1, pairs // 20))
    valid_words = ("--valid", text.valid) if text.valid else ("--valid-lines", drawn)
    return (*valid_words, *(word for test in text.test for word in ("--test", test)))


def _preparing(work: Path, langs: tuple[str, str], options: Words) -> list[_Part]:
    """Return how the data folders are made: of the training, and of the tuning."""
    same: Words = ("--src", langs[0], "--tgt", langs[1], *options)
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
    command = [python, "-m", "nmt", *map(str, words)]
    with subprocess.Popen(command, env=os.environ | {console.STEP: "1"}) as process:
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


def _report(out: Path, untuned: Path, teacher: ModelCard | None, fingerprint: str) -> None:
    """Say how good the student is, and what comes next.

    fingerprint: of the data folder whose text it has learnt, if it has learnt that of one.
    """
    from nmt.models.model_file import find_model, read_card

    student = read_card(find_model(out))
    if "bleu" in student.valid:
        others = []
        if teacher and "bleu" in teacher.valid and teacher.data == fingerprint:
            others.append(("teacher", teacher))
        if untuned.is_dir():
            others.append((f"{untuned}, before it was tuned,", read_card(find_model(untuned))))
        bleu = [f"{name} {card.valid['bleu']:.2f}" for name, card in others]
        console.notice("; ".join([f"student: BLEU {student.valid['bleu']:.2f} on valid", *bleu]))
    if needs(student.config)[PROGRAMS["bergamot"].name] is None:
        console.next_step("nmt export bergamot", out, "FOLDER")

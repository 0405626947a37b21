"""The text that a student learns, from text of the source language and what teachers say.

`nmt distill` keeps its work in the folder `distill` of the student's run:

made-of.json        teachers, data and values; the same command again must have the same ones
tests/              the test sets of a data folder
source, reference   its training text; or text of the source language only, without a reference
answers/, scores/   what commands have written so far, by `nmt.runs.commands`
lists               the teachers' translations of `source`, the likeliest of each line first
scored              the same with the scores of a command
first.SRC, .TGT     the likeliest of each line, for `--tune`
chosen.SRC, .TGT    the best ones by `nmt.scoring.choice`, which the student learns
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

import numpy as np

from nmt import console
from nmt.data.corpus import Encoding
from nmt.data.epochs import Indices
from nmt.data.folder import DataFolder
from nmt.data.vocabulary import UNK_ID
from nmt.errors import DataError, UsageError
from nmt.runs.commands import answers
from nmt.scoring.choice import Choice, Translated
from nmt.scoring.inputs import plain_lines, stream
from nmt.scoring.options import REFERENCE
from nmt.system.files import atomic_writer, is_there, parse_json, read_file, write_text
from nmt.system.machine import cores
from nmt.system.workers import map_in_order
from nmt.translate.output import Entry, read_n_best, read_translations, with_sources

_UTF8 = Encoding.find("utf-8")
_AT_ONCE = 1_000  # lines
_LINES_OF_A_WORKER = 20_000  # which take longer than to start another one


def check_data(data: DataFolder) -> None:
    """Refuse training text that cannot be given to a teacher line by line, with UsageError."""
    if data.info.languages is not None or "" in data.info.langs:
        fault = "has several languages, and a student is of one pair; prepare that pair only"
    elif data.info.window > 1:
        fault = "has windows of documents, and a student learns lines; prepare it without them"
    elif data.info.reads_annotations:
        fault = "has annotated lines, and a student learns plain ones; prepare it without them"
    else:
        return
    raise UsageError(f"{data.path} {fault}, and name that folder with --data")


def check_made_of(work: Path, made_of: Mapping[str, object]) -> None:
    """Record what a student is made of; UsageError if it has begun as anything else.

    As long as nothing is translated it has not begun, so a file that was refused can be mended.
    """
    path = work / "made-of.json"
    if not (work / "lists").exists():
        content = json.dumps(made_of, indent=2) + "\n"
        if not path.exists() or path.read_bytes() != content.encode():
            for name in ("source", "reference"):
                (work / name).unlink(missing_ok=True)
            shutil.rmtree(work / "teacher-ctranslate2", ignore_errors=True)
        work.mkdir(parents=True, exist_ok=True)
        write_text(path, content)
        return
    try:
        before = dict(parse_json(read_file(path)))
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: damaged: {error}; remove {work.parent}") from None
    for key in {**made_of, **before}:
        was, now = (
            "not set" if values.get(key) is None else values[key] for values in (before, made_of)
        )
        if was != now:
            raise UsageError(
                f"{work.parent} is another student: {key} was {was} and is now {now}; choose "
                "another --out"
            )


def write_training_text(work: Path, data: DataFolder) -> None:
    """Write training text and test sets of a data folder; `source` appears last."""
    tests = work / "tests"
    tests.mkdir(exist_ok=True)
    for split in data.info.tests:
        for text in data.texts(split):
            for path, lang in zip((text.src, text.tgt), text.langs, strict=True):
                shutil.copyfile(path, tests / f"{split.title}.{lang}")
    total = len(data.train)
    with console.progress("reading the text", total=total, unit="pairs") as bar:

        def pairs() -> Iterator[tuple[str, str]]:
            for rows in np.split(np.arange(total), range(_AT_ONCE, total, _AT_ONCE)):
                yield from _training_pairs(data, rows)
                bar.update(len(rows))

        _write_text(work, pairs())


def _write_text(work: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Write lines of text and their references; `source` appears last."""
    with atomic_writer(work / "source") as source, atomic_writer(work / "reference") as reference:
        _write_pairs((source, reference), pairs)


def _training_pairs(data: DataFolder, rows: Indices) -> Iterator[tuple[str, str]]:
    """Yield some pairs of train: their raw lines if they were kept, or else what their ids say."""
    if data.train_text is not None:
        yield from zip(*(side.text() for side in data.train_text.rows(rows)), strict=True)
        return
    src_ids, tgt_ids = (side.lists() for side in data.train.rows(rows))
    pairs = zip(
        data.src_vocabulary.decode(src_ids), data.tgt_vocabulary.decode(tgt_ids), strict=True
    )
    numbers = zip(data.train.corpora(rows), src_ids, tgt_ids, strict=True)
    for (src, tgt), (corpus, *ids) in zip(pairs, numbers, strict=True):
        if not any(UNK_ID in of_side for of_side in ids):  # which is no text any more
            yield src.removeprefix(data.info.train.corpora[corpus].tag).lstrip(), tgt


def source_lines(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of text in the source language; DataError if a file is not text."""
    for path in paths:
        yield from plain_lines(str(path), stream(path, _UTF8, "source"))


def survey_source(paths: Sequence[Path]) -> tuple[int, str]:
    """Return how many lines text has, and its SHA-256; DataError if there is none."""
    for path in paths:
        if path == Path("-") or (is_there(path) and not path.is_file()):
            raise DataError(f"--source {path}: is read twice; write it to a file, and name that")
    digest, lines = hashlib.sha256(), 0
    for line in source_lines(paths):
        digest.update(f"{line}\n".encode())
        lines += 1
    if not lines:
        raise DataError(f"--source {paths[0]}: has no text; give another file")
    return lines, digest.hexdigest()


def write_source(work: Path, paths: Sequence[Path]) -> None:
    """Write text of the source language, and references that are empty; `source` appears last."""
    _write_text(work, ((line, "") for line in source_lines(paths)))


def ask_command(work: Path, command: str) -> None:
    """Write `lists`, with what a command writes for each line of `source` (NMTError)."""
    texts = answers(command, "--teacher-command", _lines(work / "source"), work / "answers", str)
    _write_lists(work / "lists", (Entry(line, text, 0.0) for line, text in enumerate(texts)))


def take_translations(work: Path, path: Path, *, needs_scores: bool) -> None:
    """Write `lists`, by a file of translations; DataError if they are not those of `source`.

    path: in any order of the scores.
    needs_scores: whether to refuse plain lines, which have none.
    """
    entries = read_translations(stream(path, _UTF8), str(path))
    source = work / "source"
    paired = with_sources(entries, _lines(source), str(source), listed=str(path))

    def ranked() -> Iterator[Entry]:
        has_scores = False
        for _, of_line in groupby((entry for entry, _ in paired), key=attrgetter("line")):
            best_first = sorted(of_line, key=attrgetter("score"), reverse=True)
            has_scores |= any(entry.score for entry in best_first)
            yield from best_first
        if needs_scores and not has_scores:
            raise DataError(f"{path}: has no scores; leave out --min-score")

    _write_lists(work / "lists", ranked())


def score_lists(work: Path, command: str) -> None:
    """Write `scored`, with the scores that a command gives to the pairs of `lists` (NMTError)."""
    pairs = (
        "\t".join(text.replace("\t", " ") for text in (source, entry.text))
        for entry, source in _entries(work, "lists")
    )
    scores = answers(command, "--score-command", pairs, work / "scores", _finite)
    scored = (
        entry._replace(score=score)
        for (entry, _), score in zip(_entries(work, "lists"), scores, strict=True)
    )
    _write_lists(work / "scored", scored)


def _finite(text: str) -> float:
    if math.isfinite(number := float(text)):
        return number
    raise ValueError(text)


def _write_lists(path: Path, entries: Iterable[Entry]) -> None:
    with atomic_writer(path) as file:
        for entry in entries:
            file.write(f"{entry}\n".encode())


def choose_text(work: Path, langs: tuple[str, str], lists: str, choice: Choice) -> None:
    """Write what a student learns, by the teachers' lists, and say how much that is.

    lists: the name of their file.
    DataError if the lists are not those of the source, or nothing in them is good enough.
    """
    total = sum(1 for _ in _lines(work / "source"))
    workers = min(cores(), 1 + total // _LINES_OF_A_WORKER)
    pairs, lines, likeliest = 0, 0, 0
    with contextlib.ExitStack() as leaving:
        first, chosen = (
            [leaving.enter_context(atomic_writer(work / f"{name}.{lang}")) for lang in langs]
            for name in ("first", "chosen")
        )
        bar = leaving.enter_context(console.progress("choosing", total=total, unit="lines"))
        blocks = map_in_order(choice.of_lines, _translated(work, lists), workers=workers)
        for block, texts_of_lines in blocks:
            for line, texts in zip(block, texts_of_lines, strict=True):
                _write_pairs(first, ((line.source, text) for text in line.texts[:1] if text))
                _write_pairs(chosen, ((line.source, text) for text in texts))
                pairs, lines = pairs + len(texts), lines + bool(texts)
                likeliest += texts[:1] == line.texts[:1]
            bar.update(len(block))
        if not pairs:
            raise DataError(
                f"{work / lists}: no translation is good enough, by {choice.by} of "
                f"{choice.minimum:g}; take a better teacher, or lower "
                f"{'--min-chrf' if choice.by == REFERENCE else '--min-score'}"
            )
    console.notice(
        f"{pairs:,} pairs of {lines:,} of {total:,} lines; the best translation was the likeliest "
        f"in {likeliest:,}"
    )


def _translated(work: Path, lists: str) -> Iterator[list[Translated]]:
    """Yield blocks of lines with their translations, all lines in their order."""
    by_line = groupby(_entries(work, lists), key=lambda pair: (pair[0].line, pair[1]))
    paired = zip(by_line, _lines(work / "reference"), strict=True)
    lines = (
        _of_line(source, reference, [entry for entry, _ in of_line])
        for ((_, source), of_line), reference in paired
    )
    while block := list(islice(lines, _AT_ONCE)):
        yield block


def _of_line(source: str, reference: str, entries: Sequence[Entry]) -> Translated:
    texts, scores = [entry.text for entry in entries], [entry.score for entry in entries]
    return Translated(source, reference, texts, scores)


def _entries(work: Path, lists: str) -> Iterator[tuple[Entry, str]]:
    """Yield the entries of lists with the lines that they translate."""
    source, path = work / "source", work / lists
    entries = read_n_best(_lines(path), str(path), features=False)
    return with_sources(entries, _lines(source), str(source))


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file that is written here."""
    with path.open("rb") as file:
        for line in file:
            yield line.decode().removesuffix("\n")


def _write_pairs(files: Iterable[BinaryIO], pairs: Iterable[tuple[str, str]]) -> None:
    for pair in pairs:
        for file, line in zip(files, pair, strict=True):
            file.write(f"{line}\n".encode())

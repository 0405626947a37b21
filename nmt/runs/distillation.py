"""The text that a student learns, from what its teachers were trained on and what they say.

`nmt distill` keeps its work in the folder `distill` of the student's run:

made-of.json        teachers, data and values; the same command again must have the same ones
tests/              the test sets of the teachers' data folder
source, reference   its training text
lists               the teachers' translations of `source`, the likeliest of each line first
first.SRC, .TGT     the likeliest of each line, for `--tune`
chosen.SRC, .TGT    those nearest to `reference`, which the student learns
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from nmt import console
from nmt.data.epochs import Indices
from nmt.data.folder import DataFolder
from nmt.data.vocabulary import UNK_ID
from nmt.errors import DataError, UsageError
from nmt.scoring.nearest_translations import NearestTranslations, Translated
from nmt.system.files import atomic_writer, parse_json, read_file, write_text
from nmt.system.machine import cores
from nmt.system.workers import map_in_order
from nmt.translate.output import read_n_best, with_sources

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
    """Record what a student is made of; UsageError if its folder records anything else."""
    path = work / "made-of.json"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(made_of, indent=2) + "\n")
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
                shutil.copyfile(path, tests / f"{split.name.removeprefix('test-')}.{lang}")
    with (
        console.progress("reading the text", total=len(data.train), unit="pairs") as bar,
        atomic_writer(work / "source") as source,
        atomic_writer(work / "reference") as reference,
    ):
        for first in range(0, len(data.train), _AT_ONCE):
            rows = np.arange(first, min(first + _AT_ONCE, len(data.train)))
            for src, tgt in _training_pairs(data, rows):
                source.write(f"{src}\n".encode())
                reference.write(f"{tgt}\n".encode())
            bar.update(len(rows))


def _training_pairs(data: DataFolder, rows: Indices) -> Iterator[tuple[str, str]]:
    """Yield some pairs of train: their raw lines if they were kept, or else what their ids say."""
    if data.train_text is not None:
        raw = data.train_text.rows(rows)
        yield from zip(*(side.text() for side in raw), strict=True)
        return
    src_ids, tgt_ids = (side.lists() for side in data.train.rows(rows))
    pairs = zip(
        data.src_vocabulary.decode(src_ids), data.tgt_vocabulary.decode(tgt_ids), strict=True
    )
    numbers = zip(data.train.corpora(rows), src_ids, tgt_ids, strict=True)
    for (src, tgt), (corpus, *ids) in zip(pairs, numbers, strict=True):
        if not any(UNK_ID in of_side for of_side in ids):  # which is no text any more
            yield src.removeprefix(data.info.train.corpora[corpus].tag).lstrip(), tgt


def choose_text(work: Path, langs: tuple[str, str], nearest: NearestTranslations) -> None:
    """Write what a student learns, by the teachers' lists, and say how much that is.

    DataError if the lists are not those of the source, or nothing in them is good enough.
    """
    with (work / "source").open("rb") as file:
        total = sum(1 for _ in file)
    workers = min(cores(), 1 + total // _LINES_OF_A_WORKER)
    pairs, lines, likeliest = 0, 0, 0
    with contextlib.ExitStack() as leaving:
        first, chosen = (
            [leaving.enter_context(atomic_writer(work / f"{name}.{lang}")) for lang in langs]
            for name in ("first", "chosen")
        )
        bar = leaving.enter_context(console.progress("choosing", total=total, unit="lines"))
        blocks = map_in_order(nearest.of_lines, _translated(work), workers=workers)
        for block, texts_of_lines in blocks:
            for line, texts in zip(block, texts_of_lines, strict=True):
                _write_pairs(first, line.source, line.texts[:1])
                _write_pairs(chosen, line.source, texts)
                pairs, lines = pairs + len(texts), lines + bool(texts)
                likeliest += texts[:1] == line.texts[:1]
            bar.update(len(block))
        if not pairs:
            raise DataError(
                f"{work / 'lists'}: no translation has a chrF of {nearest.min_chrf:g}; train the "
                "teacher for longer, or lower --min-chrf"
            )
    console.notice(
        f"{pairs:,} pairs of {lines:,} of {total:,} lines; the best translation was the likeliest "
        f"in {likeliest:,}"
    )


def _translated(work: Path) -> Iterator[list[Translated]]:
    """Yield blocks of lines with their translations, all lines in their order."""
    with contextlib.ExitStack() as leaving:
        source, reference, lists = (
            map(_without_end, leaving.enter_context((work / name).open("rb")))
            for name in ("source", "reference", "lists")
        )
        name = str(work / "source")
        entries = with_sources(read_n_best(lists, str(work / "lists")), source, name)
        by_line = groupby(entries, key=lambda pair: (pair[0].line, pair[1]))
        lines = (
            Translated(src, tgt, [entry.text for entry, _ in of_line])
            for ((_, src), of_line), tgt in zip(by_line, reference, strict=True)
        )
        while block := list(islice(lines, _AT_ONCE)):
            yield block


def _without_end(line: bytes) -> str:
    return line.decode().removesuffix("\n")


def _write_pairs(files: Sequence[BinaryIO], source: str, texts: Sequence[str]) -> None:
    """Write a pair of the source and each text that there is."""
    for text in filter(None, texts):
        for file, side in zip(files, (source, text), strict=True):
            file.write(f"{side}\n".encode())

"""`--documents`: training pairs are windows of neighbouring lines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prepare_job import Job, pairs, prepare_in_all_ways, write

from nmt.data.folder import DataFolder
from nmt.data.vocabulary import split_lines
from nmt.errors import DataError, UsageError
from nmt.prepare.windows import Side, choose_windows, draw_context, join_side

Line = tuple[str, str]
Lines = list[Line]
BREAK = ("", "")
Prepare = Callable[..., DataFolder]


def windows_in(folder: DataFolder) -> list[tuple[list[str], list[str]]]:
    """The lines of each window on both sides, decoded."""
    found = []
    for index in range(len(folder.train)):
        sides = []
        for ids, vocabulary in (
            (folder.train.src(index), folder.src_vocabulary),
            (folder.train.tgt(index), folder.tgt_vocabulary),
        ):
            assert vocabulary.separator is not None
            sides.append(vocabulary.decode(split_lines(ids.tolist(), vocabulary.separator)))
        found.append((sides[0], sides[1]))
    return found


@pytest.fixture
def prepare(tmp_path: Path) -> Prepare:
    """Prepare these lines with windows of 3."""
    held_out = write(tmp_path, "held", pairs(102)[100:])

    def prepare(lines: Lines, **values: Any) -> DataFolder:
        out = values.pop("out", "data")
        text = write(tmp_path, f"text-{out}", lines)
        options: dict[str, Any] = {"valid": held_out, "vocab_size": 330}
        options |= {"documents": True, "window": 3}
        return Job.of(tmp_path / str(out), train=(text,), **options | values).prepare()

    return prepare


def neighbours(lines: Lines) -> set[tuple[Line, ...]]:
    """All windows of up to 3 lines between which there is no break."""
    windows = {tuple(lines[start : start + n]) for start in range(len(lines)) for n in (1, 2, 3)}
    return {window for window in windows if BREAK not in window}


def test_each_line_ends_a_window_of_neighbours_on_both_sides(prepare: Prepare) -> None:
    lines = pairs(60)
    folder = prepare(lines)
    found = windows_in(folder)
    assert [(src[-1], tgt[-1]) for src, tgt in found] == lines
    for number, (src, tgt) in enumerate(found):
        assert 1 <= len(src) == len(tgt) <= 3
        assert list(zip(src, tgt, strict=True)) == lines[number + 1 - len(src) : number + 1]
    counts = np.bincount([len(src) for src, _ in found], minlength=4)[1:]
    assert folder.info.train.windows == tuple(counts)
    assert counts.min() >= 10  # of 20 each, as drawn
    assert folder.info.window == 3
    DataFolder.open(folder.path, verify=True)


def test_a_line_that_is_blank_on_both_sides_ends_a_document(prepare: Prepare) -> None:
    documents = [pairs(60)[start : start + 5] for start in range(0, 60, 5)]
    lines = [line for document in documents for line in (*document, BREAK)]
    folder = prepare(lines)
    found = [tuple(zip(src, tgt, strict=True)) for src, tgt in windows_in(folder)]
    assert len(found) == 60
    assert set(found) <= neighbours(lines)
    assert max(map(len, found)) == 3
    corpus = folder.info.train.corpora[0]
    assert (corpus.lines, corpus.kept, corpus.rejected) == (72, 60, {"break": 12})
    # Without the option, the same lines are rejects, and no vocabulary has a separator.
    plain = prepare(lines, out="plain", documents=False, window=4)
    assert plain.info.train.corpora[0].rejected == {"empty": 12}
    assert plain.src_vocabulary.separator is None
    assert plain.info.train.windows == ()
    assert plain.info.window == 1


def test_the_longest_window_counts_separators_and_tags() -> None:
    def side(*lengths: int, tag: int = 0) -> Side:
        return [(9,) * tag] * len(lengths), [[7] * length for length in lengths]

    src, tgt = side(2, 3, 4), side(1, 1, 1)
    for longest, starts in ((11, [0, 0, 0]), (10, [0, 0, 1]), (8, [0, 0, 1]), (7, [0, 0, 2])):
        for sides in ((src, tgt), (tgt, src)):
            assert choose_windows([1, 2, 3], [2, 2, 2], *sides, longest=longest) == starts
    tagged = side(2, 3, 4, tag=1)
    assert choose_windows([1, 2, 3], [2, 2, 2], tagged, tgt, longest=11) == [0, 0, 1]
    starts = choose_windows([1, 2, 4], [2, 2, 2], tagged, tgt, longest=99)
    assert starts == [0, 0, 2]  # line 3 was dropped
    assert join_side(tagged, starts, 5)[1] == [9, 7, 7, 5, 7, 7, 7]


def test_context_is_drawn_uniformly_by_the_seed_and_the_text() -> None:
    hashes = np.random.default_rng(1).integers(1, 2**63, 40_000, dtype=np.uint64)
    drawn = np.array(draw_context(hashes, window=4, seed=1))
    assert np.bincount(drawn) == pytest.approx([10_000] * 4, abs=400)
    again = draw_context(hashes[::-1], window=4, seed=1)
    assert again[::-1] == drawn.tolist()  # whatever stands beside it
    assert np.mean(drawn == draw_context(hashes, window=4, seed=2)) == pytest.approx(0.25, abs=0.02)


def test_a_document_that_comes_twice_is_a_duplicate_and_a_line_is_not(prepare: Prepare) -> None:
    document = pairs(20)
    twice = prepare([*document, BREAK, *document])
    assert twice.info.train.corpora[0].rejected == {"break": 1, "duplicate": 20}
    # "Yes" is another pair after another line, unless it was drawn to stand by itself.
    replies = [("yes", "ja"), ("no", "nein"), ("thank you", "danke"), ("good", "gut")]
    lines = [line for n, one in enumerate(document) for line in (one, replies[n % 4])]
    folder = prepare(lines, out="replies")
    found = windows_in(folder)
    kept = [[src for src, _ in found if src[-1] == reply] for reply, _ in replies]
    assert all(len(some) == len({tuple(src) for src in some}) for some in kept)
    assert {len(some) for some in kept} == {1, 5}
    assert all((len(some) == 1) == (len(some[0]) == 1) for some in kept)
    assert len(found) + folder.info.train.corpora[0].rejected["duplicate"] == 40
    # What is dropped as a duplicate is still the line before the next one.
    before = {src[-2] for src, _ in found if len(src) > 1} & {reply for reply, _ in replies}
    assert before == {reply for reply, _ in replies}


@pytest.mark.usefixtures("small_blocks")
def test_workers_and_stops_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        line for n, line in enumerate(pairs(60)) for line in ([line] if n % 7 else [BREAK, line])
    ]
    text, held_out = write(tmp_path, "text", lines), write(tmp_path, "held", pairs(2))
    options: Any = {"vocab_size": 330, "shard_pairs": 10, "documents": True}
    job = Job.of(tmp_path / "whole", train=(text,), valid=held_out, **options)
    folder = prepare_in_all_ways(job, monkeypatch, shards=3)
    assert max(len(src) for src, _ in windows_in(folder)) == 4


def test_the_seed_and_the_window_are_options_of_the_folder(prepare: Prepare) -> None:
    first = prepare(pairs(60))
    other = prepare(pairs(60), out="other", seed=2)
    assert [len(src) for src, _ in windows_in(first)] != [len(src) for src, _ in windows_in(other)]
    with pytest.raises(UsageError, match=r"window .*3 .*4"):
        prepare(pairs(60), window=4)
    with pytest.raises(UsageError, match=r"window .*3 .*1"):
        prepare(pairs(60), documents=False, window=4)


def test_valid_and_test_keep_lines_and_their_breaks(prepare: Prepare, tmp_path: Path) -> None:
    held = [*pairs(203)[200:], BREAK, *pairs(205)[203:]]
    text = write(tmp_path, "pages", held)
    folder = prepare(pairs(40), valid=text, test=(text,))
    lines = [line for line in held if line != BREAK]
    for data in (folder.valid, folder.test):
        assert data is not None
        sides = [folder.src_vocabulary.decode([data.src(n).tolist()])[0] for n in range(len(data))]
        assert sides == [src for src, _ in lines]
        assert [data.origin(n)[1] for n in range(len(data))] == [1, 2, 3, 5, 6]
    (valid,) = folder.valid_texts
    assert list(zip(*valid.lines(), strict=True)) == held
    assert folder.info.valid.corpora[0].rejected == {"break": 1}
    DataFolder.open(folder.path, verify=True)
    with pytest.raises(DataError, match="line 4"):
        prepare(pairs(40), out="plain", valid=text, documents=False, window=4)
    half = write(tmp_path, "half", [*pairs(2), ("", "x")])
    with pytest.raises(DataError, match="line 3"):
        prepare(pairs(40), out="half", valid=half)


def test_a_vocabulary_gets_a_separator_that_no_text_spells(prepare: Prepare) -> None:
    plain = prepare(pairs(60), out="plain", documents=False, window=4)
    vocab, lines = plain.path / "vocab.model", pairs(60)
    lines[3] = ("a <sep> b", "x <sep> y")
    folder = prepare(lines, vocab=(vocab,), vocab_size=None)
    assert len(folder.src_vocabulary) == len(plain.src_vocabulary) + 1
    assert max(len(src) for src, _ in windows_in(folder)) == 3
    assert [src[-1] for src, _ in windows_in(folder)][3] == "a <sep> b"
    again = prepare(pairs(60), out="again", vocab=(folder.path / "vocab.model",), vocab_size=None)
    assert again.src_vocabulary.model == folder.src_vocabulary.model

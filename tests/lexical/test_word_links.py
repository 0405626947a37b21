"""Links of words, such as eflomal's, become links of tokens: by hand, and by loops."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from prepare_job import Job, write

from nmt.data.batches import NO_LINK
from nmt.data.folder import DataFolder
from nmt.data.subword_dropout import SubwordDropout
from nmt.errors import DataError
from nmt.lexical import word_links
from nmt.lexical.word_links import WordLinks

WORDS = ["aber", "bei", "cello", "dunkel", "eben"]
LINES = [
    ("the red bird sings", "der rote Vogel singt laut", "0-0 1-1 2-2 3-3 3-4"),
    ("birds sing", "es singen Vögel", "1-1 0-2"),
    ("a tree", "ein  Baum", ""),  # spaces in a row are one
    ("unbelievable", "un glaub lich", "0-0 0-1 0-2"),
    ("old new old", "alt", "2-0 0-0"),
]


def prepare(folder: Path, lines: list[tuple[str, str, str]], **values: Any) -> DataFolder:
    file = folder / "links.tsv"
    file.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    valid = write(folder, "valid", [("something", "etwas")])
    options = {"train": (str(file),), "vocab_size": 300, "keep_column": (f"{file}:3",)}
    return Job.of(folder / "data", valid=valid, **options | values).prepare()


def by_loops(links: str, src: list[str], tgt: list[str]) -> list[int]:
    """The source token of each target token, from the pieces of a pair."""
    src_words, tgt_words = (words_of(pieces) for pieces in (src, tgt))
    found = [NO_LINK] * len(tgt)
    for link in reversed(links.split()):
        source, target = map(int, link.split("-"))
        for place, token in enumerate(tgt_words[target]):
            tokens = src_words[source]
            found[token] = tokens[place] if place < len(tokens) else tokens[-1]
    return found


def words_of(pieces: list[str]) -> list[list[int]]:
    words: list[list[int]] = []
    for place, piece in enumerate(pieces):
        if piece.startswith("\u2581") and pieces[place + 1 : place + 2] != ["<X>"]:
            words.append([])
        if words:  # else it is a tag
            words[-1].append(place)
    return words


def linked(folder: DataFolder, *, dropout: float = 0.0) -> list[tuple[list[str], list[str], Any]]:
    """The pieces of both sides of each pair, and the links of the target's."""
    pairs = np.arange(len(folder.train))[::-1]
    rows = folder.train.rows(pairs)
    vocabularies = folder.src_vocabulary, folder.tgt_vocabulary
    if dropout:
        draw = np.random.default_rng(1)
        one, other = (SubwordDropout(vocabulary, dropout) for vocabulary in vocabularies)
        rows = one(rows[0], draw), other(rows[1], draw)
    found = WordLinks.of(folder)(*rows, pairs)
    parts = np.split(found, np.cumsum(rows[1].lengths)[:-1])
    sides = [
        [vocabulary.tokens(ids) for ids in side.lists()]
        for vocabulary, side in zip(vocabularies, rows, strict=True)
    ]
    return list(zip(*sides, (part.tolist() for part in parts), strict=True))[::-1]


def test_a_word_is_linked_token_by_token_and_its_rest_with_the_last(tmp_path: Path) -> None:
    folder = prepare(tmp_path, LINES[3:])
    (src, tgt, links), (other_src, _, other) = linked(folder)
    source, words = words_of(src)[0], words_of(tgt)
    assert len(source) > max(map(len, words)) > 1
    for word in words:
        assert [links[token] for token in word] == source[: len(word)]
    assert other[0] == words_of(other_src)[2][0]  # of 2-0 and 0-0


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("values", [{}, {"separate_vocab": True, "vocab_size": 290}])
def test_links_are_those_of_loops(tmp_path: Path, dropout: float, values: dict[str, Any]) -> None:
    folder = prepare(tmp_path, LINES, **values)
    assert len(folder.train) == len(LINES)
    found = linked(folder, dropout=dropout)
    assert [links for _, _, links in found] == [
        by_loops(column, src, tgt)
        for (_, _, column), (src, tgt, _) in zip(LINES, found, strict=True)
    ]


def test_many_pairs_of_several_corpora_are_linked_as_by_loops(tmp_path: Path) -> None:
    draw, lines = Random(3), []
    for number in range(200):
        sizes = draw.randint(1, 12), draw.randint(1, 12)
        texts = [
            " ".join(draw.choice((*WORDS, f"n{number}")) for _ in range(size)) for size in sizes
        ]
        pairs = [tuple(map(draw.randrange, sizes)) for _ in range(draw.randint(0, 15))]
        lines.append(
            (texts[0], texts[1], " ".join(f"{source}-{target}" for source, target in pairs))
        )
    plain = write(tmp_path, "plain", [("one without links", "eins ohne")])
    file = str(tmp_path / "links.tsv")
    folder = prepare(
        tmp_path,
        lines,
        train=(plain, file),
        tag=(f"{plain}=<BT>", f"{file}=<X>"),
        shard_pairs=60,
    )
    WordLinks.of(folder).check(lambda _: None)
    (_, _, unlinked), *others = linked(folder, dropout=0.2)
    assert set(unlinked) == {NO_LINK}
    assert len(others) > 190
    for index, (src, tgt, links) in enumerate(others, 1):
        column = lines[folder.train.origin(index)[1] - 1][2]
        assert src[1] == "<X>"
        assert links == by_loops(column, src, tgt)


@pytest.mark.parametrize(
    "column",
    [
        "https://example.org/1-1",
        "0-0 1",
        "0-0-1",
        "-1-0",
        "0:0",
        "0-0 2-1",
        "1-3",
        "999999999-0",
        "\u0660-\u0660",
    ],
)
def test_links_that_do_not_fit_are_named_and_left_out(tmp_path: Path, column: str) -> None:
    misfit = ("cats sleep", "Katzen schlafen gern", column)
    folder = prepare(tmp_path, [misfit, *LINES])
    links = WordLinks.of(folder)
    message = f"links.tsv: line 1: '{column}' is no list of links such as '0-0 1-2' between 2 and 3"
    with pytest.raises(DataError, match=f"{message} words; in all, the links of 1 of 6 pairs"):
        links.check(lambda _: None)
    (_, _, unlinked), *others = linked(folder)
    assert set(unlinked) == {NO_LINK}
    assert [links for _, _, links in others] == [
        by_loops(column, src, tgt)
        for (_, _, column), (src, tgt, _) in zip(LINES, others, strict=True)
    ]


def test_few_that_do_not_fit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_links, "_CHUNK", 3)
    lines = [(f"bird {n}", f"Vogel {n}", "0-0 1-1") for n in range(200)]
    lines[7], lines[150] = (*lines[7][:2], "7-7"), (*lines[150][:2], "x")
    done: list[int] = []
    misfits = WordLinks.of(prepare(tmp_path, lines)).check(done.append)
    assert (misfits.pairs, sum(done)) == (2, 200)
    assert "line 8: '7-7' is no list of links" in misfits.first


def test_a_no_break_space_is_between_words_as_for_eflomal(tmp_path: Path) -> None:
    lines = [(f"page {n} : on", f"Seite\u00a0{n}\u00a0: an", "1-1 3-3") for n in range(10, 40)]
    folder = prepare(tmp_path, lines)
    assert WordLinks.of(folder).check(lambda _: None).pairs == 0
    for src, tgt, links in linked(folder):
        linked_pieces = [(src[link], tgt[at]) for at, link in enumerate(links) if link != NO_LINK]
        text = ["".join(side).strip("\u2581\u00a0") for side in zip(*linked_pieces, strict=True)]
        assert text[0].endswith("on")
        assert text[1].endswith("an")
        assert len(linked_pieces) > 2

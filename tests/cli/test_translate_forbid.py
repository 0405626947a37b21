"""`nmt translate --forbid`: words that no translation contains."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from command_line import TranslateText

from nmt.data.vocabulary import Vocabulary
from nmt.data.words import unit_pattern
from nmt.lexical.word_list import ListedWord, WordList
from nmt.search.engine import Engine, Hypothesis, Source
from nmt.translate.forbidden_words import NOT_AVOIDED, ForbiddenWords, avoid_forbidden
from nmt.translate.segment import Segment
from nmt.translate.steps import LinesUnderWay

LINES = ["the cat sees a dog", "", "a dog.", "the small house finds the old river", "a red bird"]
TEXT = "".join(f"{line}\n" for line in LINES)
ROOM = ("--max-extra-tokens", "6")


def words_of(lines: list[str]) -> list[str]:
    """Return the words of two letters or more in some lines."""
    units = {unit for line in lines for unit in unit_pattern().findall(line)}
    return sorted(unit for unit in units if unit.isalpha() and len(unit) > 1)


@pytest.mark.parametrize("more", [("--n-best", "2"), ("--sample",), ("--split",)])
def test_forbidden_words_are_in_no_translation(
    translate_text: TranslateText, tmp_path: Path, more: tuple[str, ...]
) -> None:
    def texts(*words: str | Path) -> list[str]:
        answer = translate_text(TEXT, *ROOM, *more, *words, "--format", "jsonl")
        entries = [json.loads(line) for line in answer.stdout.split("\n")[:-1]]
        assert answer.status == 0
        assert len(entries) == len(LINES)
        return [one["text"] for entry in entries for one in (entry, *entry.get("others", []))]

    path = tmp_path / "words"
    known = list[str]()
    for _ in range(2):  # what comes instead is forbidden, too
        before = texts(*(("--forbid", path) if known else ()))
        known += words_of(before)[:4]
        assert known
        path.write_text("# not these\n\n" + "\n".join(known), encoding="utf-8")
        forbidden = WordList(ListedWord(word) for word in known)
        assert not any(forbidden.find(text) for text in texts("--forbid", path))


def test_a_term_that_is_forbidden_is_missing(translate_text: TranslateText, tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("cat\tKatze\ndog\tHund\tgroßer Köter\n", encoding="utf-8")
    (tmp_path / "words").write_text("Katze\nhund\n", encoding="utf-8")
    words = ("--terms", tmp_path / "terms", "--forbid", tmp_path / "words")
    answer = translate_text("the cat sees a dog\n", "--max-extra-tokens", "30", *words)
    assert answer.status == 0
    assert re.search("1 line .* line 1: cat -> Katze", answer.stderr)
    assert "großer Köter" in answer.stdout
    assert "Katze" not in answer.stdout


def writing(vocabulary: Vocabulary, text: str) -> list[Hypothesis]:
    """Return a translation that spells a text by characters."""
    pieces = vocabulary.tokens(range(len(vocabulary)))
    spelled = ["\u2581" if character == " " else character for character in text]
    ids = [pieces.index(one if one in pieces else f"<0x{ord(one):02X}>") for one in spelled]
    return [Hypothesis(tuple(ids), -1.0, -1.0)]


def avoid(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch, search: Any, results: list[Any]
) -> LinesUnderWay:
    """Let the step avoid the word "ab" by a search that a test makes up."""
    monkeypatch.setattr("nmt.translate.forbidden_words.search_guarded", search)
    words = ForbiddenWords(WordList([ListedWord("ab")]), vocabulary)
    searched = [Segment(Source((5 + number,))) for number in range(len(results))]
    lines = LinesUnderWay([], searched=searched, results=results)
    avoid_forbidden(cast(Engine, None), words, lines)
    return lines


def test_what_other_tokens_write_is_searched_again(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    spelled = writing(vocabulary, "xabz ab, ab")
    sequence = writing(vocabulary, "ab")[0].ids
    clean = writing(vocabulary, "xabz abc")
    searched: list[Sequence[Source]] = []

    def search(_: Engine, sources: Sequence[Source], **_on: Any) -> tuple[list[Any], set[int]]:
        searched.append(sources)
        return [clean for _ in sources], {0}

    assert vocabulary.decode([spelled[0].ids]) == ["xabz ab, ab"]
    lines = avoid(vocabulary, monkeypatch, search, [clean, spelled, "an error"])
    assert lines.results == [clean, clean, "an error"]
    assert lines.guarded == {1}
    ((again,),) = searched
    assert again.ids == (6,)
    (barred,) = again.barred
    assert barred[-len(sequence) :] == sequence


def test_a_line_that_cannot_do_without_has_no_translation(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    spelled = writing(vocabulary, "AB")

    def search(_: Engine, sources: Sequence[Source], **_on: Any) -> tuple[list[Any], set[int]]:
        return [spelled for _ in sources], set()

    assert avoid(vocabulary, monkeypatch, search, [spelled]).results == [NOT_AVOIDED]


def test_a_word_with_a_capital_is_forbidden_only_so(vocabulary: Vocabulary) -> None:
    either, capital = (
        ForbiddenWords(WordList([ListedWord(word)]), vocabulary) for word in ("polish", "Polish")
    )
    assert [either.are_in(text) for text in ("polish", "Polish", "polished")] == [True, True, False]
    assert [capital.are_in(text) for text in ("polish", "Polish", "polished")] == [
        *(False, True, False)
    ]
    assert len(either.sequences) > len(capital.sequences) > 0

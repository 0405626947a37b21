"""Lines without letters are copied, byte for byte, and never searched."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from listed import listed

import nmt
from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.data.words import has_letters
from nmt.search.engine import Engine, Hypothesis, SearchResult, Source
from nmt.search.options import SearchOptions
from nmt.translate.copied_text import has_words
from nmt.translate.language_pair import LanguagePair
from nmt.translate.options import TranslationConfig
from nmt.translate.output import BLANK, RENDERS
from nmt.translate.translator import Translator

# With flags, a keycap, numbers and signs of letters, marks alone, and format.
_LETTERLESS = """
- -- *** 2024 12:30 3.14 €␣12,50 3,5␣% → 1) §␣5 “␣” 😀 👨‍👩‍👧 🇩🇪 🏴\U000e0067\U000e0062\U000e007f
1\ufe0f\u20e3 Ⅳ ½ ① Ⓐ ㎏ 〇 ٢٠٢٤ २०२४ ๕ \u0301 \u0e31 \u200b \ufeff- \ufffd\ufffd \u2581
␣␣-␣␣ 1␣␣2␉3
"""
LETTERLESS = [*listed(_LETTERLESS), "- \u2028 -", "─" * 500, "1 2 3. 4 5! 6 " * 40]
PIECES = ["http://a.b/c", "a@b.org", "{name}", "%s", "- %(name)d: {0} ...", "$name 5", "www.a.de/x"]
WORDS = listed("""
a 12:30␣Uhr 5␣km (c) 1º e\u0301 \u1100 ᄀ 가 二〇二四 ー ʰ א ب क\u094d ก ა 𝐀 ﬁ
x␣*** a␣http://a.b/c {a␣b} %s␣a @a
""")


class Inventing(Engine):
    """An engine that says the same of every source, and remembers what it was asked."""

    def __init__(self, vocabulary: Vocabulary, **options: Any) -> None:
        barred = SearchOptions(barred_ids=vocabulary.barred_ids, **options)
        super().__init__(barred, batch_tokens=1_000)
        self.ids = tuple(vocabulary.encode(["a dog sees"])[0])
        self.searched: list[Source] = []

    def find(self, sources: Sequence[Source], order: Sequence[int], *_: Any) -> Any:
        count = 1 if self.options.sampling is None else self.options.n_best
        self.searched += [sources[number] for number in order]
        invented = Hypothesis(self.ids, -2.0, -1.0, (-0.1,) * (len(self.ids) + 1))
        found: list[SearchResult] = [[invented] * count for _ in order]
        yield from zip(order, found, strict=True)

    def attention(self, pairs: Any) -> Any:
        return [None] * len(pairs)


@pytest.fixture(scope="module")
def tagging() -> Vocabulary:
    lines = ["a dog sees the cat. 1 2 3", "the cat sees a dog - a", "the dog, the cat and a cat"]
    return learn_vocabulary(lines, vocab_size=310, controls=[">>de<<"])


def inventing(
    vocabulary: Vocabulary, values: dict[str, Any] | None = None, **options: Any
) -> tuple[Translator, Inventing]:
    engine = Inventing(vocabulary, **options)
    pair = LanguagePair(("en", "de"), vocabulary, vocabulary, 20)
    config = TranslationConfig(search=SearchOptions(**options), **(values or {}))
    return Translator(engine, pair, config), engine


def test_letters_are_those_of_unicode() -> None:
    assert [text for text in LETTERLESS if has_letters(text)] == []
    assert [text for text in (*WORDS, *PIECES) if not has_letters(text)] == []
    assert not has_letters("1 ab 2 c", [(7, 8), (2, 4)])
    assert has_letters("1 ab 2 c", [(2, 3), (-5, 1), (7, 99)])


def test_addresses_and_placeholders_are_no_words() -> None:
    assert [text for text in (*LETTERLESS, *PIECES) if has_words(text)] == []
    assert [text for text in WORDS if not has_words(text)] == []


def test_lines_without_letters_are_copied_and_never_searched(vocabulary: Vocabulary) -> None:
    translator, engine = inventing(vocabulary)
    lines = [*LETTERLESS, *PIECES]
    found = translator.translate(lines)
    assert [one.text for one in found] == lines
    assert engine.searched == []
    values = {(one.score, one.log_prob, one.segments, one.copied) for one in found}
    assert values == {(0.0, 0.0, 1, True)}
    assert not any(one.is_cut or one.guarded or one.error for one in found)


def test_lines_with_a_letter_are_searched(vocabulary: Vocabulary) -> None:
    translator, engine = inventing(vocabulary)
    found = translator.translate([*WORDS, "2024"])
    assert len(engine.searched) == len(set(WORDS))
    assert [one.copied for one in found] == [False] * len(WORDS) + [True]


def test_no_copy_translates_all_lines(vocabulary: Vocabulary) -> None:
    translator, engine = inventing(vocabulary, no_copy=True)
    found = translator.translate(["2024", "", "{name}"])
    assert [one.text for one in found] == ["a dog sees", "", "a dog sees"]
    assert len(engine.searched) == 2


def test_a_tag_is_no_text(tagging: Vocabulary) -> None:
    translator, engine = inventing(tagging, {"alignment": True})
    found = translator.translate([">>de<< 2024", ">>de<<-", ">>de<<  ", "<b> -"])
    assert [one.text for one in found[:3]] == ["2024", "-", ""]
    assert found[2] == BLANK
    assert len(engine.searched) == 1  # <b> is no tag
    first = found[0].alignment
    assert first is not None and first.words == ((1, 0),)


def test_sentences_and_segments_without_letters_are_copied(vocabulary: Vocabulary) -> None:
    translator, engine = inventing(vocabulary, {"split": True})
    (found,) = translator.translate(["The cat sees.  2024! 12!\u00a0The dog sees."])
    assert found.text == "a dog sees  2024! 12!\u00a0a dog sees"
    assert (found.segments, found.copied, len(engine.searched)) == (4, False, 2)

    translator, engine = inventing(vocabulary, {"no_split": True})
    (found,) = translator.translate(["the cat sees a dog and a cat. " + "7 " * 40])
    assert found.is_cut
    assert found.text.count("7") >= 30
    assert set(found.text.replace("a dog sees", "")) == {"7", " "}
    assert len(engine.searched) < found.segments


def test_a_prefix_is_searched_for(vocabulary: Vocabulary) -> None:
    translator, engine = inventing(vocabulary)
    found = translator.translate(["2024", "2024"], ["the", ""])
    assert [one.text for one in found] == ["a dog sees", "2024"]
    assert len(engine.searched) == 1


def test_a_line_with_a_term_is_translated(vocabulary: Vocabulary, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("24/7\ta dog\n😀\tcat\nhouse\tcat\n")
    translator, _ = inventing(vocabulary, {"terms": tmp_path / "terms.tsv"})
    found = translator.translate(["24/7", "24/8", "😀"])
    assert [one.copied for one in found] == [False, True, False]
    assert [[term.is_placed for term in one.terms] for one in found] == [[True], [], [False]]


def test_a_copy_says_so_in_every_form(vocabulary: Vocabulary) -> None:
    translator, _ = inventing(vocabulary, {"alignment": True})
    (found,) = translator.translate(["2024  -"])
    assert RENDERS["scores"](0, found) == ["0.000000\t2024  -"]
    assert RENDERS["alignment"](0, found) == ["2024  - ||| 0-0 1-1"]
    content = json.loads(RENDERS["jsonl"](0, found)[0])
    assert (content["copied"], content["text"]) == (True, "2024  -")
    tokens = vocabulary.tokens(vocabulary.encode(["2024  -"])[0])
    assert content["tokens"] == content["src_tokens"] == tokens
    assert content["token_log_probs"] == [0.0] * len(tokens)


@pytest.mark.parametrize(
    "line", ["<b>½</b>", "<i>Ⅳ</i> <b>{name}</b>", "<p>①</p>", "<b>-</b>", "1_000 <code>ab</code>"]
)
def test_markup_without_letters_stays(model_file: Path, line: str) -> None:
    (found,) = nmt.Translator.load(model_file, markup="html").translate([line])
    assert (found.text, found.copied) == (line, True)


def test_copied_segments_keep_alignments_whole(model_file: Path) -> None:
    translator = nmt.Translator.load(model_file, alignment=True, split=True)
    line = "2024! The cat sees a dog. 12! A dog."
    found, first, last = translator.translate([line, "The cat sees a dog.", "A dog."])
    for one in (found, first, last):
        assert one.alignment is not None
        assert len(one.alignment.positions) == len(one.tokens)
    assert found.alignment is not None
    assert found.text == f"2024! {first.text} 12! {last.text}".strip()
    assert found.alignment.words[0] == (0, 0)  # 2024! is the first word of both

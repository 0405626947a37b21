"""Vocabularies compose: NFC and NFD of a text have the same ids."""

import tempfile
from itertools import permutations
from pathlib import Path
from unicodedata import combining, normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.composition import compose_lines, is_composed, is_decomposed
from nmt.data.corpus import Encoding
from nmt.data.moses import Moses
from nmt.data.pieces import PieceModel
from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.prepare.block import Block
from nmt.prepare.block_steps import clean_sample
from nmt.prepare.cleaning_options import CleaningOptions
from nmt.prepare.duplicates import OverlapKeys
from nmt.prepare.filters import Filters

TEXT = ["die Größe über alles", "Tiếng Việt", "한국어 좋다", "Ἄνθρωπος ᾧ"]
TEXT += ["पढ़ाई हिन्दी", "the cat sat"]

CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
CHANGED = [one for one in CHARACTERS if {normalize("NFC", one), normalize("NFD", one)} != {one}]
LETTERS = [one for one in CHANGED if normalize("NFC", one) == one]
"""Those that compose."""
HANGUL = [one for one in LETTERS if "\uac00" <= one <= "\ud7a3"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return learn_vocabulary(TEXT, vocab_size=340)


@pytest.fixture(scope="module")
def identity() -> Vocabulary:
    return learn_vocabulary(TEXT, vocab_size=340, normalization="identity")


def test_every_character_has_the_ids_of_its_composed_form(vocabulary: Vocabulary) -> None:
    # By Unicode 14: 12,113 that compose, of which 11,172 are Hangul, and 1,120 that NFC replaces.
    assert len(LETTERS) >= 12_113
    assert len(HANGUL) == 11_172
    assert len(CHANGED) - len(LETTERS) >= 1_120
    composed = [normalize("NFC", one) for one in CHANGED]
    ids = vocabulary.encode(composed)
    assert vocabulary.encode(CHANGED) == ids
    assert vocabulary.encode([normalize("NFD", one) for one in CHANGED]) == ids
    assert vocabulary.decode(ids) == composed


def test_hangul_composes_when_it_is_partly_composed(vocabulary: Vocabulary) -> None:
    parts = [normalize("NFD", one) for one in HANGUL]
    partly = [normalize("NFC", one[:2]) + one[2:] for one in parts]
    assert vocabulary.encode(partly) == vocabulary.encode(HANGUL)
    # Without a space, a syllable does not take part of the next one.
    assert vocabulary.decode(vocabulary.encode(["".join(parts)])) == ["".join(HANGUL)]


@pytest.mark.parametrize(
    ("spellings", "composed"),
    [
        # Vietnamese
        (["a\u0323\u0302", "a\u0302\u0323", "\u1ea1\u0302", "\u00e2\u0323"], "\u1ead"),
        (["\u03b1\u0313\u0301\u0345", "\u1f00\u0301\u0345", "\u1f04\u0345"], "\u1f84"),  # Greek
        (["\u03b1\u0345\u0313\u0301", "\u1fb3\u0313\u0301"], "\u1f84"),
        (["A\u030a", "\u00c5", "\u212b"], "\u00c5"),  # the Ångström sign
        (["\u2126", "\u1f71", "\ufb2a"], None),  # ohm, oxia, Hebrew shin
        (["\u0958", "\u0915\u093c"], "\u0915\u093c"),  # NFC decomposes it
        (["\u09c7\u09be"], "\u09cb"),  # a Bengali vowel of two parts
        (["\u0f43", "\u0f42\u0fb7"], "\u0f42\u0fb7"),  # Tibetan
        (["\U0001d15e"], "\U0001d157\U0001d165"),  # a musical note
        (["\uf900"], "\u8c48"),  # a compatibility ideograph
        # Letters with two marks, of which one composes: Yoruba, Navajo, Hebrew, Arabic.
        (["e\u0323\u0301", "e\u0301\u0323", "\u00e9\u0323", "\u1eb9\u0301"], "\u1eb9\u0301"),
        (["o\u0329\u0301", "o\u0301\u0329", "\u00f3\u0329"], "\u00f3\u0329"),
        (["o\u0328\u0301", "\u00f3\u0328"], "\u01eb\u0301"),
        (["\ufb31\u05b8", "\u05d1\u05b8\u05bc", "\u05d1\u05bc\u05b8"], "\u05d1\u05b8\u05bc"),
        (["\u0627\u064e\u0654", "\u0627\u0654\u064e"], "\u0623\u064e"),
    ],
)
def test_all_spellings_become_the_composed_one(
    vocabulary: Vocabulary, spellings: list[str], composed: str | None
) -> None:
    for text in spellings:
        expected = composed or normalize("NFC", text)
        assert normalize("NFC", text) == expected
        assert vocabulary.decode(vocabulary.encode([text])) == [expected]


def test_marks_of_different_classes_compose_in_any_order(vocabulary: Vocabulary) -> None:
    texts = []
    for one in LETTERS:
        letter, *marks = list(normalize("NFD", one))
        if len(marks) > 1 and all(map(combining, marks)):
            texts += [letter + "".join(some) for some in permutations(marks)]
    same = [text for text in texts if normalize("NFC", text) in LETTERS]
    assert len(same) > 300
    assert vocabulary.decode(vocabulary.encode(same)) == [normalize("NFC", one) for one in same]


@settings(deadline=None, max_examples=50)
@given(st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("aeo \u0301\u0323\u0316"))))
def test_any_text_comes_back_up_to_nfc_and_spaces(vocabulary: Vocabulary, text: str) -> None:
    spaced = text.replace("\u2581", " ").replace("\t", " ")
    expected = normalize("NFC", " ".join(filter(None, spaced.split(" "))))
    (found,) = vocabulary.decode(vocabulary.encode([text]))
    assert normalize("NFC", found) == expected


def test_other_rules_stay_what_they_were(vocabulary: Vocabulary, identity: Vocabulary) -> None:
    decomposed = normalize("NFD", "Größe")
    assert identity.decode(identity.encode([decomposed])) == [decomposed]
    nfkc = learn_vocabulary(TEXT, vocab_size=340, normalization="nfkc")
    assert nfkc.decode(nfkc.encode([decomposed])) == ["Größe"]
    assert [one.composes for one in (vocabulary, identity, nfkc)] == [True, False, True]
    assert PieceModel.read(vocabulary.model).normalization == "nfc"
    assert PieceModel.read(nfkc.model).normalization == "nfkc"


def test_the_bytes_of_a_model_do_not_depend_on_where_it_was_learnt(
    vocabulary: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert learn_vocabulary(TEXT, vocab_size=340).model == vocabulary.model
    assert list(tmp_path.iterdir()) == []


def test_symbols_are_one_piece_however_they_are_spelt() -> None:
    symbol = normalize("NFD", "__größe__")
    learnt = learn_vocabulary(TEXT, vocab_size=350, symbols=[symbol])
    for text in (symbol, "__größe__"):
        assert learnt.tokens(learnt.encode([text])[0])[-1] == "__größe__"
        assert learnt.has_symbol(text)


def test_moses_keeps_letters_with_their_marks(vocabulary: Vocabulary, identity: Vocabulary) -> None:
    moses = Moses("de", normalize=True, tokenize=True)
    line = "Größe über «alles»"
    one, other = Vocabulary(vocabulary.model, moses).encode([line, normalize("NFD", line)])
    assert one == other
    one, other = Vocabulary(identity.model, moses).encode([line, normalize("NFD", line)])
    assert one != other
    block = Block(0, 1, 1, f"{normalize('NFD', line)}\n".encode(), b"All\n", Encoding.find("utf-8"))
    filters = Filters(cleaning=CleaningOptions(), held_out=(OverlapKeys.of([]), OverlapKeys.of([])))
    (pair,), _ = clean_sample(block, filters=filters, moses=(moses, moses), composes=True)
    assert pair == (moses.apply(line), "All")


def test_only_letters_apart_from_their_marks_are_decomposed_text() -> None:
    assert is_decomposed(normalize("NFD", "Größe"))
    assert is_decomposed("한국어" + normalize("NFD", "좋다"))
    for text in ("", "plain", "Größe", "\u0958", "\u2126", "\uf900", "a\u0316"):
        assert not is_decomposed(text)
    assert is_composed("Größe")
    assert not is_composed("\u0958")
    assert compose_lines(["o\u0308", "plain", "\u0308o"]) == ["ö", "plain", "\u0308o"]

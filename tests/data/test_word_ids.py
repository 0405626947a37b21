"""Encoding by words: the ids of SentencePiece, or its own work where words depend on each other."""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.moses import Moses
from nmt.data.pieces import Kind, PieceModel
from nmt.data.protobuf import write_field
from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.data.word_ids import WordIds, cuts_by_words, encode_rows
from nmt.errors import DataError

LINES = ["the cat sat on the mat", "New York is ﬁne in 2024"]
LINES += ["der Hund läuft  um ¨die Ecke", "中文"]
RULES = ["nfc", "identity", "nfkc", "nmt_nfkc", "nmt_nfkc_cf"]
# Spaces of several kinds, what rules delete, compose or replace by spaces, and the symbols.
TRICKY = ["a", "the", " ", "  ", "\u00a0", "\u2581", "\t", "\0", "\u200b", "\u3000", "\u0308", "¨"]
TRICKY += ["u", "ü", "\u1100\u1161", "ﬁ", "中文", "➀", "<s>", ">>de<<", "@X@", "w" * 50, "\ufeff"]


def learn(**options: Any) -> Vocabulary:
    return learn_vocabulary(LINES, vocab_size=320, symbols=["@X@"], **options)


def sentencepiece_model(**options: Any) -> Vocabulary:
    """Learn a model with SentencePiece's trainer itself."""
    model = io.BytesIO()
    usual: dict[str, Any] = {"model_type": "bpe", "vocab_size": 330, "byte_fallback": True}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 9),
        model_writer=model,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=9,
        **(usual | options),
    )
    return Vocabulary(model.getvalue())


def by_words(vocabulary: Vocabulary, lines: Sequence[str]) -> list[list[int]]:
    words = WordIds(vocabulary, token_bytes=2)
    first = encode_rows(vocabulary, lines, words, token_bytes=2).lists()
    assert first == encode_rows(vocabulary, lines, words, token_bytes=2).lists()  # words known
    return first


VOCABULARIES = {rules: learn(normalization=rules) for rules in RULES}
VOCABULARIES["digits"] = learn(split_digits=True)
VOCABULARIES["no rules"] = sentencepiece_model(normalization_rule_name="identity")
VOCABULARIES["no byte fallback"] = sentencepiece_model(byte_fallback=False, vocab_size=60)


@pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES)
@given(lines=st.lists(st.lists(st.sampled_from(TRICKY) | st.text(max_size=4)).map("".join)))
def test_the_ids_are_those_of_sentencepiece(vocabulary: Vocabulary, lines: list[str]) -> None:
    assert by_words(vocabulary, lines) == vocabulary.encode(lines)


@pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES)
def test_the_usual_models_cut_by_words(vocabulary: Vocabulary) -> None:
    assert cuts_by_words(vocabulary)


@pytest.mark.parametrize("codes", ["a\u2581 b", "\u2581 b", "a\u2581b", "b \u2581", "\u2581\u2581"])
def test_a_line_with_a_space_mark_is_encoded_as_a_whole(codes: str) -> None:
    vocabulary = VOCABULARIES["nfc"]
    assert by_words(vocabulary, [codes, "a b"]) == vocabulary.encode([codes, "a b"])


def test_tags_language_tokens_and_moses_rules_are_those_of_encode() -> None:
    lines = [">>de<< the cat's mat", "don't", ">>x<<", ""]
    tagged = learn(controls=[">>de<<"])
    for vocabulary in (tagged, tagged.beginning_with(">>de<<")):
        assert by_words(vocabulary, lines) == vocabulary.encode(lines)
    moses = Vocabulary(tagged.model, Moses("en", normalize=True, tokenize=True))
    assert by_words(moses, lines) == moses.encode(lines)


def rule_with_a_space(folder: Path) -> str:
    path = folder / "rules.tsv"
    path.write_text("20 301\tB4\n", "ascii")
    return str(path)


# What each option does to "a b": its second word has other ids than alone, or there are no words.
DEPENDENT: dict[str, dict[str, Any]] = {
    "unigram": {"model_type": "unigram", "vocab_size": 290},
    "pieces of several words": {"split_by_whitespace": False, "vocab_size": 350},
    "spaces after words": {"treat_whitespace_as_suffix": True},
    "no space before the first word": {"add_dummy_prefix": False},
    "all spaces kept": {"remove_extra_whitespaces": False},
    "symbol with a space": {"user_defined_symbols": ["New York"]},
}


@pytest.mark.parametrize("options", DEPENDENT.values(), ids=DEPENDENT)
def test_models_of_dependent_words_are_left_to_sentencepiece(options: dict[str, Any]) -> None:
    assert not cuts_by_words(sentencepiece_model(**options))


def test_a_rule_that_replaces_a_space_is_found_among_all_rules(tmp_path: Path) -> None:
    vocabulary = sentencepiece_model(normalization_rule_tsv=rule_with_a_space(tmp_path))
    assert vocabulary.normalized("a \u0301b") == "\u2581a\u00b4b"  # one word out of two
    assert not cuts_by_words(vocabulary)


@pytest.mark.parametrize("kind", [Kind.UNUSED, Kind.CONTROL])
def test_a_space_mark_that_text_cannot_have_makes_words_depend_on_each_other(kind: Kind) -> None:
    model = PieceModel.read(VOCABULARIES["no byte fallback"].model)
    pieces = [one._replace(kind=kind) if one.text == "\u2581" else one for one in model.pieces]
    vocabulary = Vocabulary(replace(model, pieces=tuple(pieces), serialised=b"").write())
    # An unknown mark and the unknown character beside it are one token.
    assert by_words(vocabulary, ["\u4e00 a"]) != vocabulary.encode(["\u4e00 a"])
    assert not cuts_by_words(vocabulary)


def test_rules_that_run_in_a_circle_are_refused() -> None:
    units = np.zeros(512, "<u4")
    first, label = 0x100 ^ ord("a"), ord("a")
    units[0] = 0x100 << 10  # its child for "a" stands at `first`
    units[first] = label | ord("a") << 10  # its own is itself: first ^ "a" ^ "a"
    charsmap = np.uint32(units.nbytes).tobytes() + units.tobytes() + b"\0"
    model = PieceModel.read(VOCABULARIES["no rules"].model)
    rest = write_field(3, write_field(2, charsmap))  # NormalizerSpec
    vocabulary = Vocabulary(replace(model, rest=rest, serialised=b"").write())
    with pytest.raises(DataError, match="--vocab"):
        cuts_by_words(vocabulary)

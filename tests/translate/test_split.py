"""Lines that are longer than those of training are split into sentences, so that none is lost."""

from typing import Any

import pytest
from context_stub import Stub, one_sentence

from nmt.data.vocabulary import Vocabulary
from nmt.search.options import SearchOptions
from nmt.translate.language_pair import LanguagePair
from nmt.translate.options import TranslationConfig
from nmt.translate.segment_lines import SegmentLines
from nmt.translate.translator import Translator

SENTENCES = ["The cat sees a dog.", "A bird hears.", "The red tree then finds the old river."]
PARAGRAPH = " ".join(SENTENCES)


def translator_of(
    vocabulary: Vocabulary, usual: int = 0, longest: int = 200, **values: Any
) -> tuple[Translator, Stub]:
    engine = Stub(vocabulary, lambda source: one_sentence(vocabulary, source), beam_size=1)
    pair = LanguagePair(("en", "de"), vocabulary, vocabulary, longest, usual)
    config = TranslationConfig(search=SearchOptions(beam_size=1), **values)
    return Translator(engine, pair, config), engine


def length(vocabulary: Vocabulary, text: str) -> int:
    return len(vocabulary.encode([text])[0])


@pytest.mark.parametrize("more", [0, 1])
def test_lines_are_split_if_longer_than_in_training(vocabulary: Vocabulary, more: int) -> None:
    translator, _ = translator_of(vocabulary, length(vocabulary, PARAGRAPH) - more)
    (found,) = translator.translate([PARAGRAPH])
    assert found.text == (PARAGRAPH if more else SENTENCES[0])
    assert not found.is_cut


@pytest.mark.parametrize("split", [True, False])
def test_what_is_given_decides(vocabulary: Vocabulary, split: bool) -> None:
    translator, engine = translator_of(vocabulary, 5, split=split, no_split=not split)
    (found,) = translator.translate([PARAGRAPH])
    assert found.text == (PARAGRAPH if split else SENTENCES[0])
    assert len(engine.asked) == (3 if split else 1)


def test_a_line_of_one_sentence_is_translated_as_it_was(vocabulary: Vocabulary) -> None:
    asked = []
    for values in ({}, {"no_split": True}):
        translator, engine = translator_of(vocabulary, 3, **values)
        translator.translate([*SENTENCES, "the cat sees e.g. a dog", "the cat. a dog"])
        asked.append(engine.asked)
    assert asked[0] == asked[1]
    assert len(asked[0]) == 5


def test_context_takes_lines_whole(vocabulary: Vocabulary) -> None:
    for values in ({}, {"no_split": True}):
        translator, _ = translator_of(vocabulary, 5, context=2, **values)
        segment = SegmentLines(translator.language_pair, translator.config)
        assert [len(line) for line in segment([PARAGRAPH])] == [1]

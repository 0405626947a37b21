"""Terms for a model that reads them: annotated sources, and what they leave as it is."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from nmt.data.vocabulary import ANNOTATION, Vocabulary
from nmt.errors import UsageError
from nmt.lexical.word_list import ListedWord, WordList
from nmt.markup.tags import parse
from nmt.models.model_file import read_card, write_model
from nmt.search.engine import Source
from nmt.search.options import SearchOptions
from nmt.translate.segment import Segment
from nmt.translate.terms import ReadTerms
from nmt.translate.translator import Translator

LIMIT = 20  # source tokens of a segment, as the model file says
LINES = ["the cat sees the dog.", "", "a red bird", "{cat} and cat", "the dog sees the old house"]
LONG = "the old cat sees the dog, and then the small bird finds the river, and then the cat"


@pytest.fixture(scope="module")
def reading(term_reader: Path) -> Vocabulary:
    """The vocabulary with the markers of terms."""
    return read_card(term_reader).src_vocabulary


@pytest.fixture
def terms_file(tmp_path: Path) -> Path:
    path = tmp_path / "terms.tsv"
    path.write_text("cat\tKatze\ndog\tHund; Hunde\nred bird\tRotkehlchen\n", encoding="utf-8")
    return path


def segments_of(
    vocabulary: Vocabulary, text: str, *, most: int = LIMIT, kept: Sequence[tuple[int, int]] = ()
) -> list[Segment]:
    terms = WordList([ListedWord("cat", ("Katze", "Katzen")), ListedWord("dog", ("Hund",))])
    (ids,) = vocabulary.encode([text])
    return ReadTerms(terms, vocabulary, ("en", "de"))(text, kept, ids, most, "")


def spelt(vocabulary: Vocabulary, segment: Segment) -> str:
    """The text of a source, with its markers."""
    markers = dict(zip(vocabulary.control_ids(ANNOTATION), ANNOTATION, strict=True))
    parts: list[str] = []
    for is_marker, group in groupby(segment.source.ids, key=lambda id_: id_ in markers):
        ids = list(group)
        parts += map(markers.__getitem__, ids) if is_marker else vocabulary.decode([ids])
    return " ".join(" ".join(parts).split())


def test_each_term_gets_its_preferred_translation(reading: Vocabulary) -> None:
    (segment,) = segments_of(reading, "a Cat and two dog", most=100)
    expected = "a <term> Cat <as> Katze </term> and two <term> dog <as> Hund </term>"
    assert spelt(reading, segment) == expected
    assert list(segment.plain) == reading.encode(["a Cat and two dog"])[0]


def test_placeholders_stay_as_they_are(reading: Vocabulary) -> None:
    line = "{cat} sees %(dog)s and www.cat.de"
    (marked,) = segments_of(reading, line, most=100, kept=parse(line, "html").protected)
    assert not marked.plain
    (plain,) = segments_of(reading, "{cat} sees", most=100)
    assert spelt(reading, plain) == "{ <term> cat <as> Katze </term> } sees"


def test_long_lines_are_cut_with_room_for_their_terms(reading: Vocabulary) -> None:
    segments = segments_of(reading, LONG)
    assert len(segments) > 1
    assert all(len(segment.source.ids) <= LIMIT for segment in segments)
    plain = [id_ for segment in segments for id_ in segment.plain or segment.source.ids]
    assert plain == reading.encode([LONG])[0]
    assert sum(spelt(reading, segment).count("<as>") for segment in segments) >= 2


def test_a_line_that_only_its_terms_make_too_long_is_not_cut(reading: Vocabulary) -> None:
    text = "cat cat cat cat cat cat"
    (ids,) = reading.encode([text])
    (segment,) = segments_of(reading, text, most=len(ids) + 10)
    assert len(segment.source.ids) <= len(ids) + 10
    assert segment.plain == tuple(ids)
    assert 1 <= spelt(reading, segment).count("<as>") < 6


def test_attention_to_an_annotation_counts_for_its_term(reading: Vocabulary) -> None:
    (segment,) = segments_of(reading, "a cat", most=100)
    tokens = reading.tokens(segment.source.ids)
    weights = np.arange(2 * len(tokens), dtype=np.float32).reshape(2, -1)
    found = segment.attention_to_plain(weights)
    assert found.shape == (2, len(segment.plain))
    place = tokens.index("<term>")
    assert found[:, :place].tolist() == weights[:, :place].tolist()
    assert found[:, place:].sum(axis=1).tolist() == weights[:, place:].sum(axis=1).tolist()
    # The marker before the term counts for its first token, the annotation for its last one.
    expected = weights[:, tokens.index("<as>") - 1 :].sum(axis=1)
    expected += weights[:, place] if len(segment.plain) == 2 else 0
    assert found[:, -1].tolist() == expected.tolist()
    assert Segment(Source(segment.plain)).attention_to_plain(weights) is weights


def test_a_term_reader_gets_annotations_in_its_sources(term_reader: Path, terms_file: Path) -> None:
    options = SearchOptions(beam_size=2, max_extra_tokens=3)
    plain = Translator.load(term_reader, options, alignment=True)
    soft = Translator.load(term_reader, options, alignment=True, terms=terms_file)
    without, found = plain.translate([*LINES, LONG]), soft.translate([*LINES, LONG])
    assert len(found) == len(LINES) + 1
    assert found[1].text == ""
    assert [one.text for one in found] != [one.text for one in without]
    for one, other in zip(found[:5], without[:5], strict=True):  # alignments are to the line
        if one.alignment is not None and other.alignment is not None:
            assert one.alignment.src_tokens == other.alignment.src_tokens
            assert max(one.alignment.positions) < len(one.alignment.src_tokens)


def test_the_model_file_says_that_the_model_reads_annotations(
    term_reader: Path, model_file: Path, tmp_path: Path
) -> None:
    assert read_card(term_reader).reads_annotations
    assert not read_card(model_file).reads_annotations
    card = replace(read_card(term_reader), reads_annotations=False)
    weights = {name: weight.data for name, weight in card.build().named_parameters()}
    write_model(tmp_path / "plain.safetensors", card, weights)
    with pytest.raises(UsageError, match="reads_annotations"):
        Translator.load([term_reader, tmp_path / "plain.safetensors"])

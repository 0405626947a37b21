"""Lines that are translated together with lines before them: one out for each, whatever happens."""

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from context_stub import (
    Copy,
    Stub,
    documents_vocabulary,
    model_of_documents,
    telling,
    use_instead_of_a_model,
)

from nmt.data.vocabulary import Vocabulary, split_lines
from nmt.errors import UsageError
from nmt.models.model_file import ModelCard, read_card
from nmt.search.engine import Source
from nmt.search.options import Sampling, SearchOptions
from nmt.translate.context import Before
from nmt.translate.language_pair import LanguagePair
from nmt.translate.options import TranslationConfig
from nmt.translate.output import Translation
from nmt.translate.translator import Translator

LINES = ["the cat sees", "a dog", "", "the bird", "a house by the river", "then", "the old dog"]
CONTEXT = [0, 1, 0, 0, 1, 2, 3]  # lines before each in its document


@pytest.fixture(scope="module")
def pieces() -> Vocabulary:
    return documents_vocabulary()


@pytest.fixture(scope="module")
def separator(pieces: Vocabulary) -> int:
    assert pieces.separator is not None
    return pieces.separator


def translator_of(
    pieces: Vocabulary, copy: Copy, *, limit: int = 60, context: int = 3, **options: Any
) -> tuple[Translator, Stub]:
    engine = Stub(pieces, copy, **options)
    pair = LanguagePair(("en", "de"), pieces, pieces, limit)
    return Translator(engine, pair, TranslationConfig(context=context)), engine


def texts(found: Sequence[Translation]) -> list[str]:
    return [one.text for one in found]


def test_lines_before_are_those_of_the_document() -> None:
    before = Before(2, ["x", "", "a"])
    found = ["".join(before.take(line)) for line in ("b", "c", "d", " \t", "e", "f")]
    assert found == ["a", "ab", "bc", "", "", "e"]
    assert [Before(0).take(line) for line in "ab"] == [(), ()]


def test_a_line_is_translated_with_the_lines_before_it(pieces: Vocabulary, separator: int) -> None:
    translator, engine = translator_of(pieces, telling(separator))
    found = translator.translate(LINES)
    assert [one.context for one in found] == CONTEXT
    windows = sorted(pieces.decode(split_lines(ids, separator)) for ids in engine.asked)
    expected = [LINES[n - CONTEXT[n] : n + 1] for n in range(7) if LINES[n]]
    assert windows == sorted(expected)
    first = [pieces.decode([pieces.encode([line])[0][:1]])[0] for line in LINES]
    told = ["".join(f" {word}" for word in first[n - CONTEXT[n] : n]) for n in range(7)]
    assert texts(found) == [line + rest for line, rest in zip(LINES, told, strict=True)]
    assert not any(one.fell_back for one in found)


def test_a_window_has_as_many_lines_as_fit(pieces: Vocabulary, separator: int) -> None:
    tokens = [len(ids) for ids in pieces.encode(LINES)]
    whole = sum(tokens[3:]) + 3
    for limit, context in ((whole, 3), (whole - 1, 2), (tokens[6] + tokens[5] + 1, 1), (60, 3)):
        translator, engine = translator_of(pieces, telling(separator), limit=limit)
        assert translator.translate(LINES)[6].context == context
        assert max(map(len, engine.asked)) <= limit
    translator, _ = translator_of(pieces, telling(separator), limit=max(tokens) - 1)
    found = translator.translate(LINES)
    long = tokens.index(max(tokens))
    assert (found[long].context, found[long].segments) == (0, 2)
    assert found[long].text == LINES[long]


def test_contexts_can_be_given(pieces: Vocabulary, separator: int) -> None:
    translator, _ = translator_of(pieces, telling(separator))
    whole = translator.translate(LINES)
    (last,) = translator.translate(LINES[6:], contexts=[LINES[3:6]])
    assert last == whole[6]
    (odd,) = translator.translate(["a \ud800"], contexts=[["the \udfff"]])
    assert odd.text.startswith("a \ufffd")
    (cut,) = translator.translate(LINES[6:], contexts=[["unseen", *LINES[3:6]]])
    assert cut == last
    with pytest.raises(UsageError, match=r"1 .* 0 contexts"):
        translator.translate(LINES[6:], contexts=[])
    with pytest.raises(UsageError, match="contexts"):
        translator.translate(LINES[6:], contexts=["the cat"])
    translator.config = TranslationConfig()
    with pytest.raises(UsageError, match="context"):
        translator.translate(LINES[6:], contexts=[LINES[3:6]])


def without_last(separator: int) -> Copy:
    """Leave out the last separator."""

    def copy(source: Source) -> Sequence[int]:
        *before, own = split_lines(source.ids, separator)
        if not before:
            return own
        at = max(n for n, one in enumerate(source.ids) if one == separator)
        return [*source.ids[:at], *own]

    return copy


def wrong(separator: int) -> dict[str, Copy]:
    return {
        "one too few": without_last(separator),
        "one too many": lambda source: [separator, *source.ids],
        "nothing after the last": lambda source: [*source.ids, separator],
        "none": lambda source: [one for one in source.ids if one != separator],
        "nothing": lambda source: [] if separator in source.ids else source.ids,
        "a loop": lambda source: (
            [*source.ids, *source.ids[-1:] * 20] if separator in source.ids else source.ids
        ),
    }


@pytest.mark.parametrize("how", wrong(0))
def test_a_line_whose_window_fails_is_alone(pieces: Vocabulary, separator: int, how: str) -> None:
    translator, _ = translator_of(pieces, wrong(separator)[how])
    found = translator.translate(LINES)
    assert texts(found) == LINES
    assert [one.fell_back for one in found] == [count > 0 for count in CONTEXT]
    assert {one.context for one in found} == {0}


def test_the_score_is_that_of_the_line(pieces: Vocabulary) -> None:
    translator, _ = translator_of(pieces, lambda source: source.ids, length_penalty=1.0)
    line = translator.translate(LINES)[6]
    length, before = len(pieces.encode(LINES[6:])[0]), len(line.tokens)
    assert length == before
    whole = sum(map(len, pieces.encode(LINES[3:]))) + 3
    expected = [-1.0 - at for at in range(whole - length, whole + 1)]
    assert line.token_log_probs == tuple(expected[:-1])
    assert line.log_prob == sum(expected)
    assert line.score == pytest.approx(sum(expected) / ((5 + length + 1) / 6))
    assert "<sep>" not in line.tokens


def test_any_separators_give_as_many_lines(pieces: Vocabulary, separator: int) -> None:
    """The property: one line for each, in order, blank where blank, whatever the pools."""
    draw = random.Random(1)
    words = ["the", "cat", "\u2028", "é", "😀", "x" * 9, "<sep>", "river", "\x00"]

    def spoiled(source: Source) -> Sequence[int]:
        chance = random.Random(hash(source.ids))
        ids = list(telling(separator)(source)) if chance.random() < 0.5 else list(source.ids)
        for _ in range(chance.choice([0, 0, 1, 2])):
            ids.insert(chance.randrange(len(ids) + 1), separator)
        return ids[chance.choice([0, 0, 0, 2]) :]

    for _ in range(30):
        lines = [
            " ".join(draw.choices(words, k=draw.randrange(5))) if draw.random() < 0.8 else " "
            for _ in range(draw.randrange(1, 12))
        ]
        translator, _ = translator_of(
            pieces, spoiled, limit=draw.randrange(10, 60), context=draw.randrange(1, 4)
        )
        found = translator.translate(lines)
        assert len(found) == len(lines)
        for number, (line, one) in enumerate(zip(lines, found, strict=True)):
            assert not set("\n\r\0") & set(one.text)
            assert "<sep>" not in one.text or "<sep>" in line
            if not line.strip():
                assert (one.text, one.context, one.fell_back) == ("", 0, False)
            if not number or not lines[number - 1].strip():
                assert (one.context, one.fell_back) == (0, False)
        for size in (1, 2, 5):
            assert list(translator.stream(iter(lines), pool_lines=size)) == found


@pytest.fixture(scope="module")
def model(card: ModelCard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_of_documents(tmp_path_factory.mktemp("context") / "tiny.safetensors", card)


def test_a_model_file_says_how_many_lines_it_reads(model: Path, model_file: Path) -> None:
    assert read_card(model).window == 4
    assert read_card(model_file).window == 1
    assert Translator.load(model, context=3).config.context == 3
    with pytest.raises(UsageError, match="context 3"):
        Translator.load(model, context=4)
    with pytest.raises(UsageError, match="--documents"):
        Translator.load(model_file, context=1)
    with pytest.raises(UsageError, match=r"single lines"):
        Translator.load([model, model_file], context=1)


def test_samples_and_alignments_and_markup_work_in_windows(
    model: Path, separator: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = SearchOptions(sampling=Sampling(seed=1), max_extra_tokens=5)
    sampled = Translator.load(model, options, context=3)
    assert sampled.translate(LINES) == sampled.translate(LINES)

    use_instead_of_a_model(monkeypatch, telling(separator))
    aligned = Translator.load(model, context=3, alignment=True).translate(LINES)
    assert [one.context for one in aligned] == CONTEXT
    for one, line in zip(aligned, LINES, strict=True):
        if line:
            alignment = one.alignment
            assert alignment is not None
            own = sampled.language_pair.src_vocabulary.encode([line])[0]
            assert list(alignment.src_tokens) == sampled.language_pair.src_vocabulary.tokens(own)
            (attention,) = alignment.attention
            assert attention.shape == (len(one.tokens), len(own))
    tags = ["<b>the cat</b> sees", "a <i>dog</i>", "", *LINES[3:6], "the <u>old</u> dog"]
    marked = Translator.load(model, context=3, markup="html").translate(tags)
    assert [one.context for one in marked] == CONTEXT
    for line, one, plain in zip(tags, marked, aligned, strict=True):
        assert sorted(re.findall("<.*?>", one.text)) == sorted(re.findall("<.*?>", line))
        assert re.sub("<.*?>", "", one.text) == plain.text

"""Lines in, translations out: one for each, in order, whatever stands beside it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from nmt.data.batches import Packed
from nmt.data.corpus import Encoding
from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.errors import NMTError
from nmt.jobs.counts import Counts
from nmt.jobs.lines import LineReader
from nmt.jobs.parallel import Pool
from nmt.jobs.stream import translate_stream
from nmt.models.base import DecoderState
from nmt.models.kernels.padded_layout import PaddedLayout
from nmt.search.engine import Source
from nmt.search.options import Sampling, SearchOptions
from nmt.search.torch_engine import TorchEngine
from nmt.system.prefetch import Pause
from nmt.translate.joined_segments import JoinSegments
from nmt.translate.language_pair import LanguagePair
from nmt.translate.options import TranslationConfig
from nmt.translate.output import BLANK, Render, Translation, render_n_best, render_text
from nmt.translate.segment import Segment
from nmt.translate.segmentation import split_ids
from nmt.translate.translator import POOL_LINES, Translator

LIMIT = 20  # source tokens of a segment, as the model file says

LINES = [
    "the cat sees the dog",
    "",
    "a red bird.",
    "the small cat finds the old house and then the river and then the tree and then the dog",
    "   ",
    "x",
    "the dog slowly sees the cat, and the cat sees the dog, and the dog sees the old red house.",
    "the cat sees the dog",
    "한\0é\u2028",
]


class Copying:
    """A model that repeats its source: translations can be told by reading.

    A second-best choice is the letter after the right one, so that there are n-best lists. Rows
    are counted to see what batches search was given.
    """

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.shapes: list[tuple[int, ...]] = []
        self.most_hypotheses = 0

    def begin(self, src: Packed) -> CopyingState:
        layout = PaddedLayout.of(src)
        self.shapes.append(tuple(layout.mask.shape))
        return CopyingState(layout.rows(src.tokens[:, None].double())[:, :, 0].long())

    def project(self, features: Tensor) -> Tensor:
        return features

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        self.most_hypotheses = max(self.most_hypotheses, len(tokens))
        return torch.cat([self.next_logits(cast(CopyingState, state)) for state in states])

    def next_logits(self, state: CopyingState) -> Tensor:
        wanted = state.sources[:, state.position].repeat_interleave(state.width)  # (N,)
        rows = torch.arange(len(wanted))
        logits = torch.zeros(len(wanted), self.vocab_size)
        logits[rows, wanted] = 20.0
        # Not after eos, which the source's last token is.
        logits[rows, (wanted + 1).where(wanted != 3, wanted)] += 15.0
        state.position += 1
        return logits


class CopyingState:
    def __init__(self, sources: Tensor) -> None:
        self.sources = sources  # (B, S)
        self.width = 1
        self.position = 0

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        self.width, rest = divmod(len(rows), len(sentences))
        assert not rest
        self.sources = self.sources[sentences]


def copier(
    vocabulary: Vocabulary, *, batch_tokens: int = 64, **options: Any
) -> tuple[Translator, Copying]:
    model = Copying(len(vocabulary))
    search = SearchOptions(barred_ids=vocabulary.barred_ids, **options)
    config = TranslationConfig(search=search)
    engine = TorchEngine(model, search, device=torch.device("cpu"), batch_tokens=batch_tokens)
    pair = LanguagePair(("en", "de"), vocabulary, vocabulary, LIMIT)
    return Translator(engine, pair, config), model


def best(translations: Sequence[Translation]) -> list[str]:
    return [found.text for found in translations]


def joining(translator: Translator) -> JoinSegments:
    """Return the step that joins the translations of segments."""
    return JoinSegments(translator.engine, translator.language_pair)


def test_each_line_has_its_own_translation_in_order(vocabulary: Vocabulary) -> None:
    translator, _ = copier(vocabulary)
    assert best(translator.translate(LINES)[:-1]) == [line.strip() for line in LINES[:-1]]


def test_long_lines_are_translated_in_segments_and_joined(vocabulary: Vocabulary) -> None:
    translator, model = copier(vocabulary)
    long = " ".join(f"the cat sees the dog, and then the bird {number}" for number in range(20))
    nospace = "".join(f"catdogbird{number}" for number in range(30))
    found = translator.translate(["a", long, nospace, ""])
    assert best(found[:3]) == ["a", long, nospace]
    # Each segment is within the limit, and eos closes it.
    assert all(length <= LIMIT + 1 for _, length in model.shapes)
    counts = [translation.segments for translation in found]
    assert sum(counts) == sum(rows for rows, _ in model.shapes)
    assert (counts[0], counts[3]) == (1, 0)
    assert min(counts[1:3]) > 1


@pytest.mark.parametrize("blank", ["", " ", "  ", "\t", "\u00a0", "\u3000", "\r", "\u2028", " \t "])
def test_blank_lines_stay_blank_and_are_never_searched(vocabulary: Vocabulary, blank: str) -> None:
    translator, model = copier(vocabulary, n_best=2)
    assert translator.translate([blank, blank]) == [BLANK, BLANK]
    assert model.shapes == []
    assert translator.translate([blank * 100]) == [BLANK]


def test_translations_of_segments_have_the_highest_sums_of_scores(vocabulary: Vocabulary) -> None:
    translator, _ = copier(vocabulary, beam_size=5, n_best=5)
    line = "the cat sees the dog, and the bird sees the river, and the cat finds the tree"
    cut = split_ids(vocabulary, vocabulary.encode([line])[0], LIMIT)
    assert len(cut) > 1
    alone = translator.translate(vocabulary.decode([segment.source.ids for segment in cut]))
    # All choices of a hypothesis of each segment, the highest sums first, equal ones by ranks.
    choices = list(itertools.product(*(found.n_best for found in alone)))
    choices.sort(key=lambda segments: -sum(segment.score for segment in segments))
    found = translator.translate([line])[0].n_best
    assert len(found) == 5
    for whole, segments in zip(found, choices, strict=False):
        assert whole.text == " ".join(segment.text for segment in segments)
        assert whole.tokens == tuple(token for segment in segments for token in segment.tokens)
        joined = tuple(log_prob for segment in segments for log_prob in segment.token_log_probs)
        assert whole.token_log_probs == pytest.approx(joined)
        assert whole.score == pytest.approx(sum(segment.score for segment in segments))
        assert whole.log_prob == pytest.approx(sum(segment.log_prob for segment in segments))


def test_segments_that_join_to_the_same_text_count_once(vocabulary: Vocabulary) -> None:
    translator, _ = copier(vocabulary, beam_size=3, n_best=3)
    segments = [Segment(Source((5,)), " "), Segment(Source((6,)))]
    parts = [
        [Translation(text, score, score, (), (), 1) for text, score in own]
        for own in ([("a b", -1.0), ("a", -2.0)], [("c", -1.0), ("b c", -1.5), ("d", -2.5)])
    ]
    # By score: a b c; a b b c; a c; again a b c, left out; a b d and the rest, which are too many.
    assert best(joining(translator).joined(segments, parts).n_best) == ["a b c", "a b b c", "a c"]
    parts[1].pop()
    parts[0].append(Translation("x", -9.0, -9.0, (), (), 1))
    wider, _ = copier(vocabulary, beam_size=6, n_best=6)
    texts = best(joining(wider).joined(segments, parts).n_best)
    assert texts == ["a b c", "a b b c", "a c", "x c", "x b c"]


def test_batches_hold_similar_lengths_within_the_budget(vocabulary: Vocabulary) -> None:
    translator, model = copier(vocabulary, batch_tokens=40)
    translator.translate([f"{n:02} {'cat ' * (1 + n % 5)}" for n in range(30)])
    assert sum(rows for rows, _ in model.shapes) == 30
    assert all(rows * length <= 40 or rows == 1 for rows, length in model.shapes)
    lengths = [length for _, length in model.shapes]
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize("wide", [{"beam_size": 32}, {"sampling": Sampling(), "n_best": 32}])
def test_hypotheses_are_as_many_in_any_beam(vocabulary: Vocabulary, wide: dict[str, Any]) -> None:
    most = []
    for options in ({"beam_size": 4}, wide):
        translator, model = copier(vocabulary, batch_tokens=1_000, no_copy=True, **options)
        translator.translate([f"{number:03}" for number in range(300)])
        most.append(model.most_hypotheses)
    assert most[0] > 256
    assert most[1] <= 1.2 * most[0]


def test_what_is_repeated_is_searched_for_once(vocabulary: Vocabulary) -> None:
    translator, model = copier(vocabulary)
    line = "x" * 20_000  # hundreds of segments that are all the same
    done: list[int] = []
    found = translator.translate([line, "a", line, "a"], on_progress=done.append)
    assert best(found) == [line, "a", line, "a"]
    assert found[0].segments * LIMIT >= 20_000
    assert sum(rows for rows, _ in model.shapes) <= 4  # the first, the inner ones, the last, and a
    assert sum(done) == sum(translation.segments for translation in found)


@pytest.mark.parametrize("extra", [0, 3])
def test_a_translation_may_be_so_much_longer_than_its_source(
    model_file: Path, vocabulary: Vocabulary, extra: int
) -> None:
    translator = Translator.load(model_file, SearchOptions(max_extra_tokens=extra))
    lines = [line for line in LINES if len(vocabulary.encode([line])[0]) <= LIMIT]
    pairs = zip(translator.translate(lines), vocabulary.encode(lines), strict=True)
    assert max(len(found.tokens) - len(ids) for found, ids in pairs) == extra


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_no_output_holds_a_line_break_or_nul(model_file: Path, precision: str) -> None:
    # Random weights write bytes of all kinds.
    options = SearchOptions(n_best=4, max_extra_tokens=10)
    translator = Translator.load(model_file, options, precision=precision)
    for found in translator.translate([chr(0x100 + n) * 5 for n in range(30)]):
        texts = {translation.text for translation in found.n_best}
        assert 2 <= len(texts) == len(found.n_best) <= 4  # different ones, of many bad bytes
        for translation in found.n_best:
            assert not {"\n", "\r", "\0"} & set(translation.text)
            assert not {"<pad>", "<unk>", "<s>", "</s>"} & set(translation.tokens)


def reader_of(data: bytes) -> LineReader:
    return LineReader(iter([data]), name="stdin", encoding=Encoding.find("utf-8"))


def stream(
    translator: Translator, data: bytes, render: Render = render_text, pool_lines: int = 3
) -> tuple[bytes, Counts]:
    counts, read, written = Counts(), bytearray(), bytearray()

    def take(raw: bytes, output: bytes, _counts: Counts) -> None:
        read.extend(raw)
        written.extend(output)

    def translate(pools: Iterable[Pool | Pause]) -> Iterator[list[Translation]]:
        for pool in pools:
            if not isinstance(pool, Pause):
                yield translator.translate([line.text for line in pool])

    composes = translator.language_pair.src_vocabulary.composes
    options: Any = {"render": render, "pool_lines": pool_lines, "composes": composes}
    translate_stream(translate, reader_of(data), take, counts, **options)
    assert read == data
    return bytes(written), counts


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        *((data, data) for data in (b"", b"\n", b"cat", b"cat\r\n\na dog\r\n", b"\n\n", b"a\n\n")),
        (b"a\n\xff\nb", "a\n\ufffd\nb".encode()),
        # A last line that is blank and has no end keeps its place.
        *((b"a\n" + blank, b"a\n ") for blank in (b" ", b"\t", b"\r")),
        (b" ", b" "),
    ],
)
def test_streams_end_lines_as_inputs(vocabulary: Vocabulary, data: bytes, expected: bytes) -> None:
    written, counts = stream(copier(vocabulary)[0], data)
    assert written == expected
    assert counts.lines == len(data.split(b"\n")) - data.endswith(b"\n") - (data == b"")


def test_decomposed_lines_are_counted_if_the_vocabulary_does_not_compose(
    vocabulary: Vocabulary, capsys: pytest.CaptureFixture[str]
) -> None:
    data = "the cat\nthe cät\nthe ca\u0308t\n\na\u0308\n".encode()
    assert stream(copier(vocabulary)[0], data)[1].decomposed.lines == 0
    plain = learn_vocabulary(LINES, vocab_size=290, normalization="identity")
    _, counts = stream(copier(plain)[0], data)
    assert (counts.decomposed.lines, counts.decomposed.first) == (2, 3)
    counts.warn("in.de")
    assert re.search("in.de: 2 lines .* line 3;", capsys.readouterr().err)


@pytest.mark.parametrize("ahead", [1, 6])
@pytest.mark.parametrize("lines_per_second", [1, 100, 2_000])
def test_lines_are_written_at_least_every_10_seconds(
    monkeypatch: pytest.MonkeyPatch, lines_per_second: int, ahead: int
) -> None:
    now, times, lines = 0.0, [0.0], [0]

    def take_time(pools: Iterable[Pool | Pause]) -> Iterator[list[Translation]]:
        """Take some pools before the first is done, and time by the byte: lines have 100."""
        nonlocal now
        coming = (pool for pool in pools if not isinstance(pool, Pause))
        taken: list[Pool] = []
        while taken := [*taken, *itertools.islice(coming, ahead - len(taken))]:
            pool, *taken = taken
            now += sum(len(line.raw) for line in pool) / 100 / lines_per_second
            yield [replace(BLANK, text="x")] * len(pool)

    def write(_read: bytes, _written: bytes, counts: Counts) -> None:
        times.append(now)
        lines.append(counts.lines)

    monkeypatch.setattr("nmt.jobs.stream.time.monotonic", lambda: now)
    text = b"".join(b"x" * (49 + number % 101) + b"\n" for number in range(40_000))
    options: Any = {"render": render_text, "pool_lines": POOL_LINES, "composes": True}
    translate_stream(take_time, reader_of(text), write, Counts(), **options)
    waits = [after - before for before, after in itertools.pairwise(times)]
    # The first pools are made before it is known how fast the model is.
    assert max(waits[ahead:]) <= 10
    assert max(waits) <= 25
    assert lines[-1] == 40_000
    pools = [after - before for before, after in itertools.pairwise(lines)]
    assert max(pools) >= min(POOL_LINES, 3 * lines_per_second)


def test_n_best_is_numbered_across_pools_and_ends_like_its_line(vocabulary: Vocabulary) -> None:
    translator, _ = copier(vocabulary, n_best=2)
    written, _ = stream(translator, b"a\r\n\r\nb\nc\nd", render_n_best, pool_lines=2)
    rows = [line.split(" ||| ") for line in written.decode().split("\n")]
    assert [row[0] for row in rows] == ["0", "0", "1", "2", "2", "3", "3", "4", "4"]
    assert [rows[first][1] for first in (0, 2, 3, 5, 7)] == ["a", "", "b", "c", "d"]
    assert [row[2].endswith("\r") for row in rows] == [True] * 3 + [False] * 6
    assert not written.endswith(b"\n")


def test_lost_lines_are_a_failure(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    translator, _ = copier(vocabulary)
    pools = LineReader.pools

    def lose(self: LineReader, *limits: Any) -> Iterator[Any]:
        yield from (pool[:1] for pool in list[Any](pools(self, *limits)) if pool)

    monkeypatch.setattr(LineReader, "pools", lose)
    with pytest.raises(NMTError, match=r"3 .* 1 "):
        stream(translator, b"a\nb\nc\n")

"""The vocabulary: round trips, special and barred ids, and what learning refuses."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import sentencepiece

from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Vocabulary, learn_vocabulary
from nmt.errors import DataError, UsageError

LINES = ["the cat sat on the mat", "a dog ran", "hello world the cat", "der Hund läuft"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return learn_vocabulary(LINES, vocab_size=310)


def byte_id(vocabulary: Vocabulary, byte: int) -> int:
    """SentencePiece puts the 256 byte pieces after the 4 special ones, in order."""
    assert vocabulary.tokens([4 + byte]) == [f"<0x{byte:02X}>"]
    return 4 + byte


@pytest.mark.parametrize(
    "line",
    [
        "",
        "the cat",
        "no\u00a0break\u202fspace",
        "line\u2028and\u2029paragraph\u0085",
        "tab\tin between",
        "nul\0and\rreturn",
        "a\ufeffb",
        "½ … ﬁ Ａ ² №",  # what SentencePiece's own rules would rewrite
        "unseen 漢字 😀 👩‍👩‍👧 \U0010ffff",
        "e\u0301 is not é",
        "<s> <unk> </s> <pad> <0x0A>",
    ],
)
def test_text_to_ids_and_back_is_the_identity(vocabulary: Vocabulary, line: str) -> None:
    ids = vocabulary.encode([line])
    assert vocabulary.decode(ids) == [line]
    assert not {PAD_ID, UNK_ID, BOS_ID, EOS_ID} & set(ids[0])


def test_only_runs_of_spaces_edges_and_the_space_mark_are_lost(vocabulary: Vocabulary) -> None:
    lines = ["  the   cat ", "the\u2581cat"]
    assert vocabulary.decode(vocabulary.encode(lines)) == ["the cat", "the cat"]


def test_many_lines_are_encoded_and_decoded_in_one_call(vocabulary: Vocabulary) -> None:
    lines = [*LINES, "", *LINES]
    ids = vocabulary.encode(lines, threads=2)
    assert ids == [vocabulary.encode([line])[0] for line in lines]
    assert vocabulary.decode(ids) == lines
    assert vocabulary.encode([]) == []
    assert vocabulary.decode([]) == []
    assert vocabulary.decode([[]]) == [""]


def test_the_vocabulary_has_the_size_that_was_asked_for(vocabulary: Vocabulary) -> None:
    assert len(vocabulary) == 310
    assert vocabulary.tokens([PAD_ID, UNK_ID, BOS_ID, EOS_ID]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert vocabulary.covers_all_text


def test_barred_are_special_ids_and_the_bytes_that_would_break_a_line(
    vocabulary: Vocabulary,
) -> None:
    breakers = [byte_id(vocabulary, byte) for byte in (0x00, 0x0A, 0x0D)]
    assert list(vocabulary.barred_ids) == [PAD_ID, UNK_ID, BOS_ID, *breakers]


def test_barred_are_also_learnt_pieces_that_would_break_a_line() -> None:
    vocabulary = learn_vocabulary([*LINES, "one\rtwo", "three\nfour"], vocab_size=310)
    learnt = [i for i in range(260, 310) if set("\r\n") & set(vocabulary.tokens([i])[0])]
    assert len(learnt) >= 2
    assert set(learnt) < set(vocabulary.barred_ids)


def test_long_lines_are_learnt_from() -> None:
    # SentencePiece's own default would skip the first for its length without a word.
    vocabulary = learn_vocabulary(["zebra " * 20_000, "cat"], vocab_size=280)
    assert "▁zebra" in vocabulary.tokens(range(280))


def test_normalization_is_off_unless_asked_for() -> None:
    plain = learn_vocabulary(["ﬁnd ½"], vocab_size=268)
    nfkc = learn_vocabulary(["ﬁnd ½"], vocab_size=270, normalization="nfkc")
    assert plain.decode(plain.encode(["ﬁnd ½"])) == ["ﬁnd ½"]
    assert nfkc.decode(nfkc.encode(["ﬁnd ½"])) == ["find 1⁄2"]


def test_too_large_a_vocabulary_is_told_the_largest_that_can_be_learnt() -> None:
    with pytest.raises(
        UsageError, match=r"5000 is too large .*--vocab-size (\d+) or less"
    ) as caught:
        learn_vocabulary(LINES, vocab_size=5000)
    largest = int(str(caught.value).split("--vocab-size ")[1].split()[0])
    assert len(learn_vocabulary(LINES, vocab_size=largest)) == largest


def test_too_small_a_vocabulary_is_told_the_smallest_that_can_be_learnt() -> None:
    # 4 special, 256 bytes, and the characters a b c and the space mark.
    with pytest.raises(UsageError, match=r"100 is too small.*--vocab-size 264 or more"):
        learn_vocabulary(["ab ca"], vocab_size=100)
    assert len(learn_vocabulary(["ab ca"], vocab_size=264)) == 264


@pytest.mark.parametrize("lines", [[], [""]])
def test_no_text_to_learn_from_is_refused(lines: list[str]) -> None:
    with pytest.raises(DataError):
        learn_vocabulary(lines, vocab_size=300)


def test_an_error_in_the_text_comes_through_the_trainer() -> None:
    def lines() -> Iterator[str]:
        yield "some text"
        raise LookupError("line 2 is broken")

    with pytest.raises(LookupError, match="line 2 is broken"):
        learn_vocabulary(lines(), vocab_size=300)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, "no such file"),
        (b"", "not a SentencePiece model"),
        (b"this is no model at all", "not a SentencePiece model"),
    ],
)
def test_what_is_no_model_is_refused_with_its_name(
    tmp_path: Path, model: bytes | None, message: str
) -> None:
    if model is not None:
        (tmp_path / "spm.model").write_bytes(model)
    with pytest.raises(DataError, match=rf"spm\.model: {message}"):
        Vocabulary.load(tmp_path / "spm.model")


def test_a_model_with_other_special_ids_is_refused() -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        vocab_size=40,
        model_type="bpe",
        minloglevel=9,
    )
    # The library's defaults: no padding, unknown 0, begin 1, end 2.
    with pytest.raises(DataError, match=r"are -1, 0, 1, 2, but nmt needs 0, 1, 2, 3"):
        Vocabulary(model.getvalue())


def test_symbols_are_one_piece_wherever_they_stand() -> None:
    lines = ["the house and the tree"]
    plain = learn_vocabulary(lines, vocab_size=280)
    tagged = learn_vocabulary(lines, vocab_size=285, symbols=["<2de>", "<BT>"])
    assert tagged.has_symbol("<2de>")
    assert tagged.has_symbol("<BT>")
    assert not plain.has_symbol("<2de>")
    (ids,) = tagged.encode(["<2de> the house"])
    assert tagged.tokens(ids).count("<2de>") == 1
    assert tagged.decode([ids]) == ["<2de> the house"]

"""The vocabulary: round trips, special and barred ids, and what learning refuses."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from foreign_models import learn_pieces
from processes import run_python

from nmt.data.pieces import PieceModel
from nmt.data.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    UnfitSize,
    Vocabulary,
    learn_vocabulary,
)
from nmt.errors import DataError, UsageError

LINES = ["the cat sat on the mat", "a dog ran", "hello world the cat", "der Hund läuft"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return learn_vocabulary(LINES, vocab_size=310)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "the cat",
        "no\u00a0break\u202fspace",
        "line\u2028and\u2029paragraph\u0085",
        "nul\0and\rreturn",
        "a\ufeffb",
        "½ … ﬁ Ａ ² №",  # what SentencePiece's own rules would rewrite
        "unseen 漢字 😀 👩‍👩‍👧 \U0010ffff",
        "e\u0316\u0301 is not é \u05e9\u05bc\u05c1\u05b8",  # which no rule composes
        "<s> <unk> </s> <pad> <0x0A>",
    ],
)
def test_text_to_ids_and_back_is_the_identity(vocabulary: Vocabulary, line: str) -> None:
    ids = vocabulary.encode([line])
    assert vocabulary.decode(ids) == [line]
    assert not {PAD_ID, UNK_ID, BOS_ID, EOS_ID} & set(ids[0])


def test_a_piece_that_is_not_text_is_refused(vocabulary: Vocabulary) -> None:
    with pytest.raises(DataError):
        Vocabulary(vocabulary.model.replace("\u2581the".encode(), b"\xff\xff\xffthe"))


def test_many_lines_may_be_any_sequence(vocabulary: Vocabulary) -> None:
    lines = ("the cat",) * 300
    assert vocabulary.encode(lines) == vocabulary.encode(list(lines))


def test_only_runs_of_spaces_edges_and_the_space_mark_are_lost(vocabulary: Vocabulary) -> None:
    lines = ["  the   cat ", "the\u2581cat", "the \t\tcat\t"]
    assert vocabulary.decode(vocabulary.encode(lines)) == ["the cat"] * 3


def whole_words(lines: list[str], **options: Any) -> Vocabulary:
    """Learn the largest vocabulary that the lines allow."""
    with pytest.raises(UnfitSize) as refused:
        learn_vocabulary(lines, vocab_size=9_000, **options)
    return learn_vocabulary(lines, vocab_size=refused.value.bound, **options)


@pytest.mark.parametrize("rules", ["nfc", "identity", "nfkc", "nmt_nfkc"])
def test_a_tab_is_a_space_and_search_never_produces_it(rules: str) -> None:
    vocabulary = whole_words(["the cat.\tA dog."] * 40, normalization=rules)
    pieces = vocabulary.decode([[id_] for id_ in range(len(vocabulary))])
    assert {id_ for id_, piece in enumerate(pieces) if "\t" in piece} <= set(vocabulary.barred_ids)
    if rules != "nfkc":  # which is SentencePiece's own, and leaves tabs alone
        assert vocabulary.encode(["a.\tb", "a. b"])[0] == vocabulary.encode(["a. b"])[0]
        assert not [token for token in vocabulary.tokens(range(len(vocabulary))) if "\t" in token]


@pytest.mark.parametrize("subwords", ["bpe", "unigram"])
@pytest.mark.parametrize("word", ["faʻa", "памʼять", "عـربي"])
def test_modifier_letters_stay_in_their_words(subwords: str, word: str) -> None:
    lines = [f"{word}, {word}. ({word})"] * 99
    vocabulary = whole_words(lines, subwords=subwords)
    assert PieceModel.read(vocabulary.model).is_bpe == (subwords == "bpe")
    assert {f"\u2581{word}", word} & set(vocabulary.tokens(vocabulary.encode([word])[0]))
    tokens = vocabulary.tokens(range(len(vocabulary)))
    assert not [token for token in tokens if set(word) & set(token) and set(",.()") & set(token)]
    assert vocabulary.decode(vocabulary.encode(lines)) == lines


def test_signs_that_stand_in_for_modifier_letters_are_text_as_well() -> None:
    lines = ["faʻa a\U000e01efb\U000e01ee <ʻ>"] * 50
    vocabulary = whole_words(lines, symbols=["<ʻ>"])
    assert vocabulary.decode(vocabulary.encode(lines)) == lines
    assert vocabulary.has_symbol("<ʻ>")


def test_few_lines_are_coded_without_threads(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "vocab.model"
    path.write_bytes(vocabulary.model)
    # Without room for the stack of a thread, starting one would abort the process.
    script = """if True:
        import pathlib, resource, sys
        from nmt.data.vocabulary import Vocabulary
        vocabulary = Vocabulary.load(pathlib.Path(sys.argv[1]))
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 20), -1))
        assert vocabulary.composes
        vocabulary.decode(vocabulary.encode(["the cat"] * 100))
    """
    run_python("-c", script, path)


def test_barred_are_special_ids_and_what_would_break_a_line() -> None:
    vocabulary = learn_vocabulary([*LINES, "one\rtwo\x9b", "three\nfour"], vocab_size=310)
    assert len(vocabulary) == 310
    assert vocabulary.covers_all_text
    assert vocabulary.tokens([PAD_ID, UNK_ID, BOS_ID, EOS_ID]) == ["<pad>", "<unk>", "<s>", "</s>"]
    controls = [4 + byte for byte in (*range(0x20), 0x7F)]
    assert vocabulary.tokens([controls[0], controls[-1]]) == ["<0x00>", "<0x7F>"]
    learnt = [i for i in range(260, 310) if set("\r\n\x9b\t") & set(vocabulary.tokens([i])[0])]
    assert len(learnt) >= 3
    assert list(vocabulary.barred_ids) == [PAD_ID, UNK_ID, BOS_ID, *controls, *learnt]


def test_long_lines_are_learnt_from() -> None:
    # SentencePiece's own default would skip the first for its length without a word.
    vocabulary = learn_vocabulary(["zebra " * 20_000, "cat"], vocab_size=280)
    assert "▁zebra" in vocabulary.tokens(range(280))


@pytest.mark.parametrize(
    ("rule", "text", "found"),
    [
        ("nmt_nfkc", "می\u200cخواهم", "می خواهم"),
        ("nfkc", "می\u200cخواهم", "می\u200cخواهم"),
        ("nfkc", "ﬁnd ½", "find 1⁄2"),
        ("nmt_nfkc", "क्\u200dष", "क्\u200dष"),
        ("nfkc_cf", "İ I ẞ", "İ i ß"),
        ("nmt_nfkc_cf", "İ I ẞ", "İ i ß"),
    ],
)
def test_rules_of_sentencepiece_are_as_the_manual_says(rule: str, text: str, found: str) -> None:
    vocabulary = learn_vocabulary(["the cat", text], vocab_size=275, normalization=rule)
    assert vocabulary.decode(vocabulary.encode([text])) == [found]


def test_digits_can_be_split() -> None:
    years = ["in 1984", "since 1984", "by 1984"] * 9
    for split_digits, digits in ((False, {"1984"}), (True, {"1", "9", "8", "4"})):
        vocabulary = learn_vocabulary(years, vocab_size=284, split_digits=split_digits)
        (ids,) = vocabulary.encode(["by 1984"])
        assert digits <= {token.strip("\u2581") for token in vocabulary.tokens(ids)}


@pytest.mark.parametrize(
    ("lines", "vocab_size", "message"),
    [
        (LINES, 5000, r"5000 .*--vocab-size (\d+) "),
        # 4 special, 256 bytes, and the characters a b c and the space mark.
        (["ab ca"], 100, "100 .*--vocab-size (264) "),
    ],
)
def test_a_size_that_cannot_be_learnt_is_refused_with_the_nearest(
    lines: list[str], vocab_size: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        learn_vocabulary(lines, vocab_size=vocab_size)
    nearest = int(re.findall(message, str(caught.value))[0])
    assert len(learn_vocabulary(lines, vocab_size=nearest)) == nearest


def test_no_text_to_learn_from_is_refused_and_an_error_in_it_comes_through_the_trainer() -> None:
    def lines() -> Iterator[str]:
        yield "some text"
        raise LookupError("line 2 is broken")

    with pytest.raises(DataError):
        learn_vocabulary([""], vocab_size=300)
    with pytest.raises(LookupError, match="line 2 is broken"):
        learn_vocabulary(lines(), vocab_size=300)


def test_what_is_no_model_of_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spm.model"
    with pytest.raises(DataError, match=r"spm\.model: no"):
        Vocabulary.load(path)
    for content in (b"", b"this is no model at all"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"spm\.model: .*SentencePiece"):
            Vocabulary.load(path)
    # The library's defaults: no padding, unknown 0, begin 1, end 2.
    with pytest.raises(DataError, match=r"-1, 0, 1, 2, .* 0, 1, 2, 3"):
        Vocabulary(learn_pieces("source", "bpe"))

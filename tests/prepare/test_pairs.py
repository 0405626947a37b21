"""Several pairs of languages in one data folder: `--pair en-de=PREFIX`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prepare_job import Job, pairs, pairs_in

from nmt.data.epochs import Epochs, mixed_shares
from nmt.data.folder import DataFolder
from nmt.errors import UsageError

Prepare = Callable[..., DataFolder]


def write(folder: Path, name: str, **sides: list[str]) -> str:
    for lang, lines in sides.items():
        (folder / f"{name}.{lang}").write_text("".join(f"{line}\n" for line in lines))
    return f"{folder}/{name}"


@pytest.fixture
def prepare(tmp_path: Path) -> Prepare:
    """Prepare en-de, de-en and en-fr from the same 12 lines, but for what is given."""
    src, tgt = map(list, zip(*pairs(12), strict=True))
    text = write(tmp_path, "text", en=src, de=tgt, fr=[f"le {line}" for line in tgt])
    held_out = write(tmp_path, "held", en=["held out"] * 2, de=["x y"] * 2, fr=["z q"] * 2)

    def prepare(**values: Any) -> DataFolder:
        languages = ("en-de", "de-en", "en-fr")
        options: dict[str, Any] = {
            "pair": tuple(f"{langs}={text}" for langs in languages),
            "valid": tuple(f"{langs}={held_out}" for langs in languages),
            "vocab_size": 330,
            "src_lang": "",
            "tgt_lang": "",
        }
        return Job.of(values.pop("out", tmp_path / "data"), **options | values).prepare()

    return prepare


def first_pieces(folder: DataFolder) -> list[list[str]]:
    """The first piece of each training source, for each corpus."""
    found: list[list[str]] = [[] for _ in folder.info.train.corpora]
    for index in range(len(folder.train)):
        piece = folder.src_vocabulary.tokens(folder.train.src(index)[:1].tolist())[0]
        found[folder.train.origin(index)[0]].append(piece)
    return found


def test_a_source_begins_with_the_token_of_its_target(prepare: Prepare) -> None:
    folder = prepare()
    assert first_pieces(folder) == [["<2de>"] * 12, ["<2en>"] * 12, ["<2fr>"] * 12]
    english, german = ([pair[side] for pair in pairs(12)] for side in (0, 1))
    french = [f"le {line}" for line in german]
    found = pairs_in(folder)
    assert [pair[0] for pair in found] == english + german + english
    assert [pair[1] for pair in found] == german + english + french
    valid = [folder.src_vocabulary.tokens(folder.valid.src(n)[:1].tolist()) for n in range(6)]
    assert valid == [["<2de>"]] * 2 + [["<2en>"]] * 2 + [["<2fr>"]] * 2
    assert folder.info.langs == ("", "")


def test_text_cannot_spell_a_language_token(prepare: Prepare, tmp_path: Path) -> None:
    text = write(tmp_path, "odd", en=["<2fr> the red house"], de=["das rote haus"])
    folder = prepare(pair=(f"en-de={text}", f"en-fr={tmp_path}/text"), valid=(), valid_lines=1)
    ids = folder.src_vocabulary.encode(["<2fr> the red house"])[0]
    assert "<2fr>" not in folder.src_vocabulary.tokens(ids)


def test_pairs_have_valid_text_and_tests_languages(prepare: Prepare, tmp_path: Path) -> None:
    folder = prepare(test=(f"de-fr={tmp_path}/held", f"en-de={tmp_path}/held"))
    assert [text.langs for text in folder.valid_texts] == [("en", "de"), ("de", "en"), ("en", "fr")]
    assert folder.valid_texts[1].lines() == (["x y"] * 2, ["held out"] * 2)
    assert {split.name: split.corpora[0].langs for split in folder.info.tests} == {
        "test-held.de-fr": ("de", "fr"),  # a pair without training text
        "test-held.en-de": ("en", "de"),
    }
    DataFolder.open(folder.path, verify=True)


def test_lines_are_duplicates_only_within_a_pair_of_langs(prepare: Prepare, tmp_path: Path) -> None:
    text = write(tmp_path, "names", en=["Paris", "Paris"], de=["Paris !"] * 2, fr=["Paris !"] * 2)
    for by in ("pair", "source"):
        pair = (f"en-de={text}", f"en-fr={text}", f"en-fr={tmp_path}/text")
        valid = (f"en-fr={tmp_path}/held",)
        folder = prepare(out=tmp_path / by, pair=pair, valid=valid, duplicates_by=by)
        rejected = [corpus.rejected for corpus in folder.info.train.corpora]
        assert rejected == [{"duplicate": 1}, {"duplicate": 1}, {}]


def test_a_pair_of_valid_or_test_is_in_no_train_text(prepare: Prepare, tmp_path: Path) -> None:
    texts = {"en": ["Yes .", "No .", "Oh !"], "de": ["Ja.", "Nein.", "Ach!"]}
    train = write(tmp_path, "short", **texts)
    valid = write(tmp_path, "long", en=["Yes .", "No ."], de=[" Ja. ", "Nö."])
    test = write(tmp_path, "more", en=["Oh !"], de=["Ach!"])
    values: dict[str, Any] = {"valid": (f"en-de={valid}",), "test": (f"de-en={test}",)}
    values["pair"] = (f"en-de={train}", f"de-en={train}", f"en-de={tmp_path}/text")
    folder = prepare(**values)
    assert [one.rejected for one in folder.info.train.corpora] == [{"overlap": 2}] * 2 + [{}]
    assert pairs_in(folder)[:2] == [("No .", "Nein."), ("Nein.", "No .")]  # a side may repeat
    kept = prepare(out=tmp_path / "kept", keep=("overlap",), **values)
    assert [one.rejected for one in kept.info.train.corpora] == [{}] * 3


def test_drawn_pairs_are_in_train_in_no_direction(prepare: Prepare, tmp_path: Path) -> None:
    english, german = map(list, zip(*reversed(pairs(12)), strict=True))
    other = write(tmp_path, "other", en=english, de=german)  # so that other pairs are drawn
    pair = (f"en-de={tmp_path}/text", f"de-en={other}")
    folder = prepare(pair=pair, valid=(), valid_lines=1, keep=("overlap",))
    drawn = {
        frozenset(one) for text in folder.valid_texts for one in zip(*text.lines(), strict=True)
    }
    assert len(drawn) == 2
    assert len(folder.train) == 2 * (12 - 2)
    assert not drawn & {frozenset(pair) for pair in pairs_in(folder)}


def test_temperature_mixes_pairs_by_a_power_of_their_size(prepare: Prepare, tmp_path: Path) -> None:
    small = write(tmp_path, "small", en=["one two", "three"], fr=["un deux", "trois"])
    text, valid = f"en-de={tmp_path}/text", (f"en-fr={tmp_path}/held",)
    pair, weight = (text, f"en-fr={small}"), (f"{text}=1.5",)
    folder = prepare(pair=pair, valid=valid, weight=weight, temperature=2.0)
    # 12 x 1.5 = 18 and 2 visits become a ratio of 3 to 1: 18 and 6 visits.
    counts, weights = zip(*folder.train.shares, strict=True)
    assert counts == (12, 2)
    assert weights == pytest.approx((1.5, 3.0))
    assert Epochs(folder.train.shares, seed=1).visits == 24


def test_a_small_language_gets_pieces_at_temperature_1(prepare: Prepare, tmp_path: Path) -> None:
    src, tgt = map(list, zip(*pairs(600), strict=True))
    large = write(tmp_path, "large", en=src, de=tgt)
    small = write(tmp_path, "small", en=["one", "two"], fr=["cinquante", "cinquante mille"])
    valid = tuple(f"{langs}={tmp_path}/held" for langs in ("en-de", "en-fr"))
    folder = prepare(pair=(f"en-de={large}", f"en-fr={small}"), valid=valid, vocab_size=380)
    assert "\u2581cinquante" in folder.tgt_vocabulary.tokens(range(380))
    assert Epochs(folder.train.shares, seed=1).visits == 602


def test_weights_within_a_pair_stay_with_any_temperature() -> None:
    shares, langs = [(100, 1.0), (50, 2.0), (2, 1.0)], [("a", "b"), ("a", "b"), ("b", "a")]
    assert mixed_shares(shares, langs, 1) == shares
    (first, second, third) = (weight for _, weight in mixed_shares(shares, langs, 4))
    assert (first, second) == (1.0, 2.0)
    assert third * 2 == pytest.approx(200 * (2 / 200) ** 0.25)


def test_a_folder_of_several_pairs_is_found_again(
    prepare: Prepare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(temperature=5.0)
    prepare(temperature=5.0)
    assert "already prepared" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"temperature .*5 .*1"):
        prepare()
    swapped = tuple(f"{langs}={tmp_path}/text" for langs in ("de-en", "en-de", "en-fr"))
    with pytest.raises(UsageError, match="text of train"):
        prepare(temperature=5.0, pair=swapped)


def test_a_given_vocabulary_gets_the_tokens_that_it_lacks(prepare: Prepare, tmp_path: Path) -> None:
    german = (f"en-de={tmp_path}/text", f"de-en={tmp_path}/text")
    valid = (f"en-de={tmp_path}/held",)
    two = prepare(pair=german, valid=valid)
    options: dict[str, Any] = {"vocab": (two.path / "vocab.model",), "vocab_size": None}
    same = prepare(out=tmp_path / "same", pair=german, valid=valid, **options)
    assert same.src_vocabulary.model == two.src_vocabulary.model
    more = prepare(out=tmp_path / "more", **options)
    assert len(more.src_vocabulary) == len(two.src_vocabulary) + 1
    assert first_pieces(more)[2] == ["<2fr>"] * 12


def test_kept_text_is_cut_in_the_languages_of_its_corpus(prepare: Prepare, tmp_path: Path) -> None:
    folder = prepare(keep_text=True, tag=(f"de-en={tmp_path}/text=<BT>",))
    assert folder.train_text is not None
    order = np.array([30, 1, 13, 14, 2])
    src, tgt = folder.train_text.rows(order)
    lines = list(zip(src.text(), tgt.text(), strict=True))
    ids = folder.encode(folder.train.corpora(order), lines)
    assert ids[0] == [folder.train.src(n).tolist() for n in order]
    assert ids[1] == [folder.train.tgt(n).tolist() for n in order]


def test_a_test_needs_a_language_that_the_model_writes(prepare: Prepare, tmp_path: Path) -> None:
    write(tmp_path, "held", en=["a"], it=["b"])
    with pytest.raises(UsageError, match=r"--test en-it=.* it: "):
        prepare(test=(f"en-it={tmp_path}/held",))

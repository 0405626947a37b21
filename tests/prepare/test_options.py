"""Options of `prepare` that cannot be meant are refused before any file is looked for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from nmt.cpu import cores, most_workers
from nmt.data.vocabulary import learn_vocabulary
from nmt.errors import UsageError
from nmt.prepare.options import PrepareOptions
from nmt.prepare.readers.text_names import SideColumn

OPTIONS = PrepareOptions(src_lang="en", tgt_lang="de", train=("train",), valid=("valid",))
MOST = f"must be ray, or from 1 to {most_workers()} (this process may use {cores()} cores)"
ONE_PAIR = {
    "src_lang": "",
    "tgt_lang": "",
    "train": (),
    "pair": ("en-de=train",),
    "valid": ("en-de=valid",),
}


@pytest.mark.parametrize(
    ("values", "problems"),
    [
        (
            {"tgt_lang": "en", "seed": -1, "normalization": "nfck", "encoding": "utf-9"},
            [
                "--normalization nfck: unknown; did you mean 'nfc'?",
                "--seed -1: must be 0 or more",
                "--src and --tgt are both 'en'",
                "--encoding utf-9: unknown",
            ],
        ),
        ({"src_lang": "../en"}, ["--src '../en': use letters"]),
        ({"src_lang": "bin"}, ["--src 'bin': use letters"]),
        ({"vocab_size": 0}, ["--vocab-size 0: must be from 1 to 10000000"]),
        ({"vocab_size": 3_000_000_000}, ["--vocab-size 3000000000: must be from 1 to 10000000"]),
        ({"sample_size": 0}, ["--sample-size 0: must be 1 or more"]),
        ({"character_coverage": 0.5}, ["--character-coverage 0.5: must be from 0.98 to 1"]),
        ({"workers": "many"}, [f"--workers many: {MOST}"]),
        ({"workers": "0"}, [f"--workers 0: {MOST}"]),
        ({"workers": str(most_workers() + 1)}, [MOST]),
        ({"valid_lines": -1}, ["--valid-lines -1: must be 0 or more"]),
        ({"valid": ()}, ["give one of --valid PREFIX and --valid-lines N"]),
        ({"valid_lines": 10}, ["give one of --valid PREFIX and --valid-lines N"]),
        ({"vocab": (Path("a"), Path("b"), Path("c"))}, ["--vocab was given 3 times; give it once"]),
        ({"vocab": (Path("a"),), "vocab_size": 8000}, ["--vocab-size has no effect with --vocab"]),
        ({"vocab": (Path("a"),), "separate_vocab": True}, ["--separate-vocab needs --vocab twice"]),
        ({"weight": ("nothing",)}, ["--weight nothing: must be TEXT=VALUE"]),
        ({"symbol": ("two words",)}, ["--symbol two words: must be one word"]),
        ({"symbol": ("__URL__",), "vocab": (Path("m"),)}, ["--symbol has no effect with --vocab"]),
        ({"min_score": ("x.tsv:score",)}, ["--min-score x.tsv:score: "]),
        ({"min_score": ("x.tsv:score:nan",)}, ["--min-score x.tsv:score:nan: "]),
        ({"min_score": ("x.tsv:score:0.5",)}, ["--min-score x.tsv:score:0.5: x.tsv is no"]),
        (
            {"train": ("x.tsv",), "min_score": ("x.tsv:score:0.1", "x.tsv:score:0.9")},
            ["--min-score x.tsv:score:0.9: x.tsv:score has more than one; give only one"],
        ),
        ({"keep_column": ("x.tsv",)}, ["--keep-column x.tsv: must be FILE:COLUMN"]),
        ({"keep_column": ("train:",)}, ["--keep-column train:: must be FILE:COLUMN"]),
        ({"keep_column": ("trian:url",)}, ["--keep-column trian:url: ", "you mean 'train'?"]),
        ({"keep_column": ("train:url", "train:id")}, ["--keep-column train:url: train has more"]),
        ({"weight": ("train=two",)}, ["--weight train=two: must be a number above 0"]),
        ({"weight": ("trian=2",)}, ["--weight trian=2: no text has this name; did you mean"]),
        ({"weight": ("valid=2",)}, ["--weight valid=2: no text has this name"]),
        ({"weight": ("train=0",)}, ["--weight train=0: must be a number above 0"]),
        ({"weight": ("train=1e300",)}, ["must be a number above 0 and at most 1,000"]),
        ({"weight": ("train=nan",)}, ["--weight train=nan: must be a number above 0"]),
        ({"tag": ("test=<2de>",)}, ["--tag test=<2de>: no text has this name"]),
        ({"tag": ("train=<x>", "train=<y>")}, ["--tag train=<y>: train has one already"]),
        ({"tag": ("train=to German",)}, ["--tag train=to German: must be one word"]),
        ({"tag": ("valid=",)}, ["--tag valid=: must be one word"]),
        ({"tag": ("train=BT",), "moses_tokenize": True}, ["it must be of the form <tag>"]),
        ({"tag": ("train=<s>",)}, ["--tag train=<s>: every vocabulary has <s> already; choose"]),
        ({"quoting": ("trian=csv",)}, ["--quoting trian=csv: no text has this name"]),
        ({"quoting": ("train=yes",)}, ["--quoting train=yes: must be csv or none"]),
        ({"valid": ("-",)}, ["-: only training text is read from stdin"]),
        # What does not go together.
        ({"documents": True, "keep_text": True}, ["--keep-text does not go with --documents"]),
        ({"documents": True, "symbol": ("<sep>",)}, ["--symbol <sep>"]),
        ({"documents": True, "tag": ("train=<sep>",)}, ["--tag <sep>"]),
        ({"documents": True, "window": 1}, ["--window"]),
        ({"window": 3}, ["--window is for --documents"]),
        (
            {"terms": "auto", "keep_text": True},
            ["--terms goes with neither --pair nor --keep-text"],
        ),
        ({"terms": "auto", "symbol": ("<term>",)}, ["every vocabulary has <term> already"]),
        # Several pairs of languages.
        ({"src_lang": "", "train": ()}, ["--src, --train: missing"]),
        ({"temperature": 5.0}, ["--temperature is for several --pair"]),
        (ONE_PAIR | {"pair": ("en-de",)}, ["--pair en-de: must be SRC-TGT=PREFIX"]),
        (ONE_PAIR | {"pair": ("en=text",)}, ["--pair en=text: must be SRC-TGT=PREFIX"]),
        (ONE_PAIR | {"pair": ("zh-Hant-en=t",)}, ["--pair zh-Hant-en=t: must be SRC-TGT=PREFIX"]),
        (ONE_PAIR | {"pair": ("en-en=t",)}, ["--pair en-en=t: the languages are both en"]),
        (ONE_PAIR | {"src_lang": "en"}, ["leave out --src, --tgt and --train"]),
        (ONE_PAIR | {"valid": ("en-it=held",)}, ["--valid en-it=held: no --pair is en-it"]),
        (ONE_PAIR | {"valid": ("en-de=a", "en-de=b")}, ["en-de has more than one; give only one"]),
        (ONE_PAIR | {"test": ("t",)}, ["--test t: must be SRC-TGT=PREFIX"]),
        (ONE_PAIR | {"weight": ("text=2",)}, ["--weight text=2: no text has this name"]),
        (ONE_PAIR | {"moses_tokenize": True}, ["--moses-tokenize are for one pair of languages"]),
        (
            {"tag": ("en-de=train=<2de>",), "symbol": ("<2de>",)} | ONE_PAIR,
            ["--tag en-de=train=<2de>: <2de> is a language", "--symbol <2de>: <2de> is a language"],
        ),
    ],
)
def test_all_that_cannot_be_meant_is_refused_at_once(
    values: dict[str, object], problems: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        dataclasses.replace(OPTIONS, **values)  # type: ignore[arg-type]
    for problem in problems:
        assert problem in str(caught.value)


def test_a_prefix_may_hold_an_equals_sign() -> None:
    options = dataclasses.replace(OPTIONS, train=("a=b",), weight=("a=b=2.5",), tag=("a=b=<BT>",))
    assert (options.weights, options.tags) == ({"a=b": 2.5}, {"a=b": "<BT>"})


def test_every_special_piece_is_refused_as_a_symbol() -> None:
    pieces = learn_vocabulary(["abc"], vocab_size=264).tokens(range(260))
    assert pieces[3:5] == ["</s>", "<0x00>"]
    for piece in pieces:
        with pytest.raises(UsageError, match=f"--symbol {piece}: "):
            dataclasses.replace(OPTIONS, symbol=(piece,))
    dataclasses.replace(OPTIONS, symbol=("<2de>", "<0x4a>", "<S>"))  # which none has


def test_the_least_scores_of_a_file_have_one_order() -> None:
    given = ("x.tsv:b:0.5", "y.tsv:c:1", "x.tsv:a:2")
    options = dataclasses.replace(OPTIONS, train=("x.tsv", "y.tsv"), min_score=given)
    assert options.side_columns("x.tsv") == (SideColumn("a", 2.0), SideColumn("b", 0.5))

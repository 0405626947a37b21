"""Options of `prepare` that cannot be meant are refused before any file is looked for."""

import dataclasses
from pathlib import Path

import pytest

from nmt.data.vocabulary import learn_vocabulary
from nmt.errors import UsageError
from nmt.prepare.options import PrepareOptions
from nmt.system.machine import most_workers

OPTIONS = PrepareOptions(src_lang="en", tgt_lang="de", train=("train",), valid=("valid",))
ONE_PAIR: dict[str, object] = {"src_lang": "", "tgt_lang": "", "train": ()}
ONE_PAIR |= {"pair": ("en-de=train",), "valid": ("en-de=valid",)}


@pytest.mark.parametrize(
    ("values", "problems"),
    [
        (
            {"tgt_lang": "en", "seed": -1, "normalization": "nfck"},
            ["--normalization nfck: ", "'nfc'", "--seed -1: ", "--tgt are both 'en'"],
        ),
        ({"src_lang": "../en"}, ["--src '../en': "]),
        ({"src_lang": "bin"}, ["--src 'bin': "]),
        ({"vocab_size": 3_000_000_000}, ["--vocab-size 3000000000: "]),
        ({"sample_size": 0}, ["--sample-size 0: "]),
        ({"character_coverage": 0.5}, ["--character-coverage 0.5: "]),
        ({"workers": "0"}, ["--workers 0: "]),
        ({"workers": str(most_workers() + 1)}, [f" {most_workers()} "]),
        ({"valid_lines": -1}, ["--valid-lines -1: "]),
        ({"valid": ()}, ["one of --valid "]),
        ({"valid_lines": 10}, ["one of --valid "]),
        ({"vocab": (Path("a"), Path("b"), Path("c"))}, ["--vocab was given 3"]),
        ({"vocab": (Path("a"),), "vocab_size": 8000}, ["--vocab-size has no effect"]),
        ({"vocab": (Path("a"),), "separate_vocab": True}, ["--separate-vocab needs --vocab"]),
        ({"symbol": ("two words",)}, ["--symbol two words: "]),
        ({"symbol": ("__URL__",), "vocab": (Path("m"),)}, ["--symbol has no effect"]),
        ({"weight": ("train=two",)}, ["--weight train=two: "]),
        ({"weight": ("trian=2",)}, ["--weight trian=2: ", "'train'"]),
        ({"weight": ("train=0",)}, ["--weight train=0: "]),
        ({"weight": ("train=1e300",)}, ["--weight train=1e300: ", "1,000"]),
        ({"tag": ("test=<2de>",)}, ["--tag test=<2de>: no text"]),
        ({"tag": ("train=<x>", "train=<y>")}, ["--tag train=<y>: train has"]),
        ({"tag": ("train=to German",)}, ["--tag train=to German: "]),
        ({"tag": ("train=BT",), "moses_tokenize": True}, ["--tag train=BT: "]),
        ({"tag": ("train=<s>",)}, ["--tag train=<s>: "]),
        ({"quoting": ("trian=csv",)}, ["--quoting trian=csv: no text"]),
        ({"quoting": ("train=yes",)}, ["--quoting train=yes: must"]),
        ({"valid": ("-",)}, ["-: only training text"]),
        # What does not go together.
        ({"documents": True, "keep_text": True}, ["--keep-text", "--documents"]),
        ({"documents": True, "symbol": ("<sep>",)}, ["--symbol <sep>"]),
        ({"documents": True, "tag": ("train=<sep>",)}, ["--tag train=<sep>"]),
        ({"documents": True, "window": 1}, ["--window"]),
        ({"window": 3}, ["--window", "--documents"]),
        ({"terms": "auto", "keep_text": True}, ["--terms", "--keep-text"]),
        ({"terms": "auto", "symbol": ("<term>",)}, ["--symbol <term>: "]),
        # Several pairs of languages.
        ({"src_lang": "", "train": ()}, ["--src, --train: missing"]),
        ({"temperature": 5.0}, ["--temperature", "--pair"]),
        (ONE_PAIR | {"pair": ("en-de",)}, ["--pair en-de: "]),
        (ONE_PAIR | {"pair": ("zh-Hant-en=t",)}, ["--pair zh-Hant-en=t: "]),
        (ONE_PAIR | {"pair": ("en-en=t",)}, ["--pair en-en=t: "]),
        (ONE_PAIR | {"src_lang": "en"}, ["--src, --tgt and --train"]),
        (ONE_PAIR | {"valid": ("en-it=held",)}, ["--valid en-it=held: "]),
        (ONE_PAIR | {"valid": ("en-de=a", "en-de=b")}, ["--valid en-de=b: en-de has"]),
        (ONE_PAIR | {"test": ("t",)}, ["--test t: "]),
        (ONE_PAIR | {"weight": ("text=2",)}, ["--weight text=2: "]),
        (ONE_PAIR | {"moses_tokenize": True}, ["--moses-tokenize"]),
        (
            {"tag": ("en-de=train=<2de>",), "symbol": ("<2de>",)} | ONE_PAIR,
            ["--tag en-de=train=<2de>: ", "--symbol <2de>: "],
        ),
    ],
)
def test_all_that_is_wrong_is_told_at_once(values: dict[str, object], problems: list[str]) -> None:
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

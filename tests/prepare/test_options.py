"""Options of the stage that cannot be meant are refused before any file is looked for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from nmt.cpu import most_workers
from nmt.data.manifest import Settings
from nmt.errors import UsageError
from nmt.prepare.options import PrepareOptions, check_options

OPTIONS = PrepareOptions(
    out=Path("out"),
    train=("train",),
    valid="valid",
    settings=Settings(src_lang="en", tgt_lang="de"),
)


def changed(options: PrepareOptions, **values: object) -> PrepareOptions:
    settings = dataclasses.replace(options.settings, **values)  # type: ignore[arg-type]
    return dataclasses.replace(options, settings=settings)


def test_the_defaults_have_no_problem() -> None:
    check_options(OPTIONS)


def test_every_problem_of_the_options_is_told_at_once() -> None:
    wrong = changed(
        OPTIONS,
        tgt_lang="en",
        encoding="utf-9",
        vocab_size=0,
        normalization="nfck",
        character_coverage=0.5,
        sample_size=0,
        seed=-1,
        min_length=0,
        max_length=-1,
        max_ratio=0.5,
        max_symbols=50,
        duplicates_by="target",
        keep=("duplicates",),
    )
    with pytest.raises(UsageError) as caught:
        check_options(wrong)
    assert str(caught.value).split("; ") == [
        "--src and --tgt are both 'en'",
        "--encoding utf-9: unknown",
        "use for example utf-8, windows-1252, iso-8859-1, utf-16, gb18030, shift_jis or koi8-r",
        "--normalization nfck: there is no such rule",
        "did you mean 'nfkc'?",
        "--vocab-size 0: must be 1 or more",
        "--sample-size 0: must be 1 or more",
        "--min-length 0: must be 1 or more",
        "--max-length -1: must be --min-length or more",
        "--seed -1: must be 0 or more",
        "--max-ratio 0.5: must be 1 or more",
        "--max-symbols 50: must be from 0 to 1",
        "--character-coverage 0.5: must be from 0.98 to 1",
        "--duplicates-by target: must be pair or source",
        "--keep duplicates: there is no such rule",
        "did you mean 'duplicate'?",
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocab_size": 8000}, "--vocab-size has no effect with --vocab"),
        ({"normalization": "nfkc"}, "--normalization has no effect with --vocab"),
        ({"separate_vocab": True}, "--separate-vocab needs --vocab twice"),
        ({"src_lang": "../en"}, "--src '../en': use letters"),
    ],
)
def test_combinations_without_a_meaning_are_refused(
    values: dict[str, object], message: str
) -> None:
    given = dataclasses.replace(OPTIONS, vocab=(Path("spm.model"),))
    with pytest.raises(UsageError) as caught:
        check_options(changed(given, **values))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weights": {"trian": 2.0}}, "--weight trian=...: no text has this prefix; did you mean"),
        ({"weights": {"valid": 2.0}}, "--weight valid=...: no text has this prefix"),
        ({"weights": {"train": 0.0}}, "--weight train=0.0: must be a number above 0"),
        ({"weights": {"train": 1e300}}, "must be a number above 0 and at most 1,000"),
        ({"weights": {"train": float("nan")}}, "--weight train=nan: must be a number above 0"),
        ({"tags": {"test": "<2de>"}}, "--tag test=...: no text has this prefix"),
        ({"tags": {"train": "to German"}}, "--tag train=to German: must be one word"),
        ({"tags": {"valid": ""}}, "--tag valid=: must be one word"),
    ],
)
def test_weights_and_tags_are_for_texts_that_there_are(
    values: dict[str, dict[str, float]], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_options(dataclasses.replace(OPTIONS, **values))  # type: ignore[arg-type]
    assert message in str(caught.value)


@pytest.mark.parametrize("workers", [0, most_workers() + 1])
def test_workers_beyond_the_cores_are_refused_with_their_number(workers: int) -> None:
    with pytest.raises(
        UsageError, match=rf"--workers {workers}: must be from 1 to {most_workers()}"
    ):
        check_options(dataclasses.replace(OPTIONS, workers=workers))


@pytest.mark.parametrize(("valid", "valid_lines"), [(None, 0), ("valid", 10)])
def test_valid_is_given_or_drawn(valid: str | None, valid_lines: int) -> None:
    with pytest.raises(UsageError, match="give one of --valid PREFIX and --valid-lines N"):
        check_options(changed(dataclasses.replace(OPTIONS, valid=valid), valid_lines=valid_lines))

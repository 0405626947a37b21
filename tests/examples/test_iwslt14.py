"""IWSLT14's recipe makes the text that everybody compares on, and runs from the archive to a score.

Archives are laid out as WIT3's own. The expected tokens are those of Moses' own scripts.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from example_runs import iwslt14_archive, make, needs_make
from split import TESTS, Tokenizer, clean, split

from nmt.errors import DataError

ROOT = Path(__file__).parents[2]
IWSLT14 = ROOT / "examples" / "iwslt14"

pytestmark = needs_make


@pytest.mark.parametrize(
    ("language", "line", "tokens"),
    [
        ("en", "It's 5,300, isn't it?", "It &apos;s 5,300 , isn &apos;t it ?"),
        ("de", "Er sagt's: „Ja“ ...", "Er sagt &apos; s : „ Ja “ ..."),
        ("en", "(from [the] U.S.) at 5 p.m.", "( from &#91; the &#93; U.S. ) at 5 p.m ."),
        ("de", "z.B. am 3. Mai usw.", "z.B. am 3. Mai usw ."),
        ("en", "Well-known: 中文.", "Well-known : 中文 ."),
        ("en", "Q&amp;A | <b>", "Q &amp; amp ; A &#124; &lt; b &gt;"),
    ],
)
def test_tokens_are_those_of_moses(language: str, line: str, tokens: str) -> None:
    assert Tokenizer(language).tokenize(line) == tokens


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [((1, 1), True), ((4, 2), False), ((0, 1), False), ((175, 175), True), ((176, 175), False)],
)
def test_pairs_are_kept_by_their_numbers_of_tokens(lengths: tuple[int, int], kept: bool) -> None:
    src, tgt = (" ".join(["w"] * length) for length in lengths)
    assert (clean([(src, tgt)]) == [(src, tgt)]) is kept


def test_the_text_is_split_as_everybody_has_it(tmp_path: Path) -> None:
    training = {"de": [f"Satz {n}." for n in range(48)], "en": [f"Line {n}." for n in range(48)]}
    for lines in training.values():
        lines[0] = "<title>ONE, two: three</title>"
        lines[1] = "<description>Four five.</description>"
    training["en"][2] = "much too long for its other side"  # so that line 24 is the 23rd
    test = {"de": [[f"Test {name}."] for name in TESTS]}
    test["en"] = [[f"It’s &amp; {name}."] for name in TESTS]
    counts = {"raw": 48, "train": 45, "valid": 2, "test": 5}
    split(iwslt14_archive(tmp_path / "de-en.tgz", training, test), counts, tmp_path)

    def lines_of(name: str) -> list[str]:
        return (tmp_path / name).read_text(encoding="utf-8").splitlines()

    assert lines_of("train.en")[:3] == ["one , two : three", "four five .", "line 3 ."]
    assert lines_of("train.de")[2] == "satz 3 ."
    assert lines_of("valid.en") == ["line 23 .", "line 46 ."]
    assert lines_of("valid.de") == ["satz 23 .", "satz 46 ."]
    in_order = ["ted.dev2010", "tedx.dev2012", "ted.tst2010", "ted.tst2011", "ted.tst2012"]
    assert lines_of("test.en") == [f"it &apos;s &amp; amp ; {name} ." for name in in_order]
    assert lines_of("test.de") == [f"test {name} ." for name in in_order]
    assert lines_of("reference.en")[0] == "It's &amp; TED.dev2010."


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("spoil", "wrong", "said"),
    [
        (cut_short, {}, "damaged"),
        (None, {"raw": 24}, "raw text in de has 23 lines, and 24 "),
        (None, {"valid": 2}, "valid.* has 1 lines, and 2 "),
    ],
)
def test_an_archive_of_other_content_is_refused(
    tmp_path: Path, spoil: Callable[[Path], None] | None, wrong: dict[str, int], said: str
) -> None:
    sides = {"de": ["Satz."] * 23, "en": ["Line."] * 23}
    parts = [["Test."]] * len(TESTS)
    path = iwslt14_archive(tmp_path / "de-en.tgz", sides, {"de": parts, "en": parts})
    if spoil:
        spoil(path)
    counts = {"raw": 23, "train": 22, "valid": 1, "test": 5} | wrong
    out = tmp_path / "text"
    out.mkdir()
    with pytest.raises(DataError, match=said):
        split(path, counts, out)
    assert not list(out.iterdir())


# The recipe


@pytest.mark.parametrize(
    ("model", "recipe"),
    [
        ("post-norm", "--model transformer_iwslt"),
        ("modern", "--model transformer_modern --config modern.toml"),
    ],
)
def test_a_recipe_uses_the_field_s_values(model: str, recipe: str) -> None:
    done = make("iwslt14", "-n", "WORK=nowhere", f"MODEL={model}", "score")
    commands = re.sub(" +", " ", done.stdout.replace("\\\n", " "))
    assert "--vocab-size 10000 " in commands
    assert f"{recipe} --max-updates 100000 " in commands
    assert "--last 10 " in commands
    assert "--beam-size 5 --length-penalty-form power --length-penalty 1 " in commands
    assert "--lowercase" in commands
    assert "--tokenize none" in commands

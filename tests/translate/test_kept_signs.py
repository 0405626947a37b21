"""Signs of plain text come back if a translation has lost them, and other lines are not touched."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import nmt
from nmt.markup.kept_pieces import SIGN
from nmt.search.torch_engine import TorchEngine
from nmt.translate.taken_out import knows_signs

TEXT = """the cat 😀 sat; a dog 👍🏽.; 👨‍👩‍👧 the dog; cat™ and dog; © the cat; ✓ dog;
½ of the dog; a cat for € 5; see § 5 of the cat; ❤ a cat ❤; cat ≤ dog; │ cat │ dog │; cat → dog;
★★★☆ the dog; it is 5 ° warm; 🇫🇷 cat and 🇩🇪 dog; dog 1️⃣; the dog ➔ the cat; a dog ⚠️!;
🎉 the cat 🎉🎉"""
LINES = [line.strip() for line in TEXT.split(";")]


def signs(text: str) -> Counter[str]:
    return Counter("".join(sign[0] for sign in SIGN.finditer(text)))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"markup": "html"},
        {"alignment": True},
        {"split": True},
        {"search": {"n_best": 2}},
        {"search": {"n_best": 2, "sampling": nmt.Sampling(seed=1)}},
    ],
)
def test_every_sign_comes_back(model_file: Path, options: dict[str, Any]) -> None:
    others = dict(options)
    search = nmt.SearchOptions(max_extra_tokens=4, **others.pop("search", {}))
    translator = nmt.Translator.load(model_file, search, **others)
    for line, translation in zip(LINES, translator.translate(LINES), strict=True):
        for other in translation.n_best:
            assert signs(other.text) >= signs(line), line
            assert (other.alignment is not None) == options.get("alignment", False)


def test_only_lines_that_have_lost_a_sign_are_changed_or_aligned(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aligned: list[int] = []
    attention = TorchEngine.attention

    def noted(engine: TorchEngine, pairs: Sequence[Any]) -> list[Any]:
        aligned.append(len(pairs))
        return attention(engine, pairs)

    monkeypatch.setattr(TorchEngine, "attention", noted)
    translator = nmt.Translator.load(model_file, nmt.SearchOptions(max_extra_tokens=4))
    plain = ["the cat", "a “dog” – sat…", "l'été", "5 < 6", "😀", ""]
    before = translator.translate(plain)
    assert not aligned
    mixed = translator.translate([*plain, "the cat 😀", "a dog"])
    assert aligned == [1]
    assert [one.text for one in mixed[:-2]] == [one.text for one in before]
    assert "😀" in mixed[-2].text


def test_a_model_does_not_see_signs_that_it_does_not_know(model_file: Path) -> None:
    translator = nmt.Translator.load(model_file, nmt.SearchOptions(max_extra_tokens=4))
    without, *others = translator.translate(["the cat sat", "the cat 😀 sat", "the cat sat ✓"])
    for other in others:
        text = other.text.replace("😀", "").replace("✓", "")
        assert "".join(text.split()) == "".join(without.text.split())
    is_known = knows_signs(translator.language_pair.src_vocabulary)
    assert is_known("a")
    assert not is_known("😀")

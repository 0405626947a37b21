"""Any combination of options is refused in one line, or gives one line out for each line in."""

import json
import random
from collections.abc import Iterator
from dataclasses import Field
from pathlib import Path
from typing import Any

import pytest
from command_line import Answer, Nmt
from context_stub import model_of_documents

from nmt.config.fields import all_declared, option_name
from nmt.models.model_file import ModelCard
from nmt.translate.options import TranslationConfig

LINES = ["the cat sees a dog", "", " ", "2024", "<b>a bird</b> & then", "the\tcat"]
LINES += ["a dog. The cat!", "{name} hears", ">>fra<< the", "\u00e9t\u00e9"]
LINES += ["x" * 60, "the old house by the river " * 4]
NOT_DRAWN = {"--from", "--to"}
"""What the models of these tests do not have."""


def values_of(spec: Field[Any], files: Path) -> list[str]:
    """Return some values of an option, by what its declaration allows."""
    rules, kind = spec.metadata, str(spec.type)
    if rules["choices"]:
        return list(rules["choices"])
    if "Path" in kind:
        return [str(files / {"memory": "memory.tsv"}.get(spec.name, spec.name))]
    if kind.startswith("int"):
        return [str(int(rules["minimum"] or 0) + more) for more in range(4)]
    if kind.startswith("float"):
        return [str(least := (rules["minimum"] or rules["above"] or 0) + 0.1), str(least + 0.4)]
    return {"encoding": ["utf-8", "latin-1", "utf-16"]}[spec.name]


def draw_words(draw: random.Random, files: Path) -> list[str]:
    """Return a combination of options."""
    specs = [spec for spec in all_declared(TranslationConfig) if option_name(spec) not in NOT_DRAWN]
    words = []
    for spec in draw.sample(specs, draw.choice([1, 1, 2, 2, 3, 4, 6])):
        words.append(option_name(spec))
        if str(spec.type) != "bool":
            words.append(draw.choice(values_of(spec, files)))
    return words


def keeps_lines(answer: Answer, words: list[str], text: bytes) -> bool:
    """Tell whether the output has a line for each line of the input, in order."""
    lines = text.split(b"\n")
    count = len(lines) - (not lines[-1])
    written = answer.stdout.split("\n")
    if text.endswith(b"\n"):
        assert written.pop() == ""
    if "jsonl" in words:
        return [row["line"] for row in [json.loads(line) for line in written]] == list(range(count))
    if "--n-best" in words:
        numbers = [int(line.split(" ||| ")[0]) for line in written]
        return sorted(numbers) == numbers and set(numbers) == set(range(count))
    is_blank = [not line.strip() for line in lines[:count]]
    blank_out = ("", "0.000000\t", " ", "0.000000\t ") if "utf-16" not in words else written
    return len(written) == count and all(
        line in blank_out for line, blank in zip(written, is_blank, strict=True) if blank
    )


@pytest.fixture
def files(
    tmp_path: Path, model_file: Path, other_model: Path, term_reader: Path, card: ModelCard
) -> Path:
    (tmp_path / "terms").write_text("cat\tKatze\nhouse\tHaus; Hauses\n", encoding="utf-8")
    (tmp_path / "memory.tsv").write_text("en\tde\nthe cat\tdie Katze\n", encoding="utf-8")
    model_of_documents(tmp_path / "documents", card)
    for name, path in (("tiny", model_file), ("ensemble", other_model), ("reader", term_reader)):
        (tmp_path / name).symlink_to(path)
    return tmp_path


def check(nmt: Nmt, files: Path, seeds: range) -> Iterator[bool]:
    """Yield for each seed whether its combination was accepted."""
    for seed in seeds:
        draw = random.Random(seed)
        words = draw_words(draw, files)
        model = files / draw.choice(["tiny", "tiny", "documents", "reader"])
        chosen = draw.choices(LINES, k=draw.randrange(1, 6))
        text = ("\n".join(chosen) + draw.choice(["", "\n"])).encode() or b"\n"
        limits = ("--workers", "1", "--threads", "1", "--device", "cpu", "--summary")
        extra = () if "--max-extra-tokens" in words else ("--max-extra-tokens", "2")
        answer = nmt("translate", model, *limits, *extra, *words, stdin=text)
        what = f"seed {seed}: {model.name} {words} {text!r}: {answer}"
        if answer.status == 2:
            assert answer.stdout == "", what
            assert answer.stderr.count("\n") == 1, what
            assert answer.stderr.startswith("nmt: error: "), what
        elif "utf-16" in words:  # which the text is not
            assert "Traceback" not in answer.stderr, what
        else:
            assert answer.status in (0, 1), what
            assert answer.stderr.endswith("}\n"), what
            assert (answer.status == 1) == (answer.summary["failed"] > 0), what
            assert keeps_lines(answer, words, text), what
        yield answer.status != 2


def test_a_combination_is_refused_in_one_line_or_keeps_the_lines(nmt: Nmt, files: Path) -> None:
    assert 15 < sum(check(nmt, files, range(50))) < 45


@pytest.mark.slow
def test_thousands_of_combinations_do(nmt: Nmt, files: Path) -> None:
    assert 1_000 < sum(check(nmt, files, range(1_000, 5_000))) < 3_800

"""`nmt translate --context`: a translation depends on the lines before it, and on nothing else."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import QUICK, Answer, Nmt, write
from context_stub import model_of_documents, telling, use_instead_of_a_model
from mishaps import stop_after_pools

from nmt.data.vocabulary import split_lines
from nmt.models.model_file import ModelCard, read_card
from nmt.search.engine import Source

WORDS = ("the", "cat", "sees", "a", "dog", "bird", "river", "then", "by")


def text_of(lines: int) -> list[str]:
    """Lines of several documents, of 6 lines each."""
    return [f"{WORDS[n % 9]} {WORDS[n % 5]} {n}" if n % 7 else "" for n in range(lines)]


@pytest.fixture(scope="module")
def model(card: ModelCard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_of_documents(tmp_path_factory.mktemp("context") / "tiny.safetensors", card)


@pytest.fixture
def translate(nmt: Nmt, model: Path, monkeypatch: pytest.MonkeyPatch) -> Nmt:
    """Translates with 3 lines of context. Windows of an odd length give wrong separators."""
    separator = read_card(model).src_vocabulary.separator
    assert separator is not None
    copy = telling(separator)

    def spoiled(source: Source) -> Sequence[int]:
        has_context = len(split_lines(source.ids, separator)) > 1
        return (
            [separator, *source.ids] if has_context and len(source.ids) % 5 == 0 else copy(source)
        )

    use_instead_of_a_model(monkeypatch, spoiled)

    def run(*words: str | Path, stdin: bytes | None = None) -> Answer:
        return nmt("translate", model, *QUICK, "--summary", "--context", "3", *words, stdin=stdin)

    return run


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "in", text_of(60))


def test_each_line_has_one_and_what_fell_back_is_told(translate: Nmt, source: Path) -> None:
    done = translate("--input", source).succeeded()
    lines = text_of(60)
    out = done.stdout.split("\n")[:-1]
    assert len(out) == 60
    assert all(one.startswith(line) for line, one in zip(lines, out, strict=True))
    printed = translate("--input", source, "--format", "jsonl").stdout
    objects = [json.loads(one) for one in printed.splitlines()]
    assert [one["text"] for one in objects] == out
    before = [min(3, n % 7 - 1) if n % 7 else 0 for n in range(60)]
    marks = [(one.get("context", 0), one.get("fell_back", False)) for one in objects]
    assert all(mark in {(n, False), (0, n > 0)} for mark, n in zip(marks, before, strict=True))
    fell_back = [n for n, (_, is_alone) in enumerate(marks, start=1) if is_alone]
    assert 5 < len(fell_back) < 30
    assert done.summary["fell_back"] == len(fell_back)
    said = f"nmt: warning: {source}: {len(fell_back)} lines .* line {fell_back[0]}"
    assert re.search(said, done.stderr)


def test_pools_workers_and_pipes_are_no_part_of_the_result(translate: Nmt, source: Path) -> None:
    whole = translate("--input", source).stdout
    for size in ("1", "3", "60"):
        assert translate("--input", source, "--pool-lines", size).stdout == whole
    assert translate(stdin=source.read_bytes()).stdout == whole
    assert translate("--input", source, "--workers", "2", "--pool-lines", "40").stdout == whole


@pytest.mark.parametrize("pools", [1, 3])
def test_a_killed_job_goes_on_with_the_lines_before(
    translate: Nmt, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pools: int
) -> None:
    whole = translate("--input", source).stdout
    words = ("--input", source, "--output", tmp_path / "out", "--pool-lines", "9")
    with monkeypatch.context() as patch:
        stop_after_pools(patch, pools)
        assert translate(*words).status == 75
    assert f"after line {9 * pools}" in translate(*words).stderr
    assert (tmp_path / "out").read_text() == whole
    # Without context it is another job.
    assert "already translated" not in translate(*words, "--context", "2").stderr
    assert (tmp_path / "out").read_text() != whole


def test_each_file_is_a_document_of_its_own(translate: Nmt, tmp_path: Path) -> None:
    lines = [line for line in text_of(20) if line]
    (tmp_path / "in").mkdir()
    for name, part in (("a", lines[:9]), ("b", lines[9:])):
        write(tmp_path / "in" / name, part)
    assert translate("--input", tmp_path / "in", "--output", tmp_path / "out").status == 0
    for name in "ab":
        alone = translate("--input", tmp_path / "in" / name).stdout
        assert (tmp_path / "out" / name).read_text() == alone
    together = translate(stdin="".join(f"{line}\n" for line in lines).encode()).stdout
    assert together != (tmp_path / "out" / "a").read_text() + (tmp_path / "out" / "b").read_text()

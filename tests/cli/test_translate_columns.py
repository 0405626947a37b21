"""`nmt translate --input FILE:COLUMN --output FILE:COLUMN`: tables with translations."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import Nmt, Stderr

from nmt.data.corpus import Encoding
from nmt.errors import DataError
from nmt.jobs.lines import Line
from nmt.jobs.table_job import translate_table
from nmt.translate.output import BLANK, Translation


def test_a_column_gets_what_its_lines_get(translate: Nmt, tmp_path: Path) -> None:
    source, output = tmp_path / "x.jsonl", tmp_path / "y.jsonl"
    texts = ["the cat sees a dog.", "the river\n\nand the bird", "", "the red house"]
    rows = [{"id": number, "src": {"text": text}} for number, text in enumerate(texts)]
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    words = ("--input", f"{source}:src.text", "--output", f"{output}:hypothesis")
    done = translate(*words)
    assert (done.status, done.summary["lines_in"]) == (0, 6)
    lines = translate(stdin="\n".join(texts).encode()).stdout
    written = [json.loads(line) for line in output.read_text().splitlines()]
    assert "\n".join(row.pop("hypothesis") for row in written) == lines
    assert written == rows
    assert "already translated" in translate(*words).stderr
    other = translate("--input", f"{source}:src.text", "--output", f"{output}:other")
    assert "already" not in other.stderr
    assert "other" in output.read_text()


class Saying:
    """Translators that always say the same."""

    translator = SimpleNamespace(
        language_pair=SimpleNamespace(src_vocabulary=SimpleNamespace(composes=True))
    )

    def __init__(self, text: str) -> None:
        self.said = replace(BLANK, text=text)

    def translate(self, pools: Iterable[list[Line]], _: object) -> Iterator[list[Translation]]:
        for pool in pools:
            yield [self.said] * len(pool)


def test_a_table_keeps_its_encoding_or_fails(tmp_path: Path) -> None:
    source, content = tmp_path / "x.tsv", "en\tnote\na cat\tä\n".encode("latin-1")
    source.write_bytes(content)

    def written(text: str) -> bytes:
        start: Any = partial(Saying, text)
        latin = Encoding.find("latin-1")
        return translate_table(
            source, content, ("en", "de"), encoding=latin, pool_lines=9, start=start
        )[0]

    assert written("Ü") == "en\tnote\tde\na cat\tä\tÜ\n".encode("latin-1")
    with pytest.raises(DataError, match=r"x\.tsv: iso8859-1 has no '猫'"):
        written("猫")


def test_bad_bytes_are_counted_and_other_cells_keep_theirs(translate: Nmt, tmp_path: Path) -> None:
    source, output = tmp_path / "x.tsv", tmp_path / "y.tsv"
    source.write_bytes(b"id\ten\n\xff\t12\n2\t\xff\n")
    done = translate("--input", f"{source}:en", "--output", f"{output}:de").succeeded()
    assert "x.tsv: 1 paragraph is not valid utf-8, the first is paragraph 2" in done.stderr
    assert output.read_bytes() == b"id\ten\tde\n\xff\t12\t12\n2\t\xff\t" + "\ufffd\n".encode()


def test_documents_in_cells_are_warned_of(tmp_path: Path, stderr: Stderr) -> None:
    source = tmp_path / "x.jsonl"
    texts = ['```json\n{\n  "a": "A cat"\n}\n```', '["A cat", "a dog"]']
    texts += ["{a cat} [1]", "<b>A cat</b>"]
    content = "\n".join(json.dumps({"s": text}) for text in texts).encode()
    start: Any = partial(Saying, "x")
    utf_8 = Encoding.find("utf-8")
    translate_table(source, content, ("s", "t"), encoding=utf_8, pool_lines=9, start=start)
    assert "2 texts look like JSON" in stderr()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--input x.tsv:a", "x.tsv:a"),
        ("--input x.tsv:a --output y.tsv", "x.tsv:a"),
        ("--input x.tsv --output y.tsv:b", "y.tsv:b"),
        ("--input x.tsv:a --output y.csv:b", "y.csv:b"),
        ("--input x.xlsx:a --output y.xlsx:b", "y.xlsx:b"),
        ("--input x.tsv:a,b --output y.tsv:c", "x.tsv:a,b"),
        ("--input x.tsv:a --input z.tsv:a --output y.tsv:c", "x.tsv:a"),
        ("--input x.tsv:a --output x.tsv:b", "would replace"),
        ("--input x.tsv:a --output y.tsv:b --scores", "--scores"),
    ],
)
def test_columns_need_two_tables(translate: Nmt, here: Path, words: str, named: str) -> None:
    (here / "x.tsv").write_text("a\tb\n1\t2\n")
    assert named in translate(*words.split()).refusal(2)
    assert [path.name for path in here.glob("y*")] == []


def test_a_table_as_lines_is_refused_with_a_form_by_column(translate: Nmt, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("the cat\tthe dog\n")
    assert "--input x.tsv:en" in translate("--input", tmp_path / "x.tsv").refusal(1)
    for words in (("--markup", "none"), ("--prefixes",)):
        assert "warning" not in translate("--input", tmp_path / "x.tsv", *words).stderr
    assert "tabs" in translate(stdin=b"the cat\tthe dog\n").stderr

"""Tables of several pairs of languages: rows of the pair that is asked for are taken."""

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Stderr
from prepare_job import job_of, pairs, pairs_in
from text_formats import rows_of, save

from nmt.errors import DataError

Rows = Sequence[dict[str, Any]]


def write_jsonl(folder: Path, rows: Rows) -> str:
    (folder / "x.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return f"{folder}/x.jsonl"


def write_tsv(folder: Path, rows: Rows) -> str:
    with (folder / "x.tsv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0], dialect="excel-tab")
        table.writeheader()
        table.writerows(rows)
    return f"{folder}/x.tsv"


def write_parquet(folder: Path, rows: Rows) -> str:
    return str(save(folder / "x.parquet", {name: [row[name] for row in rows] for name in rows[0]}))


def of_pairs(column: str, *named: str) -> Rows:
    """Rows with the texts s0, t0, s1, t1 ..."""
    return [{column: pair, "source": f"s{n}", "target": f"t{n}"} for n, pair in enumerate(named)]


def of_two(src: str, tgt: str, *named: tuple[str, str]) -> Rows:
    return [{src: a, tgt: b, "src": f"s{n}", "trg": f"t{n}"} for n, (a, b) in enumerate(named)]


BAD = [
    {"lp": "en-de_DE", "domain": domain, "is_bad_source": bad, "source": f"s{n}", "target": f"t{n}"}
    for n, (domain, bad) in enumerate([("canary", False), ("news", True), ("news", False)])
]


@pytest.mark.parametrize("write", [write_jsonl, write_tsv, write_parquet])
@pytest.mark.parametrize(
    ("rows", "langs", "taken"),
    [
        (of_pairs("lp", "en-de_DE", "en-cs_CZ", "de-en"), ("en", "de"), [0]),
        (of_pairs("language_pair", "eng_Latn-deu_Latn", "en-zh-TW"), ("en", "zh_Hant"), [1]),
        (of_pairs("Language Pair", "English → German", "English → French"), ("en", "fr"), [1]),
        (of_pairs("direction", "en2de", "en2fr", "de2en"), ("de", "en"), [2]),
        (of_pairs("pair", "en_de", "en_fr"), ("en", "de"), [0]),
        (of_pairs("pair", "7-8", "en-fr"), ("en", "de"), [0, 1]),  # something else
        (of_two("sl", "tl", ("en", "sl"), ("en", "tl")), ("en", "tl"), [1]),
        (of_two("src_lang", "tgt_lang", ("en", "pt_PT"), ("en", "de")), ("en", "pt"), [0]),
        (of_two("SourceLanguage", "TargetLanguage", ("fr", "de"), ("en", "de")), ("en", "de"), [1]),
        (BAD, ("en", "de"), [2]),
        # One column of languages, of the side that not all rows have in common.
        (of_pairs("lang", "de", "fr", "de"), ("en", "de"), [0, 2]),
        (of_pairs("Language", "German", "French"), ("de", "en"), [0]),
        (of_pairs("tgt_lang", "zh-Hant", "ja", "en"), ("en", "zh_Hant"), [0]),
        (of_pairs("source_language", "en", "de"), ("en", "de"), [0]),
        (of_pairs("lang", "en", "de"), ("en", "de"), [0, 1]),  # in which they were written
        (of_pairs("lang", "python", "rust"), ("en", "de"), [0, 1]),
    ],
)
def test_rows_of_the_pair_are_taken(
    tmp_path: Path,
    write: Callable[[Path, Rows], str],
    rows: Rows,
    langs: tuple[str, str],
    taken: list[int],
) -> None:
    found = [(f"s{number}", f"t{number}") for number in taken]
    assert rows_of(write(tmp_path, rows), langs) == found


def test_columns_of_languages_are_right_for_both_directions(tmp_path: Path) -> None:
    rows = [{"lp": lp, "en": "a", "de": "x"} for lp in ("en-de", "de-en", "fr-de")]
    assert rows_of(write_jsonl(tmp_path, rows), ("de", "en")) == [("x", "a")] * 2
    swapped = f"{write_jsonl(tmp_path, of_pairs('lp', 'en-de', 'de-en'))}:target,source"
    assert rows_of(swapped, ("de", "en")) == [("t0", "s0")]


def test_columns_that_name_languages_are_no_text(tmp_path: Path) -> None:
    words = [{"en": "house", "sl": "hiša", "tl": "bahay"}, {"en": "dog", "sl": "pes", "tl": "aso"}]
    assert rows_of(write_tsv(tmp_path, words), ("sl", "tl")) == [("hiša", "bahay"), ("pes", "aso")]


@pytest.mark.parametrize(
    ("text", "columns", "langs", "taken"),
    [
        ("eng\tdeu\ta\tx\nfra\tdeu\tb\ty\n", "3,4", ("en", "de"), [("a", "x")]),
        ("eng\tdeu\ta\tx\ndeu\teng\ty\tb\n", "4,3", ("de", "en"), [("x", "a")]),
        ("ar\ta\tzh_Hant\tx\nar\tb\tzh_Hans\ty\n", "2,4", ("ar", "zh"), [("b", "y")]),
        ("1\tx\ta\ten-de\n2\ty\tb\ten-fr\n", "2,3", ("de", "en"), [("x", "a")]),
        ("l1\tl2\tt1\tt2\nen\tde\ta\tx\nen\tfr\tb\ty\n", "t1,t2", ("en", "de"), [("a", "x")]),
        # Words that are codes, too, are text; and a single code may mean anything.
        ("cat\tdog\nthe\tder\n", "1,2", ("en", "de"), [("cat", "dog"), ("the", "der")]),
        ("fr\ta\tx\nen\tb\ty\n", "2,3", ("en", "de"), [("a", "x"), ("b", "y")]),
    ],
)
def test_columns_without_such_names_are_found_by_what_they_hold(
    tmp_path: Path, text: str, columns: str, langs: tuple[str, str], taken: list[tuple[str, str]]
) -> None:
    (tmp_path / "x.tsv").write_text(text)
    assert rows_of(f"{tmp_path}/x.tsv:{columns}", langs) == taken


def test_a_table_without_the_pair_is_refused(tmp_path: Path) -> None:
    name = write_tsv(tmp_path, of_pairs("lp", "en-de", "en-zh_TW", "en-zh_TW"))
    with pytest.raises(DataError, match=r"x\.tsv: .* en-zh, .*en-zh_TW 2, en-de 1"):
        rows_of(name, ("en", "zh"))


def test_a_table_of_another_language_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.tsv: .* en-de, .*fr 2"):
        rows_of(write_tsv(tmp_path, of_pairs("lang", "fr", "fr")), ("en", "de"))


def test_others_are_no_part_of_train_or_test(tmp_path: Path, stderr: Stderr) -> None:
    rows = [
        {"lp": lp, "source": src, "target": tgt}
        for src, tgt in pairs(40)
        for lp in ("en-fr", "en-de")
    ]
    name = write_jsonl(tmp_path, rows)
    folder = job_of(tmp_path, name, test=(name,), keep=("overlap",)).prepare()
    assert pairs_in(folder) == pairs(40)
    (corpus,) = folder.info.train.corpora
    assert (corpus.lines, corpus.rejected) == (40, {})
    assert (folder.path / "test-x.jsonl.en").read_text().count("\n") == 40
    assert "40 of 80 rows are left out: en-fr 40" in stderr()

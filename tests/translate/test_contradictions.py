"""What does not go with what: the table, its section in the manual, and random combinations."""

import re
from pathlib import Path
from typing import Any

import pytest

import nmt as package
from nmt.config.fields import all_declared, declared, option_name
from nmt.errors import UsageError
from nmt.search.options import Sampling, SearchOptions
from nmt.translate.contradictions import TABLE, Contradiction
from nmt.translate.options import TranslationConfig

MANUAL = Path(package.__file__).parent / "translate" / "README.md"


def grouped_rows() -> list[str]:
    """Return the table with one row for all options that one reason keeps from one thing."""
    groups = dict[str, list[str]]()
    for row in TABLE:
        option, rest = str(row).removeprefix("| ").split(" | ", 1)
        short = rest.replace("does not go with", "not with", 1).replace("needs", "only with", 1)
        groups.setdefault(short.replace("; not with", "; fine with"), []).append(option)
    return [f"| {', '.join(options)} | {rest}" for rest, options in groups.items()]


def test_the_manual_has_each_row_of_the_table_and_no_other() -> None:
    section = MANUAL.read_text(encoding="utf-8").partition("## What does not go together\n")[2]
    rows = re.findall(r"^\|.*\|$", section.partition("\n## ")[0], re.MULTILINE)
    assert rows[2:] == grouped_rows()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"--a": 1, "--b": 2}, ["--a", "--b", "reason"]),
        ({"--a": 1}, []),
        ({"--a": 1, "--b": 2, "--c": "x"}, []),
        ({"--a": 1, "--b": 2, "--c": "y"}, ["--a", "--b", "reason"]),
    ],
)
def test_a_row_holds_without_an_exception(given: dict[str, object], expected: list[str]) -> None:
    problem = Contradiction("--a", "--b", "reason", ("--c x",)).problem(given)
    assert re.findall(r"--\w|reason", problem) == expected


@pytest.mark.parametrize("option", [row.option for row in TABLE if row.other == "--context"])
def test_options_of_the_table_are_those_of_the_configuration(option: str) -> None:
    search, mine = dict[str, Any](), dict[str, Any]()
    for spec in all_declared(TranslationConfig):
        if option_name(spec) == option:
            is_of_search = spec.name in {field.name for field in declared(SearchOptions)}
            given = {"int": 2, "int | None": 2, "float": 1.5, "bool": True}
            (search if is_of_search else mine)[spec.name] = given.get(str(spec.type), Path("file"))
    with pytest.raises(UsageError, match=f"^{option} .*--context: "):
        TranslationConfig(context=1, search=SearchOptions(**search), **mine)


def test_all_contradictions_are_told_at_once_in_the_words_of_the_caller(model_file: Path) -> None:
    with pytest.raises(UsageError) as caught:
        TranslationConfig(prefixes=True, markup="html", context=2, split=True)
    pairs = [("prefixes", "markup"), ("prefixes", "context"), ("split", "context")]
    assert re.findall(r"--(\w+) does not go with --(\w+)", str(caught.value)) == pairs
    options = SearchOptions(sampling=Sampling(), n_best=2)
    with pytest.raises(UsageError, match=r"^terms .*sampling: ") as caught:
        package.Translator.load(model_file, options, terms=model_file)
    assert "--" not in str(caught.value)

"""Declared values: the options that commands make of them, and what is checked."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import typer

from nmt.cli.options import with_options
from nmt.config.fields import check, declared, like, value
from nmt.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Trip:
    src: str = value(..., "From where.", option="--from", metavar="TOWN", panel="Way")
    days: int = value(3, "How long.", minimum=1, maximum=14, panel="Way")
    share: float = value(0.5, "How much of it by train.", minimum=0, below=1)
    speed: float | None = value(None, "How fast.", above=0, shown="the train's")
    by: str = value("rail", "By what.", choices=("rail", "road"))
    towns: tuple[str, ...] = value(("Ulm",), "On the way. You can repeat it.")
    maps: tuple[Path, ...] = value((), "Maps.")
    slowly: bool = value(False, "Take the slow train.")
    note: str = "no option"

    def __post_init__(self) -> None:
        check(self)

    def problems(self) -> list[str]:
        return ["--slowly takes 5 --days"] if self.slowly and self.days < 5 else []


@dataclass(frozen=True, kw_only=True)
class Baggage:
    bags: int = value(1, "Bags.", minimum=0)

    def __post_init__(self) -> None:
        check(self)


Answer = list[tuple[Any, ...]]


@pytest.fixture
def travel() -> Callable[..., Answer]:
    """Return a function that runs a command of two dataclasses and returns what it was given."""

    def run(*words: str) -> Answer:
        given: Answer = []

        def go(
            to: Annotated[str, typer.Argument()],
            trip: Trip,
            baggage: Baggage,
            fast: Annotated[bool, typer.Option("--fast")] = False,
        ) -> None:
            given.append((to, trip, baggage, fast))

        app = typer.Typer(add_completion=False)
        app.command()(with_options(go))
        app(words, standalone_mode=False)
        return given

    return run


def test_a_command_gets_its_dataclasses_from_their_options(travel: Callable[..., Answer]) -> None:
    assert travel("Bonn", "--from", "Ulm") == [("Bonn", Trip(src="Ulm"), Baggage(), False)]
    words = "--days 5 --share 0 --speed 80 --by road --towns Rom --towns Bern --maps a --slowly"
    trip = Trip(
        src="Ulm",
        days=5,
        share=0.0,
        speed=80.0,
        by="road",
        towns=("Rom", "Bern"),
        maps=(Path("a"),),
        slowly=True,
    )
    found = travel("Bonn", "--fast", "--bags", "0", "--from", "Ulm", *words.split())
    assert found == [("Bonn", trip, Baggage(bags=0), True)]


def test_all_problems_of_a_command_are_told_at_once(travel: Callable[..., Answer]) -> None:
    words = "--days 0 --share 1 --speed 0 --by rode --slowly --bags -1"
    with pytest.raises(UsageError) as caught:
        travel("Bonn", "--from", "Ulm", *words.split())
    told = re.findall(r"--\w+ (?:-?\d|rode)|'road'|--slowly", str(caught.value))
    assert " ".join(told) == "--days 0 --share 1 --speed 0 --by rode 'road' --slowly --bags -1"


def test_numbers_of_other_libraries_and_unset_values_are_taken() -> None:
    others: dict[str, Any] = {"days": np.int64(3), "share": np.float32(0.25), "speed": None}
    assert Trip(src="Ulm", **others).days == 3
    assert Trip(src="Ulm", share=0, speed=3).speed == 3


@pytest.mark.parametrize("speed", [float("nan"), float("inf")])
def test_no_bound_lets_a_number_pass_that_is_none(speed: float) -> None:
    with pytest.raises(UsageError, match=f"--speed {speed}: "):
        Trip(src="Ulm", speed=speed)


def test_help_comes_from_the_declaration(
    travel: Callable[..., Answer],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    travel("--help-all")
    lines = [" ".join(row.strip("│╭╮─ *").split()) for row in capsys.readouterr().out.splitlines()]
    for expected in (
        "--from TOWN From where. [required]",
        "--days N How long. [default: 3]",
        "--speed X How fast. [default: (the train's)]",
        "--by rail|road By what. [default: rail]",
        "--towns TEXT On the way. You can repeat it. [default: Ulm]",
        "--maps PATH Maps.",
        "--slowly Take the slow train.",
        "Way",
    ):
        assert expected in lines


def test_a_field_like_another_keeps_help_and_check() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Walk:
        days: int | None = like(Trip, "days", shown="until it rains")

        def __post_init__(self) -> None:
            check(self)

    assert Walk().days is None
    with pytest.raises(UsageError, match=r"--days 15: .*14"):
        Walk(days=15)
    (spec,) = declared(Walk)
    assert (spec.metadata["help"], spec.metadata["shown"]) == ("How long.", "until it rains")

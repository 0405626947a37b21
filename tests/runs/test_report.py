"""What a run tells: of its metrics, validations and samples, to files and to people."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from svg_picture import places
from terminal import HIDE_CURSOR, SHOW_CURSOR, OnTerminal
from toy_training import metrics, nmt, recipe, settings_of

from nmt.runs.checkpoint import RunState
from nmt.runs.report import Report, Sample, ValidationResult, rows, sparkline
from nmt.runs.run_folder import RunFolder
from nmt.values import Value

SAMPLES = (Sample(4, "one two", "zwei eins", "zwei\u2028zwei"), Sample(9, "a\x1b[2Jb", "b", ""))
RESULT = ValidationResult(1.5, 0.0, None, None)


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("nmt.runs.report.time.monotonic", clock)
    return clock


@pytest.fixture
def report(tmp_path: Path, clock: Clock) -> Iterator[Report]:
    assert clock.now  # which stands still
    with Report(RunFolder(tmp_path), recipe().training, 0) as report:
        report.started(RunState(), "a model")
        yield report


def window_metrics(update: int, skipped: int = 0) -> dict[str, Any]:
    return {
        "kind": "train",
        "update": update,
        "epoch": 0.5,
        "loss": 4.5,
        "nll": 4.25,
        "perplexity": 70.1,
        "learning_rate": 1e-3,
        "grad_norm": 2.0,
        "tokens_per_second": 12_345.6,
        "mfu": 0.625,
        "data_wait": 0.001,
        "padding": 0.03,
        "skipped_updates": skipped,
    }


def trained(report: Report, update: int) -> None:
    report.trained(RunState(update), window_metrics(update))


def log_of(folder: Path) -> list[str]:
    """The lines of train.log without their times."""
    lines = (folder / "train.log").read_text(encoding="utf-8").split("\n")[:-1]
    return [line.split(" ", 2)[2] for line in lines]


# --- records and log


def test_training_figures_go_to_metrics_and_log(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report.trained(RunState(1_200), window_metrics(1_200, skipped=2))
    assert metrics(tmp_path) == [window_metrics(1_200, skipped=2)]
    line = (
        "update 1,200 epoch 0.50: nll 4.250, perplexity 70.10, smoothed loss 4.500, learning rate "
        "0.001, gradient 2.000; 12,346 tokens/s, mfu 62.5%, padding 3.0%, data wait 0.1%, skipped "
        "updates 2"
    )
    assert log_of(tmp_path) == ["starting: a model", line]
    assert capsys.readouterr().err.splitlines() == [f"nmt: {line}"]


def test_a_validation_is_on_record_with_its_samples(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = RunState(2_000, best=((1.5, 2_000),))
    report.validated(state, ValidationResult(1.5, 0.0, 33.3, "nrefs:1", SAMPLES), seconds=2.5)
    (record,) = metrics(tmp_path)
    assert record == {
        "kind": "valid",
        "update": 2_000,
        "loss": 1.5,
        "nll": 0.0,
        "perplexity": 1.0,
        "bleu": 33.3,
        "bleu_signature": "nrefs:1",
        "samples": [
            {
                "line": 4,
                "source": "one two",
                "reference": "zwei eins",
                "translation": "zwei\u2028zwei",
            },
            {"line": 9, "source": "a\x1b[2Jb", "reference": "b", "translation": ""},
        ],
    }
    assert log_of(tmp_path)[1:] == [
        "update 2,000 valid: nll 0.0000, perplexity 1.000, smoothed loss 1.5000, BLEU 33.30 "
        "(nrefs:1), the best so far; 2.5 s",
        "valid line 4 source: one two",
        "valid line 4 reference: zwei eins",
        r"valid line 4 translation: zwei\u2028zwei",
        r"valid line 9 source: a\x1b[2Jb",
        "valid line 9 reference: b",
        "valid line 9 translation: ",
    ]
    assert len(capsys.readouterr().err.splitlines()) == 1  # a pipe only gets the metrics


def test_without_samples_nothing_is_said_of_them(report: Report, tmp_path: Path) -> None:
    report.validated(RunState(8, best=((1.4, 4),)), RESULT, seconds=0.1)
    assert metrics(tmp_path)[0].keys() == {"kind", "update", "loss", "nll", "perplexity"}
    assert log_of(tmp_path)[1:] == [
        "update 8 valid: nll 0.0000, perplexity 1.000, smoothed loss 1.5000; 0.1 s"
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        # The first update waits for its data; the others take 2.5 seconds. 30 is the last.
        ([6.0, 2.5, 2.5, 2.5], "3: 2.5 s per update, so 27 more will take about 68 seconds"),
        ([600], "1: 600 s per update, so 29 more will take about 4.8 hours"),
    ],
)
def test_the_log_soon_tells_how_long_the_run_will_take(
    report: Report, tmp_path: Path, clock: Clock, seconds: list[float], said: str
) -> None:
    for update, taken in enumerate(seconds, start=1):
        clock.now += taken
        report.advance(update)
    assert log_of(tmp_path)[1:] == [f"update {said}, plus validation and saving"]


# --- curves


def points(folder: Path) -> int:
    """How many points of training loss curves.svg shows; 0 without it."""
    path = folder / "curves.svg"
    return len(places(ElementTree.parse(path).getroot())[0]) if path.exists() else 0


def test_curves_are_drawn_once_a_minute(report: Report, tmp_path: Path, clock: Clock) -> None:
    drawn = []
    for update in range(1, 8):
        clock.now += 25
        trained(report, update)
        drawn.append(points(tmp_path))
    assert drawn == [0, 0, 3, 3, 3, 6, 6]


def test_curves_are_drawn_at_each_validation(report: Report, tmp_path: Path) -> None:
    trained(report, 1)
    report.validated(RunState(1), RESULT, seconds=0.1)
    assert points(tmp_path) == 1


def test_slow_drawing_takes_a_hundredth_of_the_time(
    report: Report, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = RunFolder.draw_curves

    def slow(run: RunFolder) -> None:
        draw(run)
        clock.now += 3

    monkeypatch.setattr(RunFolder, "draw_curves", slow)
    drawn = []
    for update in range(1, 7):
        clock.now += 99
        trained(report, update)
        drawn.append(points(tmp_path))
    assert drawn == [1, 1, 1, 1, 5, 5]


# --- the live view


def valid(update: int, nll: float, **more: Any) -> dict[str, Any]:
    return {"update": update, "loss": nll + 1, "nll": nll, "perplexity": math.exp(nll), **more}


def test_the_view_shows_the_figures_that_the_records_have() -> None:
    assert rows({}, [], None) == []
    train = window_metrics(1_200) | {"nonsense": 7}
    del train["mfu"]
    assert rows(train, [], None) == [
        (
            "training",
            "nll 4.250, perplexity 70.10, smoothed loss 4.500, learning rate 0.001, gradient 2.000",
        ),
        ("speed", "12,346 tokens/s, padding 3.0%, data wait 0.1%, skipped updates 0"),
    ]


def test_the_view_shows_the_last_validation_the_best_and_the_history() -> None:
    sample = {"line": 2, "source": "one", "reference": "eins", "translation": "zwei"}
    old = [sample | {"source": "old"}]
    records = [valid(1000, 4.0), valid(2000, 3.0, samples=old)]
    records.append(valid(3000, 3.5, bleu=20.5, samples=[sample]))
    assert rows({}, records, 2000) == [
        (
            "last valid",
            "update 3,000: nll 3.5000, perplexity 33.115, smoothed loss 4.5000, BLEU 20.50",
        ),
        ("best valid", "update 2,000: nll 3.0000, perplexity 20.086, smoothed loss 4.0000"),
        ("valid nll", "█▁▅ 4 to 3.5"),
        ("source", "one"),
        ("reference", "eins"),
        ("translation", "zwei"),
    ]


def test_a_sparkline_reaches_from_the_lowest_to_the_highest_value() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5.0, 5.0]) == "▁▁"
    assert sparkline([1.0, math.nan, 2.0, math.inf]) == "▁ █ "


def test_a_resumed_run_shows_what_was_before(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.record({"kind": "train"} | window_metrics(5))
    run.record({"kind": "valid", "update": 7, "loss": 2.0, "nll": 1.5, "perplexity": 4.5})
    run.record({"kind": "valid", "update": 14, "loss": 3.0, "nll": 2.5, "perplexity": 12.2})
    report = Report(run, recipe().training, 20)
    report.started(RunState(update=20, best=((2.0, 7),)), "a model")
    assert log_of(tmp_path) == ["resuming at update 20: a model"]
    assert report._view.rows == [
        ("last valid", "update 14: nll 2.5000, perplexity 12.200, smoothed loss 3.0000"),
        ("best valid", "update 7: nll 1.5000, perplexity 4.500, smoothed loss 2.0000"),
        ("valid nll", "▁█ 1.5 to 2.5"),
    ]


# --- a real run

SHOWN: dict[str, Value] = {"sample_translations": 2}
AT_ONCE = "from nmt import cli, console; console._FRAME_SECONDS = 0.0; cli.main()"


def shown_at_once(*arguments: str | Path) -> OnTerminal:
    """Run `nmt` on a terminal with a bar from the first update: a run may end within a second."""
    return OnTerminal([sys.executable, "-c", AT_ONCE, *map(str, arguments)])


def test_a_terminal_shows_a_run_and_is_left_clean(data: Path, tmp_path: Path) -> None:
    terminal = shown_at_once("train", data, "--out", tmp_path / "run", *settings_of(**SHOWN))
    assert terminal.finish() == 0
    assert terminal.written.rindex(SHOW_CURSOR) > terminal.written.rindex(HIDE_CURSOR)
    last = metrics(tmp_path / "run", "valid")[-1]
    for shown in (
        "30/30",
        "updates/s",
        f"update 28: nll {last['nll']:.4f}, perplexity {last['perplexity']:.3f}",
        "best valid",
        "valid nll",
        last["samples"][0]["source"],
        last["samples"][1]["reference"],
        "gradient",
        "tokens/s",
    ):
        assert shown in terminal.written
    # What remains is what a pipe gets.
    log = log_of(tmp_path / "run")
    said = "".join(f"nmt: {line}" for line in log if not line.startswith("valid line"))
    assert "".join(terminal.screen).replace(" ", "") == said.replace(" ", "")


@pytest.mark.parametrize(
    ("values", "number", "exit_status", "last"),
    [
        ({"max_updates": 100_000}, signal.SIGTERM, 75, "stopped at update"),
        ({"max_updates": 100_000}, signal.SIGINT, 75, "stopped at update"),
        ({"learning_rate": 1e30}, 0, 1, "diverged: no finite gradient"),
    ],
)
def test_a_stop_or_a_failure_leaves_the_terminal_clean(
    data: Path, tmp_path: Path, values: dict[str, Value], number: int, exit_status: int, last: str
) -> None:
    terminal = shown_at_once("train", data, "--out", tmp_path / "run", *settings_of(**values))
    if number:
        terminal.read_until("last valid")
        terminal.process.send_signal(number)
    assert terminal.finish() == exit_status
    assert terminal.written.rindex(SHOW_CURSOR) > terminal.written.rindex(HIDE_CURSOR)
    *_, message = "".join(terminal.screen).split("nmt: ")
    assert last.replace(" ", "") in message.replace(" ", "")  # which the terminal has wrapped
    assert not any(line.startswith(("training", "last valid")) for line in terminal.screen)


def test_a_pipe_gets_plain_lines(data: Path, tmp_path: Path) -> None:
    done = nmt("train", data, "--out", tmp_path / "run", *settings_of(**SHOWN))
    assert done.returncode == 0
    log = [line for line in log_of(tmp_path / "run") if not line.startswith("valid line")]
    assert done.stderr.splitlines() == [f"nmt: {line}" for line in log]

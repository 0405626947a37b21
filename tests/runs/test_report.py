"""What a run tells: of its figures, validations and samples, to files and to people."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from svg_picture import places
from terminal import HIDE_CURSOR, SHOW_CURSOR, OnTerminal
from toy_training import metrics, nmt, nmt_command, recipe, settings_of, train

from nmt.runs.checkpoint import Progress
from nmt.runs.report import Report, Sample, ValidationResult
from nmt.runs.run_folder import RunFolder
from nmt.values import Value

SAMPLES = (Sample(4, "one two", "zwei eins", "zwei\u2028zwei"), Sample(9, "a\x1b[2Jb", "b", ""))


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("nmt.runs.report.time.monotonic", clock)
    return clock


@pytest.fixture
def report(tmp_path: Path, clock: Clock) -> Iterator[Report]:
    clock.now = 1000.0
    with Report(RunFolder(tmp_path), recipe().training, Progress()) as report:
        report.started("a model")
        yield report


def figures(update: int, skipped: int = 0) -> dict[str, Any]:
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


def log_of(folder: Path) -> list[str]:
    """The lines of train.log without their times."""
    lines = (folder / "train.log").read_text(encoding="utf-8").split("\n")[:-1]
    return [line.split(" ", 2)[2] for line in lines]


def test_training_figures_go_to_metrics_and_log(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report.trained(figures(1_200))
    assert metrics(tmp_path) == [figures(1_200)]
    line = (
        "update 1,200 epoch 0.50: nll 4.250, perplexity 70.10 (smoothed loss 4.500), learning rate "
        "0.001, gradient 2.000; 12,346 tokens/s, mfu 62%, data wait 0.1%, padding 3.0%"
    )
    assert log_of(tmp_path) == ["starting: a model", line]
    assert capsys.readouterr().err.splitlines() == [f"nmt: {line}"]


def test_the_log_tells_of_updates_that_were_passed_over(report: Report, tmp_path: Path) -> None:
    report.trained(figures(1_300, skipped=2))
    assert log_of(tmp_path)[-1].endswith("; 2 updates skipped (gradient not finite)")


def test_a_validation_is_on_record_with_its_samples(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report.progress.update = 2_000
    report.validated(ValidationResult(1.5, 0.0, 33.3, "nrefs:1", SAMPLES), True, seconds=2.5)
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
        "update 2,000 valid: nll 0.0000, perplexity 1.000 (smoothed loss 1.5000), BLEU 33.30 "
        "(nrefs:1), the best so far; 2.5 s",
        "valid line 4 source: one two",
        "valid line 4 reference: zwei eins",
        r"valid line 4 translation: zwei\u2028zwei",
        r"valid line 9 source: a\x1b[2Jb",
        "valid line 9 reference: b",
        "valid line 9 translation: ",
    ]
    assert len(capsys.readouterr().err.splitlines()) == 1  # a pipe gets the figures alone


def test_without_samples_nothing_is_said_of_them(report: Report, tmp_path: Path) -> None:
    report.validated(ValidationResult(1.5, 0.0, None, None), False, seconds=0.1)
    assert metrics(tmp_path)[0].keys() == {"kind", "update", "loss", "nll", "perplexity"}
    assert log_of(tmp_path)[1:] == [
        "update 0 valid: nll 0.0000, perplexity 1.000 (smoothed loss 1.5000); 0.1 s"
    ]


def test_the_log_soon_tells_how_long_the_run_will_take(
    report: Report, tmp_path: Path, clock: Clock
) -> None:
    # The first update waits for its data; the others take 2.5 seconds. 30 is the last.
    for seconds in (6.0, 2.5, 2.5, 2.5):
        clock.now += seconds
        report.progress.update += 1
        report.advance()
    assert log_of(tmp_path)[1:] == [
        "update 3: 2.5 s per update, so 27 more will take about 68 seconds, plus validation "
        "and saving"
    ]


def test_the_first_update_tells_it_where_it_takes_long(
    report: Report, tmp_path: Path, clock: Clock
) -> None:
    clock.now += 600
    report.progress.update += 1
    report.advance()
    assert "update 1: 600 s per update, so 29 more will take about 4.8 hours" in log_of(tmp_path)[1]


def points(folder: Path) -> int:
    """How many points of training loss curves.svg shows; 0 without it."""
    path = folder / "curves.svg"
    return len(places(ElementTree.parse(path).getroot())[0]) if path.exists() else 0


def test_curves_are_drawn_once_a_minute(report: Report, tmp_path: Path, clock: Clock) -> None:
    drawn = []
    for update in range(1, 8):
        clock.now += 25
        report.trained(figures(update))
        drawn.append(points(tmp_path))
    assert drawn == [0, 0, 3, 3, 3, 6, 6]


def test_curves_are_drawn_at_each_validation(report: Report, tmp_path: Path) -> None:
    report.trained(figures(1))
    report.validated(ValidationResult(1.5, 0.0, None, None), False, seconds=0.1)
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
        report.trained(figures(update))
        drawn.append(points(tmp_path))
    assert drawn == [1, 1, 1, 1, 5, 5]


def test_a_resumed_run_shows_what_was_before(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.record({"kind": "train"} | figures(5))
    run.record({"kind": "valid", "update": 7, "loss": 2.0, "nll": 1.5, "perplexity": 4.5})
    run.record({"kind": "valid", "update": 14, "loss": 3.0, "nll": 2.5, "perplexity": 12.2})
    report = Report(run, recipe().training, Progress(update=20, best=[(2.0, 7)]))
    report.started("a model")
    assert log_of(tmp_path) == ["resuming at update 20: a model"]
    assert report._view.rows == [
        ("last valid", "update 14: nll 2.5000, perplexity 12.200, smoothed loss 3.0000"),
        ("best valid", "update 7: nll 1.5000, perplexity 4.500, smoothed loss 2.0000"),
        ("valid nll", "▁█ 1.5 to 2.5"),
    ]


# --- a real run

SHOWN: dict[str, Value] = {"sample_translations": 2}


def test_samples_of_a_run_are_always_of_the_same_lines(data: Path, tmp_path: Path) -> None:
    out = train(data, tmp_path / "run", **SHOWN)
    valid = [line.split("\n")[:-1] for line in _valid_text(data)]
    for record in metrics(out, "valid"):
        # The middle of each half of 20 lines.
        assert [sample["line"] for sample in record["samples"]] == [6, 16]
        for sample in record["samples"]:
            text = sample["source"], sample["reference"]
            assert text == (valid[0][sample["line"] - 1], valid[1][sample["line"] - 1])


def _valid_text(data: Path) -> list[str]:
    return [(data / f"valid.{lang}").read_text(encoding="utf-8") for lang in ("en", "de")]


def test_a_terminal_shows_a_run_and_is_left_clean(data: Path, tmp_path: Path) -> None:
    settings = settings_of(**SHOWN)
    terminal = OnTerminal(nmt_command("train", data, "--out", tmp_path / "run", *settings))
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_leaves_the_terminal_clean(data: Path, tmp_path: Path, number: int) -> None:
    settings = settings_of(max_updates=100_000)
    terminal = OnTerminal(nmt_command("train", data, "--out", tmp_path / "run", *settings))
    terminal.read_until("last valid")
    terminal.process.send_signal(number)
    assert terminal.finish() == 75
    assert_clean(terminal, "stopped at update")


def test_a_failure_leaves_the_terminal_clean(data: Path, tmp_path: Path) -> None:
    settings = settings_of(learning_rate=1e30)
    terminal = OnTerminal(nmt_command("train", data, "--out", tmp_path / "run", *settings))
    assert terminal.finish() == 1
    assert_clean(terminal, "diverged: no finite gradient")


def assert_clean(terminal: OnTerminal, last: str) -> None:
    assert terminal.written.rindex(SHOW_CURSOR) > terminal.written.rindex(HIDE_CURSOR)
    *_, message = "".join(terminal.screen).split("nmt: ")
    assert last.replace(" ", "") in message.replace(" ", "")  # which the terminal has wrapped
    assert not any(line.startswith(("training", "last valid")) for line in terminal.screen)


def test_a_pipe_gets_plain_lines(data: Path, tmp_path: Path) -> None:
    done = nmt("train", data, "--out", tmp_path / "run", *settings_of(**SHOWN))
    assert done.returncode == 0
    log = [line for line in log_of(tmp_path / "run") if not line.startswith("valid line")]
    assert done.stderr.splitlines() == [f"nmt: {line}" for line in log]

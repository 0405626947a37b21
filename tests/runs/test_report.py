"""What a run tells: of its metrics, validations and samples, to files and to people."""

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from svg_picture import places, texts, titles
from terminal import OnTerminal
from toy_training import Toy, metrics, recipe, status
from warm_python import warm_python

from nmt.config.fields import Value
from nmt.runs.checkpoint import RunState
from nmt.runs.report import Report, TextResult, ValidationResult
from nmt.runs.run_folder import RunFolder, curves_from_metrics
from nmt.scoring.metrics import Score

SAMPLES = [
    {"line": 4, "source": "one two", "reference": "zwei eins", "translation": "x\u2028y"},
    {"line": 9, "source": "a\x1b[2Jb", "reference": "b", "translation": ""},
]
RESULT = ValidationResult(1.5, 0.0)
ZH, DE = ("en", "zh"), ("en", "de")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which goes on when a test says so."""
    now = [1000.0]
    monkeypatch.setattr("nmt.runs.report.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def report(tmp_path: Path, clock: list[float]) -> Iterator[Report]:  # noqa: ARG001
    with Report(RunFolder(tmp_path), recipe().training, 0, 30) as report:
        report.started(RunState(), "a model")
        yield report


def window_metrics(update: int) -> dict[str, Any]:
    figures = {"epoch": 0.5, "loss": 4.5, "nll": 4.25, "perplexity": 70.1, "learning_rate": 1e-3}
    figures |= {"grad_norm": 2.0, "tokens_per_second": 12_345.6, "mfu": 0.625, "data_wait": 0.001}
    return {"kind": "train", "update": update, **figures, "padding": 0.03, "skipped_updates": 2}


def trained(report: Report, update: int) -> None:
    report.trained(RunState(update), window_metrics(update))


def log_of(folder: Path) -> list[str]:
    """The lines of train.log without their times."""
    lines = (folder / "train.log").read_text(encoding="utf-8").split("\n")[:-1]
    return [line.split(" ", 2)[2] for line in lines]


# --- records and log


def test_figures_go_to_metrics_and_log(report: Report, tmp_path: Path, capsys: Capture) -> None:
    trained(report, 1_200)
    assert metrics(tmp_path) == [window_metrics(1_200)]
    line = "update 1,200 epoch 0.50: nll 4.250, ppl 70.1, 12.35k tokens/s"
    rare = "update 1,200: skipped updates 2"
    assert log_of(tmp_path) == ["starting: a model", line, rare]
    assert capsys.readouterr().err.splitlines() == [f"nmt: {line}", f"nmt: {rare}"]


def test_validations_are_on_record(report: Report, tmp_path: Path, capsys: Capture) -> None:
    state = RunState(2_000, best=((1.5, 1.5, 2_000),))
    text = TextResult(DE, 0.0, {"bleu": Score("BLEU", 33.3, "nrefs:1")})
    report.validated(state, ValidationResult(1.5, 0.0, (text,), SAMPLES), seconds=2.5)
    report.validated(RunState(2_001, best=((1.4, 1.4, 4),)), RESULT, seconds=0.1)
    first, second = metrics(tmp_path)
    scores = {"loss": 1.5, "nll": 0.0, "perplexity": 1.0, "bleu": 33.3, "bleu_signature": "nrefs:1"}
    assert first == {"kind": "valid", "update": 2_000, **scores, "samples": SAMPLES}
    assert second.keys() == {"kind", "update", "loss", "nll", "perplexity"}
    assert log_of(tmp_path)[1:] == [
        "update 2,000 valid: nll 0.0000, perplexity 1.000, BLEU 33.30, best so far; 2.5 s",
        "update 2,000 valid: signature nrefs:1",
        "valid line 4 source: one two",
        "valid line 4 reference: zwei eins",
        r"valid line 4 translation: x\u2028y",
        r"valid line 9 source: a\x1b[2Jb",
        "valid line 9 reference: b",
        "valid line 9 translation: ",
        "update 2,001 valid: nll 0.0000, perplexity 1.000; 0.1 s",
    ]
    assert len(capsys.readouterr().err.splitlines()) == 3  # a pipe only gets the metrics


def scored(nll: float, *bleus: float, langs: tuple[tuple[str, str], ...] = (ZH,)) -> Any:
    """A validation with such BLEU scores of pairs of languages."""
    texts = tuple(
        TextResult(pair, nll, {"bleu": Score("BLEU", bleu, f"tok:{pair[1]}")})
        for pair, bleu in zip(langs, bleus, strict=True)
    )
    return ValidationResult(nll, nll, texts)


def test_pairs_have_their_own_signatures_where_they_differ(report: Report, tmp_path: Path) -> None:
    report.validated(RunState(5), scored(2.0, 10.0, 20.0, langs=(ZH, DE)), seconds=0.1)
    (record,) = metrics(tmp_path)
    signatures = {key: value for key, value in record.items() if "signature" in key}
    assert signatures == {"bleu_signature/en-zh": "tok:zh", "bleu_signature/en-de": "tok:de"}
    assert log_of(tmp_path)[1:] == [
        "update 5 valid: nll 2.0000, perplexity 7.389, BLEU 15.00; 0.1 s",
        "update 5 valid: nll/en-zh 2, nll/en-de 2, bleu/en-zh 10 (tok:zh), bleu/en-de 20 (tok:de)",
    ]


def test_a_signature_stands_in_the_log_once(report: Report, tmp_path: Path) -> None:
    for number in (1, 2):
        report.validated(RunState(number), scored(2.0, 10.0), seconds=0.1)
        report.validated(RunState(number), scored(2.0, 10.0, 20.0, langs=(ZH, DE)), seconds=0.1)
    log = "\n".join(log_of(tmp_path))
    assert [log.count(f"tok:{lang}") for lang in ("zh", "de")] == [2, 1]
    assert all("tok:zh" in str(record) for record in metrics(tmp_path))


def test_the_share_of_waiting_is_a_detail(report: Report, tmp_path: Path, capsys: Capture) -> None:
    report.trained(RunState(9), window_metrics(9) | {"data_wait": 0.5})
    assert "update 9: data wait 50%" in log_of(tmp_path)
    assert "wait" not in capsys.readouterr().err


def test_the_log_tells_from_the_first_update_how_long_the_rest_takes(
    report: Report, tmp_path: Path, clock: list[float]
) -> None:
    # The first update waits for its data; the others take 2.5 seconds. 30 is the last.
    for update, taken in ((1, 600.0), (5, 10.0), (30, 62.5)):
        clock[0] += taken
        trained(report, update)
    first, fifth, last = (line for line in log_of(tmp_path)[1:] if "nll" in line)
    assert first.endswith(", 4:50:00 left")
    assert fifth.endswith(", 0:01:02 left")
    assert "left" not in last


# --- curves


@pytest.mark.parametrize("change", [{"nll": None}, {"bleu_signature": []}, {"samples": 5}])
def test_a_damaged_validation_stops_no_run(tmp_path: Path, change: dict[str, object]) -> None:
    run = RunFolder(tmp_path)
    run.record({"kind": "valid", "update": 6, "nll": 1.5} | change)
    with Report(run, recipe().training, 6, 30) as report:
        report.started(RunState(update=6), "as before")
    assert "resuming at update 6" in (tmp_path / "train.log").read_text()


def test_metrics_become_panels() -> None:
    records: list[dict[str, object]] = [
        {"kind": "train", "update": 100, "loss": 6.1, "nll": 5.9, "learning_rate": 3e-4,
         "tokens_per_second": 12345.0, "grad_norm": 1.2},
        {"kind": "start", "update": 150, "nll": 77.0},
        {},
        {"kind": "train", "update": 1},
        {"kind": "train", "update": 2, "nll": None},
        {"kind": "train", "update": "3", "nll": 1.0},
        {"kind": "valid", "update": 200, "loss": 5.0, "nll": 4.5, "perplexity": 90.0},
    ]  # fmt: skip
    names = ["nll", "Perplexity", "Learning rate", "Speed", "Gradient norm"]
    picture = ElementTree.fromstring(curves_from_metrics(records))
    assert titles(picture) == [*names, "Learning curves"]
    assert not any("77" in text for text in texts(picture))
    ((x, y),), ((later_x, lower_y),) = places(picture)[:2]
    assert x < later_x and y < lower_y


@pytest.mark.parametrize(
    ("metric", "name", "other"), [("bleu", "BLEU", "chrF"), ("chrf", "chrF", "BLEU")]
)
def test_a_metric_has_a_panel_once_it_was_taken(metric: str, name: str, other: str) -> None:
    record: dict[str, object] = {"kind": "valid", "update": 1, "nll": 1.0}
    scores = {metric: 51.92, f"{metric}/en-zh": 53.34}
    picture = ElementTree.fromstring(curves_from_metrics([record, record | scores | {"update": 2}]))
    assert name in titles(picture) and other not in titles(picture)
    for shown in ("51.92", "en-zh"):
        assert any(shown in text for text in texts(picture))


@pytest.mark.parametrize(
    ("apart", "takes", "drawn"),
    [
        # Once a minute; and if it is slow, for a hundredth of the time.
        (25, 0, [0, 0, 3, 3, 3, 6, 6]),
        (99, 3, [1, 1, 1, 1, 5, 5]),
    ],
)
def test_curves_are_drawn_now_and_then_and_at_the_end(
    report: Report, clock: list[float], toy: Toy, apart: int, takes: int, drawn: list[int]
) -> None:
    draw = RunFolder.draw_curves

    def draw_slowly(run: RunFolder, *_: object) -> None:
        draw(run)
        clock[0] += takes

    def points() -> int:
        """How many points of training loss curves.svg shows; 0 without it."""
        path = toy.folder / "curves.svg"
        return len(places(ElementTree.parse(path).getroot())[0]) if path.exists() else 0

    toy.patch.setattr(RunFolder, "draw_curves", draw_slowly)
    found = []
    for update in range(1, len(drawn) + 1):
        clock[0] += apart
        trained(report, update)
        found.append(points())
    assert found == drawn
    (toy.folder / "last.safetensors").write_bytes(b"")
    report.finished(RunState(len(drawn)), "max_updates")
    assert points() == len(drawn)


def test_without_matplotlib_a_run_says_once_that_it_draws_no_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run = RunFolder(tmp_path)
    run.draw_curves()
    run.draw_curves()
    (told,) = capsys.readouterr().err.splitlines()
    assert "curves.svg" in told and "pip install matplotlib" in told


def test_a_picture_that_cannot_be_drawn_does_not_end_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    RunFolder(tmp_path).draw_curves()
    (told,) = capsys.readouterr().err.splitlines()
    assert "curves.svg" in told


# --- a real run

AT_ONCE = (
    "from nmt import console; from nmt.__main__ import main; console._FRAME_SECONDS = 0.0; main()"
)


def shown_at_once(toy: Toy, **values: Value) -> OnTerminal:
    """Train on a terminal with a bar from the first update: a run may end within a second."""
    return OnTerminal([warm_python(), "-c", AT_ONCE, *toy.words("run", **values)])


def lines_for_people(run: Path) -> list[str]:
    details = re.compile("valid line|matrix products|.* data wait")
    return [f"nmt: {line}" for line in log_of(run) if not details.match(line)]


def test_a_terminal_shows_a_run_and_is_left_clean(toy: Toy) -> None:
    terminal, run = shown_at_once(toy, sample_translations=2), toy.folder / "run"
    assert terminal.finish() == 0
    for shown in ("29/30", "updates/s, epoch ", "validating"):
        assert shown in terminal.written
    # What remains is what a pipe gets: what opens the model, and then the log. Then comes the next
    # step.
    screen, _, following = "".join(terminal.screen).partition("nmt: next: ")
    said = "".join(lines_for_people(run))
    opened, start, _ = screen.partition("nmt: starting")
    assert start and screen.removeprefix(opened).replace(" ", "") == said.replace(" ", "")
    assert opened.count("nmt: ") == 1
    assert following.startswith("nmt translate ")


@pytest.mark.parametrize(
    ("values", "number", "exit_status", "last"),
    [
        ({"max_updates": 100_000}, signal.SIGINT, 75, "stopped at update"),
        ({"learning_rate": 1e30}, 0, 1, "diverged: no finite gradient"),
    ],
)
def test_a_stop_or_a_failure_leaves_the_terminal_clean(
    toy: Toy, values: dict[str, Value], number: int, exit_status: int, last: str
) -> None:
    terminal = shown_at_once(toy, **values)
    if number:
        terminal.read_until("validating")
        terminal.process.send_signal(number)
    assert terminal.finish() == exit_status
    *_, message = "".join(terminal.screen).split("nmt: ")
    assert last.replace(" ", "") in message.replace(" ", "")  # which the terminal has wrapped
    assert not any(line.startswith(("training", "validating")) for line in terminal.screen)
    assert status(toy.folder / "run")["status"] == ("stopped" if number else "failed")

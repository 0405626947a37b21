"""The commands print on a GPU what they print on a CPU, in fp32."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from command_line import Nmt, write
from gpus import HALF, needs_gpu, needs_two_gpus
from toy_training import metrics, settings_of, status

pytestmark = needs_gpu

LINES = """\
the old cat sees a bird.

a dog hears the river and the small house
x
3.5
the red tree and then slowly a dog and the cat
the cat\ta red
"""

Print = Callable[..., tuple[str, str]]


@pytest.fixture
def on_both(nmt: Nmt) -> Print:
    """Run a command on the GPU and on the CPU; return what each prints."""

    def run(*words: str | Path) -> tuple[str, str]:
        printed = []
        for device in ("cuda", "cpu"):
            done = nmt(*words, "--device", device, "--precision", "fp32", "--quiet").succeeded()
            printed.append(done.stdout)
        on_gpu, on_cpu = printed
        return on_gpu, on_cpu

    return run


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.en"
    path.write_text(LINES)
    return path


def numbers_apart(printed: str) -> tuple[str, list[float]]:
    """Return a text without its numbers, and these."""
    number = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
    return number.sub("N", printed), [float(one) for one in number.findall(printed)]


def assert_same(found: str, expected: str) -> None:
    """Check that two outputs are the same, up to the rounding of numbers."""
    (text, numbers), (wanted, wanted_numbers) = map(numbers_apart, (found, expected))
    assert text == wanted
    assert numbers == pytest.approx(wanted_numbers, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    "words",
    [
        ["--beam-size", "1"],
        ["--n-best", "3"],
        ["--sample", "--n-best", "2", "--top-k", "9", "--top-p", "0.9", "--temperature", "0.8"],
        ["--sample", "--seed", "7", "--scores"],
        ["--alignment"],
        ["--format", "jsonl", "--alignment"],
        ["--no-repeat-ngram", "2", "--repetition-penalty", "1.3"],
        ["--batch-tokens", "20", "--split"],
        ["--markup", "html"],
        ["--prefixes"],
        ["--ensemble", "OTHER", "--scores"],
        ["--ensemble", "OTHER", "--sample"],
    ],
    ids=" ".join,
)
def test_translate(
    on_both: Print, model_file: Path, other_model: Path, text: Path, words: Sequence[str]
) -> None:
    more = [other_model if word == "OTHER" else word for word in words]
    found, expected = on_both(
        "translate", model_file, "--input", text, "--max-extra-tokens", "6", *more
    )
    assert expected.count("\n") >= LINES.count("\n")
    assert_same(found, expected)


def test_terms(
    on_both: Print, model_file: Path, term_reader: Path, text: Path, tmp_path: Path
) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("cat\ttree\nold\tslowly; red\n")
    for model in (model_file, term_reader):  # which forces them, and which reads them
        chosen = ("translate", model, "--input", text, "--terms", terms, "--max-extra-tokens", "6")
        found, expected = on_both(*chosen, "--format", "jsonl")
        assert_same(found, expected)
        assert model == term_reader or "tree" in json.loads(found.splitlines()[0])["text"]


def test_rescore(
    on_both: Print, model_file: Path, other_model: Path, text: Path, tmp_path: Path
) -> None:
    target = write(tmp_path / "text.de", reversed(LINES.splitlines()))
    for words in (["--json"], ["--scores"], ["--tokens"], ["--ensemble", other_model, "--tokens"]):
        assert_same(*on_both("rescore", model_file, target, "--source", text, *words))


def test_train_goes_on_and_translates(nmt: Nmt, data: Path, text: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for updates in (4, 6):
        settings = settings_of(device="cuda", precision=HALF, max_updates=updates)
        nmt("train", data, "--out", run, "--quiet", *settings).succeeded()
    assert [record["update"] for record in metrics(run, "start")] == [0, 4]
    assert status(run) == {"status": "finished", "update": 6, "reason": "max_updates"}
    done = nmt("translate", run, "--input", text, "--quiet")  # on the GPU, by default in 16 bits
    assert (done.status, done.stdout.count("\n")) == (0, LINES.count("\n"))


@needs_two_gpus
def test_several_gpus_share_the_lines(nmt: Nmt, model_file: Path, text: Path) -> None:
    text.write_text(LINES * 12)  # for shares of 16 lines
    chosen = ("translate", model_file, "--input", text, "--max-extra-tokens", "6")
    one, all_of_them = (
        nmt(*chosen, "--device", "cuda", "--workers", workers, "--quiet")
        for workers in ("1", "auto")
    )
    assert (one.status, all_of_them.status) == (0, 0)
    assert all_of_them.stdout == one.stdout

"""Models that other toolkits trained score and translate here as they did there.

`make.sh` in the folder of each toolkit has trained them, and recorded what it does with them.
"""

from pathlib import Path

import pytest
from command_line import Nmt
from foreign_folders import BY_CODES, BY_PIECES, FOLDERS, LANGS, Importer

SEGMENTED = {
    "fairseq/post": BY_CODES,
    "fairseq/pre": BY_PIECES,
    "opennmt_py/shared": BY_CODES,
    "opennmt_py/apart": BY_PIECES,
    "ctranslate2/post": BY_CODES,
    "ctranslate2/apart": BY_PIECES,
    "opennmt_py/version2": BY_CODES,
    "eole/shared": BY_CODES,
    "eole/apart": BY_PIECES,
    "joeynmt/post": (),
    "joeynmt/pre": (),
    "sockeye/post": BY_CODES,
    "sockeye/pre": BY_PIECES,
}
"""By folder: what segments its text, unless its files say so."""
WRONG = {"the other side": (*BY_PIECES[2:], *BY_PIECES[:2]), "another kind": BY_CODES}
BY_LENGTH = ("--length-penalty", "1", "--length-penalty-form", "power", "--max-extra-tokens", "200")


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def imported(request: pytest.FixtureRequest, importer: Importer) -> tuple[Path, Path]:
    """A folder of another toolkit, and the model file that comes of it."""
    folder = FOLDERS / request.param
    return folder, importer.model(folder, words=(*LANGS, *SEGMENTED[request.param]))


@pytest.mark.parametrize("imported", SEGMENTED, indirect=True)
def test_log_probabilities_are_those_of_the_toolkit(nmt: Nmt, imported: tuple[Path, Path]) -> None:
    folder, model = imported
    words = ("--source", folder / "source.txt", "--scores", "--length-penalty", "0")
    rescored = nmt("rescore", model, folder / "output.txt", *words).succeeded().stdout
    ours = [float(line.partition("\t")[0]) for line in rescored.splitlines()]
    theirs = list(map(float, lines_of(folder / "scores.txt")))
    assert len(ours) == len(theirs) == 200
    assert ours == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize("imported", SEGMENTED, indirect=True)
def test_greedy_lines_are_those_of_the_toolkit(nmt: Nmt, imported: tuple[Path, Path]) -> None:
    assert equal_lines(nmt, imported, "1", "output.txt") >= 198


@pytest.mark.parametrize("imported", ["fairseq/post", "fairseq/pre"], indirect=True)
def test_nearly_all_lines_of_a_beam_are_fairseq_s(nmt: Nmt, imported: tuple[Path, Path]) -> None:
    assert equal_lines(nmt, imported, "5", "beam5.txt") >= 190


def equal_lines(nmt: Nmt, imported: tuple[Path, Path], beam: str, expected: str) -> int:
    folder, model = imported
    words = ("--input", folder / "source.txt", "--beam-size", beam, *BY_LENGTH)
    ours = (
        nmt("translate", model, "--workers", "1", "--threads", "1", "--no-guard", *words)
        .succeeded()
        .stdout.splitlines()
    )
    theirs = lines_of(folder / expected)
    assert len(ours) == len(theirs) == 200
    return sum(map(str.__eq__, ours, theirs))


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("folder", [name for name in SEGMENTED if name.endswith(("pre", "apart"))])
def test_another_models_segmenter_is_refused(importer: Importer, folder: str, wrong: str) -> None:
    line = importer.refusal(2, FOLDERS / folder, words=(*LANGS, *WRONG[wrong]))
    assert str(WRONG[wrong][1]) in line

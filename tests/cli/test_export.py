"""What `nmt export` writes is what `nmt translate` reads."""

from pathlib import Path

import pytest
from command_line import QUICK, Nmt, write

LINES = ["the cat sees a bird", "", "a dog. The old house and the river", "the small tree"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write(tmp_path / "in", LINES)


def test_an_export_translates_as_its_model_does(
    nmt: Nmt, model_file: Path, text: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    done = nmt("export", "ctranslate2", model_file, tmp_path / "fast")
    assert (done.status, done.stdout) == (0, "")
    words = ("--input", text, *QUICK, "--beam-size", "1")
    fast = nmt("translate", tmp_path / "fast", *words).succeeded()
    assert len(fast.stdout.splitlines()) == len(LINES)
    assert fast.stdout.splitlines()[1] == ""
    for more, message in (
        (("--beam-size", "4", "--length-penalty-form", "wu"), "form power"),
        (("--prefixes",), "--prefixes"),
        (("--attention", "a.svg"), "--attention"),
        (("--max-tokens", "0"), "--max-tokens"),
        (("--alignment",), "no alignments"),
        (("--markup", "xml"), "no alignments"),
        (("--format", "jsonl"), "no log-probabilities"),
        (("--precision", "bf16"), "keeps the precision"),
        (("--sample",), "samples"),
        (("--ensemble", model_file), "fast, a CTranslate2"),
        (("--terms", text), "takes no terms"),
    ):
        assert message in nmt("translate", tmp_path / "fast", *words, *more).refusal(2)
    # Other commands need the weights.
    line = nmt("rescore", tmp_path / "fast", text, "--source", text).refusal(1)
    assert "fast: " in line

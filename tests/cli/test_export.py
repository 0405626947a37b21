"""What `nmt translate` does not do with an export, nor other commands."""

from pathlib import Path

import pytest
from command_line import QUICK, Nmt, write


def test_what_an_export_cannot_do_is_refused(nmt: Nmt, model_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    assert nmt("export", "ctranslate2", model_file, tmp_path / "fast").status == 0
    text = write(tmp_path / "in", ["the cat sees a bird"])
    words = ("--input", text, *QUICK, "--beam-size", "1")
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
    folder = tmp_path / "folder"
    folder.mkdir()
    write(folder / "a.txt", ["the cat"])
    for name in ("b.html", "c.po"):
        (folder / name).write_text("")
    out = tmp_path / "out"
    told = nmt("translate", tmp_path / "fast", "--input", folder, "--output", out, *QUICK)
    warning, *errors = [line for line in told.stderr.splitlines() if line.startswith("nmt: ")]
    assert "2 of 3 files are documents" in warning
    assert len(errors) == 2
    assert [path.name for path in out.iterdir() if path.suffix == ".txt"] == ["a.txt"]
    # Other commands need the weights.
    line = nmt("rescore", tmp_path / "fast", text, "--source", text).refusal(1)
    assert "fast: " in line

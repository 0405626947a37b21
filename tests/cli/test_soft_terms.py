"""`nmt translate --terms` with a model that was trained to read terms."""

import json
from pathlib import Path

import pytest
from command_line import QUICK, Nmt


def test_what_forces_terms_alone_is_not_refused(
    nmt: Nmt, term_reader: Path, model_file: Path, tmp_path: Path
) -> None:
    text, terms = tmp_path / "in", tmp_path / "terms.tsv"
    text.write_text("the cat\n")
    terms.write_text("cat\tKatze\n")
    words = ("--input", text, "--terms", terms, "--sample", "--format", "jsonl")
    (told,) = json.loads(nmt("translate", term_reader, *QUICK, *words).succeeded().stdout)["terms"]
    assert (told["source"], told["target"]) == ("cat", "Katze")
    nmt("translate", model_file, *QUICK, *words).refusal(2)


def test_an_export_of_it_reads_annotations(nmt: Nmt, term_reader: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    text, terms = tmp_path / "in", tmp_path / "terms.tsv"
    text.write_text("the cat sees the dog\n")
    terms.write_text("cat\tKatze\ndog\tHund\n")
    assert nmt("export", "ctranslate2", term_reader, tmp_path / "fast").status == 0
    plain, soft = (
        nmt("translate", tmp_path / "fast", *QUICK, "--input", text, *more)
        for more in ((), ("--terms", terms))
    )
    assert (plain.status, soft.status) == (0, 0)
    assert plain.stdout != soft.stdout

"""What somebody may type by mistake: one line that says what is wrong, and nothing written."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prepare_job import Job

Nmt = Callable[..., Any]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data folder, and beside it the text that it was made of."""
    folder = tmp_path_factory.mktemp("data")
    for name, count in (("train", 50), ("valid", 3)):
        for lang in ("en", "de"):
            text = "".join(
                f"{lang} number {n} is {'odd' if n % 2 else 'even'}\n" for n in range(count)
            )
            (folder / f"{name}.{lang}").write_text(text)
    job = Job.of(
        folder / "data",
        train=(f"{folder}/train",),
        valid=f"{folder}/valid",
        vocab_size=300,
    )
    job.prepare()
    return folder


@pytest.fixture
def place(data: Path, model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in: text, a data folder, a model, a link that leads to itself."""
    for path in data.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "model").symlink_to(model_file)
    (tmp_path / "round").symlink_to("round")
    monkeypatch.chdir(tmp_path)
    return tmp_path


LOOP, LONG = "Too many levels of symbolic links", "x" * 300
CASES = [
    # A link that leads to itself.
    ("translate round", 1, "round"),
    ("translate model --input round", 1, "round"),
    ("translate model --input valid.en --output round", 1, f"round: {LOOP}"),
    ("train round --out run", 1, "round"),
    ("train data --out round", 1, "round"),
    ("train data --out run --config round", 1, f"round: {LOOP}"),
    ("train data --out run --model transformer_tiny --init-from round", 1, "round"),
    ("data round", 1, "round"),
    ("data data --svg round.svg/x.svg", 2, "no such folder"),
    ("average round model --out mean", 1, "round"),
    ("average model model --out round", 1, f"round: {LOOP}"),
    ("export shortlist data round", 1, f"round: {LOOP}"),
    ("export ctranslate2 model round", 1, f"round: {LOOP}"),
    ("export shortlist round list", 1, "round"),
    ("prepare round --src en --tgt de --train train --valid valid", 1, f"round: {LOOP}"),
    ("score round valid.de", 1, f"round: {LOOP}"),
    ("score valid.de round", 1, f"round: {LOOP}"),
    ("rescore round valid.de --source valid.en", 1, "round"),
    ("rescore model valid.de --source round", 1, f"round: {LOOP}"),
    # Pictures, folders and values that contradict each other.
    ("translate model --attention a.png --input valid.en", 2, "a.png: pictures are SVG"),
    ("data data --svg x.png", 2, "x.png: pictures are SVG; give a name that ends in .svg"),
    ("data data --svg nowhere/x.svg", 2, "nowhere: no such folder"),
    ("average model model --out no/", 2, "no/: is a folder; name a file"),
    ("export shortlist data no/", 2, "no/: is a folder; name a file"),
    (
        "train data --out run --max-updates 4 --set max_updates=2",
        2,
        "--max-updates 4 and --set max_updates=2 contradict each other; give one of them",
    ),
    ("train data --out run --device cpu --set device=cuda", 2, "contradict each other"),
    (
        "train data --out run --micro-batch-tokens auto --set micro_batch_tokens=9",
        2,
        "contradict each other",
    ),
    ("train data --out run --set threads=100000", 2, "threads = 100000: must be from 0 to 1024"),
    # Arguments that are empty or mean a stream elsewhere.
    ("translate model --input ''", 2, "an argument is empty; give a value"),
    ("translate model --input=", 2, "--input is empty; give a value"),
    ("translate model --input valid.en --output ''", 2, "an argument is empty"),
    ("translate model --input -", 2, "leave it out to read stdin"),
    ("translate model --input valid.en --output -", 2, "leave it out to write to stdout"),
    ("translate model --input valid.en --encoding idna", 2, "--encoding idna: unknown"),
    ("data data --batch-tokens 99999999999999999999", 2, "'--batch-tokens'"),
    ("rescore model valid.de", 2, "Missing option '--source'"),
    ("translate model --input valid.en --output /dev/full", 1, "/dev/full: the disk is full"),
    # Names that are too long, and files where folders are expected.
    (f"translate {LONG}", 1, "File name too long"),
    (f"translate model --input {LONG}", 1, "File name too long"),
    (f"translate model --input valid.en --output {LONG}", 1, "File name too long"),
    (f"train data --out {LONG}", 1, "File name too long"),
    (f"prepare {LONG} --src en --tgt de --train train --valid valid", 1, "File name too long"),
    ("translate model --input valid.en/x", 1, "valid.en/x"),
    ("translate model --input valid.en --output valid.en/x", 2, "valid.en: no such folder"),
    ("translate model/x", 1, "model/x"),
    ("train data --out valid.en/run", 1, "valid.en"),
    ("train valid.en --out run", 1, "valid.en"),
    ("prepare valid.en/out --src en --tgt de --train train --valid valid", 2, "valid.en"),
    ("score valid.en/x valid.en", 1, "valid.en/x"),
    ("data valid.en", 1, "valid.en"),
]


@pytest.mark.parametrize(("line", "status", "message"), CASES)
@pytest.mark.usefixtures("place")
def test_a_wrong_input_is_answered_in_one_line(
    nmt: Nmt, place: Path, line: str, status: int, message: str
) -> None:
    before = sorted(place.iterdir())
    answer = nmt(*shlex.split(line), "--quiet")
    assert (answer.status, answer.stdout) == (status, "")
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1, answer.stderr
    assert sorted(place.iterdir()) == before

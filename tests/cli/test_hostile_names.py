"""Names and values of other people, which hold escape sequences and a line break with an error.

Whatever command meets them, its messages stay one line each, without control characters.
"""

import re
import shlex
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import QUICK, Nmt
from torch import Tensor
from toy_training import pairs, write_text

from nmt.cli import COMMANDS
from nmt.models.model_file import ModelCard, write_model

EVIL = "\x1b]0;evil\x07\x9b2J\u202e\nnmt: error: fake"
LANG = f"en-{EVIL}"
TEXTS = "--src en --tgt de --train EVIL --valid valid"
CASES = [
    f"prepare EVIL {TEXTS}",
    f"prepare data {TEXTS} --vocab-size 330 --normalization identity",
    "prepare data --src EVIL --tgt de --train valid --valid valid",
    "prepare data --src en --tgt de --train EVIL.tmx --valid valid",
    "prepare data --src en --tgt de --train EVIL.zip --valid valid",
    "prepare other_data --src en --tgt de --train EVIL.csv --valid valid",
    "data damaged",
    "data data",
    "data data --show 0,EVIL",
    "data data --show 0",
    "train EVIL --out EVIL",
    "train data --out run --model EVIL",
    "train data --out EVIL.run --set precision=EVIL",
    "average EVIL EVIL --out EVIL",
    "average EVIL.safetensors other EVIL --out mean",
    "translate EVIL",
    "translate EVIL.safetensors --input EVIL --output EVIL.out",
    "translate EVIL.safetensors --input EVIL --to EVIL",
    "translate EVIL.safetensors --input file://EVIL",
    "translate EVIL.safetensors --EVIL",
    "translate other --input EVIL.xlf",
    "score EVIL EVIL --baseline EVIL --encoding latin-1",
    "score valid.de valid.de --baseline EVIL.de",
    "score EVIL.xml valid.de",
    "rescore EVIL.safetensors EVIL.de --source EVIL.en",
    "rescore EVIL.safetensors --n-best EVIL --source EVIL",
    "evaluate EVIL --data EVIL",
    "calibrate EVIL --source EVIL.en --reference EVIL.de",
    "distill EVIL --out EVIL",
    "import marian EVIL EVIL.out --src EVIL --tgt EVIL",
    "import marian EVIL out --src en --tgt de --vocab EVIL",
    "import huggingface folder out.safetensors",
    "export ctranslate2 EVIL.safetensors EVIL/EVIL",
    "export huggingface other EVIL.out/out",
    "models EVIL",
    "EVIL",
]


@pytest.fixture
def place(
    card: ModelCard, model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder of hostile files."""
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path, EVIL, pairs(50, seed=1))
    write_text(tmp_path, "valid", pairs(5, seed=2))
    (tmp_path / EVIL).write_bytes(b"one two\n\xff\n" + EVIL.encode() + b"\n")
    weights: dict[str, Tensor] = dict(card.build().named_parameters())
    write_model(tmp_path / f"{EVIL}.safetensors", replace(card, src_lang=LANG), weights)
    shutil.copy(model_file, "other")
    fake = "&#x9b;2J&#10;nmt: error: fake"
    xml = f'<src lang="{fake}"><seg id="{fake}">a</seg></src>'
    for name in ("tmx", "xlf", "xml"):
        (tmp_path / f"{EVIL}.{name}").write_text(f"<dataset><doc id='1'>{xml}</doc></dataset>")
    (tmp_path / f"{EVIL}.csv").write_text(f'"{EVIL}","a"\n"{EVIL}","b"\n')
    with zipfile.ZipFile(tmp_path / f"{EVIL}.zip", "w") as archive:
        archive.writestr(EVIL, "text")
    for folder, name in (("damaged", "dataset.json"), ("folder", "config.json")):
        (tmp_path / folder).mkdir()
        value = EVIL.encode("unicode_escape").decode().replace("\\x", "\\u00")
        (tmp_path / folder / name).write_text(f'{{"version": "{value}", "model_type": "{value}"}}')
    return tmp_path


def _check(written: str, *, of_stderr: bool) -> None:
    assert not re.search(r"[^\n\t\x20-\x7e\xa1-\uffff]|\u202e", written), repr(written)
    lines = written.splitlines()
    assert not any(line.startswith("nmt: error: fake") for line in lines)
    if of_stderr:
        assert all(line.startswith(("nmt: ", "{")) for line in lines), written


@pytest.mark.usefixtures("place")
def test_no_command_passes_on_control_characters(nmt: Nmt) -> None:
    words = [shlex.split(case) for case in CASES]
    for case in words:
        extra = QUICK if case[0] == "translate" else ()
        answer = nmt(*(word.replace("EVIL", EVIL) for word in case), *extra)
        assert answer.stderr or answer.stdout
        _check(answer.stderr, of_stderr=True)
        if case[0] not in ("translate", "rescore"):  # which write text
            _check(answer.stdout, of_stderr=False)
    assert {case[0] for case in words} - {"EVIL"} == set(COMMANDS)

"""What every format of `nmt export` promises."""

import json
import re
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import Nmt
from foreign_m2m100 import M2M100
from foreign_models import (
    KINDS,
    LINES,
    MARIAN,
    MarianFile,
    MarianMTFolder,
    assert_same,
    import_huggingface,
    import_marian,
)
from sentencepiece import SentencePieceProcessor

from nmt.cli.export import EXPORTERS
from nmt.data.vocabulary import EOS_ID
from nmt.models.model_file import ModelCard, model_checksum, write_model

MANUAL = Path(__file__).parents[2] / "nmt" / "interchange" / "README.md"
STUDENT = {"positions": "sinusoidal_halves", "first_input": "zeros", "decoder_memory": "ssru"}
FITTING: dict[str, dict[str, Any]] = {
    name: STUDENT | {"norm_epsilon": 1e-6} if name in ("marian", "bergamot") else {}
    for name in EXPORTERS
}
"""By format: values of a model that it can be."""


def write(path: Path, card: ModelCard, **values: Any) -> Path:
    """Write a model with these values."""
    other = replace(card, config=replace(card.config, **values))
    write_model(path, other, dict(other.build().named_parameters()))
    return path


Export = Callable[[str, Path, Path], tuple[str | Path, ...]]


@pytest.fixture
def words(tmp_path: Path) -> Export:
    """The words of a command that exports a model in some format to a path."""

    def of(form: str, model: Path, out: Path) -> tuple[str | Path, ...]:
        sample = tmp_path / "sample"
        sample.write_text("the cat sees a bird\n\na dog. The old house and the river\n")
        return ("export", form, model, out, *(("--sample", sample) if form == "bergamot" else ()))

    return of


@pytest.fixture(params=EXPORTERS)
def form(request: pytest.FixtureRequest) -> str:
    """Each format of models."""
    if request.param in ("ctranslate2", "argos"):
        pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    return str(request.param)


@pytest.fixture
def export(form: str, words: Export, card: ModelCard, tmp_path: Path) -> Callable[..., Any]:
    """Write a model that fits a format, as the words of a command to a path."""
    model = write(tmp_path / "model", card, d_model=64, d_ff=64, **FITTING[form])
    return partial(words, form, model)


def test_the_formats_of_the_manual_are_those_of_the_command(nmt: Nmt) -> None:
    listed = [row.split("\t")[0] for row in nmt("export").succeeded().stdout.splitlines()[1:]]
    _, table = MANUAL.read_text().split("\n| format |", 1)
    assert listed == re.findall(r"^\| `(\w+)` \|", table.split("\n\n")[0], re.MULTILINE)


@pytest.mark.parametrize(
    "values", [{}, {"pre_norm": True}, FITTING["marian"], {"positions": "relative"}]
)
def test_a_model_fits_the_formats_that_can_be_written(
    nmt: Nmt, card: ModelCard, words: Export, tmp_path: Path, values: dict[str, Any]
) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    model = write(tmp_path / "model", card, d_model=64, d_ff=64, **values)
    done = nmt("export", model)
    assert (done.status, done.stderr) == (0, "")
    for row in done.stdout.splitlines()[1:]:
        name, fits, why = row.split("\t")
        written = nmt(*words(name, model, tmp_path / f"{name}.argosmodel"))
        assert (written.status == 0, why in written.stderr) == (fits == "yes", True)


def files_of(path: Path) -> dict[str, bytes]:
    """The contents of a file, or of the files of a folder."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return {str(each.relative_to(path.parent)): each.read_bytes() for each in files}


def test_an_earlier_export_is_replaced_by_the_same_bytes_and_nothing_else_is(
    nmt: Nmt, export: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, found = tmp_path / "out.argosmodel", []
    for year in (2020, 2021):
        local = time.struct_time((year, 1, 1, 0, 0, 0, 2, 1, 0))
        monkeypatch.setattr(time, "localtime", lambda *_, local=local: local)
        done = nmt(*export(out))
        assert (done.status, done.stdout) == (0, ""), done.stderr
        found.append(files_of(out))
    assert found[0] == found[1]
    mine = tmp_path / "mine.argosmodel"
    if out.is_dir():
        mine.mkdir()
    note = mine / "note" if out.is_dir() else mine
    note.write_text("mine")
    assert "mine.argosmodel: " in nmt(*export(mine)).refusal(2)
    assert files_of(mine) == {str(note.relative_to(tmp_path)): b"mine"}


@pytest.mark.parametrize("form", ["ctranslate2", "huggingface", "bergamot", "argos"])
def test_people_see_the_names_of_languages_that_no_table_knows(
    nmt: Nmt, card: ModelCard, words: Export, tmp_path: Path, form: str
) -> None:
    if form in ("ctranslate2", "argos"):
        pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    private = replace(card, src_lang="qnh", tgt_lang="qsv")
    model = write(tmp_path / "model", private, d_model=64, d_ff=64, **FITTING[form])
    out = tmp_path / "out.argosmodel"
    names = ("--src-name", "Northern Hills ", "--tgt-name", "Südtal")
    nmt(*words(form, model, out), *names).succeeded()
    if form == "argos":
        with zipfile.ZipFile(out) as package:
            package.extractall(tmp_path / "unpacked")
        (out,) = (tmp_path / "unpacked").iterdir()
    if form == "bergamot":  # examples/browser reads it
        metadata = json.loads((out / "metadata.json").read_text())
        assert (metadata["sourceName"], metadata["targetName"]) == ("Northern Hills", "Südtal")
    else:
        page = (out / "README.md").read_text(encoding="utf-8")
        assert re.search("^# .*Northern Hills to Südtal", page, re.MULTILINE)


HUB = {(kind, positions) for kind in KINDS for positions in ("marian", "huggingface")}


@pytest.mark.parametrize(("kind", "positions"), sorted(HUB | {("nllb", ""), ("m2m100", "")}))
def test_a_folder_of_hugging_face_comes_back_bit_for_bit_with_the_same_probabilities(
    nmt: Nmt, tmp_path: Path, kind: str, positions: str
) -> None:
    made, words = (KINDS.get(kind) or M2M100(kind)), ("--positions", positions) * bool(positions)
    theirs, again = made.write(tmp_path / "theirs"), tmp_path / "again"
    model = import_huggingface(nmt, theirs, *words)
    assert nmt("export", "huggingface", model, again).status == 0
    assert model_checksum(import_huggingface(nmt, again)) == model_checksum(model)
    for folder in (theirs, again) if positions else ():
        assert_same(model, LINES, MarianMTFolder(folder, positions).log_probs)


@pytest.mark.parametrize("kind", MARIAN)
def test_a_model_of_marian_comes_back_bit_for_bit_with_the_same_probabilities(
    nmt: Nmt, tmp_path: Path, kind: str
) -> None:
    theirs = MARIAN[kind].write(tmp_path / "marian")
    model = import_marian(nmt, theirs)
    assert_same(model, LINES, MarianFile(theirs).log_probs)
    assert nmt("export", "marian", model, tmp_path / "again").status == 0
    path = tmp_path / "again" / "model.npz"
    assert model_checksum(import_marian(nmt, path)) == model_checksum(model)
    assert_same(model, LINES, partial(MarianFile(path).log_probs, eos=EOS_ID))


@pytest.mark.parametrize(
    ("form", "changes", "named"),
    [
        ("huggingface", {"pre_norm": True}, "pre_norm=True"),
        ("huggingface", {"feed_forward": "swiglu"}, "feed_forward=swiglu"),
        ("huggingface", {"positions": "rotary"}, "positions=rotary"),
        ("ctranslate2", {"positions": "relative"}, "positions=relative"),
        ("ctranslate2", {"d_v": 4}, "d_v=4"),
        ("marian", {"norm_epsilon": 0.01}, "norm_epsilon=0.01"),
        ("marian", {}, "first_input=bos"),
        ("marian", {"norm_epsilon": 1e-6, "first_input": "zeros"}, "positions=sinusoidal"),
        ("bergamot", STUDENT, "d_model=16"),
        ("bergamot", STUDENT | {"d_model": 64, "d_ff": 96}, "d_ff=96"),
        ("bergamot", STUDENT | {"tie_embeddings": "none"}, "tie_embeddings=none"),
    ],
)
def test_a_model_that_a_format_cannot_be_is_refused(
    nmt: Nmt,
    card: ModelCard,
    words: Export,
    tmp_path: Path,
    form: str,
    changes: dict[str, Any],
    named: str,
) -> None:
    if form == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    model = write(tmp_path / "model", card, **changes)
    assert f" {named}" in nmt(*words(form, model, tmp_path / "out")).refusal(2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["huggingface", "marian"])
def test_the_subwords_of_an_export_compose_as_the_model_s_do(
    nmt: Nmt, tmp_path: Path, card: ModelCard, form: str
) -> None:
    model = write(tmp_path / "model", card, **FITTING[form])
    assert nmt("export", form, model, tmp_path / "out").status == 0
    models = [path for path in (tmp_path / "out").iterdir() if path.suffix == ".spm"]
    assert models
    for path in models:
        processor = SentencePieceProcessor(model_file=str(path))
        texts = ["the c\u00e4t \ud55c", "the ca\u0308t \u1112\u1161\u11ab"]
        one, other = processor.encode(texts, out_type=str)
        assert one == other

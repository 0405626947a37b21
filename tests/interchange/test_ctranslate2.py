"""Exports to CTranslate2 in other programs."""

import contextlib
import io
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Nmt
from foreign_m2m100 import M2M100
from foreign_models import MarianMT, import_huggingface
from foreign_models import text as made_up
from sentencepiece import SentencePieceProcessor

from nmt.data.moses import Moses
from nmt.data.pieces import Kind, Piece, PieceModel
from nmt.data.vocabulary import ADDED, UNK_ID, Vocabulary
from nmt.interchange.ctranslate2_manifest import Export
from nmt.models.model_file import ModelCard, read_card, write_model

ROOT = Path(__file__).parents[2]


WRITTEN = ROOT / "tests" / "written_before"


def python_of(page: Path) -> str:
    """The Python of a page that uses CTranslate2."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (block for block in blocks if "ctranslate2" in block)
    return str(block)


def run_python(program: str) -> str:
    """Run a program in this folder, with one thread; return what it prints."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setenv("OMP_NUM_THREADS", "1")
        exec(program, {})
    return printed.getvalue()


def test_the_python_of_the_manual_translates_as_nmt_does(
    nmt: Nmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    monkeypatch.chdir(tmp_path)
    assert nmt("export", "ctranslate2", WRITTEN / "model.safetensors", "engine").status == 0
    program = python_of(ROOT / "nmt/interchange/README.md")
    sources = (WRITTEN / "data" / "valid.en").read_text().splitlines()
    known, is_given = re.subn("lines = .*", f"lines = {sources}", program)
    assert is_given
    ours = nmt("translate", "engine", "--input", WRITTEN / "data" / "valid.en", "--workers", "1")
    assert run_python(known) == ours.stdout
    assert len(run_python(program).splitlines()) == 2  # as it is written


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_other_programs_read_pieces_of_the_other_side(
    nmt: Nmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_type: str
) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    model = import_huggingface(nmt, MarianMT(model_type=model_type).write(tmp_path / "opus"))
    assert nmt("export", "ctranslate2", model, tmp_path / "fast").status == 0
    monkeypatch.chdir(tmp_path / "fast")
    program = python_of(tmp_path / "fast" / "README.md")
    sources = [f"{source} \u00df" for source in made_up("source", 6)]  # a letter of the target
    program = program.replace('["Hello, world!"]', repr(sources))
    tagged = "    [['>>deu_Latn<<', *line] for line in pieces],\n"
    program = program.replace("    pieces,\n", tagged)
    program = program.replace("max(map(len, pieces)) + 50", "12")
    (tmp_path / "in").write_text("".join(f"{source}\n" for source in sources))
    words = ("--input", tmp_path / "in", "--workers", "1", "--no-guard", "--max-tokens", "12")
    ours = nmt("translate", tmp_path / "fast", *words).succeeded()
    assert run_python(program) == ours.stdout
    # All these translations are much alike, so look at the ids, too.
    vocabulary = read_card(model).src_vocabulary
    names = Export.open(tmp_path / "fast").src_tokens(tmp_path / "fast", len(vocabulary))
    ids = {name: number for number, name in enumerate(names)}
    pieces = SentencePieceProcessor(model_file="source.spm").encode(sources, out_type=str)
    expected = vocabulary.encode_text(sources)
    assert all(ids["\u00df"] in row for row in expected)
    assert [[ids.get(piece, UNK_ID) for piece in line] for line in pieces] == expected


def test_an_export_says_what_programs_must_do(nmt: Nmt, tmp_path: Path, card: ModelCard) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    nllb = import_huggingface(nmt, M2M100().write(tmp_path / "nllb"))
    added = [Piece(ADDED, kind=Kind.CONTROL), Piece("<mine>", kind=Kind.USER_DEFINED)]
    pieces = PieceModel.read(card.src_vocabulary.model).with_pieces(added).write()
    rules = Vocabulary(pieces, Moses("en", normalize=True, tokenize=True))
    tokenised = replace(card, src_vocabulary=rules, tgt_vocabulary=rules)
    write_model(tmp_path / "moses", tokenised, dict(tokenised.build().named_parameters()))
    for model, named in (
        (nllb, ["deu_Latn", "target_prefix"]),
        (tmp_path / "moses", ["Moses", "added tokens"]),
    ):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        done = nmt("export", "ctranslate2", model, tmp_path / "out").succeeded()
        page = (tmp_path / "out" / "README.md").read_text()
        for name in named:
            assert name in done.stderr
            assert name in page

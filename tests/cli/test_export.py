"""What `nmt export` writes is what `nmt translate` reads."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import QUICK, Nmt
from foreign_m2m100 import M2M100
from foreign_models import MarianMT, import_huggingface
from foreign_models import text as made_up
from mishaps import fill_up, free_bytes
from sentencepiece import SentencePieceProcessor
from torch import Tensor

from nmt.data.language_tokens import LanguageTokens
from nmt.data.moses import Moses
from nmt.data.pieces import Kind, Piece, PieceModel
from nmt.data.vocabulary import ADDED, UNK_ID, Vocabulary, learn_vocabulary
from nmt.interchange.ctranslate2_manifest import Export
from nmt.interchange.m2m100_export import _tokenizer
from nmt.model_config import ModelConfig, RecurrentConfig, TransformerConfig
from nmt.models.model_file import ModelCard, read_card, write_model

ROOT = Path(__file__).parents[2]
SIZES: dict[str, Any] = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 16}
Words = Callable[[Path], tuple[str | Path, ...]]
LINES = ["the cat sees a bird", "", "a dog. The old house and the river", "the small tree"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def test_an_export_translates_as_its_model_does(
    nmt: Nmt, model_file: Path, text: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    done = nmt("export", "ctranslate2", model_file, tmp_path / "fast")
    assert (done.status, done.stdout) == (0, "")
    words = ("--input", text, *QUICK, "--beam-size", "1")
    fast = nmt("translate", tmp_path / "fast", *words)
    assert fast.status == 0
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
        (("--precision", "int8"), "keeps the precision"),
        (("--sample",), "samples"),
        (("--ensemble", model_file), "fast, a CTranslate2"),
        (("--terms", text), "takes no terms"),
        (("--forbid", text), "cannot forbid words"),
    ):
        assert message in nmt("translate", tmp_path / "fast", *words, *more).refusal(2)
    # Other commands need the weights.
    line = nmt("rescore", tmp_path / "fast", text, "--source", text).refusal(2)
    assert "fast: " in line


# ------------------------------------------------------------------------------- formats


def test_the_formats_of_the_manual_are_those_of_the_command(nmt: Nmt) -> None:
    done = nmt("export")
    assert done.status == 0
    listed = [row.split("\t")[0] for row in done.stdout.splitlines()[1:]]
    _, table = (ROOT / "nmt/interchange/README.md").read_text().split("\n| format |", 1)
    assert listed == re.findall(r"^\| `(\w+)` \|", table.split("\n\n")[0], re.MULTILINE)


STUDENT = {"positions": "sinusoidal_halves", "first_input": "zeros", "decoder_memory": "ssru"}


@pytest.mark.parametrize("values", [{}, {"pre_norm": True}, STUDENT, {"positions": "relative"}])
def test_a_model_fits_the_formats_that_can_be_written(
    nmt: Nmt, card: ModelCard, text: Path, tmp_path: Path, values: dict[str, Any]
) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    assert isinstance(card.config, TransformerConfig)
    sizes: dict[str, Any] = {
        "d_model": 64,
        "d_ff": 64,
        "norm_epsilon": 1e-6 if values is STUDENT else 0.0,
    }
    other = replace(card, config=replace(card.config, **sizes, **values))
    model = tmp_path / "model"
    write_model(model, other, dict(other.build().named_parameters()))
    done = nmt("export", model)
    assert (done.status, done.stderr) == (0, "")
    for row in done.stdout.splitlines()[1:]:
        name, fits, why = row.split("\t")
        out = tmp_path / f"{name}.argosmodel"
        more = ("--sample", text) if name == "bergamot" else ()
        written = nmt("export", name, model, out, *more)
        assert (written.status == 0, why in written.stderr) == (fits == "yes", True)


@pytest.fixture(params=["huggingface", "marian", "bergamot", "ctranslate2", "argos"])
def export(request: pytest.FixtureRequest, card: ModelCard, text: Path, tmp_path: Path) -> Words:
    """Write a model that fits a format, as the words of a command."""
    form: str = request.param
    if form in ("ctranslate2", "argos"):
        pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    values: dict[str, Any] = (
        STUDENT | {"norm_epsilon": 1e-6} if form in ("bergamot", "marian") else {}
    )
    sizes: dict[str, Any] = {"d_model": 64, "d_ff": 64}
    other = replace(card, config=replace(card.config, **sizes, **values))
    model = tmp_path / "model"
    write_model(model, other, dict(other.build().named_parameters()))
    more = ("--sample", text) if form == "bergamot" else ()
    return lambda out: ("export", form, model, out, *more)


def test_a_disk_without_room_is_said_of_the_export(
    nmt: Nmt, export: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {*tmp_path.iterdir()}
    free_bytes(monkeypatch, 0)
    done = nmt(*export(tmp_path / "out.argosmodel"))
    if done.status:  # the others find out when they write
        assert f"error: {tmp_path / 'out.argosmodel'}: the disk has " in done.stderr
        assert {*tmp_path.iterdir()} == before


def test_a_disk_that_fills_up_is_said_of_the_export(
    nmt: Nmt, export: Words, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_up(small_disk / "ballast")
    free_bytes(monkeypatch, 1 << 40)  # so it was before
    done = nmt(*export(small_disk / "out.argosmodel"))
    assert done.status == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"nmt: error: {small_disk / 'out.argosmodel'}: the disk is full; ")
    assert [path.name for path in small_disk.iterdir()] == ["ballast"]


def test_languages_and_formats_that_do_not_go_together_are_refused(
    nmt: Nmt, card: ModelCard, text: Path, tmp_path: Path
) -> None:
    languages = LanguageTokens.of_targets([("en", "de"), ("en", "fr")])
    vocabulary = learn_vocabulary(["a"], vocab_size=265, controls=list(languages.pieces.values()))
    values: dict[str, Any] = STUDENT | {"d_model": 64, "d_ff": 64}
    other = replace(
        card,
        config=replace(card.config, **values),
        src_vocabulary=vocabulary,
        tgt_vocabulary=vocabulary,
        languages=languages,
    )
    write_model(tmp_path / "model", other, dict(other.build().named_parameters()))
    for form, more in (("marian", ()), ("bergamot", ("--sample", text))):
        line = nmt("export", form, tmp_path / "model", tmp_path / "out", *more).refusal(2)
        assert "several languages" in line


# ------------------------------------------------------------ CTranslate2 in other programs

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


@pytest.fixture
def endless(nmt: Nmt, card: ModelCard, tmp_path: Path) -> Path:
    """An export that writes `e` until the limit of its tokens."""
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    assert isinstance(card.config, TransformerConfig)
    card = replace(card, config=replace(card.config, output_bias=True))
    weights: dict[str, Tensor] = dict(card.build().named_parameters())
    letter = card.tgt_vocabulary.tokens(range(len(card.tgt_vocabulary))).index("e")
    weights["output_bias"].data[letter] = 1e4
    write_model(tmp_path / "model", card, weights)
    assert nmt("export", "ctranslate2", tmp_path / "model", tmp_path / "engine").status == 0
    return tmp_path / "engine"


PAGES = [ROOT / "nmt/interchange/README.md", Path("README.md")]


def python_for(page: Path, engine: Path, line: str) -> str:
    """The Python of a page, or of an export's, for one line."""
    program = python_of(engine / page)
    for of_page in ('"engine"', '"."'):
        program = program.replace(of_page, repr(str(engine)))
    program = re.sub('model_file="(engine/)?', f'model_file="{engine}/', program)
    return re.sub(r'\["Hello.*\]', repr([line]), program)


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_an_export_does_not_cut_translations(endless: Path, page: Path) -> None:
    line = "the cat sees a bird " * 60
    pieces = SentencePieceProcessor(model_file=str(endless / "sentencepiece.model")).encode(line)
    assert len(pieces) > 256
    assert run_python(python_for(page, endless, line)) == "e" * (len(pieces) + 50) + "\n"


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_an_export_does_not_cut_sources(endless: Path, page: Path) -> None:
    with pytest.raises(RuntimeError, match="1024"):
        run_python(python_for(page, endless, "the cat sees a bird " * 200))


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
    ours = nmt("translate", tmp_path / "fast", *words)
    assert ours.status == 0, ours.stderr
    assert run_python(program) == ours.stdout
    # All these translations are much alike, so look at the ids, too.
    vocabulary = read_card(model).src_vocabulary
    names = Export.open(tmp_path / "fast").src_tokens(tmp_path / "fast", len(vocabulary))
    ids = {name: number for number, name in enumerate(names)}
    pieces = SentencePieceProcessor(model_file="source.spm").encode(sources, out_type=str)
    expected = vocabulary.encode_text(sources)
    assert all(ids["\u00df"] in row for row in expected)
    assert [[ids.get(piece, UNK_ID) for piece in line] for line in pieces] == expected


def test_an_export_says_what_other_programs_must_do(
    nmt: Nmt, tmp_path: Path, card: ModelCard
) -> None:
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
        done = nmt("export", "ctranslate2", model, tmp_path / "out")
        assert done.status == 0
        page = (tmp_path / "out" / "README.md").read_text()
        for name in named:
            assert name in done.stderr
            assert name in page


@pytest.mark.parametrize(
    ("architecture", "config", "named"),
    [
        ("transformer", TransformerConfig(num_heads=2, **SIZES), "nmt export ctranslate2"),
        ("transformer", TransformerConfig(decoder_memory="ssru", **SIZES), "decoder_memory=ssru"),
        ("rnn_attention", RecurrentConfig(d_hidden=16, **SIZES), "rnn_attention"),
    ],
)
def test_int8_is_by_ctranslate2_or_not_there(
    nmt: Nmt,
    card: ModelCard,
    tmp_path: Path,
    architecture: str,
    config: ModelConfig,
    named: str,
) -> None:
    card = replace(card, architecture=architecture, config=config)
    write_model(tmp_path / "model", card, dict(card.build().named_parameters()))
    words = ("translate", tmp_path / "model", "--precision", "int8")
    assert named in nmt(*words).refusal(2)
    assert "ensembles" in nmt(*words, "--ensemble", tmp_path / "model").refusal(2)


@pytest.mark.parametrize("form", ["huggingface", "marian"])
def test_the_subwords_of_an_export_compose_as_the_model_s_do(
    nmt: Nmt, tmp_path: Path, card: ModelCard, form: str
) -> None:
    if form == "marian":
        assert isinstance(card.config, TransformerConfig)
        sizes = replace(card.config, positions="sinusoidal_halves", norm_epsilon=1e-6)
        card = replace(card, config=replace(sizes, first_input="zeros"))
    write_model(tmp_path / "model", card, dict(card.build().named_parameters()))
    done = nmt("export", form, tmp_path / "model", tmp_path / "out")
    assert (done.status, done.stdout) == (0, "")
    models = [path for path in (tmp_path / "out").iterdir() if path.suffix == ".spm"]
    assert models
    for path in models:
        processor = SentencePieceProcessor(model_file=str(path))
        texts = ["the c\u00e4t \ud55c", "the ca\u0308t \u1112\u1161\u11ab"]
        one, other = processor.encode(texts, out_type=str)
        assert one == other


def test_a_tokenizer_of_nllb_composes_by_unicode_s_own_rules(card: ModelCard) -> None:
    # Its own reading of compiled rules fails for Hangul and where two marks compose.
    tokenizer = _tokenizer(card)
    compose, tab, *_ = tokenizer["normalizer"]["normalizers"]
    assert compose == {"type": "NFC"}
    assert tab == {"type": "Replace", "pattern": {"String": "\t"}, "content": " "}
    nfkc = learn_vocabulary(LINES, vocab_size=290, normalization="nfkc")
    rules = _tokenizer(replace(card, src_vocabulary=nfkc))["normalizer"]["normalizers"]
    assert rules[0]["type"] == "Precompiled"

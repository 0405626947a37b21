"""Models of several languages: what M2M100 and NLLB compute, and how languages are chosen."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import QUICK, QUICK_TRAINING, Nmt, write
from foreign_m2m100 import CODES, M2M100, M2M100Folder
from foreign_models import LINES, TAGS, MarianMT, import_huggingface, text, write_pairs

from nmt import SearchOptions, Translator
from nmt.data.folder import DataFolder
from nmt.data.language_tokens import LanguageTokens
from nmt.data.pieces import Piece, PieceModel
from nmt.models.model_file import load_model, model_checksum, read_card, write_model
from nmt.search.engine import Source
from nmt.search.torch_engine import TorchEngine

PAIR = {"nllb": ("eng_Latn", "deu_Latn"), "m2m100": ("en", "de")}


@pytest.fixture
def nllb(nmt: Nmt, tmp_path: Path) -> Path:
    return import_huggingface(nmt, M2M100().write(tmp_path / "nllb"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "source", text("source", 6))


@pytest.mark.parametrize("kind", ["nllb", "m2m100"])
def test_scores_are_those_of_the_formulas(nmt: Nmt, tmp_path: Path, kind: str) -> None:
    folder = M2M100(kind).write(tmp_path / "many")
    model = import_huggingface(nmt, folder)
    pairs = [(src, tgt) for src, tgt in LINES if src.strip() and tgt.strip()]
    for name, side in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
        write(tmp_path / name, side)
    words = ("--source", tmp_path / "src", "--from", PAIR[kind][0], "--to", PAIR[kind][1])
    done = nmt("rescore", model, tmp_path / "tgt", *words, "--tokens").succeeded()
    scored = nmt("rescore", model, tmp_path / "tgt", *words)
    assert f"languages:{'-'.join(PAIR[kind])}" in scored.stdout
    theirs = M2M100Folder(folder, kind)
    for pair, line in zip(pairs, done.stdout.splitlines(), strict=True):
        found = json.loads(line)
        wanted = theirs.log_probs_of(*pair, PAIR[kind])[1:]  # without that of the language
        assert len(found["tokens"]) == len(wanted) - 1
        np.testing.assert_allclose(found["token_log_probs"], wanted[:-1], atol=2e-5)
        assert found["log_prob"] == pytest.approx(wanted.sum(), abs=1e-4)


@pytest.mark.parametrize("code", ["deu_Latn", "zho_Hans"])
def test_search_reads_the_language_that_forced_decoding_reads(nllb: Path, code: str) -> None:
    options = SearchOptions(max_extra_tokens=3)
    translator = Translator.load(nllb, options, src_lang="en", tgt_lang=code)
    engine, first = translator.engine, translator.language_pair.tgt_vocabulary.first
    assert isinstance(engine, TorchEngine)
    encoded = translator.language_pair.src_vocabulary.encode(text("source", 6))
    sources = [Source(tuple(ids)) for ids in encoded]
    for source, found in zip(sources, engine.search(sources), strict=True):
        assert not isinstance(found, str)
        (forced,) = engine.log_probs([(source.ids, (*first, *found[0].ids))])
        assert forced is not None
        assert forced[1:] == pytest.approx(found[0].token_log_probs, abs=1e-5)


def test_pieces_are_gone_through_a_fixed_number_of_times(
    nmt: Nmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 0

    class Counted(tuple[Piece, ...]):
        def __iter__(self) -> Iterator[Piece]:
            nonlocal rounds
            rounds += 1
            return super().__iter__()

    read = PieceModel.read

    def read_counted(model: bytes) -> PieceModel:
        pieces = read(model)
        return replace(pieces, pieces=Counted(pieces.pieces))

    monkeypatch.setattr(PieceModel, "read", read_counted)
    import_huggingface(nmt, M2M100().write(tmp_path / "nllb"))
    assert 0 < rounds < 10  # not once for each piece, of which NLLB has 256,000


def test_a_folder_of_a_slow_tokenizer_has_the_same_model(nmt: Nmt, tmp_path: Path) -> None:
    folder = M2M100().write(tmp_path / "nllb")
    first = model_checksum(import_huggingface(nmt, folder))
    added = json.loads((folder / "tokenizer.json").read_text("utf-8"))["added_tokens"]
    (folder / "tokenizer.json").unlink()
    listed = {"additional_special_tokens": list(CODES["nllb"])}
    (folder / "special_tokens_map.json").write_text(json.dumps(listed))
    assert model_checksum(import_huggingface(nmt, folder)) == first
    # Newer ones also have the ids.
    ids = {str(token["id"]): {"content": token["content"]} for token in added}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": ids}))
    assert model_checksum(import_huggingface(nmt, folder)) == first


def test_a_space_before_an_added_token_of_nllb_is_a_piece(nmt: Nmt, tmp_path: Path) -> None:
    folder = M2M100().write(tmp_path / "nllb")
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    last = max(token["id"] for token in tokenizer["added_tokens"])
    tokenizer["added_tokens"].append({"id": last + 1, "content": "<term>", "special": True})
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    vocabulary = read_card(import_huggingface(nmt, folder)).src_vocabulary
    lines = ["ab <term> cd", "ab<term>cd", "<term> <term>"]
    one, other, term = vocabulary.encode(["ab", "cd", "<term>"])
    space = vocabulary.tokens(range(len(vocabulary))).index("\u2581")
    expected = [[*one, space, *term, *other], [*one, *term, *other], [*term, space, *term]]
    assert vocabulary.encode(lines) == expected


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "--from is missing"),
        (("--from", "en"), "--to is missing"),
        (("--from", "en", "--to", "fr"), "--to fr: "),
        (("--from", "en", "--to", "zh"), "zho_Hans and zho_Hant"),
    ],
)
def test_a_language_that_is_not_clear_is_refused(
    nmt: Nmt, nllb: Path, source: Path, words: tuple[str, ...], error: str
) -> None:
    assert error in nmt("translate", nllb, "--input", source, *words, *QUICK).refusal(2)


def test_language_tokens_are_no_words_of_alignments(nllb: Path) -> None:
    options = SearchOptions(max_extra_tokens=3, beam_size=1)
    translator = Translator.load(nllb, options, src_lang="en", tgt_lang="de", alignment=True)
    (found,) = translator.translate(["abc de abc"])
    assert found.alignment is not None
    vocabulary = translator.language_pair.src_vocabulary
    ids = vocabulary.encode_text(["abc de abc"])[0]
    assert found.alignment.src_tokens == tuple(vocabulary.tokens(ids))
    assert len(found.alignment.positions) == len(found.tokens)
    (weights,) = found.alignment.attention
    assert weights.shape == (len(found.tokens), len(found.alignment.src_tokens))


@pytest.fixture
def fast(nmt: Nmt, nllb: Path, tmp_path: Path) -> Path:
    """An export for CTranslate2."""
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    exact = ("--quantization", "float32")
    assert nmt("export", "ctranslate2", nllb, tmp_path / "fast", *exact).status == 0
    return tmp_path / "fast"


def test_an_export_reads_the_same_languages(nmt: Nmt, nllb: Path, fast: Path, source: Path) -> None:
    for code in ("de", "zho_Hans"):
        words = ("--input", source, "--from", "en", "--to", code, *QUICK, "--beam-size", "1")
        ours, theirs = (nmt("translate", one, *words) for one in (nllb, fast))
        assert theirs.status == 0, theirs.stderr
        assert theirs.stdout == ours.stdout


QUICKLY = (*QUICK_TRAINING, "--batch-tokens", "200", "--max-updates", "2")


def test_scores_of_an_export_are_those_of_its_tokens(nmt: Nmt, fast: Path, source: Path) -> None:
    pair = ("--from", "en", "--to", "de", *QUICK, "--scores", "--length-penalty-form", "power")
    found = {}
    for alpha in ("0", "1"):
        # Translations of two tokens, with eos of three, whatever the penalty.
        words = ("--length-penalty", alpha, "--min-tokens", "2", "--max-tokens", "2")
        done = nmt("translate", fast, "--input", source, *pair, *words).succeeded()
        found[alpha] = [line.split("\t") for line in done.stdout.splitlines()]
    for (plain, text_), (normalised, other) in zip(found["0"], found["1"], strict=True):
        assert text_ == other
        assert float(plain) / 2 == pytest.approx(float(normalised), abs=1e-4)  # cut, without eos


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--tag", "TRAIN=deu_Latn"), "deu_Latn is"),
        (("--new-language", "gsw_Latn"), "--new-language gsw_Latn: no"),
        (("--vocab", "MODEL"), "several languages"),
    ],
)
def test_what_a_vocabulary_cannot_get_is_refused(
    nmt: Nmt, nllb: Path, tmp_path: Path, words: tuple[str, ...], error: str
) -> None:
    given = [w.replace("TRAIN", str(tmp_path / "train")).replace("MODEL", str(nllb)) for w in words]
    done = nmt("prepare", tmp_path / "data", *write_pairs(tmp_path), "--vocab", nllb, *given)
    assert done.status == 2 and error in done.stderr.splitlines()[-1]


def test_a_target_that_fits_several_tags_is_warned_of(nmt: Nmt, tmp_path: Path) -> None:
    tags = LanguageTokens({"cmn_Hans": ">>fra<<", "cmn_Hant": ">>deu_Latn<<"}, "tgt", "")
    built, card = load_model(import_huggingface(nmt, MarianMT().write(tmp_path / "opus")))
    weights = {name: weight.detach() for name, weight in built.named_parameters()}
    write_model(tmp_path / "zh.safetensors", replace(card, languages=tags), weights)
    words = ("--vocab", tmp_path / "zh.safetensors", "--keep", "script")
    done = nmt("prepare", tmp_path / "data", *write_pairs(tmp_path, "en", "zh"), *words).succeeded()
    assert re.search("--tgt zh: .*cmn_Hans .*cmn_Hant", done.stderr)


def test_a_tuned_model_keeps_its_languages_anywhere(nmt: Nmt, nllb: Path, tmp_path: Path) -> None:
    data, run, source = tmp_path / "data", tmp_path / "run", tmp_path / "valid.en"
    words = ("prepare", data, *write_pairs(tmp_path), "--vocab", nllb)
    assert nmt(*words).status == 0
    folder = DataFolder.open(data)
    vocabulary = folder.src_vocabulary
    (line,) = vocabulary.encode_text([text("source", 8)[0]])
    (english,), (german,) = vocabulary.first, folder.tgt_vocabulary.first
    assert vocabulary.tokens([english, german]) == ["eng_Latn", "deu_Latn"]
    assert folder.valid.src(0).tolist() == [english, *line]
    assert folder.valid.tgt(0)[0] == german
    assert "already prepared" in nmt(*words).stderr

    still = ("--set", "learning_rate=1e-12")
    done = nmt("train", data, "--out", run, "--init-from", nllb, *QUICKLY, *still).succeeded()
    assert "translates" not in done.stderr
    assert read_card(run / "last.safetensors").languages == read_card(nllb).languages

    def translated(model: Path, *more: str | Path) -> str:
        # Random weights write loops, and samples have no guard against them.
        quick = (*QUICK, "--beam-size", "1", "--no-guard")
        return nmt("translate", model, "--input", source, *quick, *more).succeeded().stdout

    pair = ("--from", "en", "--to", "de")
    plain = translated(nllb, *pair)
    assert translated(run) == plain
    # A model beside its copy, and the likeliest of all tokens.
    ensemble = ("--ensemble", run / "last.safetensors")
    for more in (ensemble, ("--sample", "--top-k", "1"), ("--split",)):
        assert translated(nllb, *pair, *more) == plain
    assert translated(nllb, "--from", "en", "--to", "zho_Hans", "--precision", "bf16") != plain


@pytest.mark.parametrize("kind", ["nllb", pytest.param("opus", marks=pytest.mark.slow)])
def test_a_model_is_tuned_for_one_more_language(nmt: Nmt, tmp_path: Path, kind: str) -> None:
    made = M2M100() if kind == "nllb" else MarianMT()
    model = import_huggingface(nmt, made.write(tmp_path / kind))
    new = "gsw_Latn" if kind == "nllb" else "gsw"
    data, run = tmp_path / "data", tmp_path / "run"
    given = ("--vocab", model, "--new-language", new)
    done = nmt("prepare", data, *write_pairs(tmp_path, "en", new), *given)
    assert done.status == 0 and ": new" in done.stderr
    still = ("--set", "learning_rate=1e-12")
    nmt("train", data, "--out", run, "--init-from", model, *QUICKLY, *still).succeeded()

    before, after = read_card(model), read_card(run / "last.safetensors")
    assert before.languages is not None and after.languages is not None
    assert set(after.languages.pieces) - set(before.languages.pieces) == {new}
    assert len(after.src_vocabulary) == len(before.src_vocabulary) + 1
    # Other languages are translated as before.
    for code in ("de", new):
        words = ("--input", tmp_path / "valid.en", "--to", code, "--from", "en", *QUICK)
        ours = nmt("translate", run, *words, "--beam-size", "1").succeeded()
        if code == "de":
            assert ours.stdout == nmt("translate", model, *words, "--beam-size", "1").stdout
    # A second time it is known.
    again = ("--vocab", run, "--new-language", new)
    done = nmt("prepare", tmp_path / "other", *write_pairs(tmp_path, "en", new), *again)
    assert f"--new-language {new}: " in done.refusal(2)


def test_a_tag_is_a_language(nmt: Nmt, tmp_path: Path) -> None:
    folder = MarianMT().write(tmp_path / "opus")
    model = import_huggingface(nmt, folder, "--tgt", "gem")
    options = SearchOptions(beam_size=1, max_extra_tokens=3)
    plain, french = (Translator.load(model, options, tgt_lang=lang) for lang in (None, "fr"))
    wanted = [one.text for one in plain.translate([f"{TAGS[0]} abc", f"{TAGS[1]} abc", "abc"])]
    assert len(set(wanted)) == 3
    # A line's own tag wins.
    found = [one.text for one in french.translate(["abc", f"{TAGS[1]} abc", f"{TAGS[0]} abc"])]
    assert found == [wanted[0], wanted[1], wanted[0]]
    # The source language is fixed, and the model's own target language is its tag.
    (tmp_path / "source").write_text("abc\n")
    line = nmt("translate", model, "--input", tmp_path / "source", "--from", "fr").refusal(2)
    assert re.search("--from fr: .* en$", line)
    german = import_huggingface(nmt, folder, "--tgt", "de")
    (own,) = Translator.load(german, options).translate(["abc"])
    assert own.text == wanted[1]

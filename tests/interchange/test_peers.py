"""Imports and exports beside the toolkits themselves: transformers and Marian.

They need the extra `peers`. test_imports.py has the same by formulas.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
import yaml
from command_line import Nmt, write
from foreign_models import (
    KINDS,
    LINES,
    TAGS,
    MarianMT,
    assert_same,
    import_huggingface,
    import_marian,
    learn_pieces,
    log_probs,
    text,
    to_binary,
    write_package,
)
from pairs import batch_of
from reference import Array
from toy_training import pairs as number_words

from nmt.data.pieces import PieceModel
from nmt.models.model_file import load_model

pytestmark = pytest.mark.slow


class Transformers:
    """A folder, as transformers opens it."""

    def __init__(self, folder: Path) -> None:
        transformers = pytest.importorskip("transformers", reason="needs the extra peers")
        self.model = transformers.MarianMTModel.from_pretrained(folder).eval()
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(folder)

    @torch.no_grad()
    def log_probs(self, source: str, target: str) -> Array:
        """Log-probabilities of each token of a target and of eos."""
        given = self.tokenizer([source], return_tensors="pt")
        labels = self.tokenizer(text_target=[target], return_tensors="pt")["input_ids"]
        logits = self.model(**given, labels=labels).logits[0]
        found: Array = logits.log_softmax(-1).gather(1, labels[0][:, None])[:, 0].numpy()
        return found

    def segment(self, line: str, *, is_target: bool) -> list[str]:
        """Pieces without eos."""
        key = "text_target" if is_target else "text"
        ids = self.tokenizer(**{key: line})["input_ids"][:-1]
        ids_by_piece = self.tokenizer.encoder
        if is_target and self.tokenizer.separate_vocabs:
            ids_by_piece = self.tokenizer.target_encoder
        names = {id_: piece for piece, id_ in ids_by_piece.items()}
        return [names[id_] for id_ in ids]


@pytest.mark.parametrize("kind", KINDS)
def test_an_import_is_what_transformers_computes(nmt: Nmt, tmp_path: Path, kind: str) -> None:
    folder = KINDS[kind].write(tmp_path / "opus")
    theirs = Transformers(folder)
    model = import_huggingface(nmt, folder, "--positions", "huggingface")
    assert_same(model, LINES, theirs.log_probs)
    _, card = load_model(model)
    lines = [*(line for pair in LINES for line in pair), f"{TAGS[0]} abc", f"{TAGS[1]}gh", "ßß mß"]
    for is_target, vocabulary in ((False, card.src_vocabulary), (True, card.tgt_vocabulary)):
        for line, ids in zip(lines, vocabulary.encode(lines), strict=True):
            pieces = [piece.removeprefix("\ue000") for piece in vocabulary.tokens(ids)]
            assert pieces == theirs.segment(line, is_target=is_target), line


@pytest.mark.parametrize("positions", ["marian", "huggingface"])
@pytest.mark.parametrize("kind", KINDS)
def test_exports_are_as_transformers(nmt: Nmt, tmp_path: Path, kind: str, positions: str) -> None:
    # With Marian's positions, transformers reads the table in the folder.
    model = import_huggingface(nmt, KINDS[kind].write(tmp_path / "opus"), "--positions", positions)
    assert nmt("export", "huggingface", model, tmp_path / "out").status == 0
    assert_same(model, LINES, Transformers(tmp_path / "out").log_probs)


@pytest.mark.parametrize("is_put_back", [False, True])
def test_the_model_card_says_how_transformers_keeps_marian_s_positions(
    nmt: Nmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_put_back: bool
) -> None:
    model, folder = import_huggingface(nmt, MarianMT().write(tmp_path / "opus")), tmp_path / "out"
    assert nmt("export", "huggingface", model, folder).status == 0
    page = (folder / "README.md").read_text(encoding="utf-8")
    _, keep, put_back = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(folder)
    opened = Transformers(folder)
    if is_put_back:
        opened.model.save_pretrained(tmp_path / "lost")
        opened.model = opened.model.from_pretrained(tmp_path / "lost").eval()
        for source, target in LINES[:1]:
            lost = opened.log_probs(source, target)
            assert np.abs(lost - Transformers(folder).log_probs(source, target)).max() > 1e-3
        exec(put_back, {"model": opened.model})
    exec(keep, {"model": opened.model})
    trained = [name for name, weight in opened.model.named_parameters() if weight.requires_grad]
    assert trained and not [name for name in trained if "positions" in name]
    opened.model.save_pretrained(tmp_path / "again")
    opened.tokenizer.save_pretrained(tmp_path / "again")
    assert_same(model, LINES, Transformers(tmp_path / "again").log_probs)


LANGUAGES = {"nllb": ("eng_Latn", "zho_Hans"), "m2m100": ("en", "zu")}


def many_languages(kind: str, folder: Path) -> tuple[Any, Any]:
    """Make a folder of NLLB or M2M100 with random weights by transformers, and open it."""
    transformers = pytest.importorskip("transformers", reason="needs the extra peers")
    folder.mkdir()
    model = learn_pieces("source", "bpe")
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    if kind == "nllb":
        codes = ["ace_Arab", "eng_Latn", "zho_Hans"]
        tokenizer = transformers.NllbTokenizer.from_pretrained(folder, extra_special_tokens=codes)
        size = len(tokenizer)
    else:
        pieces = [piece.text for piece in PieceModel.read(model).pieces[3:]]
        ids = {piece: id_ for id_, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces])}
        (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
        files = (folder / "vocab.json", folder / "sentencepiece.bpe.model")
        tokenizer = transformers.M2M100Tokenizer(*map(str, files))
        size = len(ids) + 100
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    sides = {"layers": 2, "ffn_dim": 24, "attention_heads": 2}
    sizes = {f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in sides.items()}
    config = transformers.M2M100Config(vocab_size=size + 3, d_model=16, init_std=0.4, **sizes)
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(folder)
    opened = transformers.M2M100ForConditionalGeneration.from_pretrained(folder).eval()
    return opened, tokenizer


@pytest.mark.parametrize("kind", LANGUAGES)
def test_an_import_of_many_languages_is_as_there(nmt: Nmt, tmp_path: Path, kind: str) -> None:
    theirs, tokenizer = many_languages(kind, tmp_path / "many")
    path = import_huggingface(nmt, tmp_path / "many")
    tokenizer.src_lang, tokenizer.tgt_lang = LANGUAGES[kind]
    assert_same_as_many(path, LANGUAGES[kind], theirs, tokenizer)


@torch.no_grad()
def assert_same_as_many(
    path: Path, languages: tuple[str, str], theirs: Any, tokenizer: Any
) -> None:
    """Check pieces and log-probabilities against transformers."""
    built, card = load_model(path)
    card = card.for_pair(*languages)
    for source, target in LINES:
        given = tokenizer(source, text_target=target, return_tensors="pt")
        wanted = theirs(**given).logits[0].log_softmax(-1).numpy()
        ids = [given[key][0, :-1].tolist() for key in ("input_ids", "labels")]
        own = [card.src_vocabulary.encode([source])[0], card.tgt_vocabulary.encode([target])[0]]
        for side, vocabulary in enumerate((card.src_vocabulary, card.tgt_vocabulary)):
            pieces = [piece.removeprefix("\ue000") for piece in vocabulary.tokens(own[side])]
            assert pieces == tokenizer.convert_ids_to_tokens(ids[side]), source
        found = built.eval().project(built(batch_of([own[0]], [own[1]]))).log_softmax(-1)
        # Ours are in another order.
        names = card.tgt_vocabulary.tokens(range(len(card.tgt_vocabulary)))
        by_piece = {piece.removeprefix("\ue000"): id_ for id_, piece in enumerate(names)}
        known = tokenizer.get_vocab()
        shared = [piece for piece in by_piece if piece in known]
        assert len(shared) > 60
        rows = [by_piece[piece] for piece in shared]
        np.testing.assert_allclose(
            found[:, rows].numpy(), wanted[:, [known[piece] for piece in shared]], atol=1e-5
        )


@pytest.fixture
def exported(nmt: Nmt, learnt: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Exports a model and writes 200 lines; returns a function that translates them by `nmt`."""
    assert nmt("export", "huggingface", learnt, tmp_path / "out").status == 0
    write(tmp_path / "in", [source for source, _ in number_words(200, seed=1)])

    def translate(*words: str) -> list[str]:
        alone = ("--no-guard", "--workers", "1", "--threads", "1", "--max-tokens", "38")
        done = nmt("translate", learnt, "--input", tmp_path / "in", *alone, *words)
        return done.stdout.split("\n")[:-1]

    return translate


def test_transformers_translates_alike(exported: Callable[..., list[str]], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the extra peers")
    folder = tmp_path / "out"
    model, loading = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        folder, output_loading_info=True
    )
    assert not any(loading.values())  # such as missing weights
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lines = (tmp_path / "in").read_text().splitlines()
    given = tokenizer(lines, return_tensors="pt", padding=True)

    def theirs(**search: Any) -> list[str]:
        ids = model.generate(**given, **search, max_length=40)  # with the first input and eos
        found: list[str] = tokenizer.batch_decode(ids, skip_special_tokens=True)
        return found

    assert theirs(num_beams=1) == exported("--beam-size", "1")
    assert theirs(length_penalty=0.6) == exported("--length-penalty-form", "power")
    # By default, its penalty is nearly ours.
    same = sum(one == other for one, other in zip(theirs(), exported(), strict=True))
    assert same >= 0.9 * len(lines)


TRAINED = {
    "post_norm": "--tied-embeddings-all",
    "pre_norm": "--tied-embeddings --transformer-ffn-activation relu --transformer-preprocess n"
    " --transformer-postprocess da --transformer-postprocess-top n"
    " --sentencepiece-options --hard_vocab_limit=false",
    "ssru": "--tied-embeddings-all --transformer-decoder-autoreg rnn --dec-cell ssru",
    "untied_bpe_gelu": "--transformer-ffn-activation gelu --sentencepiece-options --model_type=bpe",
}


def marian(*words: object) -> str:
    """Run a command of Marian, and return its stdout."""
    pytest.importorskip("pymarian", reason="needs the extra peers")
    command = [sys.executable, "-m", "pymarian", *map(str, words), "--cpu-threads", "1", "--quiet"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def train_by_marian(folder: Path, kind: str, options: str) -> tuple[Path, list[Path]]:
    """Let Marian train a model on made-up text; return it and its vocabularies."""
    for side in ("source", "target"):
        write(folder / side, text(side, 2_000))
    is_joint = "--tied-embeddings-all" in TRAINED[kind]
    names = ["joint.spm"] * 2 if is_joint else ["source.spm", "target.spm"]
    vocabularies = [folder / name for name in names]
    files = ("--train-sets", folder / "source", folder / "target", "--vocabs", *vocabularies)
    sizes = "--transformer-heads 4 --enc-depth 2 --dec-depth 2 --mini-batch-words 800 --seed 1"
    given = f"--learn-rate 0.003 {sizes} {options} {TRAINED[kind]}".split()
    model = folder / "model.npz"
    marian("train", "--type", "transformer", "--model", model, "--tempdir", folder, *files, *given)
    return model, vocabularies


@pytest.fixture(scope="module", params=TRAINED)
def trained_by_marian(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Path]]:
    """A model that Marian has trained for a moment, and its vocabularies."""
    folder = tmp_path_factory.mktemp("marian") / "model"
    folder.mkdir()
    pieces = "150 150" if "--tied-embeddings-all" in TRAINED[request.param] else "120 140"
    sizes = f"--dim-vocabs {pieces} --dim-emb 32 --transformer-dim-ffn 48"
    return train_by_marian(folder, request.param, f"{sizes} --after 40u")


def test_a_package_of_opus_mt_is_what_marian_scores(nmt: Nmt, tmp_path: Path) -> None:
    package = write_package(tmp_path / "package", MarianMT().write(tmp_path / "opus"))
    pairs = list(zip(text("source", 30), text("target", 30), strict=True))
    files = []
    for index, side in enumerate(("source", "target")):
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(package / f"{side}.spm"))
        lines = [" ".join(pieces.encode(pair[index], out_type=str)) for pair in pairs]
        files.append(write(tmp_path / side, lines))
    listed = [package / "opus.vocab.yml"] * 2
    model = package / "opus.npz.best-perplexity.npz"
    scores = marian("score", "--model", model, "--vocabs", *listed, "--train-sets", *files)
    path = import_marian(nmt, package / "decoder.yml", "--src", "en", "--tgt", "xx")
    sums = [found.sum() for found in log_probs(path, pairs)]
    np.testing.assert_allclose(sums, list(map(float, scores.split())), rtol=2e-6, atol=6e-5)


def test_an_import_is_what_marian_scores(
    nmt: Nmt, tmp_path: Path, trained_by_marian: tuple[Path, list[Path]]
) -> None:
    path, vocabularies = trained_by_marian
    pairs = list(zip(text("source", 60), text("target", 60), strict=True))
    texts = [write(tmp_path / side, text(side, 60)) for side in ("source", "target")]
    scores = marian("score", "--model", path, "--vocabs", *vocabularies, "--train-sets", *texts)
    theirs = dict(zip(pairs, map(float, scores.split()), strict=True))
    model = import_marian(nmt, path)
    sums = [found.sum() for found in log_probs(model, pairs)]
    np.testing.assert_allclose(sums, [theirs[pair] for pair in pairs], rtol=2e-6, atol=6e-5)
    # And back.
    out = tmp_path / "out"
    assert nmt("export", "marian", model, out).status == 0
    listed = yaml.safe_load((out / "model.npz.decoder.yml").read_text())["vocabs"]
    given = ("--model", out / "model.npz", "--vocabs", *(out / name for name in listed))
    again = marian("score", *given, "--train-sets", *texts)
    np.testing.assert_allclose(sums, list(map(float, again.split())), rtol=2e-6, atol=6e-5)


@pytest.fixture(scope="module", params=["post_norm", "ssru"])
def well_trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A model that Marian has trained until it ends its sentences, and its vocabulary."""
    # The library intgemm needs multiples of 64.
    sizes = "--dim-vocabs 128 128 --dim-emb 64 --transformer-dim-ffn 128"
    folder = tmp_path_factory.mktemp("well_trained")
    model, (vocabulary, _) = train_by_marian(folder, request.param, f"{sizes} --after 300u")
    return model, vocabulary


def decoded(model: Path, vocabulary: Path, lines: list[str], folder: Path) -> list[list[str]]:
    """Marian's two best translations of each line: number, text, and scores last."""
    words = ("--beam-size", "4", "--n-best", "--max-length-factor", "2")
    text = ("--input", write(folder / "in", lines))
    given = ("--models", model, "--vocabs", vocabulary, vocabulary)
    printed = marian("decode", *given, *text, *words)
    return [line.split(" ||| ") for line in printed.splitlines() if line]


def test_an_int8_file_means_what_marian_makes_of_it(
    nmt: Nmt, tmp_path: Path, well_trained: tuple[Path, Path]
) -> None:
    path, vocabulary = well_trained
    shutil.copy(path, tmp_path / "model.npz")
    binary = to_binary(tmp_path / "model.npz", "_W.?$", 0x10001)
    lines = text("source", 20)
    listed = decoded(binary, vocabulary, lines, tmp_path)
    pairs = [(lines[int(number)], target) for number, target, *_ in listed]
    theirs = [float(score) for *_, score in listed]
    given = ("--src", "en", "--tgt", "de", "--vocab", vocabulary)
    ours = [scores.sum() for scores in log_probs(import_marian(nmt, binary, *given), pairs)]
    # Marian rounds activations to int8, too, and may choose other subwords.
    differences = np.abs(np.array(ours) - theirs)
    assert len(ours) == 4 * len(lines)
    assert np.median(differences) < 0.1 and np.std(theirs) > 1

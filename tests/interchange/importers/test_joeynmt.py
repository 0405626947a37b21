"""Models of JoeyNMT; test_toolkits.py says that they score and translate as there."""

from pathlib import Path

import pytest
import torch
from foreign_folders import (
    FOLDERS,
    Importer,
    Spoil,
    changed,
    put,
    renamed,
    replaced,
    taken,
    without,
)

from nmt.models.model_file import load_model, read_card

POST, PRE = FOLDERS / "joeynmt" / "post", FOLDERS / "joeynmt" / "pre"
PIECES = ("--vocab", PRE / "spm.en.model", "--vocab", PRE / "spm.de.model")
CONFIG, CHECKPOINT = "config.yaml", "best.ckpt"
BIAS = "encoder.layers.0.layer_norm.bias"


def of_side(name: str, value: object) -> Spoil:
    """Change a setting of the encoder."""
    return put(CONFIG, value, "model", "encoder", name)


def of_text(name: str, value: object) -> Spoil:
    return put(CONFIG, value, "data", "src", name)


@pytest.mark.parametrize(
    ("spoil", "status", "said"),
    [
        (taken(CONFIG, "model", "encoder", "layer_norm"), 2, "layer_norm"),
        (of_side("layer_norm", "pre"), 2, "layer_norm"),
        (of_side("alpha", 1.5), 2, "alpha"),
        (of_side("type", "recurrent"), 2, "recurrent"),
        (of_side("activation", "tanh"), 2, "activation"),
        (of_side("num_heads", 2), 2, "attention_heads"),
        (of_side("embeddings", 64), 1, "no settings of JoeyNMT"),
        (of_text("level", "char"), 2, "level"),
        (of_text("level", "word"), 2, "only one of src and trg"),
        (of_text("tokenizer_type", "other"), 2, "tokenizer_type"),
        (of_text("lang", False), 2, "give --src and --tgt"),
        (of_text("lowercase", True), 2, "differ in lowercase"),
        (of_text("lang", None), 2, "--src and --tgt"),
        (put(CONFIG, {"sep_token": "<sep>"}, "data", "special_symbols"), 2, "sep_"),
        (taken(CONFIG, "data"), 1, "no settings of JoeyNMT"),
        (taken(CHECKPOINT, "model_state"), 1, "no model of JoeyNMT"),
        (taken(CHECKPOINT, "model_state", BIAS), 1, "lacks "),
        (put(CHECKPOINT, torch.ones(2), "model_state", "x"), 2, "model.x"),
        (put(CHECKPOINT, Path("x"), "x"), 1, "more than tensors"),
        *((without(name), 1, f"{name}: ") for name in (CONFIG, "trg_vocab.txt", "codes.bpe")),
    ],
)
def test_other_models_are_refused(importer: Importer, spoil: Spoil, status: int, said: str) -> None:
    assert said in importer.refusal(status, POST, spoil, words=())


def test_models_of_version_1_have_norms_before_sub_layers(importer: Importer) -> None:
    data = {"src": "en", "trg": "de", "level": "bpe", "max_sent_length": 70}
    norms = (taken(CONFIG, "model", side, "layer_norm") for side in ("encoder", "decoder"))
    models = (
        importer.model(PRE, put(CONFIG, data, "data"), *norms, words=PIECES),
        importer.model(PRE, words=()),
    )
    one, two = (dict(load_model(path)[0].named_parameters()) for path in models)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    card = read_card(models[0])
    assert (card.src_lang, card.tgt_lang, card.max_src_tokens) == ("en", "de", 70)


def test_pieces_that_the_vocabulary_lacks_are_taken_apart(importer: Importer) -> None:
    word = "\u2581newspapers\n"
    assert f"\n{word}" in (PRE / "src_vocab.txt").read_text()
    other = changed("src_vocab.txt", lambda text: text.replace(word.encode(), b"another\n"))
    ours = read_card(importer.model(PRE, other, words=())).src_vocabulary
    (ids,) = ours.encode(["newspapers"])
    # No letter is listed alone.
    assert [ours.pieces[id_] for id_ in ids] == ["\u2581newspaper", "<unk>"]


def test_a_vocabulary_need_not_list_special_subwords(importer: Importer) -> None:
    shortened = [
        changed(name, lambda text: text.split(b"\n", 4)[4])
        for name in ("src_vocab.txt", "trg_vocab.txt")
    ]
    models = importer.model(POST, words=()), importer.model(POST, *shortened, words=())
    assert models[0].read_bytes() == models[1].read_bytes()
    few = replaced("src_vocab.txt", b"a\nb\n")
    assert "has 6 pieces" in importer.refusal(1, POST, few, words=())


def test_the_best_checkpoint_is_read_or_else_the_newest(importer: Importer) -> None:
    older = replaced("900.ckpt", b"damaged")
    importer.model(POST, older, renamed(CHECKPOINT, "1000.ckpt"), words=())
    importer.model(POST, older, words=())
    assert CHECKPOINT in importer.refusal(1, POST, without(CHECKPOINT), words=())


def test_rules_that_nmt_does_not_have_are_told(importer: Importer) -> None:
    done = importer.answer(POST, of_text("normalize", True), words=("--quiet",))
    assert "normalize is on" in done.stderr

"""Models of JoeyNMT; test_toolkits.py says that they score and translate as there."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from command_line import Nmt

from nmt.models.model_file import load_model, read_card

HERE = Path(__file__).parent / "joeynmt"
PIECES = ("--vocab", HERE / "pre" / "spm.en.model", "--vocab", HERE / "pre" / "spm.de.model")
Change = Callable[[dict[str, Any], dict[str, Any]], object]


def changed(tmp_path: Path, model: str, change: Change) -> Path:
    """A copy of a folder whose configuration and checkpoint were changed."""
    folder = tmp_path / model
    shutil.copytree(HERE / model, folder)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    content = torch.load(folder / "best.ckpt", weights_only=True)
    change(config, content)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    torch.save(content, folder / "best.ckpt")
    return folder


def of_side(name: str, value: object) -> Change:
    """Change a setting of the encoder, or remove it."""

    def change(config: dict[str, Any], _: object) -> None:
        config["model"]["encoder"][name] = value
        if value is None:
            del config["model"]["encoder"][name]

    return change


def of_text(name: str, value: object) -> Change:
    return lambda config, _: config["data"]["src"].update({name: value})


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        (of_side("layer_norm", None), 2, "layer_norm"),
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
        (
            lambda config, _: config["data"].update(special_symbols={"sep_token": "<sep>"}),
            2,
            "sep_",
        ),
        (lambda config, _: config.pop("data"), 1, "no settings of JoeyNMT"),
        (lambda _, content: content.pop("model_state"), 1, "no model of JoeyNMT"),
        (
            lambda _, content: content["model_state"].pop("encoder.layers.0.layer_norm.bias"),
            1,
            "lacks ",
        ),
        (lambda _, content: content["model_state"].update(x=torch.ones(2)), 2, "model.x"),
        (lambda _, content: content.update(x=Path("x")), 1, "more than tensors"),
    ],
)
def test_what_our_transformer_is_not_is_refused(
    nmt: Nmt, tmp_path: Path, change: Change, status: int, said: str
) -> None:
    folder, out = changed(tmp_path, "post", change), tmp_path / "out.safetensors"
    assert said in nmt("import", "joeynmt", folder, out).refusal(status)
    assert not out.exists()


def test_models_of_version_1_have_norms_before_sub_layers(nmt: Nmt, tmp_path: Path) -> None:
    def to_version_1(config: dict[str, Any], _: object) -> None:
        config["data"] = {"src": "en", "trg": "de", "level": "bpe", "max_sent_length": 70}
        for side in ("encoder", "decoder"):
            del config["model"][side]["layer_norm"]

    folder = changed(tmp_path, "pre", to_version_1)
    models = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    nmt("import", "joeynmt", folder, models[0], *PIECES).succeeded()
    nmt("import", "joeynmt", HERE / "pre", models[1]).succeeded()
    one, two = (dict(load_model(path)[0].named_parameters()) for path in models)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    card = read_card(models[0])
    assert (card.src_lang, card.tgt_lang, card.max_src_tokens) == ("en", "de", 70)


def test_pieces_that_the_vocabulary_lacks_are_taken_apart(nmt: Nmt, tmp_path: Path) -> None:
    folder, out = tmp_path / "pre", tmp_path / "out.safetensors"
    shutil.copytree(HERE / "pre", folder)
    listed = (folder / "src_vocab.txt").read_text()
    assert "\n\u2581newspapers\n" in listed
    (folder / "src_vocab.txt").write_text(listed.replace("\u2581newspapers\n", "another\n"))
    nmt("import", "joeynmt", folder, out).succeeded()
    ours = read_card(out).src_vocabulary
    (ids,) = ours.encode(["newspapers"])
    # No letter is listed alone.
    assert [ours.pieces[id_] for id_ in ids] == ["\u2581newspaper", "<unk>"]


def test_a_vocabulary_need_not_list_special_subwords(nmt: Nmt, tmp_path: Path) -> None:
    folder, outs = tmp_path / "post", [tmp_path / f"{n}.safetensors" for n in range(3)]
    shutil.copytree(HERE / "post", folder)
    nmt("import", "joeynmt", folder, outs[0]).succeeded()
    for name in ("src_vocab.txt", "trg_vocab.txt"):
        lines = (folder / name).read_text().splitlines()
        (folder / name).write_text("".join(f"{line}\n" for line in lines[4:]))
    nmt("import", "joeynmt", folder, outs[1]).succeeded()
    assert outs[0].read_bytes() == outs[1].read_bytes()
    (folder / "src_vocab.txt").write_text("a\nb\n")
    assert "has 6 pieces" in nmt("import", "joeynmt", folder, outs[2]).refusal(1)


def test_the_best_checkpoint_is_read_or_else_the_newest(nmt: Nmt, tmp_path: Path) -> None:
    folder = tmp_path / "post"
    shutil.copytree(HERE / "post", folder)
    (folder / "best.ckpt").rename(folder / "1000.ckpt")
    (folder / "900.ckpt").write_bytes(b"damaged")
    nmt("import", "joeynmt", folder, tmp_path / "newest.safetensors").succeeded()
    (folder / "1000.ckpt").rename(folder / "best.ckpt")
    nmt("import", "joeynmt", folder, tmp_path / "best.safetensors").succeeded()
    (folder / "best.ckpt").unlink()
    (folder / "900.ckpt").unlink()
    words = ("import", "joeynmt", folder, tmp_path / "out.safetensors")
    assert "best.ckpt" in nmt(*words).refusal(1)


@pytest.mark.parametrize("name", ["config.yaml", "trg_vocab.txt", "codes.bpe"])
def test_what_is_missing_is_named(nmt: Nmt, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "post"
    shutil.copytree(HERE / "post", folder)
    (folder / name).unlink()
    words = ("import", "joeynmt", folder, tmp_path / "out.safetensors")
    assert f"{name}: " in nmt(*words).refusal(1)


def test_rules_that_nmt_does_not_have_are_told(nmt: Nmt, tmp_path: Path) -> None:
    folder = changed(tmp_path, "post", of_text("normalize", True))
    done = nmt("import", "joeynmt", folder, tmp_path / "out.safetensors", "--quiet").succeeded()
    assert "normalize is on" in done.stderr

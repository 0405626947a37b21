"""Folders for transformers: their model card, and what they say of search and tokens."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from command_line import QUICK, Nmt
from foreign_folders import Change, edited
from foreign_models import MarianMT, import_huggingface
from reference import sinusoidal_positions
from safetensors.torch import load_file
from torch import Tensor

from nmt import SearchOptions
from nmt.data.language_tokens import LanguageTokens
from nmt.data.manifest import read_info
from nmt.data.vocabulary import BOS_ID, EOS_ID, learn_vocabulary
from nmt.models.base import BARRED
from nmt.models.model_file import ModelCard, load_model, write_model
from nmt.models.transformer import Transformer


def test_a_model_card_has_the_languages_and_leaves_the_license_to_its_owner(
    nmt: Nmt, model_file: Path, tmp_path: Path
) -> None:
    assert nmt("export", "huggingface", model_file, tmp_path / "out").status == 0
    readme = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(readme.split("---\n")[1])
    assert (front["language"], front["pipeline_tag"]) == (["en", "de"], "translation")
    assert "license" not in front
    assert "## Results" not in readme


def test_the_model_card_of_a_run_has_its_scores(nmt: Nmt, model_file: Path, tmp_path: Path) -> None:
    bleu = {"score": 27.346, "signature": "nrefs:1", "name": "BLEU"}
    scores: dict[str, Any] = {"run": "run", "test": "news", "bleu": bleu}
    scores |= {"chrf": bleu | {"name": "chrF2"}, "far_half": {"lines": 500, "bleu": 25.1}}
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(model_file, run / "best.safetensors")
    (run / "evaluation.json").write_text(json.dumps([scores]))
    nmt("export", "huggingface", run, tmp_path / "out").succeeded()
    readme = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "| news | BLEU | 27.35 | 25.10 | nrefs:1 |\n" in readme
    assert "| news | chrF2 | 27.35 |  | nrefs:1 |\n" in readme
    (run / "evaluation.json").write_text("[")
    assert "nmt evaluate" in nmt("export", "huggingface", run, tmp_path / "again").refusal(1)


def test_a_runs_model_card_names_text(nmt: Nmt, learnt: Path, data: Path, tmp_path: Path) -> None:
    nmt("export", "huggingface", learnt, tmp_path / "out").succeeded()
    readme = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    train = read_info(data).train
    assert f"The longest source in training had {train.src.longest} tokens." in readme
    assert f"\n{train.pairs} pairs of `{Path(train.corpora[0].prefix).name}`." in readme


def drop_tables(weights: dict[str, Tensor]) -> None:
    """Leave out what transformers does not save."""
    for name in [name for name in weights if "embed_positions" in name]:
        del weights[name]


def use_their_tables(weights: dict[str, Tensor]) -> None:
    """Put the positions that transformers computes in the place of Marian's."""
    for name in [name for name in weights if "embed_positions" in name]:
        length, width = weights[name].shape
        table = torch.from_numpy(sinusoidal_positions(length, width)).float()
        weights[name] = torch.cat((table[:, 0::2], table[:, 1::2]), 1)


@pytest.mark.parametrize(
    ("change", "words", "is_warned"),
    [
        (drop_tables, (), True),
        (use_their_tables, (), True),
        (drop_tables, ("--positions", "marian"), False),
        (len, (), False),  # changes nothing
    ],
)
def test_an_export_that_lost_its_positions_is_warned_of(
    nmt: Nmt, tmp_path: Path, change: Change, words: tuple[str, ...], is_warned: bool
) -> None:
    model = import_huggingface(nmt, MarianMT().write(tmp_path / "opus"))
    assert nmt("export", "huggingface", model, tmp_path / "out").status == 0
    edited("model.safetensors", change)(tmp_path / "out")
    done = nmt("import", "huggingface", tmp_path / "out", tmp_path / "again", *words)
    assert (done.status, "--positions huggingface" in done.stderr) == (0, is_warned)


def test_generate_searches_by_the_defaults_of_translate(
    nmt: Nmt, model_file: Path, card: ModelCard, tmp_path: Path
) -> None:
    assert nmt("export", "huggingface", model_file, tmp_path / "out").status == 0
    generation = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert "forced_eos_token_id" in generation.keys() - config.keys()  # or transformers warns
    default = SearchOptions()
    assert (generation["num_beams"], generation["early_stopping"]) == (default.beam_size, True)
    # Its penalty length^alpha is about as steep where sentences have some 25 tokens.
    here = math.log(default.penalty(26) / default.penalty(25))
    assert abs(here - math.log(26 / 25) * generation["length_penalty"]) < 0.001
    assert generation["bad_words_ids"] == [[id_] for id_ in card.tgt_vocabulary.barred_ids]


def test_zeros_as_first_input_are_bos_s_vector(nmt: Nmt, card: ModelCard, tmp_path: Path) -> None:
    values = {"first_input": "zeros", "positions": "sinusoidal_halves"}
    other = replace(card, config=replace(card.config, **values))  # type: ignore[arg-type]
    model = tmp_path / "model"
    write_model(model, other, dict(other.build().named_parameters()))
    assert nmt("export", "huggingface", model, tmp_path / "out").status == 0
    after = load_file(tmp_path / "out" / "model.safetensors")
    rows, built = after["model.shared.weight"], load_model(model)[0]
    assert isinstance(built, Transformer)
    assert not rows[BOS_ID].any()
    assert torch.equal(rows[EOS_ID:], built.tgt_embedding.weight[EOS_ID:])
    # Or a vector of zeros would make it a likely token, which takes probability from the others.
    assert after["final_logits_bias"][0, BOS_ID] == BARRED


def test_languages_are_tags_of_transformers(nmt: Nmt, card: ModelCard, tmp_path: Path) -> None:
    languages = LanguageTokens.of_targets([("en", "de"), ("en", "fr")])
    pieces = list(languages.pieces.values())
    vocabulary = learn_vocabulary(["the cat sees a bird"], vocab_size=290, controls=pieces)
    sides = replace(card, src_vocabulary=vocabulary, tgt_vocabulary=vocabulary)
    other = replace(sides, languages=languages, tgt_lang="")
    write_model(tmp_path / "model", other, dict(other.build().named_parameters()))
    assert nmt("export", "huggingface", tmp_path / "model", tmp_path / "out").status == 0
    ids = json.loads((tmp_path / "out" / "vocab.json").read_text())
    imported = import_huggingface(nmt, tmp_path / "out", "--src", "en", "--tgt", "de")
    (tmp_path / "in").write_text("the cat\na bird\n")
    for code, piece in languages.pieces.items():
        (id_,) = (id_ for id_ in range(len(vocabulary)) if vocabulary.tokens([id_]) == [piece])
        assert ids[f">>{code}<<"] == id_
        words = ("--input", tmp_path / "in", "--to", code, *QUICK)
        ours, again = (nmt("translate", path, *words) for path in (tmp_path / "model", imported))
        assert again.status == 0, again.stderr
        assert again.stdout == ours.stdout

"""Initial weights from another model: what is taken, what is told of it, and what is refused."""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from mishaps import stopped_after
from safetensors import safe_open
from torch import Tensor
from toy_training import (
    flat,
    metrics,
    newest_state,
    nmt,
    settings_of,
    train,
)

from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.errors import DataError, NMTError, UsageError
from nmt.models.base import TranslationModel
from nmt.models.model_file import ModelCard, ModelReader, write_model
from nmt.training.first_weights import warm_start
from nmt.values import Value

LEARNT: dict[str, Value] = {"d_model": 64, "d_ff": 128}
STILL: dict[str, Value] = {"learning_rate": 1e-30, "max_updates": 1, "validate_every": 1}
"""One update that is too small to change a weight, and metrics of what there was before it."""


@pytest.fixture(scope="module")
def other_vocabulary() -> Vocabulary:
    """Of 330 pieces, too, of which some are others, and most stand elsewhere."""
    return learn_vocabulary(
        ["slow rivers and small trees, seen by old birds then", "zebra"] * 9, vocab_size=330
    )


def build(card: ModelCard, seed: int) -> TranslationModel:
    torch.manual_seed(seed)
    return card.build()


def written(path: Path, card: ModelCard, seed: int) -> dict[str, Tensor]:
    """Write a random model; return its weights."""
    given = {name: p.detach() for name, p in build(card, seed).named_parameters()}
    write_model(path, card, given)
    return given


def with_config(card: ModelCard, **values: Value) -> ModelCard:
    return replace(card, config=replace(card.config, **values))  # type: ignore[arg-type]


def pieces(vocabulary: Vocabulary) -> list[str]:
    return vocabulary.tokens(range(len(vocabulary)))


def expected_rows(
    initial: Tensor, own: Vocabulary, given: Tensor, given_pieces: list[str]
) -> tuple[Tensor, int]:
    """Look for each piece one after the other: the rows, and how many were found."""
    rows, found = initial.clone(), 0
    for row, piece in enumerate(pieces(own)):
        if piece in given_pieces:
            rows[row] = given[given_pieces.index(piece)]
            found += 1
    return rows, found


# --- what is taken


@pytest.mark.parametrize(
    ("name", "precision"),
    [("", "fp32"), ("checkpoints/update-00000200.safetensors", "fp32"), ("", "bf16")],
)
def test_a_run_starts_with_the_weights_that_it_is_given(
    data: Path, tmp_path: Path, learnt: Path, name: str, precision: str
) -> None:
    run = train(data, tmp_path / "run", learnt / name, precision=precision, **LEARNT, **STILL)
    given = ModelReader(learnt / (name or "best.safetensors"))
    assert torch.equal(flat(run / "last.safetensors"), flat(given.path))
    if not name and precision == "fp32":
        assert metrics(run, "valid")[0]["loss"] == given.card.valid["loss"]


def test_the_optimiser_starts_fresh(data: Path, tmp_path: Path, learnt: Path) -> None:
    run = train(data, tmp_path / "run", learnt, max_updates=3, **LEARNT)
    header, vectors = newest_state(run)
    assert header["progress"]["update"] == 3
    assert vectors["adam_updates"].item() == 3
    assert metrics(run, "train")[0]["learning_rate"] == pytest.approx(3e-3 * 3 / 10)


def test_rows_follow_their_pieces_into_another_vocabulary(
    card: ModelCard, other_vocabulary: Vocabulary, tmp_path: Path
) -> None:
    given = written(tmp_path / "m", card, seed=1)
    new_card = replace(card, src_vocabulary=other_vocabulary, tgt_vocabulary=other_vocabulary)
    initial = build(new_card, seed=2).get_parameter("output_projection").detach().clone()
    warm_start(model := build(new_card, seed=2), new_card, tmp_path / "m")
    rows, found = expected_rows(
        initial, other_vocabulary, given["output_projection"], pieces(card.src_vocabulary)
    )
    assert 260 < found < len(rows) == 330  # or there would be nothing to tell apart
    assert not torch.equal(rows, given["output_projection"])
    taken = dict(model.named_parameters())
    assert torch.equal(taken["output_projection"], rows)
    assert all(torch.equal(taken[n], w) for n, w in given.items() if n != "output_projection")


def test_each_side_has_the_vocabulary_of_its_own(
    card: ModelCard, other_vocabulary: Vocabulary, tmp_path: Path
) -> None:
    card = with_config(card, tie_embeddings="none")
    given = written(tmp_path / "m", replace(card, tgt_vocabulary=other_vocabulary), seed=1)
    new_card = replace(card, src_vocabulary=other_vocabulary)  # the other way round
    initial = {n: p.detach().clone() for n, p in build(new_card, seed=2).named_parameters()}
    warm_start(model := build(new_card, seed=2), new_card, tmp_path / "m")
    for name, own, theirs in (
        ("src_embedding.weight", other_vocabulary, card.src_vocabulary),
        ("tgt_embedding.weight", card.src_vocabulary, other_vocabulary),
        ("output_projection", card.src_vocabulary, other_vocabulary),
    ):
        rows, _ = expected_rows(initial[name], own, given[name], pieces(theirs))
        assert torch.equal(model.get_parameter(name), rows)


@pytest.mark.parametrize("new_tie", ["all", "decoder", "none"])
@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_tied_embeddings_are_found_by_each_of_their_names(
    card: ModelCard, tmp_path: Path, tie: str, new_tie: str
) -> None:
    old_card, new_card = (with_config(card, tie_embeddings=one) for one in (tie, new_tie))
    other = build(old_card, seed=1)
    write_model(tmp_path / "m", old_card, dict(other.named_parameters()))
    warm_start(model := build(new_card, seed=2), new_card, tmp_path / "m")
    given = dict(other.named_parameters(remove_duplicate=False))
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, given[name]), name


def test_one_matrix_takes_the_rows_of_both_sides(
    card: ModelCard, other_vocabulary: Vocabulary, tmp_path: Path
) -> None:
    # Targets first; what only the source side knows is taken from there.
    old_card = replace(with_config(card, tie_embeddings="none"), tgt_vocabulary=other_vocabulary)
    given = written(tmp_path / "m", old_card, seed=1)
    warm_start(model := build(card, seed=2), card, tmp_path / "m")
    rows, from_source = expected_rows(
        torch.zeros(330, 16),
        card.src_vocabulary,
        given["src_embedding.weight"],
        pieces(card.src_vocabulary),
    )
    rows, from_target = expected_rows(
        rows, card.src_vocabulary, given["output_projection"], pieces(other_vocabulary)
    )
    assert from_source == 330 > from_target
    assert torch.equal(model.get_parameter("output_projection"), rows)


def test_what_is_missing_or_of_another_shape_stays_as_it_was(
    card: ModelCard, tmp_path: Path
) -> None:
    given = written(tmp_path / "m", card, seed=1)
    new_card = with_config(card, num_decoder_layers=2, d_ff=48)
    initial = {n: p.detach().clone() for n, p in build(new_card, seed=2).named_parameters()}
    warm_start(model := build(new_card, seed=2), new_card, tmp_path / "m")
    for name, parameter in model.named_parameters():
        fits = name in given and given[name].shape == parameter.shape
        assert fits == (
            not name.startswith("decoder.1.")
            and ".inner." not in name
            and ".outer.weight" not in name
        )
        assert torch.equal(parameter, (given if fits else initial)[name]), name


# --- what is told


def test_the_report_tells_what_was_taken_and_what_differs(
    card: ModelCard, other_vocabulary: Vocabulary, tmp_path: Path
) -> None:
    old_card = with_config(card, num_encoder_layers=3, d_ff=48)
    written(tmp_path / "m", old_card, seed=1)
    new_card = replace(
        with_config(card, num_decoder_layers=2),
        tgt_vocabulary=other_vocabulary,
        src_vocabulary=other_vocabulary,
    )
    model = build(new_card, seed=2)
    found = len(set(pieces(card.src_vocabulary)) & set(pieces(other_vocabulary)))
    every = dict(model.named_parameters())
    new = [name for name in every if name.startswith("decoder.1.")]
    reshaped = [
        name
        for name in every
        if name not in new and name.endswith(("inner.weight", "inner.bias", "outer.weight"))
    ]
    unused = [
        name
        for name, _ in build(old_card, seed=1).named_parameters()
        if name.startswith(("encoder.1.", "encoder.2."))
    ]
    assert len(reshaped) == 6
    assert warm_start(model, new_card, tmp_path / "m") == [
        f"initial weights from {tmp_path / 'm'} (update 7): {len(every) - len(new) - 6} of "
        f"{len(every)} weights taken",
        f"output_projection: {found} of 330 pieces found ({found / 3.3:.1f}%)",
        f"not in that model, stay random: {', '.join(new[:3])} and {len(new) - 3} more",
        "of another shape in that model, stay random: encoder.0.feed_forward.inner.weight, "
        "encoder.0.feed_forward.inner.bias, encoder.0.feed_forward.outer.weight and 3 more",
        f"only in that model, not used: {', '.join(unused[:3])} and {len(unused) - 3} more",
    ]


def test_the_report_stands_on_stderr_and_in_the_log(
    data: Path, tmp_path: Path, learnt: Path
) -> None:
    run = tmp_path / "run"
    settings = settings_of(**LEARNT, **STILL)
    done = nmt("train", data, "--out", run, "--init-from", learnt, *settings)
    assert (done.returncode, done.stdout) == (0, "")
    line = f"initial weights from {learnt / 'best.safetensors'} (update "
    assert f"nmt: {line}" in done.stderr
    assert line in (run / "train.log").read_text()
    assert "warning" not in done.stderr


def test_other_languages_are_warned_of(
    card: ModelCard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path / "m", replace(card, src_lang="cs"), seed=1)
    warm_start(build(card, seed=2), card, tmp_path / "m")
    assert capsys.readouterr().err == (
        f"nmt: warning: {tmp_path / 'm'} translates cs-de, but the data is en-de\n"
    )


# --- what is refused


def test_a_model_of_which_nothing_fits_is_refused(data: Path, tmp_path: Path, learnt: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no weight of this model fits.*: d_model 64 and 32; d_ff"
    ):
        train(data, tmp_path / "run", learnt, max_updates=1)
    train(data, tmp_path / "run", learnt, **LEARNT, **STILL)  # and can be put right


def test_a_model_that_is_missing_or_damaged_is_refused(
    data: Path, tmp_path: Path, learnt: Path
) -> None:
    run = tmp_path / "run"
    with pytest.raises(DataError, match=r"gone\.safetensors: no such file"):
        train(data, run, tmp_path / "gone.safetensors")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NMTError, match="no model in this folder"):
        train(data, run, tmp_path / "empty")
    assert not run.exists()
    bad = Path(shutil.copy(learnt / "best.safetensors", tmp_path / "bad.safetensors"))
    content = bytearray(bad.read_bytes())
    content[-9] ^= 1
    bad.write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.safetensors: damaged"):
        train(data, run, bad, **LEARNT)


# --- going on


@pytest.fixture
def start(tmp_path: Path, learnt: Path) -> Path:
    """A model file that may be changed."""
    return Path(shutil.copy(learnt / "best.safetensors", tmp_path / "start.safetensors"))


def test_a_stopped_run_goes_on_bit_for_bit_without_its_model(
    data: Path, tmp_path: Path, start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: dict[str, Value] = {**LEARNT, "freeze": "encoder.*", "max_updates": 12}
    whole = train(data, tmp_path / "whole", start, **values)
    run = tmp_path / "run"
    stopped_after(monkeypatch, 5, data, run, start, **values)
    start.unlink()
    train(data, run, start, **values)
    vectors, expected = newest_state(run)[1], newest_state(whole)[1]
    assert vectors.keys() == expected.keys()
    assert all(torch.equal(vectors[name], expected[name]) for name in expected)
    assert (run / "train.log").read_text().count("initial weights from") == 1


def test_the_same_model_may_lie_elsewhere_and_another_is_refused(
    data: Path, tmp_path: Path, start: Path, learnt: Path
) -> None:
    run = train(data, tmp_path / "run", start, **LEARNT, **STILL)
    noted = tomllib.loads((run / "config.toml").read_text())["run"]
    with safe_open(start, framework="pt") as file:
        assert noted["init_from_checksum"] == file.metadata()["sha256"]
    assert noted["init_from"] == str(start)
    train(data, run, start.rename(tmp_path / "moved.safetensors"), **LEARNT, **STILL)
    another = learnt / "checkpoints/update-00000150.safetensors"
    with pytest.raises(
        UsageError,
        match=r"has a run with other values: --init-from was .*moved\S+ and is now .*150\S*, with",
    ):
        train(data, run, another, **LEARNT, **STILL)
    with pytest.raises(UsageError, match=r"--init-from was \S+ and is now not given"):
        train(data, run, **LEARNT, **STILL)
    without = train(data, tmp_path / "without", **LEARNT, **STILL)
    with pytest.raises(
        UsageError, match=r"--init-from was not given and is now \S+, with other weights"
    ):
        train(data, without, learnt, **LEARNT, **STILL)


def test_a_run_without_a_state_starts_from_its_model_again(
    data: Path, tmp_path: Path, start: Path, learnt: Path
) -> None:
    run = train(data, tmp_path / "run", start, **LEARNT, **STILL)
    for path in run.glob("checkpoints/*"):  # as if it had been killed before the first save
        path.unlink()
    train(data, run, start, **LEARNT, **STILL)
    assert torch.equal(flat(run / "last.safetensors"), flat(start))
    for path in run.glob("checkpoints/*"):
        path.unlink()
    shutil.copy(learnt / "checkpoints/update-00000150.safetensors", start)  # another by now
    with pytest.raises(
        UsageError, match=r"--init-from was (\S+) and is now \1, with other weights"
    ):
        train(data, run, start, **LEARNT, **STILL)


def test_two_processes_start_with_the_same_weights(
    data: Path, tmp_path: Path, learnt: Path
) -> None:
    run = tmp_path / "run"
    settings = settings_of(**LEARNT, **STILL)
    done = nmt("train", data, "--out", run, "--init-from", learnt, *settings, ranks=2)
    assert done.returncode == 0, done.stderr
    best = ModelReader(learnt / "best.safetensors")
    # Each process measures its share of the valid pairs.
    assert metrics(run, "valid")[0]["loss"] == pytest.approx(best.card.valid["loss"], rel=1e-6)
    assert torch.equal(flat(run / "last.safetensors"), flat(best.path))


def test_two_processes_fail_together(data: Path, tmp_path: Path, learnt: Path) -> None:
    settings = settings_of(max_updates=1)
    done = nmt("train", data, "--out", tmp_path / "run", "--init-from", learnt, *settings, ranks=2)
    assert done.returncode == 1
    assert len(re.findall("rank [01]: error: .*no weight of this model fits", done.stderr)) == 2

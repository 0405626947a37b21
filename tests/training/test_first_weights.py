"""The first weights: what is taken from another model, what is told and refused, what is frozen."""

import re
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from prepare_job import job_of
from safetensors import safe_open
from torch import Tensor, nn
from toy_training import (
    Toy,
    assert_same_state,
    flat,
    metrics,
    newest_state,
    nmt,
    recipe,
    weights,
    write_text,
)

from nmt.config.fields import Value
from nmt.data.folder import DataFolder
from nmt.data.vocabulary import learn_vocabulary
from nmt.errors import DataError, NMTError, UsageError
from nmt.models.base import TranslationModel
from nmt.models.model_file import ModelCard, ModelReader, write_model
from nmt.models.registry import parameters_by_names
from nmt.training.first_weights import card_of, freeze, warm_start

LEARNT: dict[str, Value] = {"d_model": 64, "d_ff": 128}
STILL: dict[str, Value] = {"learning_rate": 1e-30, "max_updates": 1, "validate_every": 1}
"""One update that is too small to change a weight, and metrics of what there was before it."""
TIES = ("all", "decoder", "none")


Make = Callable[..., ModelCard]


@pytest.fixture(scope="module")
def make(card: ModelCard) -> Make:
    """Change the card's configuration, and the vocabularies of some sides, like `src tgt`."""
    # Of 330 pieces, too, of which some are others, and most stand elsewhere.
    text = ["slow rivers and small trees, seen by old birds then", "zebra"] * 9
    vocabulary = learn_vocabulary(text, vocab_size=330)

    def make(sides: str = "", **values: Value) -> ModelCard:
        changes: dict[str, Any] = {f"{side}_vocabulary": vocabulary for side in sides.split()}
        config = replace(card.config, **values)  # type: ignore[arg-type]
        return replace(card, config=config, **changes)

    return make


def build(card: ModelCard, seed: int) -> TranslationModel:
    torch.manual_seed(seed)
    return card.build()


def write(path: Path, card: ModelCard) -> TranslationModel:
    """Write a random model, and return it."""
    model = build(card, seed=1)
    write_model(path, card, dict(model.named_parameters()))
    return model


def pieces(card: ModelCard, name: str = "") -> list[str]:
    vocabulary = card.src_vocabulary if name.startswith("src") else card.tgt_vocabulary
    return vocabulary.tokens(range(len(vocabulary)))


# --- what is taken


@pytest.mark.parametrize(
    ("name", "precision"), [("", "fp32"), ("checkpoints/update-00000200.safetensors", "bf16")]
)
def test_a_run_starts_with_the_weights_that_it_is_given(
    toy: Toy, learnt: Path, capsys: pytest.CaptureFixture[str], name: str, precision: str
) -> None:
    run = toy.train("run", learnt / name, precision=precision, **LEARNT, **STILL)
    given = ModelReader(learnt / (name or "best.safetensors"))
    assert torch.equal(flat(run / "last.safetensors"), flat(given.path))
    header, vectors = newest_state(run)  # the optimiser starts fresh
    assert (header["progress"]["update"], vectors["adam_updates"].item()) == (1, 1)
    if not name:
        assert metrics(run, "valid")[0]["loss"] == given.card.valid["loss"]
    for told in (capsys.readouterr().err, (run / "train.log").read_text()):
        assert "initial weights from" in told and f" {given.path}" in told


def expected_weights(
    model: TranslationModel, card: ModelCard, given: TranslationModel, given_card: ModelCard
) -> dict[str, Tensor]:
    """Look for each weight by all its names, and for each row by its piece, one after the other."""
    theirs, found = dict(given.named_parameters(remove_duplicate=False)), dict[str, Tensor]()
    for names, parameter in parameters_by_names(model):
        found[names[0]] = expected = parameter.detach().clone()
        for name in reversed(names):  # of several, the first has the last word
            if "embedding" not in name and name != "output_projection":
                expected.copy_(theirs[name])
                continue
            their_pieces = pieces(given_card, name)
            for row, piece in enumerate(pieces(card, name)):
                if piece in their_pieces:
                    expected[row] = theirs[name][their_pieces.index(piece)]
    return found


@pytest.mark.parametrize(
    ("tie", "others", "new_tie", "new_others"),
    [
        *((tie, "", new_tie, "") for tie in TIES for new_tie in TIES),
        ("all", "", "all", "src tgt"),
        ("none", "tgt", "none", "src"),
        # Of a piece that only the source side knows, the row comes from there.
        ("none", "tgt", "all", ""),
    ],
)
@torch.no_grad()
def test_weights_go_by_their_names_and_rows_by_their_pieces(
    make: Make, tmp_path: Path, tie: str, others: str, new_tie: str, new_others: str
) -> None:
    given_card = make(others, tie_embeddings=tie)
    new_card = make(new_others, tie_embeddings=new_tie)
    model, other = build(new_card, seed=2), write(tmp_path / "m", given_card)
    expected = expected_weights(model, new_card, other, given_card)
    warm_start(model, new_card, tmp_path / "m")
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, expected[name]), name


def test_missing_or_other_shapes_stay(card: ModelCard, make: Make, tmp_path: Path) -> None:
    given = dict(write(tmp_path / "m", card).named_parameters())
    new_card = make(num_decoder_layers=2, d_ff=48)
    initial = {n: p.detach().clone() for n, p in build(new_card, seed=2).named_parameters()}
    warm_start(model := build(new_card, seed=2), new_card, tmp_path / "m")
    for name, parameter in model.named_parameters():
        fits = name in given and given[name].shape == parameter.shape
        other = name.startswith("decoder.1.") or ".inner." in name or ".outer.weight" in name
        assert fits != other
        assert torch.equal(parameter, (given if fits else initial)[name]), name


# --- what is told and refused


def test_what_is_taken_and_differs_is_told(card: ModelCard, make: Make, tmp_path: Path) -> None:
    write(tmp_path / "m", make(num_encoder_layers=3, d_ff=48))
    new_card = make("src tgt", num_decoder_layers=2)
    found = len(set(pieces(card)) & set(pieces(new_card)))
    assert 260 < found < 330  # or there would be nothing to tell apart
    (first, *lines), _ = warm_start(build(new_card, seed=2), new_card, tmp_path / "m")
    assert re.fullmatch(rf".* {tmp_path}/m \(update 7\): \d+ of \d+ .*", first)
    for line, expected in zip(
        lines,
        [
            rf"output_projection: {found} of 330 .* \({found / 3.3:.1f}%\)",
            r"not in .*: (decoder\.1\.\S+,? ){3}and \d+ more",
            r"of another shape .*: (encoder\.0\.feed\S+,? ){3}and 3 more",
            r"only in .*: (encoder\.1\.\S+,? ){3}and \d+ more",
        ],
        strict=True,
    ):
        assert re.fullmatch(expected, line)


def test_other_languages_are_warned_of(
    card: ModelCard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "m", replace(card, src_lang="cs"))
    warm_start(build(card, seed=2), card, tmp_path / "m")
    assert re.fullmatch(f"nmt: warning: {tmp_path}/m .*cs-de.* en-de\n", capsys.readouterr().err)


def test_a_model_that_does_not_fit_is_refused(toy: Toy, learnt: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.safetensors"):
        toy.train("run", toy.folder / "gone.safetensors")
    (toy.folder / "empty").mkdir()
    with pytest.raises(NMTError, match="empty"):
        toy.train("run", toy.folder / "empty")
    assert not (toy.folder / "run").exists()
    bad = toy.folder / "bad.safetensors"
    bad.write_bytes((learnt / "best.safetensors").read_bytes()[:-1])
    with pytest.raises(DataError, match=r"bad\.safetensors: damaged"):
        toy.train("run", bad, **LEARNT)
    with pytest.raises(UsageError, match=r"no weight .*: d_model 64 and 32; d_ff"):
        toy.train("run", learnt)
    assert not (toy.folder / "run/config.toml").exists()


# --- going on


@pytest.fixture
def start(tmp_path: Path, learnt: Path) -> Path:
    """A model file that may be changed."""
    return Path(shutil.copy(learnt / "best.safetensors", tmp_path / "start.safetensors"))


def test_a_stopped_run_goes_on_bit_for_bit_without_its_model(toy: Toy, start: Path) -> None:
    values: dict[str, Value] = {**LEARNT, "freeze": "encoder.*", "max_updates": 12}
    whole = toy.train("whole", start, **values)
    run = toy.stopped_after(5, "run", start, **values)
    start.unlink()
    toy.train("run", start, **values)
    assert_same_state(run, whole)
    assert (run / "train.log").read_text().count("initial weights from") == 1


def test_a_model_may_lie_elsewhere_and_others_fail(toy: Toy, start: Path, learnt: Path) -> None:
    values = LEARNT | STILL
    noted = tomllib.loads((toy.train("run", start, **values) / "config.toml").read_text())["run"]
    with safe_open(start, framework="pt") as file:
        assert noted["init_from_checksum"] == file.metadata()["sha256"]
    assert noted["init_from"] == str(start)
    toy.train("run", start.rename(toy.folder / "moved.safetensors"), **values)
    another = learnt / "checkpoints/update-00000150.safetensors"
    with pytest.raises(UsageError, match=r"--init-from .*moved.* .*150"):
        toy.train("run", another, **values)
    toy.train("run", **values)  # the run knows it
    toy.train("without", **values)
    with pytest.raises(UsageError, match=r"--init-from .*other weights"):
        toy.train("without", learnt, **values)


def test_a_run_without_a_state_starts_from_its_model(toy: Toy, start: Path, learnt: Path) -> None:
    run = toy.train("run", start, **LEARNT, **STILL)

    def lose_all_that_was_saved() -> None:  # as if it had been killed before the first save
        for path in (*run.glob("checkpoints/*"), *run.glob("*.safetensors")):
            path.unlink()

    lose_all_that_was_saved()
    toy.train("run", start, **LEARNT, **STILL)
    assert torch.equal(flat(run / "last.safetensors"), flat(start))
    lose_all_that_was_saved()
    shutil.copy(learnt / "checkpoints/update-00000150.safetensors", start)  # another by now
    with pytest.raises(UsageError, match=r"-from .* (\S+) .* \1, .*other weights"):
        toy.train("run", start, **LEARNT, **STILL)


def test_two_processes_fail_together_and_start_with_equal_weights(toy: Toy, learnt: Path) -> None:
    run, init_from = toy.folder / "run", ("--init-from", learnt)
    done = nmt(*toy.words(run, *init_from, max_updates=1), ranks=2)
    assert done.returncode == 1
    assert len(re.findall(r"error: .*no weight", done.stderr)) == 1
    toy.train_with(2, run, *init_from, **LEARNT, **STILL)  # which can be put right
    best = ModelReader(learnt / "best.safetensors")
    # Each process measures its share of the valid pairs.
    assert metrics(run, "valid")[0]["loss"] == pytest.approx(best.card.valid["loss"], rel=1e-6)
    assert torch.equal(flat(run / "last.safetensors"), flat(best.path))


# --- frozen parameters


@pytest.fixture
def model(make: Make) -> TranslationModel:
    return build(make(num_encoder_layers=2, tie_embeddings="none"), seed=1)


def frozen_names(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


@pytest.mark.parametrize(
    ("patterns", "parts"),
    [
        ("", ()),
        ("encoder.*", ("encoder.",)),
        ("encoder.1.*", ("encoder.1.",)),
        ("encoder.*,src_embedding.*", ("encoder.", "src_embedding.")),
        (" decoder.* , output_projection", ("decoder.", "output_projection")),
        ("*.norm.*", (".norm.",)),
    ],
)
def test_patterns_choose_parameters_by_name(
    model: TranslationModel, patterns: str, parts: tuple[str, ...]
) -> None:
    names = [name for name, _ in model.named_parameters()]
    expected = [name for name in names if any(part in name for part in parts)]
    assert freeze(model, patterns) == expected
    assert frozen_names(model) == set(expected)


@pytest.mark.parametrize("name", ["src_embedding.*", "tgt_embedding.weight", "output_projection"])
def test_a_tied_parameter_goes_by_each_of_its_names(card: ModelCard, name: str) -> None:
    told = freeze(model := build(card, seed=1), name)
    assert told == ["output_projection = tgt_embedding.weight = src_embedding.weight"]
    assert frozen_names(model) == {"output_projection"}


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("decodr.*", r"'decodr\.\*'; .*'decoder\.\*'"),
        ("encoder.*,encoder.2.*", r"'encoder\.2\.\*'; .*'encoder\."),
        ("src_embedding", r"'src_embedding'; .*'src_embedding\.\*'"),
        ("encoder.*,", r"''; .*decoder\.\*, decoder\.0\.\*, encoder\.\*, encoder\.0\.\*"),
        ("*", r"freeze: '\*' "),
    ],
)
def test_empty_patterns_are_refused(model: TranslationModel, patterns: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        freeze(model, patterns)
    assert frozen_names(model) == set()


@pytest.mark.parametrize(
    "values", [{"precision": "bf16", "clip_norm": 1.0}, {"ema_decay": 0.9}], ids=["bf16", "average"]
)
def test_frozen_parameters_stay_while_others_move(toy: Toy, values: dict[str, Value]) -> None:
    run = toy.train(freeze="encoder.*", max_updates=9, **values)
    torch.manual_seed(recipe().training.seed)
    start = dict(ModelReader(run / "last.safetensors").card.build().named_parameters())
    end = weights(run / "last.safetensors")
    same = {name for name in end if torch.equal(end[name], start[name])}
    assert same == {name for name in end if name.startswith("encoder.")}


def test_a_run_says_what_is_frozen_and_keeps_no_state_of_it(toy: Toy) -> None:
    run = toy.train(freeze="src_embedding.*,encoder.*", max_updates=1)
    held = weights(run / "last.safetensors")
    frozen = sum(w.numel() for n, w in held.items() if n.startswith(("output_p", "encoder.")))
    every = sum(weight.numel() for weight in held.values())
    assert (f" {frozen:,} of {every:,} parameters are frozen: output_projection =") in (
        run / "train.log"
    ).read_text()
    vectors = newest_state(run)[1]
    assert len(vectors["adam_mean"]) == every - frozen
    assert len(vectors["weights"]) == every


@pytest.mark.parametrize(("several", "are_few"), [(0, True), (5, True), (10, False), (40, False)])
def test_the_card_says_how_long_lines_of_several_sentences_may_be(
    tmp_path: Path, several: int, are_few: bool
) -> None:
    more = [" A dog hears."] * several + [""] * (40 - several)
    lines = [f"The cat sees {number}.{other}" for number, other in enumerate(more)]
    train = write_text(tmp_path, "train", [(line, line.upper()) for line in lines])
    folder = job_of(tmp_path, train).prepare()
    whole = card_of(recipe(), folder).whole_src_tokens
    longest = max(len(folder.train.src(number)) for number in range(40))
    assert whole == (1 if are_few else longest)


def test_the_card_says_whether_sources_had_terms(data: Path) -> None:
    folder = DataFolder.open(data)
    assert not card_of(recipe(), folder).reads_annotations
    info = replace(
        folder.info, settings={**folder.info.settings, "annotations": "auto, simplemma 2.0.0"}
    )
    assert card_of(recipe(), replace(folder, info=info)).reads_annotations

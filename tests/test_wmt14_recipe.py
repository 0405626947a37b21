"""WMT14's recipes: they ask for what the paper says, and run from end to end without the internet.

A rehearsal's archives are made of other text, laid out as WMT14's own.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.config import resolve_recipe
from nmt.data.manifest import read_info
from nmt.models.presets import find_preset, preset_values

ROOT = Path(__file__).parents[1]
WMT14 = ROOT / "examples" / "wmt14"
sys.path.insert(0, str(WMT14))

from catalogue import read_catalogue  # noqa: E402
from extract import count_lines  # noqa: E402
from wmt14_mirror import make_mirror  # noqa: E402

MODELS = ("en-de-base", "en-de-big", "en-fr-base", "en-fr-big")
# Nothing is asked of the machine.
MACHINE = [f"PYTHON={sys.executable}", "PROCESSES=1", "PRECISION=fp32"]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str) -> list[str | Path]:
    return ["make", "-C", WMT14, "--no-print-directory", *arguments]


def run(*arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        make(*arguments), capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def would_run(*arguments: str) -> str:
    """Return all commands that make would run where nothing is there yet, one a line."""
    commands = run("-n", "WORK=nowhere", *arguments).replace("\\\n", " ")
    return re.sub(" +", " ", commands)


def command(commands: str, name: str) -> str:
    """Return the command of `nmt` that has a name."""
    found = re.search(rf"(?:-m nmt|\$start) {name} [^\n]*", commands)
    assert found, commands
    return found[0]


# What the recipes ask for


@pytest.mark.parametrize(
    ("model", "preset", "pieces", "updates", "save_every", "checkpoints", "dropout"),
    [  # The paper, sections 5.1 to 6.1 and Table 3
        ("en-de-base", "transformer_base", 37_000, 100_000, 1_500, 5, 0.1),
        ("en-de-big", "transformer_big", 37_000, 300_000, 600, 20, 0.3),
        ("en-fr-base", "transformer_base", 32_000, 100_000, 1_500, 5, 0.1),
        ("en-fr-big", "transformer_big_en_fr", 32_000, 300_000, 600, 20, 0.1),
    ],
)
def test_a_recipe_asks_for_what_the_paper_says(
    model: str,
    preset: str,
    pieces: int,
    updates: int,
    save_every: int,
    checkpoints: int,
    dropout: float,
) -> None:
    commands = would_run("score", f"MODEL={model}", *MACHINE)
    prepare = command(commands, "prepare")
    assert f"--vocab-size {pieces} " in f"{prepare} "
    train = command(commands, "train")
    assert f"--max-updates {updates} " in train
    assert f"--last {checkpoints} " in command(commands, "average")
    search = "--beam-size 4 --length-penalty 0.6 --max-extra-tokens 50"
    assert search in command(commands, "translate")

    assert f"--model {preset} " in train
    architecture = find_preset(preset).architecture
    recipe = resolve_recipe(preset, architecture, [(preset, preset_values(preset))])
    training = recipe.training
    assert (training.max_updates, training.save_every) == (updates, save_every)
    assert training.keep_last == checkpoints
    assert training.batch_tokens == 25_000
    assert training.label_smoothing == 0.1
    assert recipe.model.dropout == dropout


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_a_recipe_takes_every_text_of_the_catalogue(pair: str) -> None:
    commands = would_run("prepare", f"MODEL={pair}-base", *MACHINE)
    texts = read_catalogue(WMT14 / "wmt14.toml").texts[pair]
    prepare = command(commands, "prepare")
    used = re.findall(r"--(train|valid|test) \S*/(\S+)", prepare)
    splits = {"newstest2013": "valid", "newstest2014": "test"}
    assert sorted(used) == sorted((splits.get(name, "train"), name) for name in texts)
    for text in texts.values():
        fetch = commands.index(f"download.py {text.archive} ")
        assert fetch < commands.index(f"extract.py {text.name} ") < commands.index(prepare)


def test_all_gpus_train_under_torchrun_and_one_process_without_it() -> None:
    commands = would_run("train", f"PYTHON={sys.executable}", "PROCESSES=8", "PRECISION=bf16")
    assert "torch.distributed.run --standalone --nproc-per-node" in commands
    assert "--precision bf16" in command(commands, "train")
    for processes, torchrun in ((8, True), (1, False)):
        line = next(line for line in commands.splitlines() if "processes=8" in line)
        shell = line.replace("processes=8", f"processes={processes}").partition("$start train")[0]
        started = subprocess.run(
            ["sh", "-c", f'{shell} echo "$start"'], capture_output=True, text=True, check=True
        ).stdout
        assert ("torch.distributed.run" in started) == torchrun
        assert ("--nproc-per-node 8 -m nmt" in started) == torchrun


def test_a_score_has_its_name_when_it_is_complete() -> None:
    commands = would_run("score", *MACHINE)
    score = "nowhere/en-de-base/newstest2014.score"
    assert f" > {score}.partial\nmv {score}.partial {score}\n" in commands


def test_a_dry_run_is_of_the_same_training() -> None:
    train = command(would_run("train", *MACHINE), "train").partition(" ||")[0]
    assert f"{train.strip()} --dry-run" in would_run("dry-run", *MACHINE)


def needs(work: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        make("needs", f"WORK={work}", *MACHINE, *arguments),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ("PROCESSES=999", "GPUs, and 999 must be there: look at nvidia-smi"),
        ("DISK=1000000000", "make room"),
    ],
)
def test_what_is_missing_ends_a_recipe_unless_it_is_forced(
    lacking: str, said: str, tmp_path: Path
) -> None:
    enough = ["PROCESSES=0", "DISK=0"]  # GPUs
    done = needs(tmp_path, *enough)
    assert done.returncode == 0, done.stderr
    assert "memory in bf16: weights" in done.stdout
    assert "en-de-base writes 0 GB; 0 GB are there" in done.stdout
    done = needs(tmp_path, *enough, lacking)
    assert done.returncode != 0
    assert said in done.stderr
    assert needs(tmp_path, *enough, lacking, "FORCE=1").returncode == 0


def test_the_disk_is_not_looked_at_when_all_text_is_prepared(tmp_path: Path) -> None:
    (tmp_path / "data-en-de").mkdir()
    (tmp_path / "data-en-de" / "dataset.json").touch()
    assert needs(tmp_path, "PROCESSES=0", "DISK=1000000000").returncode == 0


def test_an_interpreter_without_nmt_is_named(tmp_path: Path) -> None:
    python = f"{sys.executable} -IS"  # without site-packages
    done = needs(tmp_path, f"PYTHON={python}", "DISK=0")
    assert done.returncode != 0
    assert "No module named nmt" in done.stderr


@pytest.mark.parametrize("wrong", ["WORK=my work", "WORK=", "WORK=work ", "MIRROR=my mirror"])
def test_a_path_that_make_would_take_for_two_is_refused(wrong: str) -> None:
    done = subprocess.run(make("-n", "clean", wrong), capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "must be a path without blanks" in done.stderr


def test_cleaning_leaves_what_no_recipe_has_made(tmp_path: Path) -> None:
    for name in ("downloads", "text-en-fr", "data-en-de", "en-de-base", "mine"):
        (tmp_path / name).mkdir()
    (tmp_path / "data-en-de" / "dataset.json").touch()
    run("clean", f"WORK={tmp_path}")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_unknown_model_is_refused_with_those_there_are() -> None:
    done = subprocess.run(
        make("train", "MODEL=en-es-base"), capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"MODEL=en-es-base is none of {' '.join(MODELS)}" in done.stderr


# The rehearsal


@pytest.fixture(scope="module")
def mirror(real_text: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wmt14") / "mirror"
    make_mirror(read_catalogue(WMT14 / "wmt14.toml"), real_text("wmt-news").parent, folder)
    return folder


def rehearsal(mirror: Path, work: Path) -> list[str]:
    """Return what a recipe is given to go through all stages with a tiny model on little text."""
    tiny = "--batch-tokens 300"
    for value in ("save_every=2", "validate_every=6", "sample_translations=0", "threads=1"):
        tiny += f" --set {value}"
    return [
        *(f"MIRROR={mirror}", f"CATALOGUE={mirror}/wmt14.toml", f"WORK={work}", "FORCE=1"),
        *("PRESET=transformer_tiny", "VOCAB=1000", "UPDATES=6", "AVERAGE=2"),
        *(f"TRAIN_OPTIONS={tiny}", *MACHINE),
    ]


def times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_mirror_is_laid_out_as_the_archives_are(mirror: Path) -> None:
    real, own = (read_catalogue(folder / "wmt14.toml") for folder in (WMT14, mirror))
    assert own.archives.keys() == real.archives.keys()
    for name, archive in real.archives.items():
        assert own.archive(name).checksums.keys() == archive.checksums.keys()
        assert not own.archive(name).addresses
        with tarfile.open(mirror / name) as tar:
            names = set(tar.getnames())
        expected = {
            member
            for texts in real.texts.values()
            for text in texts.values()
            if text.archive == name
            for member in text.members.values()
        }
        assert expected <= names
    for pair, texts in real.texts.items():
        assert {name: text.members for name, text in own.texts[pair].items()} == {
            name: text.members for name, text in texts.items()
        }


def test_french_has_two_more_corpora_of_which_one_stays_compressed(
    mirror: Path, tmp_path: Path
) -> None:
    run("extract", "MODEL=en-fr-big", *rehearsal(mirror, tmp_path))
    text = tmp_path / "text-en-fr"
    sides = {path.name for path in text.iterdir() if path.suffix != ".lines"}
    plain = ("europarl-v7", "commoncrawl", "news-commentary-v9", "un")
    news = ("newstest2013", "newstest2014")
    assert sides == {f"{name}.{side}" for name in (*plain, *news) for side in ("en", "fr")} | {
        "giga-fren.en.gz",
        "giga-fren.fr.gz",
    }
    for name in sides:
        assert count_lines(text / name) == (20 if name.startswith("newstest") else 300)
    # For these two archives no checksum is published, and the first download is what counts.
    for name in ("training-giga-fren.tar", "training-parallel-un.tgz"):
        assert (tmp_path / "downloads" / f"{name}.sha256").exists()


def interrupt(*arguments: str, sign: Path) -> None:
    """Start make, and stop it with all its processes when a file is there."""
    process = subprocess.Popen(
        make(*arguments),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    while process.poll() is None and not sign.exists():
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait() != 0


def test_a_recipe_goes_from_archives_to_a_score_and_on_where_it_was_stopped(
    mirror: Path, tmp_path: Path
) -> None:
    work = tmp_path
    arguments = ["en-de-base", *rehearsal(mirror, work)]
    model, data = work / "en-de-base", work / "data-en-de"
    interrupt(*arguments, sign=model / "config.toml")
    before = times(work / "downloads") | times(work / "text-en-de") | times(data)
    assert data / "dataset.json" in before

    score = run(*arguments)
    assert before.items() <= times(work).items()
    info = read_info(data)
    assert [corpus.lines for corpus in info.train.corpora] == [300, 300, 300]
    assert (info.valid.pairs, info.tests[0].pairs) == (20, 20)
    assert info.vocabulary.sizes == (1000,)
    assert count_lines(model / "newstest2014.de") == 20
    assert re.search(r"^BLEU\t", score, flags=re.MULTILINE)
    assert (model / "newstest2014.score").read_text(encoding="utf-8") in score

    # All is there: only the score is shown again, also when an archive has come once more for
    # another recipe, and when what it was made of has gone.
    (work / "downloads" / "dev.tgz").touch()
    before = times(work)
    run(*arguments)
    assert times(work) == before
    further = run("-n", "score", *rehearsal(mirror, work), "UPDATES=8")
    assert "train" in further
    assert "prepare" not in further
    shutil.rmtree(work / "downloads")
    shutil.rmtree(work / "text-en-de")
    before = times(work)
    assert (model / "newstest2014.score").read_text(encoding="utf-8") in run(*arguments)
    assert times(work) == before


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_every_recipe_goes_from_archives_to_a_score(
    mirror: Path, model: str, tmp_path: Path
) -> None:
    assert "BLEU" in run(model, *rehearsal(mirror, tmp_path))


@pytest.mark.slow
def test_a_recipe_trains_with_two_processes(mirror: Path, tmp_path: Path) -> None:
    run("en-de-base", *rehearsal(mirror, tmp_path), "PROCESSES=2")
    started = (tmp_path / "en-de-base" / "metrics.jsonl").read_text(encoding="utf-8")
    assert '"ranks": 2' in started

"""What the WMT14 recipes say they need, and what they find missing."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from toy_training import recipe

from nmt.errors import NMTError
from nmt.training import dry_run

WMT14 = Path(__file__).parents[1] / "examples" / "wmt14"
sys.path.insert(0, str(WMT14))

import disk  # noqa: E402
import machine  # noqa: E402
import needs  # noqa: E402
import trial  # noqa: E402
from catalogue import read_catalogue  # noqa: E402
from machine import Gpu, Machine  # noqa: E402
from trial import Trial  # noqa: E402

H100 = Gpu("NVIDIA H100", 80_000_000_000, (9, 0))
ROOMY = Machine(
    torch="2.13.0",
    cuda="13.0",
    gpus=(H100, H100),
    free_disk=500_000_000_000,
    memory=100_000_000_000,
    open_files=65_536,
    shared_memory=50_000_000_000,
)
WORK = Path("work")


@pytest.fixture(scope="module")
def base() -> needs.Needs:
    return needs.needs_of("en-de-base", "bf16")


# What is needed


def test_operations_of_an_update_are_those_of_the_papers_model(base: needs.Needs) -> None:
    d, ff, layers, vocabulary, tokens, length = 512, 2048, 6, 37_000, 25_000, 25
    per_src = layers * (4 * d * d + 2 * d * ff) + layers * 2 * d * d  # keys, values of the decoder
    per_tgt = layers * (4 * d * d + 2 * d * d + 2 * d * ff) + vocabulary * d
    attention = 3 * layers * length * 2 * d  # three of them a layer: scores and weighted means
    forward = 2 * tokens * (per_src + per_tgt + attention)
    assert base.update_flops == 3 * forward


def test_disk_is_archives_text_data_and_all_that_a_run_leaves(base: needs.Needs) -> None:
    parameters = 63_045_632
    state, model = 3 * 4 * parameters, 4 * parameters
    # Three states; six checkpoints, three of the best, the best and the last; the averaged model.
    assert base.disk == {
        "archives": 1_696_003_559,
        "text": 1_358_410_408,
        "data folder": round(0.6 * 1_358_410_408 + 20 * 4_508_785),
        "checkpoints and training states": pytest.approx(3 * state + 12 * model, rel=0.005),
    }


def test_the_download_of_en_de_is_about_what_the_catalogues_archives_have() -> None:
    catalogue = read_catalogue(WMT14 / "wmt14.toml")
    names = {text.archive for text in catalogue.texts["en-de"].values()}
    sizes = [catalogue.archive(name).size for name in names]
    assert sizes.count(None) == 1  # test-full.tgz
    assert needs.TEXTS["en-de"].download == pytest.approx(sum(filter(None, sizes)), rel=0.001)


def test_each_gpu_holds_weights_gradient_and_adams_vectors(base: needs.Needs) -> None:
    # fp32: weights, gradient, two of Adam; bf16: weights and gradient.
    assert base.gpu_memory == (4 * 4 + 2 * 2) * 63_045_632
    assert needs.needs_of("en-de-base", "fp32").gpu_memory == 4 * 4 * 63_045_632


@pytest.mark.parametrize(
    ("name", "paper", "share"), [("en-de-base", 3.3e18, 0.29), ("en-de-big", 2.3e19, 0.42)]
)
def test_the_stated_utilisation_of_the_papers_runs_is_theirs(
    name: str, paper: float, share: float
) -> None:
    found = needs.needs_of(name, "bf16")
    counted = found.update_flops * found.recipe.training.max_updates
    assert counted / paper == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize("name", needs.RECIPES)
def test_every_recipe_states_disk_memory_and_hours(name: str) -> None:
    found = needs.needs_of(name, "bf16")
    stated = needs.statement(found)
    for word in (name, "disk", "memory", "hours", "A100 SXM", "nobody has measured them"):
        assert word in stated


def test_a_measured_update_gives_the_hours_of_the_run(base: needs.Needs) -> None:
    stated = needs.measured(base, Trial("NVIDIA H100", 0.036, "9,000.0 MB"))
    line = next(line for line in stated.splitlines() if "NVIDIA H100" in line)
    # 100,000 updates of 0.036 s are an hour.
    assert line.split()[-4:] == ["1.0", "0.5", "0.2", "0.1"]


# What is missing


def test_nothing_is_missing_on_a_roomy_machine(base: needs.Needs) -> None:
    assert needs.missing(base, ROOMY, WORK, 2) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cuda": None, "gpus": ()}, ["2.13.0 has no CUDA", "install"]),
        ({"gpus": (H100,)}, ["torch sees 1 GPUs, and 2 must be there", "nvidia-smi"]),
        ({"gpus": (Gpu("Tesla V100", 32 * 10**9, (7, 0)),) * 2}, ["Tesla V100", "PRECISION=fp16"]),
        ({"gpus": (Gpu("small", 10**9, (8, 6)),) * 2}, ["small has 1.0 GB", "1.3 GB"]),
        ({"free_disk": 5_000_000_000}, ["work: the disk has 5.0 GB free", "4.3 GB too little"]),
        ({"memory": 1_000_000_000}, ["1.0 GB of memory are free, and 1.4 GB"]),
        ({"open_files": 256}, ["256 files", "ulimit -n 1024"]),
        ({"shared_memory": 64 << 20}, ["/dev/shm has 0.1 GB", "--shm-size=1g"]),
    ],
)
def test_a_line_for_what_is_missing_says_what_to_do(
    base: needs.Needs, change: dict[str, object], words: list[str]
) -> None:
    found = needs.missing(base, dataclasses.replace(ROOMY, **change), WORK, 2)  # type: ignore[arg-type]
    assert len(found) == 1
    assert [word for word in words if word not in found[0]] == []


def test_what_the_work_folder_holds_already_is_not_asked_for_again(
    base: needs.Needs, tmp_path: Path
) -> None:
    full = dataclasses.replace(ROOMY, free_disk=sum(base.disk.values()) - 1000)
    assert "0.0 GB too little" in needs.missing(base, full, tmp_path, 1)[0]
    write(tmp_path / "en-de-base" / "last.safetensors", 1000)
    assert needs.missing(base, full, tmp_path, 1) == []


def test_one_gpu_needs_no_shared_memory_and_fp16_no_bf16() -> None:
    old = dataclasses.replace(ROOMY, gpus=(Gpu("Tesla V100", 32 * 10**9, (7, 0)),), shared_memory=0)
    assert needs.missing(needs.needs_of("en-de-base", "fp16"), old, WORK, 1) == []


# The machine


def test_the_machine_is_looked_at_before_the_work_folder_is_there(tmp_path: Path) -> None:
    found = Machine.here(tmp_path / "not" / "yet")
    assert found.free_disk > 0
    assert found.open_files > 0
    assert found.memory > 0


# The disk

NEEDED = {"archives": 16, "text": 8, "data folder": 4, "checkpoints and training states": 2}


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))


@pytest.mark.parametrize(
    ("there", "left"),
    [
        ("", 30),
        ("downloads/dev.tgz", 29),
        ("downloads/test-full.tgz.partial", 29),
        ("text-en-de/un.en", 29),
        ("data-en-de/train.bin", 29),
        ("data-en-de.partial/train.bin", 29),
        ("en-de-base/checkpoints/1.state", 29),
        ("data-en-de.complete", 2),  # archives and text may be removed
        # Other recipes'
        ("downloads/training-giga-fren.tar", 30),
        ("text-en-fr/un.en", 30),
        ("data-en-fr.complete", 30),
        ("en-de-big/last.safetensors", 30),
    ],
)
def test_what_is_left_to_write_is_what_this_recipe_has_not_written(
    tmp_path: Path, there: str, left: int
) -> None:
    if there:
        write(tmp_path / there, 1)
    assert disk.left_to_write("en-de-base", NEEDED, tmp_path) == left


def test_archives_are_not_needed_where_all_text_is_extracted(tmp_path: Path) -> None:
    *most, last = read_catalogue(WMT14 / "wmt14.toml").texts["en-de"]
    for text in most:
        write(tmp_path / "text-en-de" / f"{text}.lines", 0)
    assert disk.left_to_write("en-de-base", NEEDED, tmp_path) == 30
    write(tmp_path / "text-en-de" / f"{last}.lines", 0)
    assert disk.left_to_write("en-de-base", NEEDED, tmp_path) == 6


def test_more_of_one_part_does_not_make_up_for_another(tmp_path: Path) -> None:
    write(tmp_path / "text-en-de" / "europarl-v7.en", 30)
    assert disk.left_to_write("en-de-base", NEEDED, tmp_path) == 22


def test_a_file_of_two_names_takes_the_disk_once(tmp_path: Path) -> None:
    write(tmp_path / "folder" / "one", 1000)
    write(tmp_path / "two", 10)
    os.link(tmp_path / "folder" / "one", tmp_path / "folder" / "link")
    assert disk.used_bytes([tmp_path]) == 1010


def test_a_file_that_is_removed_meanwhile_takes_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "state", 10)
    monkeypatch.setattr(os, "walk", lambda _: [(str(tmp_path), [], ["state", "removed"])])
    assert disk.used_bytes([tmp_path]) == 10


# The command


def run(monkeypatch: pytest.MonkeyPatch, here: Machine, *arguments: str) -> int:
    monkeypatch.setattr(machine.Machine, "here", lambda _: here)
    return needs.main(["en-de-base", *arguments])


def test_what_is_missing_ends_the_recipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    poor = dataclasses.replace(ROOMY, cuda=None, gpus=(), open_files=256)
    assert run(monkeypatch, poor) == 1
    said = capsys.readouterr()
    assert said.out.startswith("en-de-base: transformer_base, 100,000 updates")
    lines = said.err.splitlines()
    assert [line.startswith("needs.py: missing: ") for line in lines] == [True, True]


def test_force_warns_and_goes_on_and_measures_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trial, "measure", lambda *_: pytest.fail("nothing is to be measured"))
    assert run(monkeypatch, dataclasses.replace(ROOMY, open_files=256), "--force") == 0
    assert capsys.readouterr().err.startswith("needs.py: warning: a process may open 256 files")


def test_a_machine_with_a_gpu_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(*_: object) -> Trial:
        print("a minute or two")
        return Trial("NVIDIA H100", 0.036, "9,000.0 MB")

    monkeypatch.setattr(trial, "measure", measure)
    assert run(monkeypatch, ROOMY, "--gpus", "2") == 0
    said = capsys.readouterr()
    stated, _, after = said.out.partition("a minute or two")
    assert "2 GPUs (NVIDIA H100)" in stated
    assert "0.036 s an update" in after
    assert said.err == ""


def test_a_trial_that_fails_is_something_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> Trial:
        raise NMTError("out of memory")

    monkeypatch.setattr(trial, "measure", fail)
    assert run(monkeypatch, ROOMY) == 1
    assert "does not train here: out of memory" in capsys.readouterr().err


def test_without_nmt_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "nmt" else find_spec(name)
    )
    (said,) = needs.not_installed()
    assert said.startswith("nmt is not installed")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_needs_by_an_interpreter_without_torch_says_so() -> None:
    done = subprocess.run(
        ["make", "-C", WMT14, "needs", f"PYTHON={sys.executable} -IS"],  # without site-packages
        capture_output=True,
        text=True,
        check=False,
    )
    first, second, ends = done.stderr.splitlines()
    assert first.startswith(f"needs.py: missing: torch is not installed for {sys.executable}")
    assert second.startswith("needs.py: missing: nmt is not installed")
    assert ends.endswith("Error 1")


# The trial


def test_made_up_text_has_as_many_lines_a_side_and_different_words(tmp_path: Path) -> None:
    words = trial.made_up_words(np.random.default_rng(1))
    assert len(set(words.tolist())) == len(words) == trial.WORDS
    trial.write_text(tmp_path / "text", 2_000)
    src, tgt = ((tmp_path / f"text.{lang}").read_text().splitlines() for lang in ("xx", "yy"))
    assert len(src) == len(tgt) == 2_000
    # The mean of a lognormal distribution is its median times exp(variance / 2).
    mean = np.mean([len(line.split()) for line in src])
    assert mean == pytest.approx(24 * np.exp(0.5**2 / 2), rel=0.05)


def test_an_update_is_measured_on_made_up_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "TRIAL_SECONDS", 0.1)
    found = trial.measure(recipe(batch_tokens=400), 600, pairs=200)
    assert found.device.startswith("CPU")
    assert 0 < found.seconds_an_update < 60
    assert found.memory.endswith(" MB")

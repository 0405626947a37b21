"""`nmt distill`: any teacher to a student, in steps that are done once."""

import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import Nmt
from listed import listed
from processes import LONG, wait_until, wait_until_gone
from toy_training import (
    TINY,
    assert_same_weights,
    config_of,
    content,
    environment,
    nmt_command,
    prepare_toy,
    run_command,
    status,
    train,
    validated_last,
)
from warm_python import warm_python

from nmt.cli import distill as command
from nmt.config.fields import Value
from nmt.interchange.programs import needs, opens_in
from nmt.models.model_file import find_model, read_card

UNFIT: dict[str, Value] = {"pre_norm": True, "norm": "rms"}
"""What only CTranslate2 can be."""
KEYS = listed("num_encoder_layers num_decoder_layers num_heads d_ff batch_tokens threads matmul")
SMALL: dict[str, Value] = {key: TINY[key] for key in KEYS}
SMALL |= {"d_model": 64, "validate_every": 20, "save_every": 20, "sample_translations": 0}
OPTIONS = ("--precision", "fp32", "--device", "cpu", "--min-chrf", "5", "--quiet")
WORDS = [*OPTIONS, *(f"--set={key}={one}" for key, one in SMALL.items())]


LANGS = ("--from", "en", "--to", "de")
WAYS = {
    "model": ["{teacher}/best.safetensors", "--choose", "agreement", "--keep", "2"],
    "export": ["{folder}/export", "--test", "{text}/valid", "--vocab-size", "300"],
    "command": ["--teacher-command", "sed 's/one/eins/g; s/two/zwei/g; s/three/drei/g'", *LANGS],
    "file": ["--translations", "{folder}/n-best", "--score-command", "awk '{{print NF}}'", *LANGS],
}
"""Teachers without a data folder, and ways to choose."""


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    return train(
        prepare_toy(folder), folder / "run", **UNFIT, validate_metric="bleu", max_updates=60
    )


@pytest.fixture(autouse=True)
def _commands_start_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_EXEC", warm_python())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def student(teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command makes if nobody stops it."""
    out = tmp_path_factory.mktemp("student") / "student"
    done = run_command(nmt_command("distill", teacher, "--out", out, *WORDS))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return out


def test_a_student_is_portable(nmt: Nmt, teacher: Path, student: Path, tmp_path: Path) -> None:
    assert (status(student)["status"], status(student)["update"]) == ("finished", 60)
    assert config_of(student)["run"]["preset"] == "transformer_portable_few"
    card = read_card(find_model(student))
    assert not any(needs(card.config).values())
    assert opens_in(read_card(find_model(teacher)).config) == "CTranslate2, Argos"
    assert card.src_vocabulary.model == read_card(find_model(teacher)).src_vocabulary.model
    assert nmt("export", "bergamot", student, tmp_path / "firefox", "--quiet").status == 0


def test_what_is_done_is_not_done_again(nmt: Nmt, teacher: Path, student: Path) -> None:
    before = content(student)
    words = [word for word in WORDS if word != "--quiet"]
    (line,) = nmt("distill", teacher, "--out", student, *words).stderr.splitlines()
    scores = [read_card(find_model(run)).valid["bleu"] for run in (student, teacher)]
    assert re.findall(r"\d+\.\d\d", line) == [f"{score:.2f}" for score in scores]
    assert content(student) == before


def test_it_goes_on_where_it_was_stopped_and_is_tuned_if_asked(
    nmt: Nmt, teacher: Path, student: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, work = tmp_path / "student", tmp_path / "student" / "distill"
    words: list[str | Path] = ["distill", teacher, "--out", out, *WORDS, "--tune"]

    def stop_before_prepare(given: list[object]) -> int:
        if given[0] == "prepare":
            raise KeyboardInterrupt
        return run_nmt(given)

    run_nmt = command._run_nmt
    with monkeypatch.context() as patch:
        patch.setattr(command, "_run_nmt", stop_before_prepare)
        assert nmt(*words).status == 75
    lists = (work / "lists").stat().st_mtime_ns

    options: Any = {"stderr": subprocess.PIPE, "text": True, "env": environment()}
    process = subprocess.Popen(nmt_command(*words), **options)
    wait_until(lambda: validated_last(work / "student") >= 20, "update 20")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=LONG)
    assert (process.returncode, status(work / "student")["status"]) == (75, "stopped"), said
    assert not (out / "config.toml").exists()

    assert nmt(*words).status == 0
    assert (work / "lists").stat().st_mtime_ns == lists
    assert_same_weights(work / "student", student)
    before, after = (config_of(run)["training"] for run in (work / "student", out))
    assert (before["max_updates"], after["max_updates"]) == (60, 6)
    assert before["learning_rate"] > after["learning_rate"]
    assert config_of(out)["run"]["init_from"] == str(work / "student")


def test_a_dry_run_only_shows_commands(nmt: Nmt, teacher: Path, tmp_path: Path) -> None:
    words = ("--init-from", teacher, "--ensemble", teacher, "--dry-run")
    for tune, following in (((), []), (("--tune",), ["prepare", "train"])):
        answer = nmt("distill", teacher, "--out", tmp_path / "out", *WORDS, *words, *tune)
        shown = [line.split(maxsplit=2) for line in answer.stdout.splitlines() if line[0] != "#"]
        commands = [command for _, command, _ in shown]
        assert sorted(commands) == sorted(["translate", "prepare", "train", *following])
        assert f"--init-from {teacher}" in shown[commands.index("train")][2]
    assert not list(tmp_path.iterdir())


def test_separate_vocabularies_stay_separate(nmt: Nmt, tmp_path: Path) -> None:
    data = prepare_toy(tmp_path, separate_vocab=True)
    teacher = train(data, tmp_path / "run", tie_embeddings="decoder", max_updates=2)
    shown = nmt("distill", teacher, "--out", tmp_path / "out", *WORDS, "--dry-run").stdout
    assert shown.count("--set tie_embeddings=decoder") == 1


def test_data_that_has_moved_is_named(nmt: Nmt, teacher: Path, tmp_path: Path) -> None:
    run, data = shutil.copytree(teacher, tmp_path / "run"), teacher.parent / "data"
    config = run / "config.toml"
    config.write_text(config.read_text().replace(str(data), str(tmp_path / "gone")))
    words: list[str | Path] = ["distill", run, "--out", tmp_path / "out", *WORDS]
    assert f"{tmp_path / 'gone'}: " in (line := nmt(*words).refusal(2))
    assert "--data" in line
    assert nmt(*words, "--data", data, "--dry-run").status == 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--set", "label_smoothing=0.2"), "label_smoothing"),
        (("--max-updates", "61"), "max_updates"),
        (("--keep", "3"), "--keep"),
        (("--tune",), "--tune"),
        (("--ensemble", "{}"), "teacher"),
    ],
)
def test_another_student_is_refused(
    nmt: Nmt, teacher: Path, student: Path, words: tuple[str, ...], named: str
) -> None:
    before = content(student)
    given = [word.format(teacher) for word in words]
    line = nmt("distill", teacher, "--out", student, *WORDS, *given).refusal(2)
    assert str(student) in line
    assert named in line
    assert content(student) == before


def test_a_folder_of_something_else_is_refused(nmt: Nmt, teacher: Path, tmp_path: Path) -> None:
    assert "--out" in nmt("distill", teacher, "--out", teacher, *WORDS).refusal(2)
    (tmp_path / "notes").touch()
    assert str(tmp_path) in nmt("distill", teacher, "--out", tmp_path, *WORDS).refusal(2)


def test_wrong_values_are_refused_before_any_work(nmt: Nmt, teacher: Path, tmp_path: Path) -> None:
    words: list[str | Path] = ["distill", teacher, "--out", tmp_path / "out", *WORDS]
    assert "d_modell" in nmt(*words, "--set", "d_modell=3").refusal(2)
    assert "max_updates" in nmt(*words, "--max-updates", "3", "--set", "max_updates=4").refusal(2)
    assert "--keep" in nmt(*words, "--keep", "0").refusal(2)
    assert "--processes" in nmt(*words, "--processes", "two").refusal(2)
    assert "max_positions" in nmt(
        *words, "--set", "positions=learned", "--set", "max_positions=9"
    ).refusal(2)
    assert not (tmp_path / "out").exists()


def test_torchrun_is_told_of_processes(
    nmt: Nmt, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    answer = nmt("distill", teacher, "--out", tmp_path / "out")
    assert (answer.status, "--processes" in answer.stderr) == (2, True)


def words_of(way: str, teacher: Path, folder: Path) -> list[str | Path]:
    """The command line of a way to teach, with the files that it needs."""
    text = teacher.parent
    if way == "export":
        pytest.importorskip("ctranslate2")
        done = run_command(nmt_command("export", "ctranslate2", teacher, folder / "export"))
        assert done.returncode == 0, done.stderr
    both = [
        f"{n} ||| {line} ||| F0= -1 ||| -1\n{n} ||| {line} ja ||| F0= -2 ||| -2"
        for n, line in enumerate((text / "train.de").read_text().splitlines())
    ]
    (folder / "n-best").write_text("".join(f"{entry}\n" for entry in both))
    given = [word.format(teacher=teacher, folder=folder, text=text) for word in WAYS[way]]
    options = [word for word in WORDS if word not in ("--quiet", "--min-chrf", "5")]
    return ["distill", *given, "--source", text / "train.en", *options, "--max-updates", "40"]


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_teach_has_its_steps(nmt: Nmt, teacher: Path, tmp_path: Path, way: str) -> None:
    words = words_of(way, teacher, tmp_path)
    shown = nmt(*words, "--out", tmp_path / "out", "--dry-run").succeeded().stdout
    expected = {"model": ["export", "translate"], "export": ["translate"]}.get(way, [])
    assert re.findall("^nmt (\\w+)", shown, re.MULTILINE) == [*expected, "prepare", "train"]
    assert ("--vocab-size 300" in shown, "--vocab " in shown) == (way == "export", way == "model")


def test_what_a_command_has_started_ends_with_us(teacher: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    asked = ("--teacher-command", f"sleep 1000 & echo $! > {pid}; wait; cat", *LANGS)
    words = ("distill", *asked, "--source", teacher.parent / "train.en", "--out", tmp_path / "out")
    options: Any = {"stderr": subprocess.PIPE, "text": True, "env": environment()}
    process = subprocess.Popen(nmt_command(*words), **options)
    wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"), "the command's process")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=LONG)
    assert process.returncode == 75, said
    wait_until_gone([int(pid.read_text())])


def _is_at(file: Path, number: int) -> bool:
    """Whether what was said shows this step, or a later one if this was done before the kill."""
    return any(int(step) >= number for step in re.findall(r"step (\d+) of", file.read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_student_is_the_same_however_killed(teacher: Path, tmp_path: Path, way: str) -> None:
    out, whole, said = tmp_path / "student", tmp_path / "whole", tmp_path / "said"
    words = [*words_of(way, teacher, tmp_path), "--out", out]
    done = run_command(nmt_command(*words))
    assert done.returncode == 0, done.stderr
    out.rename(whole)
    steps = re.findall(r"step \d+ of \d+", done.stderr)
    assert len(steps) == (5 if way == "file" else 4)
    # Children of a warm Python are not in its session.
    alone: Any = {"env": environment() | {"PYTHON_EXEC": sys.executable}, "start_new_session": True}
    for number, step in enumerate(steps, start=1):
        with said.open("w") as stderr:
            command = [sys.executable, "-m", "nmt", *map(str, words)]
            process = subprocess.Popen(command, stderr=stderr, **alone)
            wait_until(partial(_is_at, said, number), step)
            if step == steps[-1]:
                wait_until(lambda: validated_last(out) >= 20, "update 20")
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    done = run_command(nmt_command(*words))
    assert done.returncode == 0, done.stderr
    assert re.findall(r"step \d+ of \d+", done.stderr) == steps[-1:]
    before, after = content(whole), content(out)
    for name in before:
        if name == "best.safetensors" or re.match(r"distill/(data/)?[^./]+(\.\w+)?$", name):
            assert after[name] == before[name], name

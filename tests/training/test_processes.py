"""How many processes train, and why; that they are one run, and end as one process does."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from benchmarks.harness import process_tree
from processes import LONG, listening, wait_until, wait_until_gone
from toy_training import (
    Toy,
    assert_same_state,
    assert_same_weights,
    config_of,
    environment,
    log_of,
    metrics,
    newest_state,
    nmt,
    nmt_command,
    recipe,
    status,
)

from nmt.errors import UsageError
from nmt.runs.run_folder import RunFolder
from nmt.training import setup
from nmt.training.setup import choose_processes

TWO = ("--processes", "2")
SLOW = pytest.mark.slow


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend to be another machine."""

    def pretend(*, cores: int = 1, gpus: int = 0, gigabytes: float = 1_000.0) -> None:
        monkeypatch.setattr(setup, "default_threads", lambda: cores)
        monkeypatch.setattr(setup, "available_bytes", lambda: int(gigabytes * 1e9))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)

    return pretend


@pytest.mark.parametrize(
    ("cores", "batch_tokens", "gigabytes", "expected", "reason"),
    [
        (1, 4_000, 100, 1, "one process a core"),
        (2, 4_000, 100, 2, "one process a core"),
        (4, 1_600, 100, 2, "500 tokens"),  # three would leave a core idle
        (6, 1_600, 100, 3, "500 tokens"),
        (2, 200, 100, 1, "500 tokens"),
        (64, 25_000, 100, 8, "more than 8"),
        (8, 4_000, 2.5, 4, "memory"),
        (8, 4_000, 0.1, 1, "memory"),
    ],
)
def test_on_cpus_each_process_has_work_and_memory(
    toy: Toy,
    machine: Callable[..., None],
    cores: int,
    batch_tokens: int,
    gigabytes: float,
    expected: int,
    reason: str,
) -> None:
    machine(cores=cores, gigabytes=gigabytes)
    asked = recipe(batch_tokens=batch_tokens, threads=0)
    count, why = choose_processes(None, asked, toy.data, None)
    assert count == expected
    assert reason in why


def test_gpus_have_one_process_each_and_threads_that_are_given_have_one(
    toy: Toy, machine: Callable[..., None]
) -> None:
    machine(cores=64, gpus=8)
    both = {"batch_tokens": 25_000}
    answers = [
        choose_processes(None, recipe(device=device, threads=threads, **both), toy.data, None)[0]
        for device, threads in (("auto", 0), ("cuda", 2), ("cpu", 0), ("cpu", 2))
    ]
    assert answers == [8, 8, 8, 1]
    assert choose_processes(3, recipe(device="auto"), toy.data, None) == (3, "as asked")
    with pytest.raises(UsageError, match=r"--processes 9: .* at most 8, one a GPU"):
        choose_processes(9, recipe(device="auto"), toy.data, None)
    machine(cores=1)
    assert choose_processes(8, recipe(), toy.data, None)[0] == 8  # as on a larger machine
    with pytest.raises(UsageError, match="--processes 9999"):
        choose_processes(9999, recipe(), toy.data, None)


def test_a_run_keeps_its_number(toy: Toy, machine: Callable[..., None]) -> None:
    run = RunFolder(toy.train(max_updates=1))
    machine(cores=2)
    large = recipe(batch_tokens=4_000, threads=0)
    assert choose_processes(None, large, toy.data, run) == (1, "as before")
    assert choose_processes(None, large, toy.data, None)[0] == 2
    machine(gpus=2)
    run.config.write_text(run.config.read_text().replace("ranks = 1\n", "ranks = 3\n"))
    on_gpus = recipe(batch_tokens=4_000, device="auto")
    assert choose_processes(None, on_gpus, toy.data, run) == (2, "one process a GPU")


def test_one_process_is_this_one_and_another_number_than_torchrun_s_is_refused(toy: Toy) -> None:
    done = nmt(*toy.words("run", "--processes", "1"))
    assert done.returncode == 0, done.stderr
    run = toy.folder / "run"
    assert_same_weights(run, toy.undisturbed())
    assert_same_state(run, toy.undisturbed())
    assert "x 1 thread (as asked)" in log_of(run)
    refused = nmt(*toy.words("other", "--processes", "3"), ranks=2)
    assert refused.returncode == 1
    assert len(re.findall("error: --processes 3, but torchrun", refused.stderr)) == 2


def test_it_starts_what_torchrun_would_and_names_another_number(toy: Toy) -> None:
    run = toy.folder / "run"
    done = nmt(*toy.words("run", *TWO))
    assert done.returncode == 0, done.stderr
    toy.train_with(2, "by torchrun")
    assert_same_weights(run, toy.folder / "by torchrun")
    assert_same_state(run, toy.folder / "by torchrun")
    found = config_of(run)["run"]
    assert found["ranks"] == 2
    assert found["command"].startswith("nmt train ")
    assert found["command"].endswith(" --processes 2")
    assert config_of(toy.folder / "by torchrun")["run"]["command"].endswith(" --processes 2")
    assert " 2 x 1 thread (as asked), " in log_of(run)
    assert all(line.startswith("nmt: ") for line in done.stderr.splitlines())
    again = nmt("train", str(toy.data), "--out", str(run))
    assert again.returncode == 0, again.stderr
    assert "is finished" in again.stderr
    longer = nmt(*toy.words("run", max_updates=31), "--processes", "1")
    assert longer.returncode == 0, longer.stderr
    assert "processes were 2 and are now 1" in log_of(run)


def test_a_configuration_repeats_its_run_with_as_many_processes(toy: Toy) -> None:
    run, again = toy.folder / "run", toy.folder / "again"
    done = nmt(*toy.words("run", *TWO))
    assert done.returncode == 0, done.stderr
    repeated = nmt("train", str(toy.data), "--out", str(again), "--config", f"{run}/config.toml")
    assert repeated.returncode == 0, repeated.stderr
    assert_same_weights(run, again)
    assert_same_state(run, again)
    losses = [[record["loss"] for record in metrics(one, "train")] for one in (run, again)]
    assert losses[0] == losses[1]
    assert config_of(again)["training"] == config_of(run)["training"]


def test_what_all_refuse_is_said_once(toy: Toy) -> None:
    toy.train(max_updates=1)
    done = nmt(*toy.words("run", *TWO, dropout=0.5))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("nmt: error: ")
    assert "--init-from" in line
    assert "torchrun" not in line


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=SLOW)], ids=lambda one: one.name
)
def test_a_stop_is_as_of_one_process(toy: Toy, number: signal.Signals) -> None:
    run = toy.folder / "run"
    command = nmt_command(*toy.words("run", *TWO, max_updates=1_000_000, log_every=100))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as started:
        wait_until((run / "best.safetensors").exists, "a checkpoint")
        started.send_signal(number)
        said = started.communicate(timeout=LONG)[1]
    assert started.returncode == 75, said
    assert len(re.findall("nmt: warning: stopped at update", said)) == 1
    assert all(line.startswith("nmt: ") for line in said.splitlines())
    found = status(run)
    assert (found["status"], found["reason"]) == ("stopped", number.name)
    assert newest_state(run)[0]["progress"]["update"] == found["update"]


@pytest.fixture
def cold(toy: Toy) -> Iterator[subprocess.Popen[bytes]]:
    """A long training of two processes, which are not those of a warm Python's server."""
    words = toy.words("run", *TWO, max_updates=1_000_000, log_every=100)
    variables = environment()
    del variables["PYTHON_EXEC"]
    with subprocess.Popen(
        [sys.executable, "-m", "nmt", *words], stderr=subprocess.DEVNULL, env=variables
    ) as started:
        yield started
        started.kill()


def test_nobody_elsewhere_can_reach_a_training(toy: Toy, cold: subprocess.Popen[bytes]) -> None:
    wait_until((toy.folder / "run/best.safetensors").exists, "a checkpoint")
    launcher, *ranks = process_tree(cold.pid)
    assert len(ranks) >= 2
    for process in (launcher, *ranks):
        addresses = list(listening(process))
        assert all(address.is_loopback for address in addresses), addresses
        if process == launcher:
            assert addresses  # where the processes meet


@SLOW
def test_no_process_is_left_when_the_first_dies(toy: Toy, cold: subprocess.Popen[bytes]) -> None:
    run = toy.folder / "run"
    wait_until((run / "best.safetensors").exists, "a checkpoint")
    ranks = process_tree(cold.pid)[1:]
    assert len(ranks) >= 2
    cold.kill()
    wait_until_gone(ranks)
    assert status(run)["status"] == "stopped"
    assert newest_state(run)[0]["progress"]["update"] == status(run)["update"]


@pytest.mark.parametrize(
    "reached",
    [
        pytest.param("python", id="as they start"),
        pytest.param("torch/lib", id="as they load torch", marks=SLOW),
        pytest.param("socket:", id="as they meet", marks=SLOW),
    ],
)
def test_none_is_left_if_the_first_dies_early(cold: subprocess.Popen[bytes], reached: str) -> None:
    def have_come_so_far() -> bool:
        ranks = process_tree(cold.pid)[1:]
        return len(ranks) == 2 and all(map(partial(has_open, what=reached), ranks))

    wait_until(have_come_so_far, f"processes with {reached}")
    cold.send_signal(signal.SIGSTOP)
    ranks = process_tree(cold.pid)[1:]
    cold.kill()
    wait_until_gone(ranks)


def has_open(process: int, what: str) -> bool:
    """Tell whether a process has mapped or opened a file of such a name."""
    try:
        opened = [str(link.readlink()) for link in Path(f"/proc/{process}/fd").iterdir()]
        return any(what in name for name in [*opened, Path(f"/proc/{process}/maps").read_text()])
    except FileNotFoundError:
        return False

"""`nmt train --verify-resume`: says that a run goes on bit for bit, and says when it does not."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from mishaps import stopped_after
from toy_training import FP32, content, metrics, nmt, recipe, settings_of, train

from nmt.errors import NMTError, UsageError
from nmt.training import meter, verify
from nmt.training.launch import launch
from nmt.training.meter import checksum
from nmt.training.trainer import Trainer
from nmt.training.update import UpdateRunner
from nmt.values import Value

# --- the checksum


def by_hand(vector: torch.Tensor) -> str:
    bits = vector.numpy().view("int32").tolist()
    return f"{sum((2 * i + 1) * b for i, b in enumerate(bits)) % 2**64:016x}"


@pytest.fixture
def vector() -> torch.Tensor:
    return torch.randn(1_000, generator=torch.Generator().manual_seed(1)) * 1e3


@pytest.mark.parametrize("chunk", [1, 7, 1_000, 1 << 22])
def test_the_checksum_is_its_formula_whatever_the_chunks(
    monkeypatch: pytest.MonkeyPatch, vector: torch.Tensor, chunk: int
) -> None:
    monkeypatch.setattr(meter, "_CHUNK", chunk)
    vector[3], vector[4] = float("nan"), -0.0
    assert checksum(vector) == by_hand(vector)


def test_the_checksum_notices_every_flipped_bit_and_a_swap(vector: torch.Tensor) -> None:
    before = checksum(vector)
    for index in (0, 1, 512, 999):
        for bit in range(32):  # the last is the sign, also of zero
            flipped = vector.clone()
            flipped.view(torch.int32)[index] ^= -(2**31) if bit == 31 else 1 << bit
            assert checksum(flipped) != before, (index, bit)
    for one, other in ((0, 1), (0, 999), (511, 512), (17, 273)):
        swapped = vector.clone()
        swapped[[one, other]] = vector[[other, one]]
        assert checksum(swapped) != before, (one, other)


# --- the command


@pytest.fixture(scope="module")
def stopped(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped at update 22: states of 16 and 22; records of 22, 20 and before."""
    with pytest.MonkeyPatch.context() as patch:
        return stopped_after(patch, 22, data, tmp_path_factory.mktemp("verify") / "run", **FP32)


@pytest.fixture
def copy(stopped: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(stopped, tmp_path / "run"))


def verify_run(data: Path, run: Path, **values: Value) -> None:
    launch(recipe(**values), data, run, verify_resume=True)


def notices(capsys: pytest.CaptureFixture[str], run: Path) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    return [line.removeprefix("nmt: ").removeprefix(f"{run}: ") for line in lines]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_run_is_verified_by_its_records_and_its_newest_state(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    precision: str,
) -> None:
    values: dict[str, Value] = {**FP32, "precision": precision}
    run = stopped_after(monkeypatch, 22, data, tmp_path / "run", **values)
    before = content(run)
    capsys.readouterr()
    verify_run(data, run, **values)
    assert notices(capsys, run) == [
        "update 20: equal bit for bit",
        "update 22: equal bit for bit",
        "update 22: the training state is equal bit for bit",
        "replayed from update 16 to 22, equal bit for bit",
    ]
    assert content(run) == before  # nothing was written


def test_a_killed_run_is_verified_from_its_newest_state(
    data: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(data, copy, **FP32)  # records of 25 and 30
    (copy / "checkpoints/update-00000030.state").unlink()
    capsys.readouterr()
    verify_run(data, copy, **FP32)
    assert notices(capsys, copy) == [
        "update 25: equal bit for bit",
        "update 30: equal bit for bit",
        "replayed from update 24 to 30, equal bit for bit",
    ]


def test_without_records_the_newest_state_is_what_there_is_to_compare(
    data: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "metrics.jsonl").unlink()
    verify_run(data, copy, **FP32)
    assert notices(capsys, copy)[0] == "update 22: the training state is equal bit for bit"


@pytest.mark.parametrize("name", ["checksum", "grad_norm", "loss"])
def test_a_record_that_differs_is_named(data: Path, tmp_path: Path, name: str) -> None:
    values: dict[str, Value] = {"log_every": 4, "max_updates": 28}  # a whole window behind 24
    run = train(data, tmp_path / "run", **values)
    records = metrics(run, "train")
    assert records[-1]["update"] == 28
    records[-1][name] = "0" * 16 if name == "checksum" else records[-1][name] + 1
    (run / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    first_found = f"update 28 is the first that differs: {name} was {records[-1][name]} and is "
    with pytest.raises(NMTError, match=re.escape(first_found)) as told:
        verify_run(data, run, **values)
    assert told.value.exit_status == 1
    assert "the reason may be" in str(told.value)


def test_arithmetic_that_differs_is_found(
    data: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed_dropout = UpdateRunner._seed_dropout

    def seed_otherwise(self: UpdateRunner, number: int, micro_batch: int) -> None:
        seed_dropout(self, number, micro_batch + (number == 19))

    monkeypatch.setattr(UpdateRunner, "_seed_dropout", seed_otherwise)
    with pytest.raises(NMTError, match="update 20 is the first that differs: checksum was"):
        verify_run(data, stopped, **FP32)


def test_a_state_that_differs_is_found_though_its_weights_are_equal(
    data: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = verify._replay

    def replay_and_drift(trainer: Trainer, update: int) -> None:
        replay(trainer, update)
        trainer.optimizer.vectors()["adam_mean_square"][7] += 1e-3

    monkeypatch.setattr(verify, "_replay", replay_and_drift)
    (copy / "metrics.jsonl").unlink()
    with pytest.raises(NMTError, match=r"update 22 .* the training state's adam_mean_square"):
        verify_run(data, copy, **FP32)


def test_another_torch_is_named_as_the_reason(data: Path, copy: Path) -> None:
    lines = (copy / "metrics.jsonl").read_text()
    lines = re.sub(r'"torch": "[^"]*"', '"torch": "1.0"', lines)
    (copy / "metrics.jsonl").write_text(lines)
    verify_run(data, copy, **FP32)  # equal all the same
    (copy / "metrics.jsonl").write_text(re.sub(r'"checksum": "\w+"', '"checksum": "0"', lines))
    with pytest.raises(NMTError, match=rf"\(torch was 1.0 and is {re.escape(torch.__version__)}\)"):
        verify_run(data, copy, **FP32)


def test_a_damaged_state_is_passed_over(
    data: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = copy / "checkpoints/update-00000022.state"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    verify_run(data, copy, **FP32)
    told = notices(capsys, copy)
    assert "update-00000022.state: damaged" in told[0]
    assert told[-1] == "replayed from update 16 to 22, equal bit for bit"
    assert damaged.exists()


def test_where_there_is_nothing_to_compare_it_says_so(
    data: Path, tmp_path: Path, stopped: Path
) -> None:
    with pytest.raises(UsageError, match="not a run folder; train first"):
        verify_run(data, tmp_path / "none")
    assert not (tmp_path / "none").exists()
    run = train(data, tmp_path / "run", max_updates=3)
    (run / "checkpoints/update-00000000.state").unlink()
    with pytest.raises(NMTError, match="nothing to verify yet"):
        verify_run(data, run, max_updates=3)
    with pytest.raises(UsageError, match="seed was 1 and is now 2"):
        verify_run(data, stopped, **FP32 | {"seed": 2})


@pytest.mark.slow
def test_two_processes_verify_together(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command: list[str | Path] = ["train", data, "--out", run, *settings_of(**FP32)]
    assert nmt(*command, ranks=2).returncode == 0
    done = nmt(*command, "--verify-resume", ranks=2)
    assert done.returncode == 0, done.stderr
    assert f"nmt: {run}: replayed from update 24 to 30, equal bit for bit" in done.stderr
    alone = nmt(*command, "--verify-resume")
    assert alone.returncode == 1
    assert "(ranks was 2 and is 1)" in alone.stderr

"""`nmt train --verify-resume`: says that a run goes on bit for bit, and says when it does not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
import torch
from mishaps import save_states_every
from toy_training import FP32, Toy, content, metrics, nmt, recipe

from nmt.errors import NMTError, UsageError
from nmt.training import meter
from nmt.training import verify as module
from nmt.training.launch import launch
from nmt.training.meter import checksum
from nmt.training.trainer import Trainer
from nmt.training.update import UpdateRunner
from nmt.values import Value

# --- the checksum


def by_hand(vector: torch.Tensor) -> int:
    bits = vector.numpy().view("int32").tolist()
    return int(sum((2 * i + 1) * b for i, b in enumerate(bits)) % 2**64)


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
    slices = checksum(vector[:300]) + checksum(vector[300:], 300)
    assert slices % 2**64 == by_hand(vector)


# --- the command

Verify = Callable[..., list[str]]


@pytest.fixture
def verify(toy: Toy, capsys: pytest.CaptureFixture[str]) -> Verify:
    """Verify the test's run, which saves its state every 8 updates; return what is said of it."""
    save_states_every(toy.patch, 8)

    def verify(**values: Value) -> list[str]:
        run = toy.folder / "run"
        capsys.readouterr()
        launch(recipe(**values), toy.data, run, verify_resume=True)
        out, err = capsys.readouterr()
        assert out == ""
        return [line.removeprefix("nmt: ").removeprefix(f"{run}: ") for line in err.splitlines()]

    return verify


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_run_is_verified_by_its_records_and_its_newest_state(
    toy: Toy, verify: Verify, precision: str
) -> None:
    values: dict[str, Value] = {**FP32, "precision": precision}
    run = toy.stopped_after(22, **values)
    before = content(run)
    assert verify(**values) == [
        "update 20: equal bit for bit",
        "update 22: equal bit for bit",
        "update 22: the training state is equal bit for bit",
        "replayed from update 16 to 22, equal bit for bit",
    ]
    assert content(run) == before  # nothing was written


def test_a_killed_run_is_verified_from_its_newest_state(toy: Toy, verify: Verify) -> None:
    run = toy.train(**FP32)
    (run / "checkpoints/update-00000030.state").unlink()
    assert verify(**FP32) == [
        "update 25: equal bit for bit",
        "update 30: equal bit for bit",
        "replayed from update 24 to 30, equal bit for bit",
    ]


def test_a_damaged_state_is_passed_over(toy: Toy, verify: Verify) -> None:
    damaged = toy.stopped_after(22, **FP32) / "checkpoints/update-00000022.state"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    first, *_, last = verify(**FP32)
    assert "update-00000022.state: damaged" in first
    assert last == "replayed from update 16 to 22, equal bit for bit"
    assert damaged.exists()


@pytest.mark.parametrize("name", ["checksum", "grad_norm", "loss"])
def test_a_record_that_differs_is_named(toy: Toy, verify: Verify, name: str) -> None:
    values: dict[str, Value] = {"log_every": 4, "max_updates": 28}  # a whole window behind 24
    run = toy.train(**values)
    records = metrics(run, "train")
    assert records[-1]["update"] == 28
    records[-1][name] = "0" * 16 if name == "checksum" else records[-1][name] + 1
    (run / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    first_found = f"update 28 is the first that differs: {name} was {records[-1][name]} and is "
    with pytest.raises(NMTError, match=re.escape(first_found)) as told:
        verify(**values)
    assert told.value.exit_status == 1
    assert "the reason may be" in str(told.value)


def test_arithmetic_that_differs_is_found(toy: Toy, verify: Verify) -> None:
    seed_dropout = UpdateRunner._seed_dropout

    def seed_otherwise(self: UpdateRunner, number: int, micro_batch: int) -> None:
        seed_dropout(self, number, micro_batch + (number == 19))

    toy.stopped_after(22, **FP32)
    toy.patch.setattr(UpdateRunner, "_seed_dropout", seed_otherwise)
    with pytest.raises(NMTError, match="update 20 is the first that differs: checksum was"):
        verify(**FP32)


def test_without_records_the_newest_state_is_compared(toy: Toy, verify: Verify) -> None:
    replay = module._replay

    def replay_and_drift(trainer: Trainer, update: int) -> None:
        replay(trainer, update)
        trainer.optimizer.vectors()["adam_mean_square"].held[7] += 1e-3

    (toy.stopped_after(22, **FP32) / "metrics.jsonl").unlink()
    assert verify(**FP32)[0] == "update 22: the training state is equal bit for bit"
    toy.patch.setattr(module, "_replay", replay_and_drift)
    with pytest.raises(NMTError, match=r"update 22 .* the training state's adam_mean_square"):
        verify(**FP32)


def test_another_torch_is_named_as_the_reason(toy: Toy, verify: Verify) -> None:
    path = toy.stopped_after(22, **FP32) / "metrics.jsonl"
    lines = re.sub(r'"torch": "[^"]*"', '"torch": "1.0"', path.read_text())
    path.write_text(lines)
    verify(**FP32)  # equal all the same
    path.write_text(re.sub(r'"checksum": "\w+"', '"checksum": "0"', lines))
    with pytest.raises(NMTError, match=rf"\(torch was 1.0 and is {re.escape(torch.__version__)}\)"):
        verify(**FP32)


def test_where_there_is_nothing_to_compare_it_says_so(toy: Toy, verify: Verify) -> None:
    run = toy.folder / "run"
    with pytest.raises(UsageError, match="not a run folder; train first"):
        verify()
    assert not run.exists()
    toy.train(max_updates=3)
    (run / "checkpoints/update-00000000.state").unlink()
    with pytest.raises(NMTError, match="nothing to verify yet"):
        verify(max_updates=3)
    with pytest.raises(UsageError, match="seed was 1 and is now 2"):
        verify(seed=2)


@pytest.mark.slow
def test_two_processes_verify_together(toy: Toy) -> None:
    run = toy.folder / "run"
    toy.train_with(2, run, **FP32)
    said = toy.train_with(2, run, "--verify-resume", **FP32)
    assert f"nmt: {run}: replayed from update 0 to 30, equal bit for bit" in said
    alone = nmt(*toy.words(run, "--verify-resume", **FP32))
    assert alone.returncode == 1
    assert "(ranks was 2 and is 1)" in alone.stderr

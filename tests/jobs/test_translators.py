"""Several translators side by side, each in a process of its own."""

import os
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from calls import calls_of
from command_line import Stderr

from nmt.errors import WorkerDied
from nmt.jobs.lines import Line
from nmt.jobs.options import JobOptions
from nmt.jobs.parallel import Translators
from nmt.search.options import SearchOptions
from nmt.system.workers import Workers
from nmt.translate import load_model
from nmt.translate.load_model import load
from nmt.translate.options import TranslationConfig
from nmt.translate.output import Translation
from nmt.translate.translator import Translator

WORDS = ["the", "cat", "sees", "a", "dog", "and", "then", "a", "bird", "finds", "a", "house"]
LINES = [f"{' '.join(WORDS[: 1 + number % 9])} {number}" for number in range(80)]
VICTIM = LINES[45]


def translate(model_file: Path) -> list[Translation]:
    """Translate the lines by two workers, in pools of two shares."""
    search = SearchOptions(beam_size=2, max_extra_tokens=2)
    config = TranslationConfig(models=(model_file,), search=search)
    options = JobOptions(device="cpu", workers="2", threads=1)
    pools = [[Line(line) for line in LINES[first : first + 40]] for first in range(0, 80, 40)]
    with Translators.start(config, options) as translators:
        return [one for found in translators.translate(pools, lambda _: None) for one in found]


@pytest.mark.parametrize("deaths", [1, 2])
def test_lines_of_a_dead_worker_are_translated_again_with_half_the_batch(
    model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: Stderr, deaths: int
) -> None:
    undisturbed = translate(model_file)
    really_translate = Translator.translate
    batches = tmp_path / "batches"
    batches.touch()

    def die_sometimes(self: Translator, lines: Sequence[str], *args: Any, **kw: Any) -> Any:
        if VICTIM in lines:
            with batches.open("a") as file:
                file.write(f"{self.engine.batch_tokens}\n")
            if len(batches.read_text().split()) <= deaths:
                os.kill(os.getpid(), signal.SIGKILL)
        return really_translate(self, lines, *args, **kw)

    monkeypatch.setattr(Translator, "translate", die_sometimes)
    assert [one.text for one in translate(model_file)] == [one.text for one in undisturbed]
    assert batches.read_text().split() == ["1024", "512", "256"][: deaths + 1]
    assert stderr().count("warning: ") == deaths


def test_each_worker_has_its_gpu_also_after_one_has_died_as_it_took_it(
    model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = tmp_path / "gpus"
    deaths: list[None] = []  # a process that is forked later has them
    search = SearchOptions(beam_size=2, max_extra_tokens=2)
    config = TranslationConfig(models=(model_file,), search=search)

    def take(device: torch.device) -> None:
        if not deaths and device.index == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        while not deaths:
            signal.pause()  # or it might be done before the death is seen, and not start again
        with gpus.open("a") as file:
            file.write(f"{device} ")

    def load_on_cpu(config: TranslationConfig, *_: Any, **__: Any) -> Translator:
        return Translator(*load(config), config)

    monkeypatch.setattr("nmt.jobs.parallel.choose_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.set_device", take)
    monkeypatch.setattr("nmt.jobs.parallel._warn_of_death", lambda: deaths.append(None))
    monkeypatch.setattr("nmt.jobs.parallel._load_same", load_on_cpu)
    monkeypatch.setattr("nmt.jobs.parallel.Workers", partial(Workers, method="fork"))
    with Translators.start(config, JobOptions()) as translators:
        ((*found,),) = translators.translate([[Line(line) for line in LINES]], lambda _: None)
    assert len(found) == len(LINES)
    assert sorted(gpus.read_text().split()) == ["cuda:0", "cuda:1"]


def test_lines_that_kill_workers_end_it(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Translator, "translate", lambda *_, **__: os.kill(os.getpid(), 9))
    with pytest.raises(WorkerDied, match="--workers"):
        translate(model_file)


@pytest.mark.parametrize(
    ("limit", "threads", "expected"), [("1", None, 1), ("2", None, 2), ("", None, 3), ("1", 2, 2)]
)
def test_one_worker_has_the_threads_of_omp_num_threads(
    model_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    threads: int | None,
    expected: int,
) -> None:
    monkeypatch.setattr("nmt.system.machine.cores", lambda: 3)
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    config = TranslationConfig(models=(model_file,), search=SearchOptions())
    started = Translators.start(config, JobOptions(device="cpu", workers="1", threads=threads))
    with started.translator.engine.at_work():
        assert torch.get_num_threads() == expected


def test_the_parent_of_gpu_workers_loads_a_model_only_for_itself(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.jobs.parallel.choose_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("nmt.jobs.parallel.Workers", lambda *_, **__: nullcontext())
    calls = calls_of(monkeypatch, load_model, "load")
    config = TranslationConfig(models=(model_file,), search=SearchOptions(), precision="bf16")
    with Translators.start(config, JobOptions()) as translators:
        assert (translators.count, calls) == (2, [])
        assert translators.translator.translate(["a cat"])[0].text
        assert translators.translator.language_pair.max_src_tokens == 20
    assert [config.precision for (config,) in calls] == ["fp32"]  # once, on the CPU

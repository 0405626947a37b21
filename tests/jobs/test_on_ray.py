"""`--workers ray`: a model goes to nodes that lack its files, and translates as it does here."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from processes import wait_until
from toy_training import nmt_command

from nmt.errors import MissingKernel, UsageError
from nmt.interchange.ctranslate2 import export_ctranslate2
from nmt.jobs.lines import Line
from nmt.jobs.options import JobOptions
from nmt.jobs.parallel import Translators, _loaded, _Machine, _OnRay
from nmt.models.packed_weights import KERNELS
from nmt.search.options import SearchOptions
from nmt.translate.load_model import load
from nmt.translate.options import TranslationConfig
from nmt.translate.translator import Translator

LINES = [f"the cat sees a dog {number}" for number in range(8)]


def elsewhere(config: TranslationConfig, kernel: str, tmp_path: Path) -> _OnRay:
    """What a process on another node gets, after all files here are gone."""
    sent = pickle.dumps(_OnRay(config, partial(_loaded, machine=_Machine(kernel=kernel))))
    for path in tmp_path.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    found = pickle.loads(sent)
    assert isinstance(found, _OnRay)
    return found


@pytest.mark.parametrize("is_run", [False, True])
def test_a_node_without_the_files_translates_alike(
    model_file: Path, other_model: Path, tmp_path: Path, is_run: bool
) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(model_file, tmp_path / "run" / "best.safetensors")
    shutil.copy(other_model, tmp_path / "run" / "last.safetensors")
    shutil.copy(other_model, tmp_path / "other")
    model = tmp_path / "run" if is_run else tmp_path / "run" / "best.safetensors"
    config = TranslationConfig(
        models=(model, tmp_path / "other"), search=SearchOptions(beam_size=2)
    )
    engine, pair = load(config)
    expected = Translator(engine, pair, config).translate(LINES)
    assert engine.kernel is not None
    function = elsewhere(config, engine.kernel, tmp_path)
    for _ in range(2):
        assert function([Line(line) for line in LINES]) == expected
    assert not function.content  # which takes memory


def test_a_node_without_the_kernel_says_so(model_file: Path, tmp_path: Path) -> None:
    shutil.copy(model_file, tmp_path / "model")
    config = TranslationConfig(models=(tmp_path / "model",), search=SearchOptions())
    with pytest.raises(MissingKernel, match=r"^node .*'new"):
        elsewhere(config, "new", tmp_path)([Line("a cat")])


def start(model_file: Path, kernel: str | None = None, **options: Any) -> Translators:
    config = TranslationConfig(
        models=(model_file,), search=SearchOptions(beam_size=2, max_extra_tokens=3)
    )
    return Translators.start(config, JobOptions(workers="ray", **options), kernel)


class Elsewhere:
    """What stands for `RayWorkers` without a cluster: the same calls, one after the other."""

    made: ClassVar[list[Elsewhere]] = []

    def __init__(self, function: _OnRay, *, threads: int, gpus: int) -> None:
        self.function: _OnRay = pickle.loads(pickle.dumps(function))
        self.takes, self.count = (threads, gpus), 3
        self.made.append(self)

    def map(self, items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for item in items:
            yield item, self.function(item)


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Elsewhere]]:
    """The workers that were made; no node has a GPU."""
    monkeypatch.setattr("nmt.jobs.parallel.connect", lambda: None)
    monkeypatch.setattr("nmt.jobs.parallel.has_gpu", lambda: False)
    monkeypatch.setattr("nmt.jobs.parallel.RayWorkers", Elsewhere)
    yield Elsewhere.made
    Elsewhere.made.clear()


@pytest.mark.parametrize("kernel", [*KERNELS["fp32"]][:2])
def test_all_nodes_use_the_kernel_that_the_journal_names(
    model_file: Path, no_cluster: list[Elsewhere], kernel: str
) -> None:
    translators = start(model_file, kernel, threads=2)
    assert translators.kernel == kernel
    pool = [Line(line) for line in LINES * 4]  # two shares
    (found,) = translators.translate([pool], int)
    assert found == translators.translator.translate([line.text for line in pool])
    (workers,) = no_cluster
    assert workers.takes == (2, 0)
    on_cpu = workers.function.translate
    assert isinstance(on_cpu, partial)
    (translator,) = on_cpu.args
    assert (translator.engine.kernel, translator.engine.threads) == (kernel, 2)


def test_a_worker_of_a_cluster_with_gpus_takes_one(
    model_file: Path, no_cluster: list[Elsewhere], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="device cuda"):
        start(model_file, device="cuda")
    monkeypatch.setattr("nmt.jobs.parallel.has_gpu", lambda: True)
    assert start(model_file).kernel == start(model_file, device="cuda").kernel == "gpu"
    start(model_file, device="cpu")
    assert [workers.takes for workers in no_cluster] == [(1, 1), (1, 1), (1, 0)]
    loads: list[Any] = [workers.function.load for workers in no_cluster]
    assert [load.keywords["machine"].device for load in loads] == ["cuda", "cuda", "cpu"]
    with pytest.raises(MissingKernel, match="onednn"):
        start(model_file, "onednn")


def test_exports_go_to_nodes(model_file: Path, no_cluster: list[Elsewhere], tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    export_ctranslate2(model_file, tmp_path / "fast", "float32")
    config = TranslationConfig(models=(tmp_path / "fast",), search=SearchOptions(beam_size=1))
    translators = Translators.start(config, JobOptions(workers="ray"))
    (found,) = translators.translate([[Line(line) for line in LINES]], int)
    assert found == translators.translator.translate(LINES)
    assert no_cluster[0].takes == (1, 0)
    with pytest.raises(UsageError, match="CPU"):
        Translators.start(config, JobOptions(workers="ray", device="cuda"))


def test_without_ray_it_is_named(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="pip install ray`"):
        start(model_file)


@dataclass
class Cluster:
    """Two nodes of one core each."""

    process: subprocess.Popen[str]

    def __post_init__(self) -> None:
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def kill_a_node(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "\n"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    pytest.importorskip("ray", reason="needs the extra ray")
    script = Path(__file__).with_name("ray_cluster.py")
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Cluster(process)
        process.communicate()


@pytest.fixture
def job(model_file: Path, tmp_path: Path) -> list[str | Path]:
    """A command that takes a while, less its workers and its output."""
    text = "".join(f"the old house and a small dog {number}\n" for number in range(10_000))
    (tmp_path / "in").write_text(text)
    options = ("--beam-size", "2", "--max-extra-tokens", "3", "--pool-lines", "200")
    return ["translate", model_file, *options, "--input", tmp_path / "in"]


def on_ray(cluster: Cluster, *words: str | Path, **streams: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        nmt_command(*words, "--workers", "ray"),
        env={**os.environ, "RAY_ADDRESS": cluster.address},
        stderr=subprocess.PIPE,
        text=True,
        **streams,
    )


def wait_for_lines(process: subprocess.Popen[str], output: Path) -> None:
    """Wait until an unfinished job has recorded some pools."""
    journal = output.with_name(f".{output.name}.journal")

    def is_recorded() -> bool:
        assert process.poll() is None, process.stderr and process.stderr.read()
        return journal.exists() and journal.read_bytes().count(b"\n") > 5

    wait_until(is_recorded, "some pools")
    assert not output.exists()


@pytest.mark.slow
def test_nodes_that_die_and_jobs_that_are_stopped_lose_no_line(
    cluster: Cluster, job: list[str | Path], tmp_path: Path
) -> None:
    local = subprocess.run(
        nmt_command(*job, "--workers", "2", "--output", tmp_path / "local"), check=False
    )
    assert local.returncode == 0
    expected = (tmp_path / "local").read_bytes()
    assert expected.count(b"\n") == 10_000

    words = [*job, "--output", tmp_path / "stopped"]
    stopped = on_ray(cluster, *words)
    wait_for_lines(stopped, tmp_path / "stopped")
    stopped.send_signal(signal.SIGTERM)
    _, told = stopped.communicate(timeout=60)
    assert (stopped.returncode, told.count("\n")) == (75, 1), told
    resumed = on_ray(cluster, *words)
    _, told = resumed.communicate(timeout=200)
    assert resumed.returncode == 0, told
    assert re.search("after line [1-9]", told)
    assert (tmp_path / "stopped").read_bytes() == expected

    bereft = on_ray(cluster, *job, "--output", tmp_path / "bereft")
    wait_for_lines(bereft, tmp_path / "bereft")
    cluster.kill_a_node()
    assert bereft.poll() is None and not (tmp_path / "bereft").exists()
    _, told = bereft.communicate(timeout=200)
    assert bereft.returncode == 0, told
    assert (tmp_path / "bereft").read_bytes() == expected

"""Workers of a Ray cluster, for which a module stands that notes what it is asked."""

import os
import pickle
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from processes import wait_until

from nmt.errors import NMTError, UsageError
from nmt.system import ray_workers
from nmt.system.machine import version_of_code
from nmt.system.ray_workers import _KEEPALIVE, RayWorkers, _worker, connect


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A Ray whose cluster has one node with two cores, both of them free."""
    module: Any = ModuleType("ray")
    module.is_initialized = lambda: True
    module.nodes = lambda: [{"Alive": True, "Resources": {"CPU": 2.0}}]
    module.available_resources = lambda: {"CPU": 2.0}
    module.put = module.get = lambda value: value
    module.remote = lambda **_: lambda function: function
    module.cloudpickle = pickle
    module.util = SimpleNamespace(get_node_ip_address=lambda: "192.0.2.7")
    monkeypatch.setitem(sys.modules, "ray", module)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    for name in _KEEPALIVE:
        monkeypatch.delenv(name, raising=False)
    return module


class Function(bytes):
    """A function on its way, with what Ray calls its reference."""

    def __call__(self, item: str) -> str:
        return f"{item} by {self.hex()}"


def fail() -> None:
    raise AssertionError("was read before the versions were compared")


class Unreadable:
    def __reduce__(self) -> Any:
        return fail, ()


def test_a_worker_compares_versions_before_it_reads_what_is_sent(ray: Any) -> None:
    ray.get = lambda _: fail()
    with pytest.raises(ImportError) as refusal:
        _worker("another nmt")([Function(b"1")], pickle.dumps(Unreadable()))
    for named in (platform.node(), "192.0.2.7", version_of_code(), "another nmt"):
        assert named in str(refusal.value)


def test_a_worker_loads_each_function_once(ray: Any) -> None:
    loaded: list[Function] = []

    def get(reference: Function) -> Function:
        loaded.append(reference)
        return reference

    ray.get = get
    work = _worker(version_of_code())
    for name, item in ((b"1", "one"), (b"1", "two"), (b"2", "three")):
        assert work([Function(name)], pickle.dumps(item)) == f"{item} by {name.hex()}"
    assert loaded == [b"1", b"2"]


def test_a_module_that_is_missing_is_told_with_the_node(ray: Any) -> None:
    def get(_: object) -> Callable[[Any], Any]:
        raise ModuleNotFoundError("No module named 'ctranslate2'")

    ray.get = get
    with pytest.raises(ImportError, match=f"{platform.node()}.*'ctranslate2'"):
        _worker(version_of_code())([Function(b"1")], b"")


@pytest.mark.parametrize(("free", "said"), [(2.0, 0), (1.0, 1)])
def test_a_job_says_once_that_it_waits_for_cores(
    ray: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    free: float,
    said: int,
) -> None:
    monkeypatch.setattr(ray_workers, "_PATIENCE", 0.2)
    ray.available_resources = lambda: {"CPU": free}
    RayWorkers(Function(), threads=2)
    assert capsys.readouterr().err.count("\n") == said


@pytest.mark.usefixtures("ray")
def test_a_vanished_node_is_given_up_soon_or_as_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _KEEPALIVE
    monkeypatch.setenv(first, "99")
    connect()
    assert (os.environ[first], os.environ[second]) == ("99", "10000")


def test_a_driver_that_is_no_node_gets_the_way_to_become_one(ray: Any) -> None:
    def init(*_: object, **__: object) -> None:
        raise ConnectionError("Failed") from RuntimeError("No node info found matching: ''")

    ray.is_initialized, ray.init = (lambda: False), init
    with pytest.raises(NMTError, match="ray start --address auto --num-cpus 0"):
        connect()


def test_no_cluster_is_started(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ray.is_initialized = lambda: False
    monkeypatch.setenv("RAY_ADDRESS", "local")
    with pytest.raises(UsageError, match="RAY_ADDRESS"):
        connect()


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_a_workers_folder_goes_however_the_worker_ends(end: str) -> None:
    script = (
        "import sys\n"
        "from nmt.system.ray_workers import temporary_folder\n"
        "with temporary_folder() as folder:\n"
        "    (folder / 'model').mkdir()\n"
        "    print(folder, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], text=True, **pipes) as worker:  # type: ignore[call-overload]
        folder = Path(worker.stdout.readline().strip())
        assert (folder / "model").exists()
        if end == "kill":
            worker.send_signal(signal.SIGKILL)
    wait_until(lambda: not folder.exists(), "the end of the folder")

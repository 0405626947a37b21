"""What a process may use: cores by affinity and quota, threads, and how they wait."""

import os
import re
from pathlib import Path

import pytest
from processes import run_python

from nmt.system import machine
from nmt.system.machine import (
    WAITING,
    cores,
    default_threads,
    let_waiting_threads_sleep,
    most_workers,
    version_of_code,
)

CORES = len(os.sched_getaffinity(0))


def test_waiting_threads_sleep_from_the_first_import_of_torch(tmp_path: Path) -> None:
    # A torch that says what it finds in the environment when it is loaded, and ends the process.
    (tmp_path / "torch.py").write_text(
        "import os; print(os.environ.get('OMP_WAIT_POLICY'), flush=True); os._exit(0)"
    )
    (tmp_path / "text").write_text("the cat\n")
    root = Path(__file__).parents[2]
    environment = {name: value for name, value in os.environ.items() if name not in WAITING}
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{root}"
    words = ("-m", "nmt", "rescore", "model", "text", "--source", "text")
    done = run_python(*words, env=environment, cwd=tmp_path, check=False)
    assert done.stderr.split() == ["passive"]  # stdout is for data


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_what_the_user_says_of_waiting_stays(name: str) -> None:
    environment = {name: "the user's", "HOME": "/"}
    let_waiting_threads_sleep(environment)
    assert environment == {name: "the user's", "HOME": "/"}


V1 = "5:cpuset:/\n4:cpu,cpuacct:/docker/1\n"
PERIOD = "100000\n"


@pytest.mark.parametrize(
    ("cgroups", "files", "expected"),
    [
        (None, {}, CORES),
        ("0::/a/b\n", {}, CORES),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n"}, CORES),
        ("0::/a/b\n", {"a/b/cpu.max": "100000 100000\n"}, 1),
        ("0::/a/b\n", {"a/cpu.max": "50000 100000\n", "a/b/cpu.max": "900000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "90000 100000\n"}, 1),  # as it looks from inside a container
        ("0::/a/b\n", {"a/b/cpu.max": "110000 100000\n"}, min(CORES, 2)),  # 1.1 cores
        ("0::/\n", {"unified/cpu.max": "100000 100000\n"}, 1),
        (V1, {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": PERIOD}, CORES),
        (V1, {"cpu/cpu.cfs_quota_us": "40000\n", "cpu/cpu.cfs_period_us": PERIOD}, 1),
        (
            V1,
            {
                "cpu,cpuacct/docker/1/cpu.cfs_quota_us": "100000\n",
                "cpu,cpuacct/docker/1/cpu.cfs_period_us": PERIOD,
            },
            1,
        ),
    ],
)
def test_cores_are_those_of_the_affinity_and_the_smallest_quota(
    tmp_path: Path, cgroups: str | None, files: dict[str, str], expected: int
) -> None:
    found = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    if cgroups is not None:
        found["proc/self/cgroup"] = cgroups
    for name, text in found.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cores(tmp_path) == expected


@pytest.mark.parametrize(
    ("environment", "processes", "expected"),
    [
        ({}, 1, 16),
        ({}, 3, 5),
        ({}, 99, 1),
        ({"OMP_NUM_THREADS": "1"}, 1, 1),
        ({"OMP_NUM_THREADS": "4,2"}, 1, 4),
        ({"OMP_NUM_THREADS": "4"}, 8, 2),  # never more than its share
        ({"OMP_NUM_THREADS": "many"}, 1, 16),
        ({"OMP_NUM_THREADS": "0"}, 1, 16),
        ({"OMP_NUM_THREADS": "1", "LOCAL_WORLD_SIZE": "1"}, 1, 1),
        ({"OMP_NUM_THREADS": "1", "LOCAL_WORLD_SIZE": "2"}, 2, 8),  # torchrun has set it
        ({"OMP_NUM_THREADS": "3", "LOCAL_WORLD_SIZE": "2"}, 2, 3),
    ],
)
def test_threads_are_a_share_of_the_cores_and_at_most_what_the_user_says(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], processes: int, expected: int
) -> None:
    monkeypatch.setattr("nmt.system.machine.cores", lambda: 16)
    for name in ("OMP_NUM_THREADS", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_threads(processes) == expected


@pytest.mark.parametrize(("found", "most"), [(1, 8), (8, 8), (64, 64)])
def test_there_may_be_8_workers_or_as_many_as_there_are_cores(
    monkeypatch: pytest.MonkeyPatch, found: int, most: int
) -> None:
    monkeypatch.setattr("nmt.system.machine.cores", lambda: found)
    assert most_workers() == most


def test_the_version_of_the_code_tells_other_sources_and_another_torch_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def version_now() -> str:
        version_of_code.cache_clear()
        return version_of_code()

    package = tmp_path / "nmt"
    (package / "system").mkdir(parents=True)
    source = package / "system/machine.py"
    source.write_text("a = 1\n")
    monkeypatch.setattr(machine, "__file__", str(source))
    monkeypatch.setattr(machine, "version", lambda _: "2.13.0+cpu")
    before = version_now()
    assert re.fullmatch(r"nmt \S+ \([0-9a-f]{12}\) with torch 2\.13\.0", before)
    monkeypatch.setattr(machine, "version", lambda _: "2.13.0+cu128")  # a build for the same work
    (package / "system/__pycache__").mkdir()
    (package / "system/__pycache__/machine.cpython-311.pyc").write_bytes(b"compiled")
    assert version_now() == before
    monkeypatch.setattr(machine, "version", lambda _: "2.14.0")
    found = {before, version_now()}
    source.write_text("a = 2\n")
    found.add(version_now())
    source.rename(package / "machine.py")
    found.add(version_now())
    version_of_code.cache_clear()
    assert len(found) == 4

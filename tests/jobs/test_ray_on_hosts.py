"""`--workers ray` on three hosts, for which namespaces of this machine stand."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from network_of_hosts import Host
from processes import wait_until

pytest.importorskip("ray", reason="needs the extra ray")
pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
PORT = 6379
LONGEST = 1_800.0  # seconds; Ray takes half a minute to find that a node is gone
QUICK = ("--device", "cpu", "--beam-size", "2", "--max-extra-tokens", "3", "--pool-lines", "100")


def environment(sources: Path) -> dict[str, str]:
    """That of a process that takes nmt from a folder."""
    of_ray = {"RAY_USAGE_STATS_ENABLED": "0"}
    return {**os.environ, **of_ray, "PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1"}


def start_ray(host: Host, head: Host, *, cores: int = 1, sources: Path = REPOSITORY) -> None:
    """Make a host a node of the cluster, or its head."""
    to = ["--head", "--port", str(PORT), "--include-dashboard", "false"]
    if host is not head:
        to = ["--address", f"{head.address}:{PORT}"]
    more = ["--node-ip-address", host.address, "--num-cpus", str(cores)]
    more += ["--object-store-memory", "80000000"]
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    command = [*ray, "start", *to, *more]
    said = ""
    for _ in range(5):  # Ray gives its processes 30 seconds to start, and a busy machine takes more
        with host.start(
            *command, env=environment(sources), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as starting:
            said, _ = starting.communicate(timeout=300)
        if starting.returncode == 0:
            return
        host.run(*ray, "stop", "--force")
    pytest.fail(said)


def nmt(host: Host, head: Host, *words: object, **options: Any) -> Any:
    """Start a command of nmt on a host, which uses the cluster.

    In the folder /, because workers look for modules in the folder of their job first.
    """
    address = {"RAY_ADDRESS": f"{head.address}:{PORT}"}
    command = [sys.executable, "-m", "nmt", *map(str, words)]
    return host.start(*command, env=environment(REPOSITORY) | address, cwd="/", **options)


@pytest.fixture
def model(model_file: Path, tmp_path: Path) -> Path:
    """A model that the hosts see."""
    return Path(shutil.copy(model_file, tmp_path / "model"))


def test_a_worker_a_node_and_a_cable_that_die_change_no_line(
    three_hosts: list[Host], model: Path, tmp_path: Path
) -> None:
    head, east, west = three_hosts
    for host in three_hosts:
        start_ray(host, head)
    given, found, said = (tmp_path / name for name in ("given", "found", "said"))
    words = ["translate", model, *QUICK]
    is_enough = threading.Event()

    def give() -> None:
        """Write lines until it is enough, whatever the speed of the machine."""
        with given.open("w") as kept, contextlib.suppress(BrokenPipeError), job.stdin:
            for number in itertools.count():
                line = f"the old house and a small dog {number}\n"
                job.stdin.write(line)
                kept.write(line)
                if is_enough.is_set():
                    return

    def wait_for_more() -> None:
        """Wait until more lines are done than could have been under way."""
        more = found.read_bytes().count(b"\n") + 1_000
        wait_until(
            lambda: job.poll() is not None or found.read_bytes().count(b"\n") > more,
            "more lines",
            LONGEST,
        )
        assert job.poll() is None, said.read_text()

    with found.open("w") as out, said.open("w") as errors:
        streams = {"stdin": subprocess.PIPE, "stdout": out, "stderr": errors}
        job = nmt(head, head, *words, "--workers", "ray", **streams)
        giving = threading.Thread(target=give)
        giving.start()
        try:
            wait_until(
                lambda: all(host.processes("ray::work") for host in (east, west)),
                "workers",
                LONGEST,
            )
            wait_for_more()
            for worker in east.processes("ray::work"):
                os.kill(worker, signal.SIGKILL)
            wait_for_more()
            for raylet in east.processes("raylet/raylet "):
                os.kill(raylet, signal.SIGKILL)
            wait_for_more()
            west.cut()
            wait_for_more()
        finally:
            is_enough.set()
            giving.join()
        assert job.wait(LONGEST) == 0, said.read_text()
    assert east.address in said.read_text()  # where Ray tells of the deaths
    with given.open() as source, (tmp_path / "alone").open("w") as out:
        alone = nmt(head, head, *words, "--workers", "1", stdin=source, stdout=out)
        assert alone.wait(600) == 0
    assert found.read_bytes() == (tmp_path / "alone").read_bytes()


def test_a_node_with_another_nmt_and_a_driver_that_is_no_node_are_told(
    three_hosts: list[Host], model: Path, tmp_path: Path
) -> None:
    head, east, west = three_hosts
    (tmp_path / "in").write_text("the cat\n" * 100)
    shutil.copytree(REPOSITORY / "nmt", tmp_path / "other/nmt")
    # Without a class that comes with each item, and with the function.
    (tmp_path / "other/nmt/jobs/lines.py").write_text("class Other: ...\n")
    start_ray(head, head, cores=0)
    start_ray(east, head, sources=tmp_path / "other")
    words = ["translate", model, *QUICK, "--workers", "ray", "--input", tmp_path / "in"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    for driver, named in ((head, "node east"), (west, f"ray start --address {head.address}:")):
        out, said = nmt(driver, head, *words, **pipes).communicate(timeout=300)
        errors = [line for line in said.splitlines() if line.startswith("nmt: error: ")]
        assert (out, len(errors)) == ("", 1), said
        assert named in errors[0]
        assert "Traceback" not in said

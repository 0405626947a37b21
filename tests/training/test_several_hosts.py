"""Training on several machines, for which namespaces of this one stand: one dies, or none meet."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from network_of_hosts import Host
from processes import wait_until
from toy_training import Toy, environment, status

from nmt.runs.checkpoint import STATE, updates_of
from nmt.runs.run_folder import RunFolder

pytestmark = pytest.mark.slow
SERVER = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "192.0.2.1:29500")


class End(NamedTuple):
    status: int
    said: str
    """The lines of nmt."""


def start(
    hosts: Sequence[Host],
    words: Sequence[str],
    variables: Mapping[str, Mapping[str, str]] = {},
    *,
    is_static: bool = False,
) -> list[subprocess.Popen[str]]:
    """Start torchrun with the same words on some hosts, of which the first has the store.

    variables: of the environment, by the host's name.
    is_static: the first one also has the first process, which torchrun else chooses.
    """
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(len(hosts))]
    own = environment() | {"PYTHON_EXEC": sys.executable}  # a warm one is in no namespace
    started = []  # not in the folder of the sources, which `-m` would prefer
    for number, host in enumerate(hosts):
        meeting = [*SERVER, "--rdzv-conf", f"is_host={int(number == 0)}"]
        if is_static:
            meeting = ["--node-rank", str(number), "--master-addr", hosts[0].address]
        command = [*torchrun, *meeting, "--local-addr", host.address, *words]
        environ = {**own, **variables.get(host.name, {})}
        started.append(host.start(*command, stderr=subprocess.PIPE, env=environ, cwd="/"))
    return started


def end_of(started: Sequence[subprocess.Popen[str]]) -> list[End]:
    """Wait until all have ended."""
    found = []
    for process in started:
        _, said = process.communicate(timeout=300)
        lines = [line for line in said.splitlines() if line.startswith("nmt: ")]
        found.append(End(process.returncode, "\n".join(lines)))
    return found


@pytest.mark.parametrize("fault", ["power", "cable"])
def test_a_lost_host_is_named_and_it_goes_on(three_hosts: list[Host], toy: Toy, fault: str) -> None:
    run = RunFolder(toy.folder / "run")
    # No rank has this number, but signs of life are not missed for long.
    hangs = {"what": "SIGSTOP", "place": "in a forward pass", "rank": 9}
    words = toy.disturbed(hangs, dropout=0.0, save_every=2, max_updates=1_000_000)
    started = start(three_hosts, words)
    best = run.path / "best.safetensors"
    wait_until(lambda: best.exists() or started[0].poll() is not None, "a model")
    assert best.exists()
    gone = three_hosts[2]
    if fault == "cable":
        gone.cut()
    else:
        gone.lose_power()
    left = [one for host, one in zip(three_hosts, started, strict=True) if host is not gone]
    for end in end_of(left):
        assert end.status == 1
        assert gone.name in end.said
    if fault == "cable":  # its torchrun takes longer
        wait_until(lambda: not gone.processes(f"-u {words[0]}"), "the end of its process")
    gone.lose_power()
    if status(run.path)["status"] == "failed":  # else the first rank was on that host
        assert gone.name in status(run.path)["reason"]
    updates = max(updates_of(run, STATE)) + 2
    again = three_hosts[:2]
    words = toy.disturbed({}, dropout=0.0, save_every=2, max_updates=updates)
    for end in end_of(start(again, words)):
        assert end.status == 0, end.said
    assert (status(run.path)["status"], status(run.path)["update"]) == ("finished", updates)


def test_hosts_that_tell_a_loopback_address_name_it(three_hosts: list[Host], toy: Toy) -> None:
    hosts, words = three_hosts[:2], ["-m", "nmt", *toy.words("run", max_updates=2)]
    hosts[1].resolve("east", "127.0.1.1")  # as Debian does
    for end in end_of(start(hosts, words)):
        assert end.status == 1
        (line,) = end.said.splitlines()
        assert "east (127.0.1.1)" in line
        assert "GLOO_SOCKET_IFNAME" in line
    interface = {host.name: {"GLOO_SOCKET_IFNAME": "eth0"} for host in hosts}
    for end in end_of(start(hosts, words, interface)):
        assert end.status == 0, end.said


def test_a_run_folder_that_is_not_shared_never_begins(three_hosts: list[Host], toy: Toy) -> None:
    def train(hosts: Sequence[Host], updates: int) -> list[End]:
        """Train in each host's own /tmp; the first one has the first process."""
        words = ["-m", "nmt", *toy.words("/tmp/run", max_updates=updates)]
        return end_of(start(hosts, words, is_static=True))

    north, east, _ = three_hosts
    first = train([north, east], 2)
    assert [end.status for end in first] == [0, 0]
    assert re.search("warning: /tmp/run on east", first[0].said)
    for end in train([east, north], 4):
        assert end.status == 1  # torchrun's, for 2 of its processes
        assert "/tmp/run on north" in end.said
    assert [end.status for end in train([north, east], 4)] == [0, 0]


def test_another_nmt_on_a_host_is_refused(three_hosts: list[Host], toy: Toy) -> None:
    other = toy.folder / "other"
    shutil.copytree(Path(__file__).parents[2] / "nmt", other / "nmt")
    with (other / "nmt/errors.py").open("a") as source:
        source.write("# changed\n")
    changed = {"east": {"PYTHONPATH": str(other)}}
    words = ["-m", "nmt", *toy.words("run", max_updates=2)]
    for end in end_of(start(three_hosts[:2], words, changed)):
        assert end.status == 1  # torchrun's, for 2 of its processes
        assert len(end.said.splitlines()) == 1
        assert "east has nmt " in end.said or "north has nmt " in end.said
    assert not (toy.folder / "run").exists()

"""Some hosts on this machine: each with its own network, name, /tmp, /dev/shm and process 1.

They are namespaces of Linux. A bridge in a namespace of its own joins them, so nothing that they
send leaves it. Nobody gives the namespaces a name: they go with the processes that hold them, and
those die with the process that made them, also if that is killed.

Making them takes root. `missing` says what else.
"""

import contextlib
import functools
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROGRAMS = "bash", "ip", "mount", "nsenter", "setpriv", "unshare"
_REPOSITORY = Path(__file__).parents[2]

_BEGIN_HUB = "ip link add hub type bridge && ip link set hub up && echo ready && sleep infinity"
# As process 1, bash reaps what its children leave.
_BEGIN_HOST = r"""
set -e
hostname "$1"
shift
read -r names  # the lines of /etc/hosts, a | between them
mount -t tmpfs none /dev/shm
tr '|' '\n' <<< "$names" > /dev/shm/hosts
if [ -e /etc/hosts ]; then mount --bind /dev/shm/hosts /etc/hosts; fi
# What lies in /tmp and is to be seen stays where it is.
for path; do
    mkdir -p "/dev/shm$path"
    mount --rbind "$path" "/dev/shm$path"
done
mount -t tmpfs -o mode=1777 none /tmp
for path; do
    case "$path" in /tmp/*) mkdir -p "$path"; mount --rbind "/dev/shm$path" "$path" ;; esac
done
mount -t tmpfs -o mode=1777 none /dev/shm
ip link set lo up
echo ready
trap : CHLD
sleep infinity &
while :; do wait; done
"""


@functools.cache
def missing() -> str:
    """Return what hosts lack here, beginning with "needs"; empty: nothing."""
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    if sys.platform != "linux" or absent:
        return f"needs Linux with {', '.join(absent)}"
    try:
        with network(("one", "two"), _REPOSITORY) as hosts:
            hosts[0].run("true")
    except (subprocess.SubprocessError, OSError, HostError) as error:
        return f"needs root and namespaces of networks: {error}"
    return ""


class HostError(Exception):
    """A host cannot be made."""


@dataclass
class Host:
    """One host.

    Its processes are seen from outside, by other numbers.
    """

    name: str
    address: str
    _init: subprocess.Popen[str]  # `unshare`, whose child is process 1
    _hub: int  # a process in the namespace of the bridge

    def command(self, *words: str) -> list[str]:
        """Return the command that runs another one on this host, in the present folder."""
        entered = ["nsenter", "--target", str(_child_of(self._init.pid)), "--wd=.", "--mount"]
        return [*entered, "--net", "--uts", "--ipc", "--pid", "--", *words]

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command there; options are those of Popen, and texts are text."""
        return subprocess.Popen(self.command(*words), text=True, **options)

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command there that must not fail."""
        return subprocess.run(
            self.command(*words), text=True, check=True, capture_output=True, **options
        )

    def processes(self, words: str) -> list[int]:
        """Return the processes there whose command line holds some words."""
        namespace = Path(f"/proc/{_child_of(self._init.pid)}/ns/pid").readlink()
        return [
            int(folder.name)
            for folder in Path("/proc").iterdir()
            if folder.name.isdecimal() and _is_in(folder, namespace, words)
        ]

    def resolve(self, name: str, address: str) -> None:
        """Let a name have another address there, by its own /etc/hosts."""
        own = f"sed 's/^.* {name}$/{address} {name}/' /etc/hosts > /tmp/hosts"
        self.run("bash", "-c", f"{own} && cat /tmp/hosts > /etc/hosts")

    def cut(self) -> None:
        """Pull its cable: the others get no sign of that."""
        _in_network(self._hub, "ip", "link", "set", "dev", self.name, "down")

    def lose_power(self) -> None:
        """End it at once, with all of its processes, unheard by the others."""
        if self._init.poll() is None:
            self.cut()
            self._init.kill()
            self._init.wait()


@contextlib.contextmanager
def network(
    names: Sequence[str], shared: Path, *, more: Mapping[str, str] | None = None
) -> Iterator[list[Host]]:
    """Make hosts, and end them with all of their processes.

    names: theirs, of up to 15 letters.
    shared: a folder that all of them see, also if it lies in /tmp. They see all of this machine's
        other files, except those of /tmp and /dev/shm.
    more: other names, and their addresses, for /etc/hosts.
    """
    addresses = {name: f"192.0.2.{number}" for number, name in enumerate(names, 1)}
    with ExitStack() as stack:
        begin = ["unshare", "--net", "bash", "-c", _BEGIN_HUB]
        hub = stack.enter_context(_until_the_end(begin, ""))
        yield [
            stack.enter_context(_host(name, addresses, shared, hub.pid, more or {}))
            for name in names
        ]


@contextlib.contextmanager
def _host(
    name: str, addresses: Mapping[str, str], shared: Path, hub: int, more: Mapping[str, str]
) -> Iterator[Host]:
    known = {"localhost": "127.0.0.1", **addresses, **more}
    lines = "|".join(f"{address} {known_name}" for known_name, address in known.items())
    begin = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork"]
    begin += ["--kill-child", "--mount-proc", "--propagation", "private"]
    seen = dict.fromkeys(map(str, (shared, _REPOSITORY, Path(sys.prefix), Path(sys.base_prefix))))
    begin += ["bash", "-c", _BEGIN_HOST, "bash", name, *seen]
    with _until_the_end(begin, lines) as init:
        peer = ("type", "veth", "peer", "name", "eth0", "netns", str(_child_of(init.pid)))
        _in_network(hub, "ip", "link", "add", "name", name, *peer)
        _in_network(hub, "ip", "link", "set", "dev", name, "master", "hub", "up")
        host = Host(name, addresses[name], init, hub)
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        yield host


@contextlib.contextmanager
def _until_the_end(words: Sequence[str], line: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command until the end of the block; it says "ready" when it is."""
    pipe = subprocess.PIPE
    bound = ["setpriv", "--pdeathsig", "KILL", *words]
    with subprocess.Popen(bound, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                running.stdin.write(f"{line}\n")
                running.stdin.flush()
            if running.stdout.readline() != "ready\n":
                raise HostError(running.stderr.read().strip() or "no process began there")
            yield running
        finally:
            with contextlib.suppress(BrokenPipeError):
                running.stdin.close()
            running.send_signal(signal.SIGKILL)


def _in_network(process: int, *words: str) -> None:
    """Run a command in the network of a process."""
    entered = ["nsenter", "--target", str(process), "--net", *words]
    done = subprocess.run(entered, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HostError(done.stderr.strip())


def _child_of(process: int) -> int:
    return int(Path(f"/proc/{process}/task/{process}/children").read_text().split()[0])


def _is_in(folder: Path, namespace: Path, words: str) -> bool:
    """Tell whether a process, by its folder in /proc, is in a namespace and has such words."""
    try:
        line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
        return words.encode() in line and (folder / "ns/pid").readlink() == namespace
    except OSError:  # it has just gone
        return False

"""Other processes: how tests run them, wait for them, and find out about them by Linux's /proc."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

_LISTENS = "0A"
LONG = 240.0
"""Seconds after which a test gives up, where a machine with nothing else to do needs one or two."""


def run_python(
    *words: str | Path, check: bool = True, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a Python of its own, which must end well if that is checked."""
    options |= {"capture_output": True, "text": True, "timeout": LONG}
    done = subprocess.run([sys.executable, *words], check=False, **options)
    assert not (check and done.returncode), done.stderr
    return done


def wait_until(condition: Callable[[], object], what: str, seconds: float = LONG) -> None:
    """Wait, on any machine, for what a quick one has at once, or in a thirtieth of the time."""
    give_up_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up_at, f"given up: {what}"
        time.sleep(0.02)


def is_gone(process: int) -> bool:
    """Tell whether a process has ended.

    Its entry may stay: in a container without init, nobody may ask how an orphan has ended.
    """
    with suppress(FileNotFoundError, ProcessLookupError):
        # The name in brackets may hold anything. The state follows it.
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state in "ZX"
    return True


def wait_until_gone(processes: Iterable[int]) -> None:
    """Wait until processes have ended."""
    left = list(processes)
    wait_until(lambda: all(map(is_gone, left)), f"the end of processes {left}")


def listening(process: int) -> Iterator[IPv4Address | IPv6Address]:
    """Yield the addresses at which a process listens for TCP."""
    links = [str(link.readlink()) for link in Path(f"/proc/{process}/fd").iterdir()]
    sockets = {found[1] for link in links if (found := re.fullmatch(r"socket:\[(\d+)\]", link))}
    for table in (Path(f"/proc/{process}/net/tcp"), Path(f"/proc/{process}/net/tcp6")):
        if table.exists():  # there may be no IPv6
            for line in table.read_text().splitlines()[1:]:
                _, local, _, state, *more = line.split()
                if state == _LISTENS and more[5] in sockets:
                    yield _address(local.partition(":")[0])


def _address(written: str) -> IPv4Address | IPv6Address:
    """Read an address as in /proc/net/tcp: words of 32 bits in this machine's order of bytes.

    On most machines, 127.0.0.1 is 0100007F.
    """
    words = [int(written[at : at + 8], 16) for at in range(0, len(written), 8)]
    return ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))

"""Several machines, for which some namespaces of this one stand."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest
from network_of_hosts import Host


@pytest.mark.slow
def test_hosts_share_nothing_but_a_network_and_a_folder(
    three_hosts: list[Host], tmp_path: Path
) -> None:
    north, east, west = three_hosts
    assert [host.run("hostname").stdout for host in three_hosts] == ["north\n", "east\n", "west\n"]
    assert socket.gethostname() not in ("north", "east", "west")
    north.run("touch", "/tmp/own", str(tmp_path / "of all"))
    assert east.run("ls", "-A", str(tmp_path)).stdout == "of all\n"
    assert east.run("find", "/tmp", "-name", "own").stdout == ""
    assert not Path("/tmp/own").exists()
    serve = ("python3", "-m", "http.server", "--directory", str(tmp_path), "8000")
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with west.start(*serve, **silent) as server:
        ask = "exec 3<>/dev/tcp/west/8000 && echo heard"
        north.run("bash", "-c", f"until {ask}; do sleep 0.1; done", timeout=60)
        assert len(west.processes("http.server")) == 1
        assert not east.processes("http.server")
        west.cut()
        with pytest.raises(subprocess.TimeoutExpired):
            north.run("bash", "-c", ask, timeout=1)
        west.mend()
        assert "heard" in north.run("bash", "-c", f"until {ask}; do sleep 0.1; done").stdout
        west.lose_power()
        assert server.wait(timeout=60) != 0

"""Fetching an archive of WMT14: mirrors, what breaks off, sizes and checksums, and the lock."""

from __future__ import annotations

import fcntl
import hashlib
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

import pytest

from nmt.errors import NMTError, Stopped
from nmt.translate.journal import lock

WMT14 = Path(__file__).parents[1] / "examples" / "wmt14"
sys.path.insert(0, str(WMT14))

import download  # noqa: E402
from catalogue import Archive  # noqa: E402

NAME = "dev.tgz"
CONTENT = bytes(range(256)) * 20


@dataclass
class Site:
    """A web site with one file, and its faults."""

    content: bytes = CONTENT
    knows_ranges: bool = True
    breaks_off_after: list[int] = field(default_factory=list)
    """Bytes after which each of the next answers breaks off."""
    ranges: list[str | None] = field(default_factory=list)
    """What each request asked for."""
    address: str = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.ranges.append(wanted)
        if not request.path.endswith(NAME):
            request.send_error(404)
            return
        start = int(wanted[6:-1]) if wanted and self.knows_ranges else 0
        if start >= len(self.content):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(self.content)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        request.send_response(206 if start else 200)
        if start:
            last = len(self.content) - 1
            request.send_header("Content-Range", f"bytes {start}-{last}/{len(self.content)}")
        request.send_header("Content-Length", str(len(self.content) - start))
        request.end_headers()
        rest = self.content[start:]
        request.wfile.write(rest[: self.breaks_off_after.pop(0)] if self.breaks_off_after else rest)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(download, "WAIT_SECONDS", 0)
    made = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        server.shutdown()
        thread.join()


def run_script(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, WMT14 / "download.py", "--catalogue", WMT14 / "wmt14.toml", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def archive(
    *addresses: str, size: int | None = None, checksums: dict[str, str] | None = None
) -> Archive:
    return Archive(NAME, addresses, size, checksums or {}, "its publisher")


def published(*addresses: str) -> Archive:
    return archive(*addresses, size=len(CONTENT), checksums={"sha256": sha256(CONTENT)})


def test_the_first_address_that_has_the_file_is_taken(site: Site, tmp_path: Path) -> None:
    download.fetch(published(f"{site.address}/gone", f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert not list(tmp_path.glob("*.partial"))


def test_a_connection_that_broke_off_is_asked_for_the_rest(site: Site, tmp_path: Path) -> None:
    site.breaks_off_after = [1000, 500]
    download.fetch(published(f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert site.ranges == [None, "bytes=1000-", "bytes=1500-"]


def test_an_archive_of_unknown_size_that_broke_off_is_not_taken_for_whole(
    site: Site, tmp_path: Path
) -> None:
    site.breaks_off_after = [1000]
    download.fetch(archive(f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_what_an_earlier_run_has_fetched_is_not_fetched_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.partial").write_bytes(CONTENT[:3000])
    download.fetch(published(f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert site.ranges == ["bytes=3000-"]


@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_run_that_was_killed_with_all_fetched_needs_no_more(
    site: Site, tmp_path: Path, size: int | None
) -> None:
    (tmp_path / f"{NAME}.partial").write_bytes(CONTENT)
    download.fetch(archive(f"{site.address}/{NAME}", size=size), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_more_than_the_address_has_is_thrown_away(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.partial").write_bytes(CONTENT + b"more")
    download.fetch(archive(f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_an_address_that_knows_no_ranges_sends_all_again(site: Site, tmp_path: Path) -> None:
    site.knows_ranges = False
    (tmp_path / f"{NAME}.partial").write_bytes(b"x" * 100)
    download.fetch(published(f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_an_address_that_delivers_nothing_is_given_up(site: Site, tmp_path: Path) -> None:
    site.breaks_off_after = [0]
    with pytest.raises(NMTError, match="broke off"):
        download.fetch(published(f"{site.address}/{NAME}"), tmp_path)


def test_every_address_that_failed_is_told_with_its_reason(site: Site, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"http://127.0.0.1:{server.getsockname()[1]}/{NAME}"
    gone = f"{site.address}/gone"
    said = re.escape(f"({gone}: 404 Not Found; {nobody}: Connection refused)")
    with pytest.raises(NMTError, match=f"^{NAME} could not be fetched {said}.*MIRROR=FOLDER"):
        download.fetch(published(gone, nobody), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_spoilt_start_is_fetched_afresh_from_the_next_address(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.partial").write_bytes(b"x" * 3000)
    address = f"{site.address}/{NAME}"
    download.fetch(published(address, address), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert site.ranges == ["bytes=3000-", None]


def test_another_size_than_the_published_is_refused(site: Site, tmp_path: Path) -> None:
    site.content = CONTENT[:-1]
    with pytest.raises(NMTError, match=r"5,119 bytes, and its publisher says 5,120"):
        download.fetch(published(f"{site.address}/{NAME}"), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_another_checksum_than_the_published_is_refused(
    site: Site, tmp_path: Path, algorithm: str
) -> None:
    right = hashlib.new(algorithm, CONTENT).hexdigest()
    site.content = CONTENT[::-1]
    found = hashlib.new(algorithm, site.content).hexdigest()
    said = f"its {algorithm} is {found}, and its publisher says {right}"
    with pytest.raises(NMTError, match=said):
        download.fetch(archive(f"{site.address}/{NAME}", checksums={algorithm: right}), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_first_download_is_recorded_as_sha256sum_reads_it(site: Site, tmp_path: Path) -> None:
    download.fetch(archive(f"{site.address}/{NAME}"), tmp_path)
    recorded = (tmp_path / f"{NAME}.sha256").read_text(encoding="utf-8")
    assert recorded == f"{sha256(CONTENT)}  {NAME}\n"


def test_a_later_download_must_be_the_first_one(site: Site, tmp_path: Path) -> None:
    download.fetch(archive(f"{site.address}/{NAME}"), tmp_path)
    (tmp_path / NAME).unlink()
    site.content = CONTENT[::-1]
    record = re.escape(str(tmp_path / f"{NAME}.sha256"))
    with pytest.raises(NMTError, match=f"the first download's was {sha256(CONTENT)}.* {record}"):
        download.fetch(archive(f"{site.address}/{NAME}"), tmp_path)
    assert not (tmp_path / NAME).exists()
    site.content = CONTENT
    download.fetch(archive(f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_mirror_takes_the_place_of_all_addresses(site: Site, tmp_path: Path) -> None:
    mirror, out = tmp_path / "mirror", tmp_path / "out"
    mirror.mkdir()
    out.mkdir()
    (mirror / NAME).write_bytes(CONTENT)
    download.fetch(published(f"{site.address}/{NAME}"), out, str(mirror))
    assert (out / NAME).read_bytes() == CONTENT
    (out / NAME).unlink()
    assert site.ranges == []
    download.fetch(published(), out, f"{site.address}/archives/")
    assert (out / NAME).read_bytes() == CONTENT


def test_two_processes_never_fetch_one_archive(site: Site, tmp_path: Path) -> None:
    partial = tmp_path / f"{NAME}.partial"
    with partial.open("wb") as file:
        lock(file, partial)
        with pytest.raises(Stopped, match=re.escape(str(partial))):
            download.fetch(published(f"{site.address}/{NAME}"), tmp_path)


def test_what_another_process_has_finished_in_between_is_not_written_to(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def flock_too_late(file: BinaryIO, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        (tmp_path / f"{NAME}.partial").rename(tmp_path / "finished")
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock_too_late)
    download.fetch(published(f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / "finished").read_bytes() == b""
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_an_archive_that_has_its_name_is_recorded_also_if_it_ended_there(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "sync_folder", killed)
    with pytest.raises(KeyboardInterrupt):
        download.fetch(archive(f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / NAME).exists()
    assert (tmp_path / f"{NAME}.sha256").exists()


def test_a_file_that_a_mirror_lacks_is_named(tmp_path: Path) -> None:
    done = run_script("training-giga-fren.tar", "--out", tmp_path / "out", "--mirror", tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"{tmp_path}/training-giga-fren.tar: No such file or directory" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_an_archive_that_the_catalogue_does_not_have_is_wrong_usage(tmp_path: Path) -> None:
    done = run_script("test-ful.tgz", "--out", tmp_path)
    assert done.returncode == 2
    assert "did you mean 'test-full.tgz'?" in done.stderr

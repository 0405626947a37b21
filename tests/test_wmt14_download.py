"""Fetching an archive of WMT14: mirrors, broken connections, sizes, checksums, and the lock."""

from __future__ import annotations

import hashlib
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nmt.errors import NMTError, Stopped
from nmt.translate.journal import lock

WMT14 = Path(__file__).parents[1] / "examples" / "wmt14"
sys.path.insert(0, str(WMT14))

import download  # noqa: E402
from catalogue import Archive  # noqa: E402

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")

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
    """The range of each request."""
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


# ------------------------------------------------------------------------- connections


@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_broken_connection_is_continued(site: Site, tmp_path: Path, size: int | None) -> None:
    site.breaks_off_after = [1000, 500]
    download.fetch(archive(f"{site.address}/{NAME}", size=size), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert site.ranges == [None, "bytes=1000-", "bytes=1500-"]


@pytest.mark.parametrize(
    ("partial", "size", "ranges"),
    [
        (CONTENT[:3000], len(CONTENT), ["bytes=3000-"]),
        (CONTENT, len(CONTENT), []),
        (CONTENT, None, ["bytes=5120-", None]),  # of unknown size: all again
        (CONTENT + b"more", None, ["bytes=5124-", None]),
    ],
)
def test_a_later_run_continues_an_earlier_one(
    site: Site, tmp_path: Path, partial: bytes, size: int | None, ranges: list[str | None]
) -> None:
    (tmp_path / f"{NAME}.partial").write_bytes(partial)
    download.fetch(archive(f"{site.address}/{NAME}", size=size), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert site.ranges == ranges


def test_a_server_that_ignores_ranges_sends_everything_again(site: Site, tmp_path: Path) -> None:
    site.knows_ranges = False
    (tmp_path / f"{NAME}.partial").write_bytes(b"x" * 100)
    download.fetch(published(f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_server_that_sends_nothing_is_given_up(site: Site, tmp_path: Path) -> None:
    site.breaks_off_after = [0]
    with pytest.raises(NMTError, match="5120 bytes remaining"):
        download.fetch(published(f"{site.address}/{NAME}"), tmp_path)


# --------------------------------------------------------------------------- addresses


def test_the_first_address_that_has_the_file_is_taken(site: Site, tmp_path: Path) -> None:
    download.fetch(published(f"{site.address}/gone", f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert not list(tmp_path.glob("*.partial"))


def test_every_address_that_failed_is_listed_with_the_reason(site: Site, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"http://127.0.0.1:{server.getsockname()[1]}/{NAME}"
    said = rf"\({site.address}/gone: [^;]*404; {nobody}: Failed to connect .*\).*MIRROR=FOLDER"
    with pytest.raises(NMTError, match=f"^{NAME} could not be fetched {said}"):
        download.fetch(published(f"{site.address}/gone", nobody), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_mirror_replaces_all_addresses(site: Site, tmp_path: Path) -> None:
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


# --------------------------------------------------------------------------- checksums


def test_a_damaged_start_is_fetched_again_from_the_next_address(site: Site, tmp_path: Path) -> None:
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


def test_later_downloads_must_equal_the_first(site: Site, tmp_path: Path) -> None:
    download.fetch(archive(f"{site.address}/{NAME}"), tmp_path)
    record = tmp_path / f"{NAME}.sha256"
    assert record.read_text(encoding="utf-8") == f"{sha256(CONTENT)}  {NAME}\n"  # as sha256sum's
    (tmp_path / NAME).unlink()
    site.content = CONTENT[::-1]
    said = f"the first download's was {sha256(CONTENT)}.* {re.escape(str(record))}"
    with pytest.raises(NMTError, match=said):
        download.fetch(archive(f"{site.address}/{NAME}"), tmp_path)
    assert not (tmp_path / NAME).exists()
    site.content = CONTENT
    download.fetch(archive(f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_checksum_is_recorded_before_the_archive_has_its_name(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_from: Path, _to: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", killed)
    monkeypatch.setattr(download, "write_text", lambda path, text: path.write_text(text))
    with pytest.raises(KeyboardInterrupt):
        download.fetch(archive(f"{site.address}/{NAME}"), tmp_path)
    assert (tmp_path / f"{NAME}.sha256").exists()


# ----------------------------------------------------------------- processes, command line


def test_two_processes_never_fetch_one_archive(site: Site, tmp_path: Path) -> None:
    partial = tmp_path / f"{NAME}.partial"
    with partial.open("wb") as file:
        lock(file, partial)
        with pytest.raises(Stopped, match=re.escape(str(partial))):
            download.fetch(published(f"{site.address}/{NAME}"), tmp_path)


def test_a_file_that_a_mirror_lacks_is_named(tmp_path: Path) -> None:
    done = run_script("training-giga-fren.tar", "--out", tmp_path / "out", "--mirror", tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"Couldn't open file {tmp_path}/training-giga-fren.tar" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_an_archive_that_the_catalogue_does_not_have_is_wrong_usage(tmp_path: Path) -> None:
    done = run_script("test-ful.tgz", "--out", tmp_path)
    assert done.returncode == 2
    assert "did you mean 'test-full.tgz'?" in done.stderr

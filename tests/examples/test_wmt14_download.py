"""Fetching an archive of WMT14: mirrors, broken connections, sizes, checksums, and the lock."""

import hashlib
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import download
import pytest
from catalogue import Archive
from example_runs import needs_curl

from nmt.errors import NMTError

WMT14 = Path(__file__).parents[2] / "examples" / "wmt14"

pytestmark = needs_curl

NAME = "dev.tgz"
CONTENT = bytes(range(256)) * 20
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PUBLISHED: dict[str, Any] = {"size": len(CONTENT), "checksums": {"sha256": SHA256}}


@dataclass
class Site:
    """A web site with one file, and its faults."""

    content: bytes = CONTENT
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
        start = int(wanted[6:-1]) if wanted else 0
        rest, size = self.content[start:], len(self.content)
        request.send_response(416 if start >= size else 206 if start else 200)
        if start:
            sent = "*" if start >= size else f"{start}-{size - 1}"
            request.send_header("Content-Range", f"bytes {sent}/{size}")
        request.send_header("Content-Length", str(len(rest)))
        request.end_headers()
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
        made.address = f"http://127.0.0.1:{server.server_port}/{NAME}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        server.shutdown()
        thread.join()


def fetch(
    folder: Path, *addresses: str, size: int | None = None, checksums: dict[str, str] | None = None
) -> bytes:
    """Fetch the archive, of which its publisher says this, and return it."""
    archive = Archive(NAME, addresses, size, checksums or {}, "its publisher")
    download.fetch(archive, folder, None)
    return (folder / NAME).read_bytes()


@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_broken_connection_is_continued(site: Site, tmp_path: Path, size: int | None) -> None:
    site.breaks_off_after = [1000, 500]
    assert fetch(tmp_path, site.address, size=size) == CONTENT
    assert site.ranges == [None, "bytes=1000-", "bytes=1500-"]


def test_every_address_that_failed_is_listed_with_the_reason(site: Site, tmp_path: Path) -> None:
    gone = f"{site.address}.gone"
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"http://127.0.0.1:{server.getsockname()[1]}/{NAME}"
    said = rf"\({gone}: [^;]*404; {nobody}: Failed to connect .*\).*MIRROR=FOLDER"
    with pytest.raises(NMTError, match=f"^{NAME} .*{said}"):
        fetch(tmp_path, gone, nobody, **PUBLISHED)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["size", "sha256", "md5"])
def test_another_size_or_checksum_is_refused(site: Site, tmp_path: Path, what: str) -> None:
    if what == "size":
        site.content, said, published = CONTENT[:-1], "5,119 .*5,120", PUBLISHED
    else:
        site.content = CONTENT[::-1]
        right, found = (hashlib.new(what, one).hexdigest() for one in (CONTENT, site.content))
        said, published = f"{what} .*{found}, .*{right}", {"checksums": {what: right}}
    with pytest.raises(NMTError, match=said):
        fetch(tmp_path, site.address, **published)
    assert list(tmp_path.iterdir()) == []


def test_later_downloads_must_equal_the_first(site: Site, tmp_path: Path) -> None:
    fetch(tmp_path, site.address)
    record = tmp_path / f"{NAME}.sha256"
    assert record.read_text(encoding="utf-8") == f"{SHA256}  {NAME}\n"  # as sha256sum's
    (tmp_path / NAME).unlink()
    site.content = CONTENT[::-1]
    with pytest.raises(NMTError, match=f"{SHA256}.* {re.escape(str(record))}"):
        fetch(tmp_path, site.address)
    assert not (tmp_path / NAME).exists()
    site.content = CONTENT
    assert fetch(tmp_path, site.address) == CONTENT

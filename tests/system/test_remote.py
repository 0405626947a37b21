"""Files at URLs are copied whole, and whatever goes wrong is told in one line with the URL."""

import errno
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from calls import calls_of
from storage import Storage

from nmt.errors import DataError, NMTError, UsageError
from nmt.system import remote

pytest.importorskip("fsspec", reason="needs the extra remote")


def test_names_are_urls_of_another_machine_or_paths() -> None:
    assert (
        remote.is_url("s3://bucket/news.en")
        and remote.is_url("memory://x")
        and remote.is_url("hdfs://node:8020/x")
    )
    for name in ("news.en", "/tmp/s3:/x", "a:b", "crawl.tsv:en,de", "-", "file:///tmp/x", "://x"):
        assert not remote.is_url(name), name
    assert remote.without_scheme("file:///tmp/x") == "/tmp/x"
    assert remote.without_scheme("s3://bucket/x") == "s3://bucket/x"
    assert remote.mirrored("s3://b/../c/./x.en", Path("/tmp")) == Path("/tmp/s3:/b/c/x.en")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sftp://me:key@host:22/a/x.en", "sftp:/me@host:22/a/x.en"),
        ("https://host/x.en.gz?sig=key", "https:/host/CHECKSUM/x.en.gz"),
        ("https://host/get?file=x.en.gz", "https:/host/CHECKSUM/get.en.gz"),
    ],
)
def test_a_copy_s_path_has_no_secrets_and_keeps_its_suffixes(url: str, path: str) -> None:
    found = str(remote.mirrored(url, Path("/tmp")))
    assert re.sub(r"/[0-9a-f]{8}/", "/CHECKSUM/", found) == f"/tmp/{path}"


def test_copies_that_differ_by_their_query_are_apart() -> None:
    paths = [remote.mirrored(f"https://h/get?file={name}.en", Path("/tmp")) for name in "ab"]
    assert paths[0] != paths[1]
    assert remote.mirrored("https://h/x?sig=key.en", Path("/")) == Path(
        f"{remote.mirrored('https://h/x?sig=key', Path('/'))}.en"
    )


@pytest.mark.parametrize("url", ["file://", "github://a", "nowhere://a"])
def test_a_url_that_names_nothing_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=url):
        remote.files_at(f"{remote.without_scheme(url)}/")


def test_files_go_there_and_back(tmp_path: Path) -> None:
    storage = Storage()
    (tmp_path / "in").write_bytes(b"\0eins\n")
    remote.upload(tmp_path / "in", "memory://bucket/one")
    assert storage.files == {"bucket/one": b"\0eins\n"}
    assert remote.exists("memory://bucket/one") and not remote.exists("memory://bucket/two")
    remote.download("memory://bucket/one", tmp_path / "new" / "out")
    assert (tmp_path / "new" / "out").read_bytes() == b"\0eins\n"


def test_elsewhere_a_file_is_written_under_another_name_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage()
    (tmp_path / "in").write_text("eins\n")
    moved = calls_of(monkeypatch, type(storage._storage), "mv")
    monkeypatch.setattr("nmt.system.remote._WHOLE_OR_NOTHING", {"s3"})
    remote.upload(tmp_path / "in", "memory://bucket/one")
    assert [names for _, *names in moved] == [["/bucket/one.partial", "/bucket/one"]]
    assert storage.files == {"bucket/one": b"eins\n"}


def test_a_folder_and_a_pattern_are_the_files_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    storage = Storage()
    for name in ("in/b.en", "in/a.en", "in/a.de", "in/.a.en.journal", "in/deeper/c.en", "x.en"):
        storage.write(name, "x")
    assert remote.files_at("memory://in/") == [f"memory://in/{n}" for n in ("a.de", "a.en", "b.en")]
    assert "memory://in/: folders in it are not looked into, such as deeper" in (
        capsys.readouterr().err
    )
    assert remote.files_at("memory://in/*.en") == ["memory://in/a.en", "memory://in/b.en"]
    assert remote.files_at("memory://in/a.en") == ["memory://in/a.en"]


def test_a_folder_is_made_only_in_one_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage()
    for _ in range(2):
        remote.make_folder("memory://bucket")
    assert remote.exists("memory://bucket") and remote.files_at("memory://bucket/") == []

    def miss(*_: Any, create_parents: bool) -> None:
        assert not create_parents  # object stores would make a bucket
        raise FileNotFoundError("bucket")

    monkeypatch.setattr(type(storage._storage), "mkdir", miss)
    with pytest.raises(DataError, match=r"^memory://none/x: "):
        remote.make_folder("memory://none/x")


def test_what_goes_wrong_names_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage()
    with pytest.raises(DataError, match=r"^memory://bucket/none: "):
        remote.download("memory://bucket/none", tmp_path / "x")
    with pytest.raises(UsageError, match=r"^ftq://x/y: .*ftq"):
        remote.exists("ftq://x/y")

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("Unable to locate credentials\nwhatever")

    monkeypatch.setattr(type(storage._storage), "get_file", refuse)
    with pytest.raises(NMTError, match=r"^memory://x: RuntimeError: Unable to locate credent\w+$"):
        remote.download("memory://x", tmp_path / "x")

    def miss(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("The specified bucket does not exist")

    (tmp_path / "out").touch()
    monkeypatch.setattr(type(storage._storage), "put_file", miss)
    with pytest.raises(DataError, match=r"^memory://none/x: "):
        remote.upload(tmp_path / "out", "memory://none/x")

    def fill_disk(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(storage._storage), "get_file", fill_disk)
    with pytest.raises(OSError, match="space"):
        remote.download("memory://x", tmp_path / "x")


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("s3fs") is None:
        with pytest.raises(UsageError, match=r"^s3://bucket/x: Install s3fs"):
            remote.exists("s3://bucket/x")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UsageError, match=r"^s3://bucket/x: .*pip install fsspec`"):
        remote.exists("s3://bucket/x")

"""`nmt translate` with inputs and outputs at URLs."""

import gzip
from pathlib import Path

import pytest
from command_line import Nmt
from mishaps import stop_after_pools
from storage import Storage

from nmt.errors import NMTError

TEXT = "".join(f"the cat sees a dog {number}\n" for number in range(12))


@pytest.fixture
def expected(translate: Nmt, tmp_path: Path) -> bytes:
    (tmp_path / "in").write_text(TEXT)
    assert translate("--input", tmp_path / "in", "--output", tmp_path / "out").status == 0
    return (tmp_path / "out").read_bytes()


def test_a_url_is_translated_to_one_once(translate: Nmt, storage: Storage, expected: bytes) -> None:
    source = storage.write("bucket/news.en.gz", gzip.compress(TEXT.encode()))
    words = ("--input", source, "--output", "memory://out/news.de.gz")
    assert translate(*words).status == 0
    names = ["bucket/news.en.gz", "out/.news.de.gz.journal", "out/news.de.gz"]
    assert sorted(storage.files) == names
    assert gzip.decompress(storage.files["out/news.de.gz"]) == expected
    assert storage.left_over() == []
    before = storage.files
    assert "memory:/out/news.de.gz: already translated" in translate(*words).succeeded().stderr
    assert (storage.files, storage.left_over()) == (before, [])
    storage.write("bucket/news.en.gz", gzip.compress(b"a dog\n"))
    assert translate(*words).summary["lines_in"] == 1
    assert gzip.decompress(storage.files["out/news.de.gz"]).count(b"\n") == 1


def test_a_job_that_was_stopped_continues_on_this_machine(
    translate: Nmt, storage: Storage, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--input", storage.write("in", TEXT), "--output", "memory://out", "--pool-lines", "5")
    with monkeypatch.context() as patch:
        stop_after_pools(patch, 1)
        assert translate(*words).status == 75
    assert storage.files.keys() == {"in"}
    assert "after line 5" in translate(*words).succeeded().stderr
    assert storage.files["out"] == expected
    assert storage.left_over() == []


def test_an_upload_that_fails_is_done_the_next_time(
    translate: Nmt, storage: Storage, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--input", storage.write("in", TEXT), "--output", "memory://out")

    def fail(_: Path, url: str) -> None:
        raise NMTError(f"{url}: no network")

    with monkeypatch.context() as patch:
        patch.setattr("nmt.system.remote.upload", fail)
        assert translate(*words, "--quiet").refusal(1) == "nmt: error: memory://out: no network"
    assert "already translated" in translate(*words).succeeded().stderr
    assert storage.files["out"] == expected


@pytest.mark.parametrize(
    ("inputs", "output"), [("memory://in/", "memory://out"), ("memory://in/*.en", "memory://out/")]
)
def test_folders_at_urls_are_translated_file_by_file(
    translate: Nmt, storage: Storage, expected: bytes, inputs: str, output: str
) -> None:
    for name in ("a.en", "b.en"):
        storage.write(f"in/{name}", TEXT)
    bad = storage.write("c.en", b"\x7fELF\0\0\0\0")
    answer = translate("--input", inputs, "--input", bad, "--output", output)
    assert answer.status == 1
    assert "c.en" in answer.stderr and answer.summary["lines_in"] == 24
    assert storage.files["out/a.en"] == storage.files["out/b.en"] == expected
    assert "out/c.en" not in storage.files
    assert storage.left_over() == []


def test_urls_and_files(translate: Nmt, storage: Storage, expected: bytes, tmp_path: Path) -> None:
    assert translate("--output", "memory://piped", stdin=TEXT.encode()).status == 0
    assert storage.files == {"piped": expected}
    assert translate("--input", storage.write("in", TEXT)).stdout.encode() == expected
    local = ("--input", f"file://{tmp_path}/in", "--output", f"file://{tmp_path}/local")
    assert translate(*local).status == 0
    assert (tmp_path / "local").read_bytes() == expected
    assert (tmp_path / ".local.journal").exists()
    assert storage.left_over() == []


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("--input memory://none", 1, "memory://none: "),
        ("--input memory://empty/ --output x", 2, "--input memory://empty/: "),
        ("--input memory://in/a --output memory://in/a", 2, "memory://in/a"),
        ("--input memory://in/a --output memory://in/", 2, "memory://in/a"),
        ("--input memory://in/ --output memory://in/", 2, "memory://in/"),
        ("--input memory://in/a --output ftq://x/y", 2, "ftq://x/y: "),
    ],
)
def test_wrong_urls_are_told_in_one_line(
    translate: Nmt, storage: Storage, words: str, status: int, told: str
) -> None:
    storage.write("in/a", TEXT)
    storage.write("empty/deeper/a", TEXT)
    assert told in translate(*words.split(), "--quiet").refusal(status)
    assert storage.files.keys() == {"in/a", "empty/deeper/a"}


def test_passwords_and_queries_of_urls_are_neither_said_nor_kept(
    translate: Nmt, storage: Storage, expected: bytes, tmp_path: Path
) -> None:
    storage.write("me:s3cret@in/news.en?sig=t0ken", TEXT)
    out = "memory://me:s3cret@out/news.de?sig=t0ken"
    words = ("--input", "memory://me:s3cret@in/news.en?sig=t0ken", "--output", out)
    done, again = translate(*words), translate(*words)
    assert storage.files[out.removeprefix("memory://")] == expected
    assert "already translated" in again.stderr
    missing = translate("--input", "memory://me:s3cret@in/no?sig=t0ken", "--output", out)
    assert missing.status == 1 and "memory://me@in/no" in missing.stderr
    journal = storage.files["me:s3cret@out/.news.de?sig=t0ken.journal"]
    said = "".join(answer.stderr for answer in (done, again, missing))
    for secret in ("s3cret", "t0ken"):
        assert secret not in said and secret.encode() not in journal
        assert not [path for path in tmp_path.rglob("*") if secret in str(path)]

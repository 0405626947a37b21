"""From WMT14's archives to text: the catalogue, and texts extracted from archives."""

import io
import tarfile
from pathlib import Path

import pytest
from catalogue import ParallelText, read_catalogue
from extract import extract
from sacrebleu.dataset import DATASETS

from nmt.errors import DataError

WMT14 = Path(__file__).parents[2] / "examples" / "wmt14"
CATALOGUE = read_catalogue(WMT14 / "wmt14.toml")


@pytest.mark.parametrize(("pair", "lines"), [("en-de", 4_520_620), ("en-fr", 40_842_333)])
def test_the_training_text_has_the_published_number_of_lines(pair: str, lines: int) -> None:
    texts = CATALOGUE.texts[pair].values()
    assert sum(text.lines for text in texts if not text.name.startswith("newstest")) == lines


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_the_test_set_is_the_full_one_of_sacrebleu(pair: str) -> None:
    full = DATASETS["wmt14/full"]
    text = CATALOGUE.text(pair, "newstest2014")
    archive = CATALOGUE.archive(text.archive)
    assert full.md5 and full.data
    assert archive.checksums == {"md5": full.md5[0]}
    assert full.data[0].removeprefix("https://") in {
        address.partition("//")[2] for address in archive.addresses
    }
    assert list(text.members.values()) == full.langpairs[pair]
    assert text.lines == 3003


def sides(en: bytes, de: bytes, suffix: str = "") -> dict[str, bytes]:
    return {f"inner/text.en{suffix}": en, f"inner/text.de{suffix}": de}


def make(path: Path, members: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> None:
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.size = kind, len(content)
            tar.addfile(entry, io.BytesIO(content))


def take(path: Path, suffix: str = "", *, lines: int = 2) -> Path:
    """Extract a text into a folder beside its archive; return that."""
    members = dict(zip(("en", "de"), sides(b"", b"", suffix), strict=True))
    out = path.parent / "out"
    out.mkdir(exist_ok=True)
    extract(ParallelText("text", path.name, members, lines), path, out)
    return out


def test_both_sides_are_taken_byte_by_byte_and_nothing_else(tmp_path: Path) -> None:
    path, out = tmp_path / "archive.tgz", tmp_path / "out"
    en, de = b"a\rb\n\xe2\x80\xa8c\n", b"\xff\r\n\n"  # two lines each, as `wc -l` counts them
    members = {"inner/text.fr": b"un\n", "./inner/text.en": en, "inner/text.de": de}
    make(path, members | {"../evil": b"x"})
    out.mkdir()
    (out / ".text.en.of_a_run.partial").mkdir()
    take(path)
    found = {file.name: file.read_bytes() for file in out.iterdir()}
    assert found == {"text.en": en, "text.de": de, "text.lines": b"2\n"}
    assert not (tmp_path / "evil").exists()


LATIN = b"<refset><doc docid='1'><seg id='1'>caf\xe9</seg></doc></refset>"
OTHER_NAME = {"inner/text.en": b"1\n2\n", "inner/test.de": b"1\n2\n"}


@pytest.mark.parametrize(
    ("members", "kind", "said"),
    [
        (sides(b"1\n2\n", b"1\n2\n3\n"), "", r"text\.de .*3 lines, .*2 "),
        (sides(b"1\n", b"1\n"), "", r"inner/text\.en .*1 lines, .*2 "),
        (sides(b"1\n2\n", b"1\n2\n3"), "", r"inner/text\.de .*3 lines"),
        (sides(LATIN, LATIN, ".sgm"), ".sgm", r"damaged \('utf-8' codec"),
        (OTHER_NAME, "", r"inner/text\.de; .*'inner/test\.de'"),
        (sides(b"", b""), "link", r"inner/text\.en is"),
    ],
)
def test_an_archive_without_the_text_that_it_should_have_is_refused(
    tmp_path: Path, members: dict[str, bytes], kind: str, said: str
) -> None:
    path = tmp_path / "archive.tgz"
    make(path, members, tarfile.SYMTYPE if kind == "link" else tarfile.REGTYPE)
    with pytest.raises(DataError, match=rf"archive\.tgz.*{said}"):
        take(path, kind.removeprefix("link"))
    assert not (tmp_path / "out" / "text.lines").exists()


@pytest.mark.parametrize("name", ["archive.tgz", "archive.tar"])
def test_a_damaged_or_missing_archive_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(DataError, match=f"{path}: no"):
        take(path)
    make(path, sides(b"1\n2\n", b"1\n2\n" + bytes(range(256)) * 9))
    whole = path.read_bytes()
    damaged = [whole[: len(whole) // 3]]
    if path.suffix == ".tgz":  # a bit of the CRC-32 behind the compressed data (RFC 1952)
        damaged.append(whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:])
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"{path}: .*damaged .* {name}\.sha256"):
            take(path)
        assert not (tmp_path / "out" / "text.lines").exists()

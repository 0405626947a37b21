"""From WMT14's archives to text: the catalogue, and texts extracted from archives."""

from __future__ import annotations

import gzip
import io
import re
import sys
import tarfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sacrebleu.dataset import DATASETS
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from nmt.errors import DataError, UsageError
from nmt.scoring.inputs import read_sgml

WMT14 = Path(__file__).parents[1] / "examples" / "wmt14"
sys.path.insert(0, str(WMT14))

from catalogue import ParallelText, read_catalogue  # noqa: E402
from extract import extract  # noqa: E402

CATALOGUE = read_catalogue(WMT14 / "wmt14.toml")

SGML = """\
<refset setid="newstest2014-deen" srclang="any" trglang="de">
<doc sysid="ref" docid="1" genre="news" origlang="en">
<hl>
<seg id="1">  A headline,   and\tits tab </seg>
</hl>
<p>
<seg id="2">Bread &amp; butter: 3 &lt; 4, &quot;so&quot;</seg>
<SEG ID="3">It is 3 < 4 & 5 > 4</SEG>
<seg id="4">U.S.\u00a0army\u2028and &copy; stays</seg>
<seg id="5"></seg>
</p>
</doc>
</refset>
"""


def segments(text: str) -> list[str]:
    return read_sgml("test.sgm", text).lines


# The catalogue


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


def test_the_readme_names_every_archive_that_only_one_host_has() -> None:
    readme = (WMT14 / "README.md").read_text(encoding="utf-8")
    named = re.search(r"Only one host has ([^;]*?`)\.\s", readme)
    assert named
    assert set(re.findall(r"`(.*?)`", named[1])) == {
        archive.name
        for archive in CATALOGUE.archives.values()
        if all(".statmt.org" in f".{urlsplit(one).netloc}" for one in archive.addresses)
    }


def test_archives_have_an_address_and_a_checksum_with_its_source_or_https() -> None:
    for archive in CATALOGUE.archives.values():
        assert archive.addresses
        secure = all(address.startswith("https://") for address in archive.addresses)
        assert secure or archive.checksums
        assert bool(archive.source) == bool(archive.checksums or archive.size)


def test_a_text_that_the_catalogue_lacks_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'europarl-v7'"):
        CATALOGUE.text("en-de", "europarl-v8")
    with pytest.raises(UsageError, match="no en-de text un"):
        CATALOGUE.text("en-de", "un")


def test_other_files_are_refused_as_catalogues(tmp_path: Path) -> None:
    path = tmp_path / "wmt14.toml"
    for content in (
        "",
        "archives = 1",
        "[archives.a]\n[texts]",
        "[archives]\n[texts.a.en-de]",
        "[",
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=re.escape(str(path))):
            read_catalogue(path)


# Archives


def test_sgml_gives_the_tokens_of_sacrebleu(tmp_path: Path) -> None:
    path = tmp_path / "test.sgm"
    path.write_text(SGML.replace("SEG", "seg"), encoding="utf-8")
    sacrebleu = FakeSGMLDataset("made-up", langpairs={})
    sacrebleu._convert_format(str(path), str(tmp_path / "text"))  # type: ignore[no-untyped-call]
    expected = (tmp_path / "text").read_text(encoding="utf-8").split("\n")[:-1]
    tokenize = Tokenizer13a()  # type: ignore[no-untyped-call]
    assert [tokenize(line) for line in segments(SGML)] == [tokenize(line) for line in expected]


def make(path: Path, members: dict[str, bytes], *, kind: bytes = tarfile.REGTYPE) -> None:
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.size = kind, len(content)
            tar.addfile(entry, io.BytesIO(content))


def text(suffix: str = "", *, archive: str = "archive.tgz", lines: int = 2) -> ParallelText:
    members = {language: f"inner/text.{language}{suffix}" for language in ("en", "de")}
    return ParallelText("text", archive, members, lines)


def test_both_sides_are_taken_byte_by_byte_and_nothing_else(tmp_path: Path) -> None:
    en, de = b"a\rb\n\xe2\x80\xa8c\n", b"\xff\r\n\n"  # two lines each, as `wc -l` counts them
    members = {"inner/text.fr": b"un\n", "./inner/text.en": en, "inner/text.de": de}
    make(tmp_path / "archive.tgz", members | {"../evil": b"x"})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "text.en.123.partial").write_bytes(b"of a killed run")
    extract(text(), tmp_path / "archive.tgz", tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {
        "text.en": en,
        "text.de": de,
        "text.lines": b"2\n",
    }
    assert not (tmp_path / "evil").exists()


def test_compressed_text_in_a_tar_stays_compressed(tmp_path: Path) -> None:
    compressed = gzip.compress(b"1\n2\n")
    make(tmp_path / "archive.tar", dict.fromkeys(text(".gz").members.values(), compressed))
    extract(text(".gz"), tmp_path / "archive.tar", tmp_path)
    assert (tmp_path / "text.en.gz").read_bytes() == compressed
    assert (tmp_path / "text.de.gz").read_bytes() == compressed


def test_sgml_becomes_text(tmp_path: Path) -> None:
    make(tmp_path / "archive.tgz", dict.fromkeys(text(".sgm").members.values(), SGML.encode()))
    extract(text(".sgm", lines=5), tmp_path / "archive.tgz", tmp_path)
    expected = "".join(f"{line}\n" for line in segments(SGML))
    assert (tmp_path / "text.de").read_text(encoding="utf-8") == expected


def test_sgml_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    spoilt = SGML.encode().replace(b"butter", b"caf\xe9")
    make(tmp_path / "archive.tgz", dict.fromkeys(text(".sgm").members.values(), spoilt))
    with pytest.raises(DataError, match=r"archive.tgz: cut short or damaged \('utf-8' codec"):
        extract(text(".sgm", lines=5), tmp_path / "archive.tgz", tmp_path)


@pytest.mark.parametrize(
    ("en", "de", "said"),
    [
        (b"1\n2\n", b"1\n2\n3\n", r"inner/text\.de has 3 lines, and 2 are expected"),
        (b"1\n", b"1\n", r"inner/text\.en has 1 lines, and 2 are expected"),
        (b"1\n2\n", b"1\n2\n3", r"inner/text\.de has 3 lines"),
    ],
)
def test_other_lines_than_expected_are_refused(
    tmp_path: Path, en: bytes, de: bytes, said: str
) -> None:
    make(tmp_path / "archive.tgz", {"inner/text.en": en, "inner/text.de": de})
    with pytest.raises(DataError, match=said):
        extract(text(), tmp_path / "archive.tgz", tmp_path)
    assert not (tmp_path / "text.lines").exists()


def test_a_member_that_is_missing_is_named(tmp_path: Path) -> None:
    make(tmp_path / "archive.tgz", {"inner/text.en": b"1\n2\n", "inner/test.de": b"1\n2\n"})
    said = r"archive.tgz does not hold inner/text\.de; did you mean 'inner/test\.de'"
    with pytest.raises(DataError, match=said):
        extract(text(), tmp_path / "archive.tgz", tmp_path)


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    members = dict.fromkeys(text().members.values(), b"")
    make(tmp_path / "archive.tgz", members, kind=tarfile.SYMTYPE)
    with pytest.raises(DataError, match=r"inner/text\.en is no regular file"):
        extract(text(), tmp_path / "archive.tgz", tmp_path)


@pytest.mark.parametrize("name", ["archive.tgz", "archive.tar"])
def test_an_archive_that_was_cut_short_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    make(path, {"inner/text.en": b"1\n2\n", "inner/text.de": b"1\n" + bytes(range(256)) * 9})
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    said = rf"{path}: cut short or damaged .*; remove it and {name}\.sha256"
    with pytest.raises(DataError, match=said):
        extract(text(archive=name), path, tmp_path)
    assert not (tmp_path / "text.lines").exists()


def test_an_archive_with_a_wrong_sum_at_its_very_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "archive.tgz"
    make(path, dict.fromkeys(text().members.values(), b"1\n2\n"))
    content = bytearray(path.read_bytes())
    content[-8] ^= 1  # of the CRC-32 behind the compressed data (RFC 1952)
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"{path}: cut short or damaged"):
        extract(text(), path, tmp_path)


def test_an_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=re.escape(f"{tmp_path}/archive.tgz: no such file")):
        extract(text(), tmp_path / "archive.tgz", tmp_path)

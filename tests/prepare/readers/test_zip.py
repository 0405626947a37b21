"""ZIP archives of OPUS: the files of both languages, and archives that cannot be used."""

import zipfile
from pathlib import Path

import pytest
from prepare_job import pairs
from text_formats import write_zip

from nmt.data.corpus import Encoding
from nmt.errors import DataError
from nmt.prepare.readers.find import find_reader
from nmt.prepare.readers.reading import surveys_of

UTF8 = Encoding.find("utf-8")


def survey(path: Path) -> None:
    for one in surveys_of(find_reader(str(path), ("en", "de"), UTF8)):
        one(int)


@pytest.mark.parametrize("names", [["a.en"], ["a.en", "b.en", "a.de"], []])
def test_an_archive_needs_one_file_of_each_language(tmp_path: Path, names: list[str]) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in names:
            archive.writestr(name, "text\n")
    with pytest.raises(DataError, match=r"x\.zip: .* \.(en|de);"):
        survey(tmp_path / "x.zip")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_damaged_members_are_refused(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as archive:
        for side, lang in enumerate(("en", "de")):
            archive.writestr(f"a.{lang}", "".join(f"{pair[side]}\n" for pair in pairs(900)))
    raw = (tmp_path / "x.zip").read_bytes()
    (tmp_path / "x.zip").write_bytes(raw[:900] + bytes(100) + raw[1000:])
    with pytest.raises(DataError, match=r"x\.zip: .*ZIP"):
        survey(tmp_path / "x.zip")


def test_an_archive_of_a_later_version_is_refused(tmp_path: Path) -> None:
    raw = bytearray(Path(write_zip(tmp_path, pairs(3))).read_bytes())
    raw[raw.find(b"PK\x01\x02") + 6] = 99  # the version needed for the first file
    (tmp_path / "x.zip").write_bytes(raw)
    with pytest.raises(DataError, match=r"x\.zip: .*version 9\.9"):
        survey(tmp_path / "x.zip")


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    whole = Path(write_zip(tmp_path, pairs(500))).read_bytes()
    for raw in (whole[:-40], b"", whole[:200] + bytes(100) + whole[300:]):
        (tmp_path / "cut.zip").write_bytes(raw)
        with pytest.raises(DataError, match=r"cut\.zip: .*ZIP"):
            survey(tmp_path / "cut.zip")

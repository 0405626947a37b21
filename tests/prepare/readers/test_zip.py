"""ZIP archives of OPUS: the files of both languages, and archives that cannot be used."""

import gzip
import zipfile
from pathlib import Path

import pytest
from prepare_job import Job, pairs, pairs_in, write
from text_formats import members, pack, tmx, write_zip

from nmt.data.corpus import Encoding
from nmt.errors import DataError
from nmt.prepare.readers.find import find_reader
from nmt.prepare.readers.line_files import ZipFiles
from nmt.prepare.readers.reading import surveys_of

UTF8 = Encoding.find("utf-8")


def survey(path: Path) -> None:
    for one in surveys_of(find_reader(str(path), ("en", "de"), UTF8)):
        one(int)


@pytest.mark.parametrize("names", [["a.en"], ["a.en", "b.en", "a.de"], []])
def test_an_archive_needs_one_file_of_each_language(tmp_path: Path, names: list[str]) -> None:
    pack(tmp_path / "x.zip", dict.fromkeys(names, "text\n"))
    with pytest.raises(DataError, match=r"x\.zip: .* \.(en|de);"):
        survey(tmp_path / "x.zip")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_damaged_members_are_refused(tmp_path: Path, method: int) -> None:
    pack(tmp_path / "x.zip", members("a", pairs(900)), method)
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


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_member_is_found_by_what_its_code_means(tmp_path: Path, order: tuple[int, int]) -> None:
    codes = ["zh_TW", "zh_cn"]
    names = ["README", "LICENSE", "x.en", *(f"x.{codes[at]}" for at in order)]
    pack(tmp_path / "x.zip", {name: f"{name}\n" for name in names})
    for lang, member in (("zh", "zh_cn"), ("zh-CN", "zh_cn"), ("zh_Hant", "zh_TW")):
        reader = find_reader(f"{tmp_path}/x.zip", ("en", lang), UTF8)
        assert isinstance(reader, ZipFiles)
        assert reader.members == ("x.en", f"x.{member}")
    pack(tmp_path / "y.zip", {"x.en": b"a\n", "x.zh_TW": b"b\n"})
    with pytest.raises(DataError, match=r"\.zh; it has .*x\.zh_TW"):  # another script
        find_reader(f"{tmp_path}/y.zip", ("en", "zh"), UTF8)
    with pytest.raises(DataError, match=r"\.cn; it has .*zh"):
        find_reader(f"{tmp_path}/x.zip", ("en", "cn"), UTF8)


def table(separator: str) -> bytes:
    return "".join(f"{src}{separator}{tgt}\n" for src, tgt in [("en", "de"), *pairs(60)]).encode()


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ({"a/en-de.tmx": tmx(pairs(60))}, "x.zip"),
        ({"2.tmx": tmx(pairs(60)[30:]), "1.tmx": tmx(pairs(60)[:30]), "about": b"a"}, "x.zip"),
        ({"a.tsv": table("\t"), "_about.txt": b"about"}, "x.zip"),
        ({"a.csv.gz": gzip.compress(table(","))}, "x.zip"),
        ({"a.tsv": table("\t"), "__MACOSX/._a.tsv": b"\0"}, "x.zip"),
        ({"a.tsv": table("\t"), "b.csv": b"c,d\n"}, "x.zip:a.tsv"),
        ({"deu.txt": table("\t").partition(b"\n")[2], "_about.txt": b"a\n"}, "x.zip:1,2"),
    ],
)
def test_tables_and_memories_in_archives_are_read(
    job: Job, tmp_path: Path, content: dict[str, bytes], name: str
) -> None:
    pack(tmp_path / "x.zip", content)
    assert sorted(pairs_in(job.but(train=(f"{tmp_path}/{name}",)).prepare())) == sorted(pairs(60))
    assert not [*tmp_path.rglob("*.partial")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a.tsv": table("\t"), "b.csv": b"c,d\n"}, r"x\.zip: has 2 tables.*x\.zip:a\.tsv"),
        ({"fr-en.tsv": table("\t"), "x/DE_eng.csv": b"c,d\n"}, r"as in .*x\.zip:x/DE_eng\.csv$"),
        ({"a.ann.txt": b"T1\ta\n", "b.txt": table("\t"), "c.ann.txt": b"T\ta\n"}, r"zip:b\.txt$"),
        ({"deu.txt": b"a\tb\n"}, r"x\.zip: must have columns .*x\.zip:1,2"),
        ({"a.csv": b"a,b\n"}, r"x\.zip:a\.csv: must have columns .*x\.zip:a\.csv:1,2"),
        ({"a.csv": bytes(1 << 25)}, r"x\.zip"),
    ],
)
def test_tables_in_archives_that_are_unclear_are_refused(
    job: Job, tmp_path: Path, content: dict[str, bytes], message: str
) -> None:
    pack(tmp_path / "x.zip", content)
    with pytest.raises(DataError, match=message):
        job.but(train=(f"{tmp_path}/x.zip",)).prepare()


BREAK = ("", "")
LINKS = '<linkGrp fromDoc="{}">\n{}</linkGrp>\n'
LISTS = {
    "x.ids": "".join(f"en/{n // 20}\tde/{n // 20}\t{n}\t{n}\n" for n in range(60)),
    "x.xml": "".join(
        LINKS.format(doc, '<link xtargets="1;1 2" />\n' * 20 + '<link xtargets="3;" />\n')
        for doc in range(3)
    ),
}


@pytest.mark.parametrize("name", ["x.ids", "x.xml", None])
def test_the_documents_of_opus_are_those_of_windows(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str | None
) -> None:
    pack(tmp_path / "x.zip", members("x", pairs(60)) | ({name: LISTS[name]} if name else {}))
    windows = job.but(train=(f"{tmp_path}/x.zip",), documents=True, vocab_size=350)
    counts = windows.prepare().info.train.windows
    assert ("has no .ids" in capsys.readouterr().err) == (name is None)
    lines = pairs(60)
    parts = [*lines[:20], BREAK, *lines[20:40], BREAK, *lines[40:]] if name else lines
    broken = write(tmp_path, "broken", parts)
    assert counts == windows.but(out=tmp_path / "2", train=(broken,)).prepare().info.train.windows


@pytest.mark.parametrize("name", ["x.ids", "x.xml"])
def test_a_list_of_documents_of_other_text_is_refused(job: Job, tmp_path: Path, name: str) -> None:
    pack(tmp_path / "x.zip", members("x", [("text", "text")] * 59) | {name: LISTS[name]})
    with pytest.raises(DataError, match=r"x\.zip:x\... has 59 lines.* 60; .*--documents"):
        job.but(train=(f"{tmp_path}/x.zip",), documents=True).prepare()

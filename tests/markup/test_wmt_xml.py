"""WMT's XML: the lines are sacreBLEU's, and what is not clear or not safe is refused."""

import gzip
import re
from pathlib import Path

import pytest
from sacrebleu.dataset.wmt_xml import WMTXMLDataset

from nmt.data.corpus import Encoding
from nmt.errors import DataError
from nmt.scoring.inputs import Text, read_text, stream_together

UTF_8 = Encoding.find("utf-8")

# Segments out of order and in two paragraphs, one without reference, one that only A lacks, a test
# suite, a collection, supplements, and a document that one system lacks.
XML = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="newstest2021">
  <collection id="general">
  <doc origlang="en" id="bbc.1">
    <src lang="en">
      <p><seg id="2">Two &amp; two.</seg><seg id="1">One.</seg></p>
      <p><seg id="3">Three.</seg><seg id="10">Ten.</seg></p>
    </src>
    <ref lang="de" translator="A">
      <p><seg id="1">Eins.</seg><seg id="2"> Zwei &amp;
        &#x7A;wei. </seg><seg id="3"></seg></p>
    </ref>
    <ref lang="de" translator="B">
      <p><seg id="1">Eine.</seg><seg id="2">Zweie.</seg><seg id="10">Zehne.</seg></p>
    </ref>
    <hyp lang="de" system="Online-B"><p><seg id="1">1.</seg><seg id="2">2.</seg><seg id="3">3.</seg>
      <seg id="10">10.</seg></p></hyp>
    <supplemental type="clean"><p><seg id="1">No text.</seg></p></supplemental>
  </doc>
  </collection>
  <doc origlang="de" id="bbc.2">
    <src lang="en"><p><seg id="1">Yes.</seg></p></src>
    <ref lang="de" translator="A"><p><seg id="1">Ja.</seg></p></ref>
    <ref lang="de" translator="B"><p><seg id="1">Jawohl.</seg></p></ref>
    <hyp lang="de" system="Online-B"><p><seg id="1">Doch.</seg></p></hyp>
    <hyp lang="de" system="late"><p><seg id="1">Na ja.</seg></p></hyp>
  </doc>
  <doc origlang="en" id="suite.1" testsuite="idioms">
    <src lang="en"><p><seg id="1">Kick the bucket.</seg></p></src>
    <ref lang="de" translator="A"><p><seg id="1">Sterben.</seg></p></ref>
  </doc>
</dataset>
"""
SUBMISSION = """<dataset id="test"><doc origlang="en" id="bbc.1">
<src lang="en"><p><seg id="1">One.</seg></p></src>
<hyp system="mine" language="de"><p><seg id="1">Eins</seg></p></hyp></doc></dataset>"""


def written(folder: Path, content: str | bytes, name: str = "test.xml") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path | str, use: str) -> Text:
    return read_text(Path(path), UTF_8, use)


def test_each_side_has_the_lines_of_sacrebleu(tmp_path: Path) -> None:
    path = written(tmp_path, XML)
    oracle = WMTXMLDataset._unwrap_wmt21_or_later(str(path))  # type: ignore[no-untyped-call]
    sides = {"src": ("", "source"), "ref:A": (":A", "reference"), "ref:B": (":B", "reference")}
    for key, (whose, use) in sides.items():
        assert read(f"{path}{whose}", use).lines == [" ".join(line.split()) for line in oracle[key]]
    text = read(f"{path}:A", "reference")
    assert text.lines == ["Eins.", "Zwei & zwei.", "", "Ja."]
    assert text.segments == ("bbc.1:1", "bbc.1:2", "bbc.1:10", "bbc.2:1")
    assert (text.name, text.lang) == (f"{path}:A", "de")
    assert read(f"{path}:Online-B", "hypothesis").lines == ["1.", "2.", "10.", "Doch."]
    assert read(f"{path}:late", "hypothesis").lines == ["", "", "", "Na ja."]


def test_the_only_text_of_its_kind_needs_no_name(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(SUBMISSION.encode()), "mine.xml.gz")
    assert read(path, "hypothesis").lines == ["Eins"]
    assert read(path, "source") == Text(str(path), ["One."], ("bbc.1:1",), "en")
    source, target = stream_together([path, path], UTF_8)
    assert (list(source), list(target)) == (["One."], ["Eins"])


@pytest.mark.parametrize(
    ("whose", "use", "problem"),
    [
        ("", "reference", "one reference; .*FILE:A, of A,"),
        ("", "hypothesis", "one hypothesis; .*FILE:Online"),
        (":C", "reference", "reference by C; .*FILE:A, of A, B,"),
    ],
)
def test_unclear_choices_are_refused(whose: str, use: str, problem: str, tmp_path: Path) -> None:
    path = written(tmp_path, XML)
    with pytest.raises(DataError) as caught:
        read(f"{path}{whose}", use)
    assert re.match(f"{path} .*{problem}".replace("FILE", str(path)), str(caught.value))


BOMB = """<!DOCTYPE dataset [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<dataset><doc id="x"><src lang="en"><p><seg id="1">&b;</seg></p></src></doc></dataset>"""
OUTSIDE = """<!DOCTYPE dataset [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<dataset><doc id="x"><src lang="en"><p><seg id="1">&a;</seg></p></src></doc></dataset>"""


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (BOMB, "entity &a;"),
        (OUTSIDE, "entity &a;"),
        ("<html></html>", "<html>, expected <dataset>"),
        ("<dataset></dataset>", "has no hypothesis"),
        (SUBMISSION.replace('id="1">Eins', 'id="x">Eins'), "document 'bbc.1' has <seg id='x'> "),
        (SUBMISSION.replace("Eins</seg>", '</seg><seg id="1"/>'), "has <seg id='1'> "),
        (SUBMISSION.replace("</doc>", '<hyp system="mine"/></doc>'), "second <hyp>"),
    ],
)
def test_damaged_or_unsafe_files_fail(content: str | bytes, problem: str, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    with pytest.raises(DataError) as caught:
        read(path, "hypothesis")
    assert str(caught.value).startswith(str(path))
    assert problem in str(caught.value)


def test_the_encoding_is_the_one_that_the_file_declares(tmp_path: Path) -> None:
    content = SUBMISSION.replace("Eins", "Häuser")
    latin = f"<?xml version='1.0' encoding='iso-8859-1'?>{content}".encode("iso-8859-1")
    for raw in (latin, content.encode("utf-16"), b"\xef\xbb\xbf" + content.encode()):
        assert read(written(tmp_path, raw), "hypothesis").lines == ["Häuser"]

"""`--fix`: entities and broken encodings are counted in every text, and repaired if asked for."""

import html
import json
import re
from pathlib import Path

import pytest
from command_line import Nmt, Stderr
from hypothesis import given
from hypothesis import strategies as st
from prepare_job import Job, content, job_of, pairs, pairs_in, write

from nmt.data.folder import DataFolder
from nmt.data.manifest import FlawRecord
from nmt.errors import UsageError
from nmt.prepare.fixes import first_entity, without_entities


@pytest.mark.parametrize(
    ("line", "entity", "text"),
    [
        ("don&#39;t &#x27;do&#X27; it", "&#39;", "don't 'do' it"),
        ("&quot;Tom &amp; Jerry&quot;", "&quot;", '"Tom & Jerry"'),
        ("caf&eacute;&nbsp;&euro;&#8364;", "&eacute;", "café\u00a0€€"),
        ("&scaron;&Zcaron;&apos;&lbrack;", "&scaron;", "šŽ'["),  # HTML 5 has more than HTML 4
        ("it&#146;s&#133;", "&#146;", "it’s…"),  # browsers read windows-1252
        ("a &#124; b &#91; &bar; &bra; &ket;", "&#124;", "a | b [ | [ ]"),  # Moses
        ("R&amp;amp;D, don&amp;#39;t", "&amp;", "R&D, don't"),  # escaped twice
        ("& quot ; a & quot; b &quot ; it & apos ; s", "& quot ;", '" a " b " it \' s'),  # cut
        ("don & # 39 ; t &# 8364 ; AT & amp ; T", "& # 39 ;", "don ' t € AT & T"),
        ("a &amp; quot ; b & amp ; lt ; c", "&amp;", 'a " b < c'),
        ("&lt;b&gt;bold&lt;/b&gt;", "&lt;", "<b>bold</b>"),
        ("f&Atilde;&frac14;r", "&Atilde;", "fÃ¼r"),
        # A line stays one line.
        ("a&#10;b&#13;c&#x2028;d&NewLine;e&Tab;f", "&#10;", "a b c d e f"),
        ("a&#0;b&#xD800;c&#99999999;", "&#0;", "a\ufffdb\ufffdc\ufffd"),  # dropped as `control`
        ("a&#1;b", "&#1;", "ab"),
        # None of these is an entity.
        *((line, "", line) for line in ("AT&T", "AT&T; R&D;", "Q&A;", "&c.", "a & b;", "&;&#;")),
        *(
            (line, "", line)
            for line in ("Q & A ; lt ;", "a & lt b ;", "& eacute ;", "&  lt ;", "& # ;")
        ),
        *((line, "", line) for line in ("?a=1&copy=2&lang=en&para", "&notit;", "&amp", "&#39")),
        ("&#" + "9" * 5000 + ";", "", "&#" + "9" * 5000 + ";"),
        # A line about HTML stays as it is, and so is counted, but not repaired.
        ("write &lt; for <", "&lt;", "write &lt; for <"),
        ("1 < 2 &amp; 3", "&amp;", "1 < 2 & 3"),
    ],
)
def test_entities_with_a_semicolon_become_characters(line: str, entity: str, text: str) -> None:
    assert first_entity(line) == entity
    assert without_entities(line) == text
    assert without_entities(text) == text


@given(st.text(st.characters(codec="utf-8", exclude_characters="&<\n")))
def test_escaped_text_becomes_what_it_was(text: str) -> None:
    assert without_entities(html.escape(text)) == text
    assert without_entities(html.escape(html.escape(text))) == text


SIZE = 60
CLEAN = [(f"{src}, don't", f"{tgt} für") for src, tgt in pairs(SIZE)]


def broken(number: int) -> tuple[str, str]:
    """The pairs of CLEAN, of which every third source and every fifth target is broken."""
    src, tgt = CLEAN[number]
    return (
        src.replace("'", "&#39;") if number % 3 == 1 else src,
        tgt.replace("ü", "Ã¼") if number % 5 == 2 else tgt,
    )


@pytest.fixture
def job(tmp_path: Path) -> Job:
    write(tmp_path, "train", list(map(broken, range(SIZE))))
    write(tmp_path, "clean", CLEAN)
    return job_of(tmp_path, f"{tmp_path}/train")


def flaws(folder: DataFolder) -> tuple[FlawRecord, ...]:
    return folder.info.train.corpora[0].flaws


def test_without_fix_they_are_kept_and_warned_of(nmt: Nmt, job: Job, stderr: Stderr) -> None:
    folder = job.prepare()
    assert pairs_in(folder) == list(map(broken, range(SIZE)))
    assert flaws(folder) == (
        FlawRecord("entities", "src", 20, 0, 2, "&#39;"),
        FlawRecord("encoding", "tgt", 12, 0, 3, "fÃ¼r"),
    )
    told = stderr()
    assert re.search(r"train\.en: 20 of 60 .* &#39; in line 2; --fix entities", told)
    assert re.search(r"train\.de: 12 of 60 .* fÃ¼r in line 3; --fix encoding", told)
    report = (folder.path / "rejects.txt").read_text(encoding="utf-8")
    assert re.search(r"train\.de: 12 of 60 .* fÃ¼r", report)
    (corpus,) = json.loads((folder.path / "rejects.json").read_bytes())["corpora"]
    assert [flaw["lines"] for flaw in corpus["flaws"]] == [20, 12]
    assert "\tde\tencoding\t12\t0\tfÃ¼r" in nmt("data", folder.path).stdout
    assert folder.info.settings["fix"] == []


def test_only_what_is_asked_for_is_repaired(job: Job) -> None:
    folder = job.but(fix=("entities",)).prepare()
    assert [flaw.repaired for flaw in flaws(folder)] == [20, 0]
    assert [one for one, _ in pairs_in(folder)] == [one for one, _ in CLEAN]
    assert [other for _, other in pairs_in(folder)] == [broken(n)[1] for n in range(SIZE)]


@pytest.fixture
def fixed(job: Job) -> Job:
    """The job with both repairs."""
    pytest.importorskip("ftfy", reason="needs the extra fix")
    return job.but(fix=("encoding", "entities", "encoding"))


def test_repaired_text_is_as_if_it_were_right(fixed: Job, tmp_path: Path, stderr: Stderr) -> None:
    folder = fixed.but(keep_text=True).prepare()
    assert pairs_in(folder) == CLEAN
    assert [flaw.repaired for flaw in flaws(folder)] == [20, 12]
    assert "warning" not in stderr()
    right = fixed.but(
        out=tmp_path / "right", train=(f"{tmp_path}/clean",), fix=(), keep_text=True
    ).prepare()
    names = ("train-00000.bin", "train-00000.text", "vocab.model", "valid.bin")
    assert [content(folder.path)[name] for name in names] == [
        content(right.path)[name] for name in names
    ]
    assert flaws(right) == ()


def test_the_rules_and_duplicates_see_the_repaired_text(fixed: Job, tmp_path: Path) -> None:
    lines = [
        ("It's fine, isn't it?", "Schön für dich"),
        ("It&#39;s fine, isn&apos;t it?", "SchÃ¶n fÃ¼r dich"),  # a duplicate
        ("&nbsp;", "leer"),
        ("a&#0;b", "Steuerzeichen"),
        ("&quot;A held-out line, which &uuml;ber&uuml;ber long is&quot;", "anders"),
        ("now&#10;so", "jetzt&NewLine;so"),
    ]
    write(tmp_path, "train", lines)
    write(tmp_path, "valid", [("A held-out line, which &uuml;ber&uuml;ber long is", "Zeile")])
    folder = fixed.but(vocab_size=310).prepare()
    rejected = folder.info.train.corpora[0].rejected
    assert rejected == {"empty": 1, "control": 1, "overlap": 1, "duplicate": 1}
    assert pairs_in(folder) == [("It's fine, isn't it?", "Schön für dich"), ("now so", "jetzt so")]


def test_valid_and_test_stay_with_a_warning(fixed: Job, tmp_path: Path, stderr: Stderr) -> None:
    raw = write(tmp_path, "news", [("don&#39;t", "fÃ¼r")])
    folder = fixed.but(valid=raw, test=(raw,)).prepare()
    for split in ("valid", "test-news"):
        assert (folder.path / f"{split}.en").read_text(encoding="utf-8") == "don&#39;t\n"
        assert (folder.path / f"{split}.de").read_text(encoding="utf-8") == "fÃ¼r\n"
    told = stderr()
    assert "news.en: 1 of 1" in told
    assert "news.de: 1 of 1" in told


def test_a_folder_records_its_repairs_and_is_not_another(fixed: Job) -> None:
    encoding, entities = fixed.prepare().info.settings["fix"]
    assert encoding.startswith("encoding by ftfy ")
    assert entities == "entities"
    fixed.but(fix=("entities", "encoding")).prepare()  # the same
    with pytest.raises(UsageError, match=r"fix .*encoding by ftfy \S+, entities .*none"):
        fixed.but(fix=()).prepare()


def test_tildes_of_hunalign_are_counted_and_go(job: Job, tmp_path: Path, stderr: Stderr) -> None:
    lines = [(f"{src}. ~~~ And ~~~ more.", f"~5 ~~ {tgt}") for src, tgt in pairs(60)]
    job = job.but(train=(write(tmp_path, "lf", lines),))
    plain = job.prepare()
    said = stderr()
    assert re.search(r"lf\.en: 60 of 60 lines have the ~~~ .*; --fix hunalign", said)
    assert pairs_in(plain) == lines and not re.search(r"lf\.de: .* hunalign", said)
    fixed = job.but(out=tmp_path / "fixed", fix=("hunalign",)).prepare()
    assert pairs_in(fixed) == [(src.replace(" ~~~ ", " "), tgt) for src, tgt in lines]

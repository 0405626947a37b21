"""Lines and units of documents that stand in a translation memory word for word."""

import json
import re
from pathlib import Path

import pytest
from command_line import QUICK, Nmt

import nmt
from nmt.errors import DataError, UsageError

OPTIONS = nmt.SearchOptions(beam_size=1, max_extra_tokens=3)
TMX = """<?xml version="1.0"?>
<tmx version="1.4"><header segtype="sentence" adminlang="en" srclang="en" datatype="plaintext"
 creationtool="x" creationtoolversion="1" o-tmf="x"/><body>
<tu><tuv xml:lang="en-GB"><seg>The  cat &amp; the dog.</seg></tuv>
    <tuv xml:lang="de"><seg>Die Katze &amp; der Hund.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>The cat &amp; the dog.</seg></tuv>
    <tuv xml:lang="de"><seg>Zweitens.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Кошка 猫</seg></tuv><tuv xml:lang="de"><seg>قطة 猫</seg></tuv></tu>
</body></tmx>
"""
PO = r"""msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=n!=1;\n"

msgid "_Open"
msgstr "Ö_ffnen"

#, c-format
msgid "%d <b>cats</b> & dogs\n"
msgstr "%d <b>Katzen</b> & Hunde\n"

#, fuzzy
msgid "the dog"
msgstr "die Katze"

#~ msgid "a bird"
#~ msgstr "ein Vogel"

msgid "a cat"
msgid_plural "%d cats"
msgstr[0] "eine Katze"
msgstr[1] "%d Katzen"
"""
XLIFF = """<xliff version="1.2"><file source-language="en" target-language="de"><body>
<trans-unit id="1"><source>See <g id="1">it</g></source>
 <target state="translated">Sieh <g id="1">es</g></target></trans-unit>
<trans-unit id="2"><source>R&amp;D</source><target>F&amp;E</target></trans-unit>
<trans-unit id="3"><source>the dog</source>
 <target state="needs-review-translation">falsch</target></trans-unit>
<trans-unit id="4"><source>the cat</source><target>the cat</target></trans-unit>
</body></file></xliff>
"""


def written(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def remembered(translator: nmt.Translator, *lines: str) -> list[str | None]:
    return [one.text if one.remembered else None for one in translator.translate(lines)]


def test_a_line_that_stands_there_gets_its_translation(model_file: Path, tmp_path: Path) -> None:
    translator = nmt.Translator.load(model_file, OPTIONS, memory=written(tmp_path, "old.tmx", TMX))
    without = nmt.Translator.load(model_file, OPTIONS)
    lines = ["the bird", "The cat & the dog.", "", "the cat & the dog.", "Кошка 猫"]
    found = translator.translate(lines)
    expected = without.translate(lines)
    assert [found[n].text for n in (1, 4)] == ["Die Katze & der Hund.", "قطة 猫"]
    assert [one.remembered for one in found] == [False, True, False, False, True]
    assert [found[n] for n in (0, 2, 3)] == [expected[n] for n in (0, 2, 3)]
    begun = translator.translate(lines[1:2], prefixes=["a small bird"])
    assert begun[0].text.startswith("a small bird")


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("old.tsv", "en\tde\nthe dog\tder Hund\n", ""),
        ("old.csv", 'note,de,en\n,"der Hund",the dog\n', ":en,de"),
        ("old.jsonl", '{"en": "the dog", "de": "der\\nHund"}\n', ""),
    ],
)
def test_a_table_is_a_memory(
    model_file: Path, tmp_path: Path, name: str, content: str, columns: str
) -> None:
    memory = f"{written(tmp_path, name, content)}{columns}"
    translator = nmt.Translator.load(model_file, OPTIONS, memory=memory)
    assert remembered(translator, "the dog", "the cat") == ["der Hund", None]


def test_what_nobody_stands_by_is_left_out(model_file: Path, tmp_path: Path) -> None:
    for name, content in (("old.po", PO), ("old.xlf", XLIFF)):
        memory = written(tmp_path, name, content)
        translator = nmt.Translator.load(model_file, OPTIONS, memory=memory)
        others = ["the dog", "the cat", "a bird", "a cat", "%d cats"]
        assert remembered(translator, *others) == [None] * 5


def test_tags_never_change(model_file: Path, tmp_path: Path) -> None:
    pairs = ["the <b>cat</b>\tdie <b>Katze</b>", "the <i>dog</i>\tder Hund", "a & b < c\tA & B < C"]
    memory = written(tmp_path, "old.tsv", "\n".join(["en\tde", *pairs]))
    translator = nmt.Translator.load(model_file, OPTIONS, memory=memory, markup="html")
    lines = ["the <b>cat</b>", "the <i>dog</i>", "the cat", "a &amp; b &lt; c"]
    assert remembered(translator, *lines) == ["die <b>Katze</b>", None, None, "A &amp; B &lt; C"]


def test_a_catalogue_gets_what_an_older_one_has(translate: Nmt, tmp_path: Path) -> None:
    memory = written(tmp_path, "old.po", PO)
    new = PO.replace('"Ö_ffnen"', '""').replace(r'"%d <b>Katzen</b> & Hunde\n"', '""')
    source = written(tmp_path, "new.po", new.replace('"die Katze"', '""'))
    answer = translate("--input", source, "--output", tmp_path / "de.po", "--memory", memory)
    content = (tmp_path / "de.po").read_text(encoding="utf-8")
    assert 'msgstr "Ö_ffnen"\n' in content
    assert r'msgstr "%d <b>Katzen</b> & Hunde\n"' in content
    assert (answer.status, answer.summary["remembered"]) == (0, 2)


def test_xliff_gets_what_an_older_one_has(translate: Nmt, tmp_path: Path) -> None:
    memory = written(tmp_path, "old.xlf", XLIFF)
    source = written(tmp_path, "new.xlf", re.sub(r"\s*<target.*</target>", "", XLIFF))
    answer = translate("--input", source, "--output", tmp_path / "de.xlf", "--memory", memory)
    content = (tmp_path / "de.xlf").read_text(encoding="utf-8")
    assert 'Sieh <g id="1">es</g>' in content
    assert "<target>F&amp;E</target>" in content
    assert answer.summary["remembered"] == 2


def test_the_journal_knows_the_memory(translate: Nmt, tmp_path: Path) -> None:
    memory = written(tmp_path, "old.tsv", "en\tde\nthe dog\tder Hund\n")
    source = written(tmp_path, "text", "the dog\n")
    words = ("--input", source, "--output", tmp_path / "out", "--memory", memory)
    translate(*words)
    memory.write_text("en\tde\nthe dog\tein Hund\n")
    answer = translate(*words, "--format", "jsonl")
    assert json.loads((tmp_path / "out").read_text())["text"] == "ein Hund"
    assert json.loads((tmp_path / "out").read_text())["remembered"]
    memory.write_text("en\tde\nthe cat\tein Hund\n")
    answer = translate(*words)
    assert "none of its sources" in answer.stderr


def test_what_is_no_memory_is_refused(model_file: Path, tmp_path: Path) -> None:
    for name, content, error in (
        ("old.tmx", TMX.replace('"de"', '"fr"'), DataError),
        ("old.txt", "the dog\n", UsageError),
        ("gone.tmx", "", DataError),
    ):
        memory = written(tmp_path, name, content)
        if not content:
            memory.unlink()
        with pytest.raises(error, match=name):
            nmt.Translator.load(model_file, OPTIONS, memory=memory)


def test_a_shortcuts_sign_is_part_of_the_source(nmt: Nmt, model_file: Path, tmp_path: Path) -> None:
    head = PO[: PO.index('msgid "_Open"')]
    entries = [("_Close", "_Schließen"), ("Close", "Schluss"), ("_Open", "Ö_ffnen")]
    known = head + "".join(f'msgid "{one}"\nmsgstr "{two}"\n\n' for one, two in entries)
    memory = written(tmp_path, "old.po", known)
    asked = head + "".join(f'msgid "{one}"\nmsgstr ""\n\n' for one in ("Close", "_Close", "Open"))
    source, out = written(tmp_path, "new.po", asked), tmp_path / "out.po"
    words = ("--input", source, "--output", out, "--memory", memory, *QUICK)
    assert nmt("translate", model_file, *words).succeeded().summary["remembered"] == 2
    texts = re.findall(r'^msgstr "(.*)"$', out.read_text(encoding="utf-8"), re.MULTILINE)
    assert texts[1:3] == ["Schluss", "_Schließen"]
    assert "_" not in texts[3]

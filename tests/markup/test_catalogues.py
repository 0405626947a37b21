"""Catalogues stay as they are, except for translations that are empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.data.corpus import Encoding
from nmt.errors import DataError
from nmt.markup.breaks import MarkedLines
from nmt.markup.documents import Document

HEADER = """# A note.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals={}; plural={};\\n"

"""
ENTRIES = r"""#. Says who.
#: a.c:1
#, c-format
msgctxt "menu"
msgid "Open \"%s\" & save"
msgstr {0}

#, fuzzy
#| msgid "before"
msgid "finished"
msgstr "fertig"

msgid ""
"The first line\n"
"\n"
"  the\tsecond, "
"which is long\n"
msgstr {1}
# Between.

msgid "12 %"
msgstr {2}

#~ msgid "old"
#~ msgstr ""
"""


def read(content: str) -> Document:
    return Document.read(Path("a.po"), content.encode(), Encoding.find("utf-8"))


def test_empty_translations_are_filled() -> None:
    head = HEADER.format(2, "n != 1")
    document = read(head + ENTRIES.format(*['""'] * 3))
    assert [unit.line for unit in document.units] == [
        'Open "%s" &amp; save',
        "The first line\n\n  the<!--\t-->second, which is long",
    ]
    assert document.kept == 1
    written = document.write(['"%s" &amp; \\ &lt;', "eins\n\n  <!--\t-->zwei"]).decode()
    filled = r'"\"%s\" & \\ <"', '""\n"eins\\n"\n"\\n"\n"  \\tzwei\\n"', '"12 %"'
    assert written == head + ENTRIES.format(*filled)


def test_list_marks_behind_tabs_stay() -> None:
    (unit,) = read('msgid "a\\tb\\n\\t- c\\n"\nmsgstr ""\n').units
    marked = MarkedLines.of(unit.line, "html")
    assert [line.text for line in marked.lines] == ["ab", "c"]
    assert marked.between[1] == "\n\t- "
    assert unit.write(unit.line) == '""\n"a\\tb\\n"\n"\\t- c\\n"'


def test_a_message_without_translation_stays_empty() -> None:
    content = 'msgid "a\\n"\n"b"\nmsgstr ""\n'
    assert read(content).write([None]).decode() == content


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("bind <key> <file name>", "bind <key nmt-lone/> <file name nmt-lone/>"),
        ("<key>a</key> <b>b", "<key>a</key> <b>b"),
        ("a < b & c", "a < b &amp; c"),
        ("a &lt; b & c", "a &lt; b & c"),
        ("<br>a <x/>", "<br>a <x/>"),
        ("see <https://a.b/c>", "see <https://a.b/c>"),
    ],
)
def test_messages_may_have_tags_and_what_looks_like_them(message: str, line: str) -> None:
    document = read(f'msgid "{message}"\nmsgstr ""\n')
    (unit,) = document.units
    assert unit.line == line
    written = document.write([line.replace("a < b", "a &lt; b")]).decode()
    assert written == f'msgid "{message}"\nmsgstr "{message}"\n'


@pytest.mark.parametrize(
    ("number", "formula", "expected"),
    [
        (1, "0", ["many"]),
        (2, "n > 1", ["one", "many"]),
        (3, "n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2", ["one", "many", "many"]),
        (4, "n%100==1 ? 1 : n%100==2 ? 2 : 3", ["many", "one", "many", "many"]),
    ],
)
def test_each_form_of_a_plural_is_filled(number: int, formula: str, expected: list[str]) -> None:
    entry = 'msgid "one"\nmsgid_plural "many"\n'
    entry += "".join(f'msgstr[{form}] ""\n' for form in range(number))
    document = read(HEADER.format(number, formula) + entry)
    assert [unit.line for unit in document.units] == expected
    for form, text in enumerate(expected):
        entry = entry.replace(f'[{form}] ""', f'[{form}] "{text.upper()}"')
    written = document.write(text.upper() for text in expected).decode()
    assert written.endswith(entry)


def test_forms_that_are_there_stay() -> None:
    entry = 'msgid "one"\nmsgid_plural "many"\nmsgstr[0] "eins"\nmsgstr[1] ""\n'
    document = read(HEADER.format(2, "n != 1") + entry)
    assert [unit.line for unit in document.units] == ["many"]


def test_a_catalogue_keeps_its_encoding_and_line_ends() -> None:
    content = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=iso-8859-2\\n"\n\n'
    content = f'{content}msgid "ł\\n"\n"b"\nmsgstr ""\n'.replace("\n", "\r\n")
    document = Document.read(Path("a.po"), content.encode("iso-8859-2"), Encoding.find("utf-8"))
    written = document.write(["Ł\nB"]).decode("iso-8859-2")
    assert written == content[:-2] + '\r\n"Ł\\n"\r\n"B"\r\n'
    with pytest.raises(DataError, match=r"a\.po: iso-8859-2 has no 'ñ'"):
        document.write(["ñ"])


def test_a_template_has_no_encoding_yet() -> None:
    content = (
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=CHARSET\\n"\n\nmsgid "é"\nmsgstr ""'
    )
    assert [unit.line for unit in read(content).units] == ["é"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('msgid "a"\nmsgstr "b\n', 2),
        ('msgid "a"\nmsgstr ""\nmsgstr ""\n', 3),
        ('msgid "a"\nmsgid "b"\n', 2),
        ('"a"\n', 1),
        ('msgid "a\\q"\n', 1),
        ('msgid "a" b\n', 1),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr ""\n', 3),
        ('domain "a"\n', 1),
        ("<<<<<<< HEAD\n", 1),
    ],
)
def test_a_damaged_catalogue_is_refused(content: str, line: int) -> None:
    with pytest.raises(DataError, match=rf"^a\.po line {line}: "):
        read(content)


def test_damaged_plural_forms_are_refused() -> None:
    with pytest.raises(DataError, match=r"a\.po: its Plural-Forms"):
        read(HEADER.format(2, "import os"))

"""Catalogues stay as they are, except for translations that are empty."""

import re

import pytest
from listed import listed
from read_document import read_document

from nmt.errors import DataError
from nmt.markup.breaks import MarkedLines
from nmt.markup.documents import Document
from nmt.markup.tags import parse

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
msgstr ""

#~ msgid "old"
#~ msgstr ""
"""


def read(content: str) -> Document:
    return read_document("a.po", content)


def test_empty_translations_are_filled() -> None:
    head = HEADER.format(2, "n != 1")
    document = read(head + ENTRIES.format(*['""'] * 2))
    lines = ['Open "%s" &amp; save', "The first line\n\n  the\tsecond, which is long"]
    assert [unit.line for unit in document.units] == lines
    assert document.translated == 1
    written = document.write(['"%s" &amp; \\ &lt;', "eins\n\n  \tzwei"]).content.decode()
    filled = r'"\"%s\" & \\ <"', '""\n"eins\\n"\n"\\n"\n"  \\tzwei\\n"'
    assert written == head + ENTRIES.format(*filled)


@pytest.mark.parametrize(
    ("spelt", "text"),
    [
        (r'"\x41 cat"', "A cat"),
        (r'"caf\303\251s"', "cafés"),
        (r'"caf\xc3\251s"', "cafés"),
        (r'"\101B\1011"', "ABA1"),
        ('"a\\\nb"', "ab"),
    ],
)
def test_messages_are_read_as_msgfmt_reads_them(spelt: str, text: str) -> None:
    content = f'domain "app"\nmsgid {spelt} msgstr ""\n'
    document = read(content)
    assert [unit.line for unit in document.units] == [text]
    assert document.write([None]).content.decode() == content
    assert document.write(["über"]).content.decode() == content[:-3] + '"über"\n'


def test_codes_of_a_terminal_stay() -> None:
    (unit,) = read(r'msgid "\033[1mA dog\033[0m \x7f"' + '\nmsgstr ""\n').units
    assert parse(unit.line, "html").text == "A dog "
    assert unit.write(unit.line) == r'"\033[1mA dog\033[0m \177"'


@pytest.mark.parametrize("message", ["%b %d, %Y", ", ", "%(a)s: %(b)s", "{0}/{1}", "<b></b>"])
def test_an_entry_without_words_stays_empty(message: str) -> None:
    content = f'msgid "{message}"\nmsgstr ""\n""\n'
    document = read(content)
    assert (document.units, document.write([]).content.decode()) == ([], content)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("bind <key> <file name>", "bind <key nmt-lone/> <file name nmt-lone/>"),
        ("<key>a</key> <b>b", "<key>a</key> <b>b"),
        ("a < b & c", "a < b &amp; c"),
        ("<br>a <x/>", "<br>a <x/>"),
    ],
)
def test_messages_may_have_tags_and_what_looks_like_them(message: str, line: str) -> None:
    document = read(f'msgid "{message}"\nmsgstr ""\n')
    (unit,) = document.units
    assert unit.line == line
    written = document.write([line.replace("a < b", "a &lt; b")]).content.decode()
    assert written == f'msgid "{message}"\nmsgstr "{message}"\n'


@pytest.mark.parametrize(
    ("message", "text", "translation", "expected"),
    [
        ("_Open %s...", "Open %s...", "%s öffnen", "%s _öffnen"),
        ("E&xit", "Exit", "Ende", "&Ende"),
        ("E\u0301c_ran", "E\u0301cran", "Schirm", "_Schirm"),
        ("Prin_t (old)", "Print (old)", "Drucken", "_Drucken"),
        ("<b>_Open</b>", "<b>Open</b>", "<b>Auf</b>", "<b>_Auf</b>"),
        ("_Open...", "Open...", "打开...", "打开(_O)..."),
        ("_Open...", "Open...", "열기...", "열기(_O)..."),
    ],
)
def test_the_sign_of_a_shortcut_is_put_before_the_first_letter(
    message: str, text: str, translation: str, expected: str
) -> None:
    (unit,) = read(f'msgid "{message}"\nmsgstr ""\n').units
    assert unit.line == text
    assert unit.write(translation) == f'"{expected}"'


NO_SHORTCUTS = r"""
AT&T a␣&␣b Drag&Drop a␣drag&drop the␣_id a␣my_name __init__␣it R&D %(User_name)s␣is ${A_Name}␣is
a_b␣_Open &lt;b See␣a\\_name see␣https://a.b/?a=1&b=_c
"""


@pytest.mark.parametrize("message", listed(NO_SHORTCUTS))
def test_other_signs_are_no_shortcuts(message: str) -> None:
    (unit,) = read(f'msgid "{message}"\nmsgstr ""\n').units
    assert unit.write(unit.line) == f'"{message}"'
    assert parse(unit.line, "html").text.count("&") == unit.line.count("&") - message.count("&lt;")
    assert unit.line.count("_") == message.count("_")


@pytest.mark.parametrize(
    ("number", "formula", "expected"),
    [
        (2, "n > 1", ["one", "many"]),
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
    written = document.write(text.upper() for text in expected).content.decode()
    assert written.endswith(entry)


@pytest.mark.parametrize(
    ("flags", "source", "translation", "expected"),
    [
        ("c-format", "a %s b %d", "%d B %s", "%2$d B %1$s"),
        ("fuzzy, possible-c-format", "a %s b %-5.2f%%", "%-5.2f B %s%%", "%2$-5.2f B %1$s%%"),
        ("c-format, range: 0..5", "a %s %d %s", "%d %s %s A", "%2$d %1$s %3$s A"),
        ("c-format", "a %s %m %d", "%m %d %s A", "%m %2$d %1$s A"),
        ("c-format", "a %s b %d", "A %s B %d", "A %s B %d"),
        ("no-c-format", "a %s b %d", "%d B %s", "%d B %s"),
        ("python-brace-format", "a {} b {:d}", "{:d} B {}", None),
        ("c-format", "a %*d b %s", "%s B %*d", None),
        ("c-format", "a %s", "A %s %s", None),
        ("python-format, c-format", "a %s %d", "A %d %s", None),
        ("no-python-format, c-format", "a %s %d", "A %d %s", "A %2$d %1$s"),
    ],
)
def test_values_are_filled_in_where_they_belong(
    flags: str, source: str, translation: str, expected: str | None
) -> None:
    (unit,) = read(f'#, {flags}\nmsgid "{source}"\nmsgstr ""\n').units
    assert unit.write(translation) == (None if expected is None else f'"{expected}"')


@pytest.mark.parametrize(
    ("language", "source", "directive"),
    [
        ("qt", "open %1", "%1"),
        ("c", "at %<PRIu64> of it", "%<PRIu64>"),
        ("c", "at %*d of it", "%*d"),
        ("java-printf", "at %<td of it", "%<td"),
        ("python-brace", "A {0:{width}} x", "{0:{width}}"),
    ],
)
def test_directives_are_kept_pieces(language: str, source: str, directive: str) -> None:
    (unit,) = read(f'#, {language}-format\nmsgid "{source}"\nmsgstr ""\n').units
    (line,) = MarkedLines.of(unit.line, "html").lines
    ((start, end),) = line.protected
    assert line.text[start:end] == directive.replace("<PRIu64>", "")
    assert unit.write(unit.line) == f'"{source}"'


def test_translations_that_do_not_fit_are_left_out_and_counted() -> None:
    content = '#, python-format\nmsgid "a %s b %d"\nmsgstr ""\n'
    document = read(content)
    assert document.write(["%d B %s"]) == (content.encode(), 1, [])
    assert document.write([None]).refused == 0


@pytest.mark.parametrize(
    ("formula", "singular", "expected"),
    [
        ("n > 1", "one file", ["%d files", "%d files"]),  # the first form is also for 0
        ("n > 1", "%d file", ["%d file", "%d files"]),
        ("n != 1", "one file", ["one file", "%d files"]),
    ],
)
def test_a_form_for_several_says_which(formula: str, singular: str, expected: list[str]) -> None:
    entry = f'#, c-format\nmsgid "{singular}"\nmsgid_plural "%d files"\n'
    document = read(HEADER.format(2, formula) + entry + 'msgstr[0] ""\nmsgstr[1] ""\n')
    assert [unit.line for unit in document.units] == expected


def test_a_catalogue_keeps_its_encoding_and_line_ends() -> None:
    content = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=iso-8859-2\\n"\n\n'
    content = f'{content}msgid "ł\\n"\n"b"\nmsgstr ""\n'.replace("\n", "\r\n")
    document = read_document("a.po", content.encode("iso-8859-2"))
    written = document.write(["Ł\nB"]).content.decode("iso-8859-2")
    assert written == content[:-2] + '\r\n"Ł\\n"\r\n"B"\r\n'
    with pytest.raises(DataError, match=r"a\.po: iso-8859-2 has no 'ñ'"):
        document.write(["ñ"])


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('msgid "a"\nmsgstr "b\n', 2),
        ('msgid "a"\nmsgstr ""\nmsgstr ""\n', 3),
        ('msgid "a"\nmsgid "b"\n', 2),
        ('"a"\n', 1),
        ('msgid "a\\q"\n', 1),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr ""\n', 3),
        ('msgid "a"\nmsgstr ""\ndomain\nmsgid "b"\nmsgstr ""\n', 4),
        ('msgid "a\\000b"\nmsgstr ""\n', 1),
        ('msgid "a"\nmsgstr ""\nmsgid "\\351"\nmsgstr ""\n', 3),
    ],
)
def test_a_damaged_catalogue_is_refused(content: str, line: int) -> None:
    with pytest.raises(DataError, match=rf"^a\.po line {line}: "):
        read(content)


def message(comment: str, text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'{comment}\nmsgid "{quoted}"\nmsgstr ""\n'


@pytest.mark.parametrize(
    ("comment", "text", "line"),
    [
        (
            "#: a.rst:1",
            "A :class:`~os.Dog` of ``a = *b*`` and `the page <https://x.y/>`_, |a b|_.",
            "A ⟦:class:`~os.Dog`⟧ of ⟦``a = *b*``⟧ and <0>the page</0>, ⟦|a b|_⟧.",
        ),
        ("#: a.py:docstring of a.b:1", "*你好* [1]_ `Dogs`_", "<0>你好</0> ⟦[1]_⟧ ⟦`Dogs`_⟧"),
        ("", "See :ref:`a dog <dog>`.", "See <0>a dog</0>."),
        ("#: a.rst:1", "a | b * c ``d", "a | b * c ``d"),
        (
            "#: a.tex:1",
            r"A \emph{dog}~\cite[p. 1]{x}: $x^2$ \& \textbf{see \ref{y}} \LaTeX{} Кот",
            r"A <0>dog</0>⟦~\cite[p. 1]{x}⟧: ⟦$x^2$⟧ ⟦\&amp;⟧ <1>see ⟦\ref{y}⟧</1> ⟦\LaTeX{}⟧ Кот",
        ),
    ],
)
def test_marks_of_documents_are_kept_or_around_text(comment: str, text: str, line: str) -> None:
    line = re.sub(r"<(\d)>(.*?)</\d>", r"<a nmt-\1>\2</a>", line)
    content = message(comment, text)
    (unit,) = read(content).units
    assert unit.line == line.replace("⟦", "<var nmt-kept>").replace("⟧", "</var>")
    filled = read(content).write([unit.line]).content.decode()
    assert filled == content.replace('msgstr ""', content.split("\n")[1].replace("msgid", "msgstr"))


def test_a_translation_that_lost_a_mark_of_a_document_is_left_out() -> None:
    content = message("#: a.rst:1", "A :class:`Dog` *sings*.")
    (unit,) = read(content).units
    for lost in (unit.line.replace("Dog", "Hund"), "Ein Hund *singt*."):
        assert read(content).write([lost]).refused == 1
    moved = read(content).write(["<a nmt-0>Singt</a> ein <var nmt-kept>:class:`Dog`</var>?"])
    assert 'msgstr "*Singt* ein :class:`Dog`?"' in moved.content.decode()


@pytest.mark.parametrize("kind", ["equation", "verbatim", "lstlisting", r"\begin{align}"])
def test_what_po4a_says_is_no_text_stays_empty(kind: str) -> None:
    content = message(f"#. type: {kind}", "where the man sleeps") + message("", "A dog")
    assert [unit.line for unit in read(content).units] == ["A dog"]
    assert len(read(message(f"#. type: {kind} of it\n#. type: Plain text", "A")).units) == 0


def test_tabs_part_columns() -> None:
    document = read(HEADER.format(2, "n != 1") + 'msgid "A lamp.\\tThe key"\nmsgstr ""\n')
    (unit,) = document.units
    assert [line.text for line in unit.marked.lines] == ["A lamp.", "The key"]

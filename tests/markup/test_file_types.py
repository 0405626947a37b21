"""Files are recognised by name and content, and plain text is never taken for anything else."""

import gzip
from pathlib import Path

import pytest

from nmt.markup import file_types
from nmt.markup.file_types import TYPES, file_type, odd_lines

XLIFF = '<?xml version="1.0"?>\n<!-- a note -->\n<x:xliff version="1.2" xmlns:x="urn:x"/>'
PLAIN = (
    "",
    "{name} sleeps.\n",
    '{"a man" sleeps\n',
    "{'a': 1}\n",
    '["Yes", he said]\n',
    "[1]\nA man = a dog\n",
    "note: A man sleeps.\nsee: below\nA dog sleeps.\n",
    "Note: see below.\nTom: A man sleeps.\nAnna: Yes.\n",
    "- a man\n- a dog\n- a cat\n",
    "[1] A note: none.\n",
    "[00:01:12] A man sleeps.\n",
    '"A man": he sleeps.\n',
    "---\ntitle: A man\n",
    "A man\tEin Mann\n12\tZwölf\n13\tDreizehn\n14\tVierzehn\nA dog sleeps.\n",
    "<2de> A man sleeps.\n",
    "<p>A man <i>sleeps</i>.</p>\n",
    "<doc id='1'>\nA man sleeps.\n</doc>\n",
    "<root>\nA man <i>sleeps</i>.\n",
    '<g xmlns="a">A man</g> sleeps.\n',
    "1\nA man sleeps.\n",
    "msgid is a word.\n",
    "A man sleeps.\n<?xml version='1.0'?>\n<xliff>\n",
    "PAR1 is a word.\n",
    "Received: 12 letters.\nDate: none\nNote: a man.\n",
    "BEGIN: VCALENDAR\n",
    "@man {sleeps}\n",
    "\\id is a marker.\n",
    "TY  - a man\n",
)


def named(path: Path) -> str:
    found = file_type(path)
    return "" if found is None else found.name


@pytest.mark.parametrize("name", ["a.txt", "a.en", "a", "a.out"])
def test_plain_text_is_plain(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for content in PLAIN:
        path.write_text(content)
        assert named(path) == "", content


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (XLIFF, "XLIFF"),
        ("<!DOCTYPE xliff [<!ENTITY a 'b'>]><xliff>", "XLIFF"),
        ("<!doctype HTML>\n<title>A", "HTML"),
        ('<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "a" "b">\n<html xmlns="c">', "HTML"),
        ("<?xml version='1.0'?><!DOCTYPE tmx SYSTEM 'a'><tmx version='1.4'>", "TMX"),
        ("<?xml version='1.0'?>\n<TS version='2.1'>", "XML"),
        ('{\n  "greeting": "The man sleeps."\n}', "JSON"),
        ('[{"a": 1}]', "JSON"),
        ("PK\x03\x04\x14", "an Office document or e-book"),
        ("%PDF-1.7\n", "PDF, RTF or old Word"),
        ("PAR1\x15\x04", "a table of Parquet or Arrow"),
        ('[\n  "A \\"man\\" sleeps.",\n' + 9_000 * '  "A dog",\n' + '  "Yes."\n]\n', "JSON"),
        ('/* A\n * note */\n// Yes\n"a \\"b\\"" = "A man";\n', "a .strings file"),
        ("; A note\n\n[a.b]\n\nkey = A man\n", "a file of settings"),
        ("\n1\n00:00:01,000 --> 00:00:02,000\nA man", "subtitles"),
        ('# A note.\n\nmsgctxt "a"\nmsgid "b"\nmsgstr ""\n', "PO"),
        ("[Script Info]\nTitle: a", "this type of subtitles"),
        ("0:00:01.000,0:00:03.000\nA man\n", "this type of subtitles"),
        ('<tt xml:lang="en" xmlns="a">\n<body>', "XML"),
        ('<srcset setid="a" srclang="any">\n<doc>', "SGML"),
        ("\\id MAT - a note\n\\h Matthew\n", "USFM"),
        ("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n", "a calendar"),
        ("BEGIN:VCARD\nVERSION:4.0\n", "an address book"),
        ("% A note.\n\n@article{man99,\n  title = {A man},\n", "a bibliography"),
        ("TY  - JOUR\nTI  - A man\n", "a bibliography"),
        ("From: A <a@b.org>\nTo: c@d.org,\n e@f.org\nMessage-Id: <1>\n\nA man", "an e-mail"),
        ("From a@b Sat Jan  3 01:05:34 1996\nX: y\nMIME-Version: 1.0\n", "an e-mail"),
        ('<!-- A note -->\n<!ENTITY man "A man">\n', "a DTD"),
        ("<script>\n\tlet name = '';\n</script>\n\n<p>A man</p>\n", "a template"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.en", "a.xml"])
def test_content_counts_not_names(tmp_path: Path, name: str, content: str, expected: str) -> None:
    path = tmp_path / name
    for codec in ("utf-8", "utf-16", "utf-16-be"):
        if codec == "utf-8" or content.startswith("<"):
            path.write_bytes(content.encode(codec))
            assert named(path) == expected, codec
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert named(packed) == expected


def test_json_lines_and_notebooks_are_no_catalogues(tmp_path: Path) -> None:
    for name, expected in (("a.jsonl", "a table without a column"), ("a.ipynb", "a notebook")):
        (tmp_path / name).write_text('{"a": "A man sleeps."}\n')
        assert named(tmp_path / name) == expected


def test_each_type_has_names_of_its_own() -> None:
    suffixes = [suffix for one in TYPES for suffix in one.suffixes]
    assert len(suffixes) == len(set(suffixes))
    for one in TYPES:
        for suffix in one.suffixes:
            assert file_type(Path(f"nowhere/A{suffix.upper()}")) is one
            assert file_type(Path(f"nowhere/a{suffix}.gz")) is one


def test_the_manual_names_them_all() -> None:
    manual = Path(file_types.__file__).with_name("README.md").read_text()
    rows = [line for line in manual.splitlines() if line.startswith("| ")]
    for one in TYPES:
        for suffix in one.suffixes:
            (row,) = (row for row in rows if f"`{suffix}`" in row)
            assert ("| refused" in row) == (not one.markup)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Click <b>here</b>.\n", True),
        ('A man\n<g id="1">sleeps</g>\n', True),
        ("<p>\nA man\n<b>\nsleeps.\n", True),
        ("A man\n<2>\n< a >\n", False),
        ("<p class=a>A man</p>\nA woman\nA dog\n", False),
        ("<2de> A man sleeps.\n<en> A dog\n", False),
        ("a < b and c > d\n", False),
        ("", False),
    ],
)
def test_tags_are_found_in_lines(text: str, expected: bool) -> None:
    assert (odd_lines(text.encode()) is not None) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("<b>A man</b> sleeps.\n", "tags"),
        ("start\tend\ttext\n0\t2000\tA man.\n2000\t4500\t\n4500\t9000\tYes.\n", "tabs"),
        ("A man\tEin Mann\nA dog\t你好\nYes.\n", "tabs"),
        ("\tA man sleeps.\n\tA dog, too.\t\nYes.\n", ""),
        ("# A note\n\nen:\n  one: A man\ntwo: A dog\nsix: Yes\n", "KEY"),
        ("# Note\nhello = A man\nbye =\n    { $n ->\n        [one] A dog\n    }\n", "KEY"),
        ("# A note.\n" * 9 + "hello =\n    .title = A man\n    .label = A dog\nbye = Yes\n", "KEY"),
        ("\\c 1\n\\p\n\\v 1 A man sleeps.\nHe sings.\n", "markers"),
        ("\\chapter{A man}\n\\v 2-3 He \\nd sings\\nd*.\nA dog.\n", "markers"),
        ("export const en = {\n  man: 'A man',\n  dog: 'A dog',\n} as const;\n", "code"),
        ('def f(x):\n    """A man."""\n    if x == 1:\n        g(x)\n    return x\n', "code"),
        ('BEGIN\n    IDS_MAN  "A man"\n    IDS_DOG  L"Eine 你好"\nEND\n', "code"),
        ('$a = 1;\n// man\nif ($a) {\n    f("你好");\n}\n', "code"),
        ("/* man */\nint main() {\n    puts(man);\n    return 0;\n}\n", "code"),
        ("Πού πας;\nΤι θέλεις;\n", ""),
        ("(a) a man;\n(b) a dog;\n(c) other animals;\n", ""),
        ("return to me\nfrom here on we sing,\nlet us go.\nclass act.\n", ""),
        ('"A man sleeps."\n"Yes," he said.\nHe said: "No."\n', ""),
        ("* A man\n* A dog\n", ""),
        ("A man (b) sleeps;\nTOM: Yes.\nANNA (sings): No.\nEXIT\n", ""),
        ("A man = b == c.\n" + "A man sleeps.\n" * 15, ""),
        ("A man = a dog.\nA woman sings.\nYes; no.\n", ""),
        ('From here on: "yes".\nLet us (all) sing.\nA dog.\n', ""),
    ],
)
def test_what_most_lines_have_is_told(text: str, what: str) -> None:
    odd = odd_lines(text.encode())
    assert (what in odd[0]) if odd and what else (odd is None) == (not what)

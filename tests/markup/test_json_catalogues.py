"""Catalogues in JSON stay as they are, except for their texts; other JSON is refused."""

import json

import pytest
from read_document import read_document

from nmt.errors import DataError
from nmt.markup.json_catalogues import lacks_plurals

I18NEXT = r"""{
    "title" : "A \"man\" \u0026 dog",	"nested": { "items": ["Two dogs", "12", ""], "rtl": false },
  "count_one":"{{count}} dog of $t(people, {\"count\": 2})", "dir": "rtl", "color": "#ff0000",
  "icu": "{n, plural, one {a dog} other {# dogs}}",
  "link": "See <1>the\n page</1>."
}
"""
UNITS = [
    'A "man" &amp; dog',
    "Two dogs",
    '{{count}} dog of <var nmt-kept>$t(people, {"count": 2})</var>',
    "{n, plural, one {a dog} other {# dogs}}",
    "See <1>the\n page</1>.",
]
ARB = '{"@@locale": "en", "hi": "Hello {name}", "@hi": {"description": "Said to all"}}'
EXTENSION = """{"hi": {"message": "Hi, $NAME$, $1!", "description": "Greets",
 "placeholders": {"name": {"content": "$1", "example": "Anna"}}}}"""
WMT = '{\n"general.years": "{{count}} years",\n"general.a_dog": "A dog in {{place}}"\n}'


def lines(content: str) -> list[str]:
    return [unit.line for unit in read_document("a.json", content).units]


def test_the_values_are_units_and_all_else_stays() -> None:
    document = read_document("a.json", I18NEXT)
    assert [unit.line for unit in document.units] == UNITS
    for texts in (UNITS, [None] * 5):
        assert document.write(texts).content.decode() == I18NEXT
    written = document.write(["“Ä” \\ &amp;", "Zwei", None, None, None]).content.decode()
    expected = I18NEXT.replace(r"A \"man\" \u0026 dog", r"\u201c\u00c4\u201d \\ &")
    assert written == expected.replace("Two dogs", "Zwei")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (ARB, ["Hello {name}"]),
        (EXTENSION, ["Hi, <var nmt-kept>$NAME$</var>, <var nmt-kept>$1</var>!"]),
        ('{"a": {"defaultMessage": "A man", "description": "B"}}', ["A man"]),
        ('[{"id": "A b", "defaultMessage": "A man"}]', ["A man"]),
        (WMT, ["{{count}} years", "A dog in {{place}}"]),
        ('["A man", "你好"]', ["A man", "你好"]),
        ('{"a": "@:b.c and @.upper:d", "b": "Ein {\'@\'}b"}', [
            "<var nmt-kept>@:b.c</var> and <var nmt-kept>@.upper:d</var>",
            "Ein <var nmt-kept>{'@'}</var>b",
        ]),
        ('{"@metadata": {"authors": ["A b"]}, "a": "Кот спит", "b": "قطة"}', ["Кот спит", "قطة"]),
        ('{"a": "Half \\ud83d", "b": "A man"}', ["A man"]),
        ('{"a_b": "A chat_id", "b": "E&xit"}', ["A chat_id", "Exit"]),
        ('{"n": 1}', []),
        ("{}", []),
    ],
)  # fmt: skip
def test_texts_are_found(content: str, expected: list[str]) -> None:
    assert lines(content) == expected


def test_a_translation_without_a_reference_of_its_source_is_left_out() -> None:
    document = read_document("a.json", '{"a": "A $t(dog) @:b"}')
    (line,) = lines('{"a": "A $t(dog) @:b"}')
    assert document.write([line.replace("$t(dog)", "$t(hund)")]).refused == 1
    moved = document.write(["<var nmt-kept>@:b</var> <var nmt-kept>$t(dog)</var>"])
    assert json.loads(moved.content) == {"a": "@:b $t(dog)"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": "A man"}\n{"a": "A dog"}\n', r"a\.json: .*line 2"),
        ('{"a": "A man",}', "line 1"),
        ('{"name": "my-app", "main": "a.js", "license": "MIT", "a": "A man"}', "my-app"),
        ('{"a": "Vite build", "b": "A man", "version": 3, "private": true}', "2 are no text"),
        ('[{"id": "1", "text": "A man"}]', "records.* --input FILE.jsonl:COLUMN"),
    ],
)
def test_what_is_damaged_or_no_catalogue_is_refused(content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        lines(content)


@pytest.mark.parametrize(
    ("content", "lang", "expected"),
    [
        ('{"dog_one": "a", "dog_other": "b"}', "pl", True),
        ('{"dog": {"one": "a", "other": "b"}}', "ru", True),
        ('{"dog": "a", "dog_plural": "b"}', "ar-EG", True),
        ('{"dog": "a", "dog_plural": "b"}', "pol_Latn", True),
        ('{"dog_one": "a", "dog_other": "b"}', "de", False),
        ('{"no_one_is_here": "a"}', "pl", False),
    ],
)
def test_a_language_may_have_more_plural_forms(content: str, lang: str, expected: bool) -> None:
    assert lacks_plurals(content, lang) == expected

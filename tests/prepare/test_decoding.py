"""Blocks become the lines that reading one by one gives, and every character has its class."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from nmt.data.corpus import Encoding, ParallelText, read_lines
from nmt.prepare.characters import CONTROL, FOREIGN, SIGN, SPACE, classes_for, known_scripts
from nmt.prepare.text import Block, BlockDecoder, decode_side, read_blocks, show_line

UTF8 = Encoding.find("utf-8")


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("utf-8", b"a\nb"),
        ("utf-8", b"a\r\nb\r\r\n\r\n\n"),
        ("utf-8", b"a\rb\nc\r"),
        ("utf-8", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"),
        ("utf-8", b"\xef\xbb\xbfa\nb\xffd\r\nc\n\xc3\n\xa4\n"),
        ("utf-8", "a\u2028b\u0085c\vd\x1ce\n".encode()),
        ("windows-1252", b"caf\xe9 \x96\r\nbad \x81\nb\xe4\n"),
        ("utf-16", "Käse\r\nx\n".encode("utf-16")),
        ("shift_jis", "日本\nbad".encode("shift_jis") + b"\xff\xff\n"),
        ("gb18030", "中文\n".encode("gb18030")),
    ],
)
def test_a_block_has_the_lines_that_reading_one_by_one_gives(
    tmp_path: Path, encoding: str, content: bytes
) -> None:
    for lang in ("en", "de"):
        (tmp_path / f"t.{lang}").write_bytes(content)
    text, found = ParallelText.find(f"{tmp_path}/t", "en", "de"), Encoding.find(encoding)
    expected = [
        found.decode(line, number=n) for n, line in enumerate(read_lines(text.src, found), 1)
    ]
    (block,) = read_blocks(text, found)
    for side in BlockDecoder(found, ("en", "de"))(block):
        assert side.lines == [line or "" for line in expected]
        assert side.is_bad.tolist() == [line is None for line in expected]


def test_a_byte_order_mark_is_one_at_the_start_of_the_text_only() -> None:
    raw = "\ufeffa\n".encode()
    table = classes_for("en")
    assert decode_side(raw, UTF8, table, number=1, lines=1).lines == ["a"]
    assert decode_side(raw, UTF8, table, number=2, lines=1).lines == ["\ufeffa"]


def test_characters_are_counted_line_by_line() -> None:
    lines = "ab 1,5\n\n \t\u00a0\nΔx\u0301?\x07\n漢字 kana\n"
    side = decode_side(lines.encode(), UTF8, classes_for("en"), number=1, lines=5)
    assert side.lengths.tolist() == [6, 0, 3, 5, 7]
    assert side.visible.tolist() == [5, 0, 0, 5, 6]
    assert side.signs.tolist() == [3, 0, 0, 2, 0]
    assert side.controls.tolist() == [0, 0, 0, 1, 0]
    assert side.foreign.tolist() == [0, 0, 0, 1, 2]


def test_classes_are_what_unicode_says() -> None:
    table = classes_for("xx")  # of which we know no script
    for code in range(0x3000):
        character = chr(code)
        assert bool(table[code] & SPACE) == character.isspace()
        is_letter = unicodedata.category(character)[0] in "LM"
        assert bool(table[code] & SIGN) == (not is_letter and not character.isspace())
        controls = [*range(0x09), *range(0x0A, 0x20), *range(0x7F, 0xA0)]
        assert bool(table[code] & CONTROL) == (code in controls)
        assert not table[code] & FOREIGN
    assert table[0xFFFD] & CONTROL


# The script stands first in a letter's Unicode name.
@pytest.mark.parametrize(
    ("language", "script"),
    [
        ("de", "LATIN"),
        ("el", "GREEK"),
        ("ru", "CYRILLIC"),
        ("he", "HEBREW"),
        ("ar", "ARABIC"),
        ("hi", "DEVANAGARI"),
        ("th", "THAI"),
        ("ka", "GEORGIAN"),
        ("am", "ETHIOPIC"),
        ("zh", "CJK"),
    ],
)
def test_letters_of_other_scripts_are_foreign(language: str, script: str) -> None:
    scripts = "LATIN GREEK CYRILLIC HEBREW ARABIC DEVANAGARI THAI GEORGIAN ETHIOPIC CJK HANGUL"
    table = classes_for(language)
    # U+1D26 to U+1D2B, phonetic signs, are Greek and Cyrillic by name and stand among Latin ones.
    for code in [
        *range(0x1D26),
        *range(0x1D2C, 0x2000),
        *range(0x3400, 0x3500),
        *range(0xAC00, 0xAD00),
    ]:
        first = unicodedata.name(chr(code), "").split(" ")[0]
        if unicodedata.category(chr(code)) in ("Ll", "Lu", "Lo") and first in scripts.split():
            assert bool(table[code] & FOREIGN) == (first != script), chr(code)


def test_languages_with_several_scripts_are_at_home_in_each() -> None:
    assert not any(classes_for("ja")[ord(c)] & FOREIGN for c in "日本のカナ")
    assert not any(classes_for("sr")[ord(c)] & FOREIGN for c in "jaја")


@pytest.mark.parametrize(
    ("code", "scripts"),
    [
        *((code, "Latn") for code in ("pt_BR", "pt-br", "PT", "eng", "ger", "deu", "de.tok")),
        *((code, "Cyrl") for code in ("rus_Cyrl", "ukr", "uz_Cyrl", "khk", "sr-Cyrl")),
        *((code, "Hani") for code in ("zh-TW", "zho_Hans", "cmn", "yue_Hant")),
        *((code, "Hani Kana") for code in ("ja", "jpn", "jpn_Jpan")),
        *((code, "Arab") for code in ("arb_Arab", "fa", "pes", "kas_Arab")),
        ("kor_Hang", "Hang"),
        ("ko", "Hang Hani"),
        ("srp", "Cyrl Latn"),
        ("srp_Latn", "Latn"),
        ("iw", "Hebr"),
        *(
            (code, "")
            for code in ("tlh", "xx", "zgh", "german", "2de", "en_core", "en-1", "bpe.de")
        ),
    ],
)
def test_a_code_of_any_standard_tells_the_script(code: str, scripts: str) -> None:
    assert " ".join(known_scripts(code)) == scripts
    letters = {"Latn": "a", "Cyrl": "ж", "Hani": "中", "Kana": "の", "Arab": "ش", "Hebr": "ש"}
    for script, letter in letters.items():
        foreign = bool(scripts) and script not in scripts.split()
        assert bool(classes_for(code)[ord(letter)] & FOREIGN) == foreign


def test_bad_lines_are_shown_by_their_bytes() -> None:
    block = Block(0, 1, 2, b"fine\r\nb\xffd\n", b"\n\n")
    assert show_line(block.src, 0, UTF8) == "fine"
    assert show_line(block.src, 1, UTF8) == "b\\xffd"

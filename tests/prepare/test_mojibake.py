"""Broken encodings are found and repaired, and text that only looks like it is left alone."""

import sys
import unicodedata

import numpy as np
import pytest

from nmt.errors import UsageError
from nmt.prepare.block import TextSide
from nmt.prepare.characters import plain_classes
from nmt.prepare.fixes import broken_rows, broken_word, fixed_encoding, ftfy_version

SENTENCES = {
    "de": "Für die Größe der Tür gibt es “Regeln” – oder…",
    "fr": "Où est l’été\u00a0? Déjà passé, à la maison.",
    "es": "El niño pequeño comió más piñas.",
    "pl": "Zażółć gęślą jaźń, proszę.",
    "cs": "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "hu": "Köszönöm, már ettem egy kis tükörtojást.",
    "tr": "Teşekkür ederim, İstanbul'da yağmur yağıyor.",
    "vi": "Cảm ơn, tôi đã ăn sáng rồi.",
    "ru": "Привет, её зовут Анна — а вас?",
    "uk": "Привіт, їжак іде до лісу.",
    "el": "Καλημέρα, τι κάνεις;",
    "ar": "شكرا، لقد أكلت.",
    "he": "תודה, כבר אכלתי.",
    "zh": "人人生而自由，在尊严和权利上一律平等。",
    "ko": "모든 인간은 태어날 때부터 자유롭다.",
    "th": "มนุษย์ทั้งหลายเกิดมามีอิสระ",
    "hi": "सभी मनुष्यों को गौरव प्राप्त है।",
}
TWICE = [SENTENCES[lang] for lang in ("de", "fr", "ru", "zh")]
CODECS = ("latin-1", "cp1252")

RIGHT = [
    "SÃO PAULO, MANHÃ DE SÁBADO",
    "« à la »",
    "Le mot « É » et voilà\u00a0: l’été\u00a0», dit-il.",
    "CAFÉ», À\u00a0VENDRE",
    "Das „Ä“ und das „Ö“ und Å",
    "PÅ” sagde han. »Å« er et bogstav.",
    "3\u00a0×\u00a04 = 12, 20\u00a0°C, ½, §\u00a05, √π",
    "‚Ärger‘ und »Übel«",
    "НА ЗАПОРІЗЬКІЙ СІЧІ, Рік і Сім, Гість",
    "Её звали Гёте",
    "Ђорђе и Љубица, Џон",
    "naïve façade – “quoted” ‘text’ … €\u00a05 ™ ©",
    "CĂRŢILE ŞI ŢARA",
    "ÐÑ",
    "„Џорџ…” и Вирџинија",
    "Äşgabat däl, Äžder, bu Äşe",
    "Ăştia sunt, zise el",
    "Äštonia",
]
"""What stands in real text, or could."""


def misread(text: str, codec: str) -> str:
    """UTF-8 as a program sees it that takes it for another encoding."""
    table = [bytes([byte]).decode(codec, "replace") for byte in range(256)]
    return "".join(chr(byte) if table[byte] == "\ufffd" else table[byte] for byte in text.encode())


def find(*lines: str) -> list[int]:
    side = TextSide(list(lines), np.zeros(len(lines), np.bool_), plain_classes())
    found: list[int] = broken_rows(side).tolist()
    return found


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        *((misread(text, codec), text) for text in SENTENCES.values() for codec in CODECS),
        *((misread(misread(text, "cp1252"), "cp1252"), text) for text in TWICE),
        ("It\x92s \x84good\x93\x85", "It’s „good“…"),  # windows-1252 read as Latin-1
        ("Ã\u00a0 la carte, voilÃ\u00a0!", "à la carte, voilà!"),
        ("20 Â°C, Â£5, motÂ\u00a0!", "20 °C, £5, mot\u00a0!"),
        ("Itâ€™s â€œgoodâ€\x9d", "It’s “good”"),
        ("5â‚¬, Appâ„¢", "5€, App™"),
        ("Nice ðŸ˜€", "Nice 😀"),
        ("Ãœbung", "Übung"),
        ("Het is fÃ¼r one WÃ¶rd, and für another", "Het is für one Wörd, and für another"),
    ],
)
def test_text_read_in_another_encoding_is_found_and_repaired(broken: str, text: str) -> None:
    assert find(text, broken, text) == [1]
    assert broken_word(broken)
    pytest.importorskip("ftfy", reason="needs the extra fix")
    assert fixed_encoding(broken) == text
    assert fixed_encoding(text) == text


@pytest.mark.parametrize("text", RIGHT)
def test_what_only_looks_broken_is_neither_found_nor_changed(text: str) -> None:
    decomposed = unicodedata.normalize("NFD", text)
    assert find(text, decomposed, text.lower()) == []
    pytest.importorskip("ftfy", reason="needs the extra fix")
    assert fixed_encoding(text) == text
    assert fixed_encoding(decomposed) == decomposed


def test_the_word_with_the_first_flaw_is_shown() -> None:
    assert broken_word("Die TÃ¼r und die BÃ¤ume") == "TÃ¼r"
    assert broken_word("Die Tür") == ""


def test_a_flaw_at_the_end_of_a_line_does_not_reach_into_the_next() -> None:
    assert find("The letter Ã", "¼ of it", "a\x85", "") == [2]
    assert find() == []


def test_without_ftfy_the_line_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ftfy", None)
    with pytest.raises(UsageError, match=r"--fix .*pip install ftfy`"):
        ftfy_version()

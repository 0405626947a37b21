"""Every character has its class: white space, sign, control, or of a script that is foreign."""

import unicodedata

import pytest

from nmt.prepare.characters import CONTROL, FOREIGN, SIGN, SPACE, classes_for, known_scripts


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


SCRIPTS = {"de": "LATIN", "el": "GREEK", "ru": "CYRILLIC", "he": "HEBREW", "ar": "ARABIC"}
SCRIPTS |= {"hi": "DEVANAGARI", "th": "THAI", "ka": "GEORGIAN", "am": "ETHIOPIC", "zh": "CJK"}


@pytest.mark.parametrize("language", SCRIPTS)
def test_letters_of_other_scripts_are_foreign(language: str) -> None:
    table = classes_for(language)
    # U+1D26 to U+1D2B, phonetic signs, are Greek and Cyrillic by name and stand among Latin ones.
    ranges = range(0x1D26), range(0x1D2C, 0x2000), range(0x3400, 0x3500), range(0xAC00, 0xAD00)
    for character in (chr(code) for codes in ranges for code in codes):
        script = unicodedata.name(character, "").split(" ")[0]
        is_letter = unicodedata.category(character) in ("Ll", "Lu", "Lo")
        if is_letter and script in (*SCRIPTS.values(), "HANGUL"):
            assert bool(table[ord(character)] & FOREIGN) == (script != SCRIPTS[language]), character


@pytest.mark.parametrize(
    ("code", "scripts"),
    [
        ("de.tok", "Latn"),
        ("mn", "Cyrl"),
        ("zho_Hans", "Hani"),
        ("ja", "Hani Kana"),
        ("kor_Hang", "Hang"),
        ("ko", "Hang Hani"),
        ("sr_ME", "Cyrl Latn"),
        ("uz", "Cyrl Latn Arab"),
        ("ms", "Latn Arab"),
        ("pa", "Arab Guru"),
        ("sat", "Latn Deva Orya Beng"),  # and Ol Chiki, whose letters are foreign nowhere
        *((code, "") for code in ("tlh", "xx", "zgh", "german", "2de", "en_core", "bpe.de")),
    ],
)
def test_a_code_of_any_standard_tells_the_script(code: str, scripts: str) -> None:
    assert " ".join(known_scripts(code)) == scripts
    letters = {"Latn": "a", "Cyrl": "ж", "Hani": "中", "Kana": "の", "Arab": "ش", "Hebr": "ש"}
    for script, letter in letters.items():
        foreign = bool(scripts) and script not in scripts.split()
        assert bool(classes_for(code)[ord(letter)] & FOREIGN) == foreign

"""Language codes of every standard mean the same language."""

import pytest

from nmt.data import languages


@pytest.mark.parametrize(
    ("codes", "language"),
    [
        ("de DE de_AT deu ger deu_Latn de.tok", "de"),
        ("zh-CN zho_Hans cmn chi", "zh"),
        ("arb_Arab ara", "ar"),
        ("yue yue_Hant", "yue"),
        ("lvs", "lv"),
        ("en-1", "en"),
        *((code, code) for code in ("nb", "nn", "hr", "bs", "tlh", "xx", "german")),
    ],
)
def test_a_code_is_reduced_to_the_shortest_code_of_its_language(codes: str, language: str) -> None:
    assert {code: languages.primary_language(code) for code in codes.split()} == dict.fromkeys(
        codes.split(), language
    )


@pytest.mark.parametrize(
    ("asked", "rank", "found"),
    [
        ("zh", 0, ("zh", "ZH")),
        ("zh", 1, ("zh-CN", "zh_Hans", "zh-Hans-CN", "cmn", "zho_Hans", "chi", "ZH-CHS")),
        ("zh", 2, ("zh-SG",)),
        ("zh", None, ("zh-TW", "zh-HK", "zh-Hant", "cmn-TW", "zh-CHT")),
        ("zh-CN", 1, ("zh", "zh-Hans")),
        ("zh-CN", None, ("zh-TW", "zh-SG")),
        ("zh_Hant", 1, ("zh-TW", "zho_Hant")),
        ("zh_Hant", 2, ("zh-HK", "zh-Hant-HK")),
        ("zh_Hant", None, ("zh", "zh-CN")),
        ("zh", None, ("yue", "ja", "x-none", "*none*", "und", "", "chinese")),
        ("sr", 1, ("sr-RS", "sr-Cyrl", "sr-Cyrl-CS", "srp")),
        ("sr", None, ("sr-Latn", "sr-SP-Latn", "sh")),
        ("sr-Latn", 2, ("sr-ME", "sr-SP-Latn")),
        ("pt", 1, ("pt-BR", "por_Latn")),
        ("pt", 2, ("pt-PT", "pt-AO")),
        ("pt-BR", 1, ("pt",)),
        ("pt-PT", None, ("pt", "pt-BR", "pt-AO")),
        ("en", 1, ("en-us", "EN-US", "eng")),
        ("en", 2, ("en-GB", "en-UK")),
        ("en", None, ("und", "x-none", "tlh")),  # CLDR's likely values would make English of them
        ("en-GB", 1, ("en-UK",)),
        ("de.tok", 1, ("de-DE", "ger", "GER", "deu")),
        ("no", 1, ("nb", "nb-NO")),
        ("nb", 1, ("no", "no-NO")),
        ("no", None, ("nn", "da")),
        ("hr", None, ("bs", "sr-Latn")),
        ("de", None, ("gsw", "nds")),
        ("he", 1, ("iw", "he-IL")),
        ("id", 1, ("in",)),
        ("xx", 2, ("xx-YY",)),
        ("german", 0, ("German",)),
    ],
)
def test_variants_are_compared_by_script_and_region_with_their_likely_values(
    asked: str, rank: int | None, found: tuple[str, ...]
) -> None:
    assert {one: languages.variant_rank(one, asked) for one in found} == dict.fromkeys(found, rank)


@pytest.mark.parametrize(
    ("name", "code", "names_it"),
    [
        *((name, "en", True) for name in ("en", "EN", "eng", "en-US", "en_GB", "eng_Latn")),
        *((name, "en", True) for name in ("English", " english ", "English (US)")),
        *((name, "en", False) for name in ("text", "e", "Englisch", "id", "ENG 1", "x" * 1000)),
        ("ger", "de", True),
        ("de", "deu_Latn", True),
        ("Castilian", "es", True),  # a second name
        ("Greek", "el", True),  # "Modern Greek (1453-)"
        ("Malay", "ms", True),  # "Malay (macrolanguage)"
        ("Mandarin Chinese", "cmn", True),
        ("Chinese", "cmn", True),
        ("zh-TW", "zh_Hant", True),
        ("zh-CN", "zh_Hant", False),
        ("pt", "pt_BR", True),
        ("pt-PT", "pt_BR", False),
        ("Chinese (Simplified)", "zh", True),
        ("Chinese (Simplified)", "zh_Hant", False),
        ("Chinese (Traditional)", "zh_TW", True),
        ("Chinese (Traditional)", "zh", False),
        ("Serbian (Latin)", "sr_Latn", True),
        ("zh-TW", "zh", False),
        ("zh", "zh_Hant", False),
        ("zh_Hans", "cmn", True),
        ("uz_Latn", "uz", True),
        ("uz", "uzn_Latn", True),
        ("uz-Arab", "uz", False),
        ("uz", "uz_Cyrl", False),
        ("uz_text", "uz", True),
        ("en_Name", "en", True),
    ],
)
def test_a_column_is_named_by_code_or_english_name(name: str, code: str, names_it: bool) -> None:
    assert languages.names_language(name, code) is names_it


@pytest.mark.parametrize(
    ("codes", "scripts"),
    [
        ("en de_AT ro tr vi id tlh-Latn uzn_Latn sh-Latn az-Latn-IR", "Latn"),
        ("kaz_Cyrl sr-Cyrl-ME ru", "Cyrl"),
        ("sr sr-ME srp sh hbs cnr bs", "Cyrl Latn"),
        ("uz uzn uz-AF kk az azj ky tg tk ug ku kmr", "Cyrl Latn Arab"),
        ("mn khk", "Cyrl Mong"),
        ("iu ike cr", "Latn Cans"),
        ("zh cmn zh-Hans", "Hans"),
        ("ja", "Jpan"),
        ("ko", "Kore"),
        ("xx tlh german", ""),
    ],
)
def test_a_language_has_all_scripts_unless_the_code_names_one(codes: str, scripts: str) -> None:
    for code in codes.split():
        assert " ".join(languages.scripts_of(code)) == scripts, code

"""Language codes: the only module that uses langcodes.

Codes may be BCP 47 (de, pt-BR, zh-Hans), ISO 639 (deu, cmn) or NLLB's form with a script
(rus_Cyrl). Anything after a dot or an at sign, as in de.tok, is ignored.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langcodes import Language

_CODE = re.compile(r"[A-Za-z0-9_-]*")
_CLOSE = 10
"""CLDR's distance of hr and bs is 8, and that of no and da 12."""
_TWO_SCRIPTS = {
    "sr": ("Cyrl", "Latn"),
    "ku": ("Latn", "Arab"),
    "ks": ("Arab", "Deva"),
    "sd": ("Arab", "Deva"),
    "crh": ("Cyrl", "Latn"),
    "lad": ("Hebr", "Latn"),
}
"""Languages with two scripts; CLDR lists only one likely script for each language."""
OTHER_VARIANT = 3
"""The rank of a text in another script or region than was asked for."""
_MANY = 4096  # codes that are remembered; a damaged file may have more
_OLD = {"zh-chs": "zh-Hans", "zh-cht": "zh-Hant"}
"""Codes of old Microsoft tools that mean something else today."""
_SCRIPT_LAST = re.compile(r"([a-z]{2,3})-([a-z]{2}|[0-9]{3})-([a-z]{4})", re.IGNORECASE)
"""The order of the same tools, as in sr-SP-Latn."""


@cache
def primary_language(code: str) -> str:
    """Return a language without script or country, as two letters if there is such a code.

    For example pt of pt_BR, de of deu and zh of cmn_Hans.
    """
    first = _tag(code).split("-")[0].lower()
    if len(first) == 2:  # most codes, for which loading langcodes would take 0.1 s
        return first
    from langcodes import Language
    from langcodes.tag_parser import LanguageTagError

    try:
        language = Language.get(first).prefer_macrolanguage().language
    except LanguageTagError:
        return first
    return language or first


@cache
def scripts_of(code: str) -> tuple[str, ...]:
    """Return the ISO 15924 codes of a language's scripts, such as Latn; empty if unknown.

    A script in the code wins; otherwise CLDR gives the likely one.
    """
    from langcodes import Language
    from langcodes.data_dicts import LIKELY_SUBTAGS
    from langcodes.tag_parser import LanguageTagError

    try:
        language = Language.get(_tag(code)).prefer_macrolanguage()
    except LanguageTagError:
        return ()
    if language.script:
        return (language.script,)
    if language.language in _TWO_SCRIPTS:
        return _TWO_SCRIPTS[language.language]
    if language.language not in LIKELY_SUBTAGS:  # `maximize` would answer as for English
        return ()
    return (language.maximize().script or "",)


@cache
def is_pair(code: str) -> bool:
    """Return whether a code names two languages, such as zh-en, and not a region, such as zh-tw."""
    first, _, second = code.partition("-")
    if len(second) != 2 or not second.islower() or not scripts_of(second):
        return False
    from langcodes import Language

    return Language.get(f"und-{second}").maximize().language != first


@cache
def are_close(one: str, other: str) -> bool:
    """Return whether two codes name one language, or two that CLDR takes for about the same.

    For example de and deu_Latn, no and nb, or hr and bs; but not no and da.
    """
    from langcodes import tag_distance
    from langcodes.tag_parser import LanguageTagError

    try:
        return tag_distance(_tag(one), _tag(other)) < _CLOSE
    except LanguageTagError:
        return one == other


@lru_cache(_MANY)
def variant_rank(found: str, asked: str) -> int | None:
    """Return how well text with one code serves if another code was asked for; 0 is best.

    What a code leaves out is filled in by CLDR's likely values: zh is zh-Hans-CN, sr is sr-Cyrl-RS.

    - 0: the codes are equal.
    - 1: language, script and region are equal, such as en-US for en, zh-Hant for zh-TW, nb for no.
    - 2: language and script are equal, and `asked` names no region, such as pt-PT for pt.
    - `OTHER_VARIANT`: only the language is equal, such as zh-TW for zh, or pt-PT for pt-BR.
    - None: it is another language, or not a code.
    """
    if _tag(found).lower() == _tag(asked).lower():
        return 0
    one, other = _variant(found), _variant(asked)
    if one is None or other is None or one[0] != other[0]:
        return None
    if one == other:
        return 1
    return 2 if one[1] == other[1] and not _names_region(asked) else OTHER_VARIANT


@lru_cache(_MANY)
def variant_name(code: str) -> str:
    """Return the shortest code that says a variant without leaving a region or script to guess.

    For example pt-BR for pt or por_Latn, zh-TW for zh-Hant, sr-Latn for sr-Latn-RS.
    """
    variant = _variant(code)
    if variant is None:
        return code
    language, script, region = variant
    shortest_first = (language, region), (language, script), variant
    names = ("-".join(filter(None, parts)) for parts in shortest_first)
    return next(name for name in names if _variant(name) == variant)


@lru_cache(_MANY)
def _variant(code: str) -> tuple[str, str, str] | None:
    """Return language, script and region with their likely values; None if it is not a code."""
    from langcodes.data_dicts import LIKELY_SUBTAGS

    language = _parse(code)
    if language is None or not language.language:  # und is text of any language
        return None
    if language.language in LIKELY_SUBTAGS:  # else `maximize` would answer as for English
        language = language.maximize()
    primary = "no" if language.language == "nb" else language.language or ""
    return primary, language.script or "", language.territory or ""


def _names_region(code: str) -> bool:
    language = _parse(code)
    return language is not None and language.territory is not None


def _parse(code: str) -> Language | None:
    from langcodes import Language
    from langcodes.tag_parser import LanguageTagError

    tag = _SCRIPT_LAST.sub(r"\1-\3-\2", _tag(code))
    try:
        return Language.get(_OLD.get(tag.lower(), tag)).prefer_macrolanguage()
    except LanguageTagError:
        return None


def _tag(code: str) -> str:
    found = _CODE.match(code)
    return found[0].replace("_", "-").strip("-") if found else ""

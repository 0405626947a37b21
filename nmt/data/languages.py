"""Language codes: the only module that uses langcodes.

Codes may be BCP 47 (de, pt-BR, zh-Hans), ISO 639 (deu, cmn) or NLLB's form with a script
(rus_Cyrl). Anything after a dot or an at sign, as in de.tok, is ignored.
"""

from __future__ import annotations

import re
from functools import cache

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


def _tag(code: str) -> str:
    found = _CODE.match(code)
    return found[0].replace("_", "-").strip("-") if found else ""

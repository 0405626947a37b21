"""Language codes: the only module that uses langcodes.

Codes may be BCP 47 (de, pt-BR, zh-Hans), ISO 639 (deu, cmn) or NLLB's form with a script
(rus_Cyrl). Anything after a dot or an at sign, as in de.tok, is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langcodes import Language

_CODE = re.compile(r"[A-Za-z0-9_-]*")
_WHOLE_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_BEGINS_WITH_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")  # such as de_translation
_NAME = re.compile(r"(?P<name>[^()]+?)(?P<variant>\s*\(.*\))?")
_LONGEST_NAME = 40
_CLOSE = 10  # CLDR's distance of hr and bs is 8, and that of no and da 12
_SEVERAL_SCRIPTS = {
    "Cyrl Latn": "abq bs crh gag kaa lfn rom sr tkr tt udm",
    "Cyrl Latn Arab": "az inh kk ku ky tg tk tly ttt ug uz",
    "Cyrl Mong": "mn",
    "Cyrl Syrc": "aii",
    "Grek Cyrl Latn": "pnt",
    "Latn Geor": "lzz",
    "Latn Hebr": "lad",
    "Latn Arab": "ace bal bjn brh dyo ha kr mey min ms mzb sus swb wo",
    "Latn Arab Rohg": "rhg",
    "Latn Arab Tfng": "shi",
    "Latn Tfng": "rif tmh tzm",
    "Latn Adlm": "ff",
    "Latn Nkoo": "bm man",
    "Latn Vaii": "vai",
    "Latn Cans": "chp cr crj crl den iu nsk oj",
    "Latn Osge": "osa",
    "Latn Deva": "hif kok",
    "Latn Beng": "kha",
    "Latn Deva Orya Telu": "kxv",
    "Latn Deva Orya Beng Olck": "sat",
    "Arab Deva": "doi ks sd",
    "Arab Guru": "pa",
    "Deva Beng": "unr unx",
    "Deva Telu": "gon",
    "Deva Limb": "lif",
    "Beng Cakm": "ccp",
    "Beng Mtei": "mni",
}
"""Languages that are written in several scripts today; their likely subtags name only one.

They are those of `languageData` in CLDR 48, primary and secondary, with these changes:
- FLORES-200 adds ace, bjn, kr and min. Wikimedia's converters add crh, tt and the Latin of kk. lad
  is ours.
- Scripts of the past are left out, because such a line would mostly be in another language: for
  example Arabic in id, so and tr, Han in vi, Cyrillic in ro and se, Ethiopic in om, Latin in hi.
- So are Javanese, Balinese and the like: no rule tells their letters from others.
"""
_SCRIPTS = {
    language: tuple(scripts.split())
    for scripts, languages in _SEVERAL_SCRIPTS.items()
    for language in languages.split()
}
_CHOSEN_SCRIPTS = {"Hans", "Hant"}.union(*_SCRIPTS.values())
_SCRIPT_NAMES = {"simplified": "Hans", "traditional": "Hant", "latin": "Latn"}
_SCRIPT_NAMES |= {"cyrillic": "Cyrl", "arabic": "Arab"}
"""How the names of columns tell scripts apart, as in Chinese (Traditional)."""
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
    language = _parse(first)
    return (language and language.language) or first


@cache
def scripts_of(code: str) -> tuple[str, ...]:
    """Return the ISO 15924 codes of a language's scripts, such as Latn; empty if unknown.

    A script in the code wins; otherwise CLDR gives the likely one.
    """
    from langcodes import Language
    from langcodes.data_dicts import LIKELY_SUBTAGS
    from langcodes.tag_parser import LanguageTagError

    tag = _tag(code)
    try:
        script = Language.get(tag, normalize=False).script
        language = Language.get(tag).prefer_macrolanguage()
    except LanguageTagError:
        return ()
    if script:
        return (script,)
    if language.language in _SCRIPTS:
        return _SCRIPTS[language.language]
    if language.language not in LIKELY_SUBTAGS:  # `maximize` would answer as for English
        return ()
    return (language.maximize().script or "",)


@cache
def spoken_in(code: str) -> str:
    """Return the language of the country that has this code, such as ja of jp; "" if unknown."""
    language = _parse(f"und-{code}") if len(code) == 2 else None
    spoken = (language and language.maximize().language) or ""
    return "" if spoken in ("und", "en", code.lower()) else spoken


def of_country(code: str) -> str:
    """Return what a message adds about a code that may be meant as a country's, such as jp."""
    spoken = spoken_in(code)
    return f"; if you mean {english_name(spoken)}, its code is {spoken}" if spoken else ""


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
    - None: it is another language, or not a code. Or only the language is equal, such as zh-TW for
      zh, or pt-PT for pt-BR.
    """
    if _tag(found).lower() == _tag(asked).lower():
        return 0
    one, other = _variant(found), _variant(asked)
    if one is None or other is None or one[0] != other[0]:
        return None
    if one == other:
        return 1
    language = _parse(asked)
    return 2 if one[1] == other[1] and not (language and language.territory) else None


def serving_codes(codes: Iterable[str], asked: str) -> list[str]:
    """Return the codes that serve if a code was asked for, the best first (`variant_rank`)."""
    ranks = ((variant_rank(code, asked), code) for code in codes)
    return [code for _, code in sorted((rank, code) for rank, code in ranks if rank is not None)]


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


def _parse(code: str) -> Language | None:
    from langcodes import Language
    from langcodes.tag_parser import LanguageTagError

    tag = _SCRIPT_LAST.sub(r"\1-\3-\2", _tag(code))
    try:
        return Language.get(_OLD.get(tag.lower(), tag)).prefer_macrolanguage()
    except LanguageTagError:
        return None


def names_language(name: str, code: str) -> bool:
    """Return whether the name of a column is that of a language: a code, or its English name.

    For example, EN, eng, en-US, English and English (US) name en. Another script or country than
    that of the code is another language here. A code without a script means its likely one.
    """
    name = name.strip()
    match = _NAME.fullmatch(name) if len(name) <= _LONGEST_NAME else None
    if not match:  # most text, for which nothing need be loaded
        return False
    if _BEGINS_WITH_CODE.fullmatch(name) and primary_language(name) == primary_language(code):
        # Both must be able to mean the same script and region. A script may be a word: en_text.
        scripts = {variant[1] for variant in map(_variant, (name, code)) if variant}
        if "-" not in _tag(name) or "-" not in _tag(code):
            return len(scripts & _CHOSEN_SCRIPTS) < 2
        return variant_rank(name, code) is not None
    codes = {primary_language(code), _tag(code).split("-")[0].lower()}
    names = [_english_names().get(language, frozenset()) for language in codes]
    if _folded(match["name"]) not in frozenset().union(*names):
        return False
    variant = _folded(match["variant"] or "").strip("()")
    if variant in _SCRIPT_NAMES:
        return names_language(f"{primary_language(code)}-{_SCRIPT_NAMES[variant]}", code)
    return not (variant and "-" in _tag(code))


def is_code(name: str) -> bool:
    """Return whether a name is a code of a language. Words may be, too: dog is Dogose."""
    return bool(_WHOLE_CODE.fullmatch(name)) and primary_language(name) in _english_names()


@lru_cache(_MANY)
def is_language(name: str) -> bool:
    """Return whether a name is a code of a language, or its English name."""
    match = _NAME.fullmatch(name.strip()) if len(name) <= _LONGEST_NAME else None
    if not match:
        return False
    folded = _folded(match["name"])
    return is_code(name.strip()) or any(folded in names for names in _english_names().values())


def english_name(code: str) -> str:
    """Return the usual English name of a language, such as German of de; its code if unknown."""
    language = primary_language(code)
    return next(iter(_registered_names().get(language, ())), language).removeprefix("Modern ")


@cache
def _english_names() -> Mapping[str, frozenset[str]]:
    """Return all English names of each language by its code, without case."""
    names = {}
    for code, registered in _registered_names().items():
        plain = list(map(_folded, registered))
        # "Modern Greek (1453-)" is Greek.
        names[code] = frozenset([*plain, *(name.removeprefix("modern ") for name in plain)])
    return names


@cache
def _registered_names() -> Mapping[str, list[str]]:
    """Return the English names of each language by its code, as IANA's registry has them."""
    from langcodes.registry_parser import parse_registry

    return {
        entry["Subtag"]: [name.partition(" (")[0] for name in entry["Description"]]
        for entry in parse_registry()  # type: ignore[no-untyped-call]
        if entry["Type"] == "language"
    }


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())


def _tag(code: str) -> str:
    match = _CODE.match(code)
    return match[0].replace("_", "-").strip("-") if match else ""

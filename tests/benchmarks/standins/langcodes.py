"""Stands in for langcodes on a machine that lacks it: knows no language, and so no scripts."""

from __future__ import annotations

import sys
from typing import NoReturn

LIKELY_SUBTAGS: dict[str, str] = {}


class LanguageTagError(ValueError):
    """What langcodes raises for a language that it does not know."""


class Language:
    """A language, which is never found."""

    @staticmethod
    def get(tag: str) -> NoReturn:
        """Refuse a language."""
        raise LanguageTagError(tag)


for name in ("tag_parser", "data_dicts"):
    sys.modules[f"{__name__}.{name}"] = sys.modules[__name__]

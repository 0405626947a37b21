"""A machine-translation toolkit: prepare, train, average, translate, score.

From Python, use `nmt.Translator` to translate; use the command line for everything else.
"""

from __future__ import annotations

TYPE_CHECKING = False  # for type checkers it is True; typing itself takes milliseconds
if TYPE_CHECKING:
    from typing import Any

    from nmt.search.options import Sampling, SearchOptions
    from nmt.translate.alignment import Alignment
    from nmt.translate.options import TranslationConfig
    from nmt.translate.output import Translation
    from nmt.translate.translator import Translator

__version__ = "0.1.0"

__all__ = [
    "Alignment",
    "Sampling",
    "SearchOptions",
    "Translation",
    "TranslationConfig",
    "Translator",
    "__version__",
]

_MODULES = {
    "Alignment": "nmt.translate.alignment",
    "Sampling": "nmt.search.options",
    "SearchOptions": "nmt.search.options",
    "Translation": "nmt.translate.output",
    "TranslationConfig": "nmt.translate.options",
    "Translator": "nmt.translate.translator",
}


def __getattr__(name: str) -> Any:
    # Loaded when they are asked for: they take torch, which takes seconds.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__

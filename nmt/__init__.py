"""A machine-translation toolkit: prepare, train, average, translate, score.

From Python, use `nmt.Translator` to translate; use the command line for everything else.
"""

from __future__ import annotations

from nmt.streams import open_closed_streams

open_closed_streams()  # before anything is imported that opens a file and keeps it

import sys
from typing import TYPE_CHECKING, Any

from nmt.cpu import let_waiting_threads_sleep
from nmt.limits import CheckAddresses
from nmt.models.device import let_gpu_memory_grow

if TYPE_CHECKING:
    from nmt.search.options import Sampling, SearchOptions
    from nmt.translate.alignment import Alignment
    from nmt.translate.options import TranslationConfig
    from nmt.translate.output import Translation
    from nmt.translate.translator import Translator

__version__ = "0.1.0"

# Here, since every way to run nmt imports this package before torch: the commands, torchrun, worker
# processes, and programs that import nmt first.
let_waiting_threads_sleep()
let_gpu_memory_grow()
sys.meta_path.insert(0, CheckAddresses())

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

"""Marian: the arguments of its decoder, see `translation_process`."""

from __future__ import annotations

import pymarian
from benchmarks.translation_process import Translate, serve


def load(*arguments: str) -> Translate:
    translate: Translate = pymarian.Translator(" ".join(arguments)).translate
    return translate


if __name__ == "__main__":
    serve(load)

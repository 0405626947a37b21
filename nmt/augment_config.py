"""The values of augmentation: which share of the pairs is changed, and how."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from nmt.values import value


def _share(help: str) -> Any:
    return value(0.0, f"Share of pairs: {help}", minimum=0.0, maximum=1.0)


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """Which pairs are changed on their way to training; needs data with text (--keep-text)."""

    upper_case: float = _share("both sides are put into upper case.")
    title_case: float = _share("each word of both sides begins with a capital.")
    typos: float = _share("the source gets a typo for each started 40 characters.")
    drop_punctuation: float = _share(
        "the source loses its last mark, or all marks at the edges of words."
    )
    drop_diacritics: float = _share("the source loses its accents.")
    placeholders: float = _share(
        "both sides get the same number or placeholder, such as {name}, which is to be copied."
    )
    merged: float = _share("the next line of the text is joined to both sides.")

    @property
    def any(self) -> bool:
        """Whether pairs are changed at all."""
        return any(dataclasses.astuple(self))

    def problems(self) -> list[str]:
        """Return the problems of the combination of values."""
        if self.upper_case + self.title_case > 1:
            return ["upper_case and title_case are more than 1 together; lower them"]
        return []

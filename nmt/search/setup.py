"""All that translations depend on besides their text, as a user has said it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nmt.errors import DataError, UsageError, did_you_mean
from nmt.files import sha256_file
from nmt.models.ctranslate2_manifest import MANIFEST, is_export
from nmt.models.device import PRECISIONS
from nmt.models.model_file import model_checksum
from nmt.search.options import SearchOptions


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Models and what is asked of them."""

    models: tuple[Path, ...]  # model files or run folders, several of an ensemble; or an export
    options: SearchOptions
    precision: str | None = None  # see `Translator.load`; an export has its own
    shortlist: Path | None = None  # a file of what each translation may be made of
    alignment: bool = False
    split: bool = False  # whether lines are paragraphs, whose sentences are translated one by one

    def __post_init__(self) -> None:
        known = {one for of_device in PRECISIONS.values() for one in of_device}
        if self.precision is not None and self.precision not in known:
            raise UsageError(
                f"unknown precision {self.precision!r}{did_you_mean(self.precision, known)}"
            )
        if len(self.models) > 1:
            self.refuse_export("cannot join an ensemble")
        if self.precision is not None:
            self.refuse_export("has the precision it was exported with; leave out --precision", "")
        if self.shortlist is not None:
            self.refuse_export("takes no shortlist of ours")
        if self.alignment:
            self.refuse_export("has no alignments")
        # What is missing is told of before torch is loaded, which takes seconds.
        for model in self.models:
            _checksum(model)
        if self.shortlist is not None and not self.shortlist.is_file():
            raise DataError(f"{self.shortlist}: no such file")

    @cached_property
    def is_export(self) -> bool:
        """Whether CTranslate2 is to translate."""
        return any(map(is_export, self.models))

    def refuse_export(self, why: str, instead: str = "; give the model file instead") -> None:
        """Refuse what an export cannot do.

        Raises:
            UsageError: if one of the models is an export.
        """
        if self.is_export:
            model = next(filter(is_export, self.models))
            raise UsageError(f"{model} is a CTranslate2 export, which {why}{instead}")

    def identity(self) -> dict[str, Any]:
        """Return what tells translations by this from others."""
        return {
            "models": [_checksum(model) for model in self.models],
            "options": asdict(self.options),
            "precision": self.precision or (None if self.is_export else "fp32"),
            "shortlist": None if self.shortlist is None else sha256_file(self.shortlist),
            "alignment": self.alignment,
            "split": self.split,
        }


def _checksum(model: Path) -> str:
    """Return a model's checksum, as it is noted there.

    Raises:
        NMTError: if there is no model.
    """
    return sha256_file(model / MANIFEST) if is_export(model) else model_checksum(model)

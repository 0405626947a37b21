"""All that translations depend on besides their text, as a user has said it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nmt.errors import UsageError, did_you_mean
from nmt.files import sha256_file
from nmt.models.ctranslate2_export import MANIFEST, is_export
from nmt.models.model_file import model_checksum
from nmt.search.options import SearchOptions

ENGINES = ("torch", "ctranslate2")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Models, engine and what is asked of them."""

    models: tuple[Path, ...]  # model files or run folders, several of an ensemble; or an export
    options: SearchOptions
    engine: str = "torch"
    precision: str | None = None  # see `Translator.load`; an export has its own
    shortlist: Path | None = None  # a file of what each translation may be made of
    alignment: bool = False
    split: bool = False  # whether lines are paragraphs, whose sentences are translated one by one

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UsageError(f"unknown engine {self.engine!r}{did_you_mean(self.engine, ENGINES)}")
        for model in self.models:
            if is_export(model) and self.engine != "ctranslate2":
                raise UsageError(f"{model}: is an export; add --engine ctranslate2")
        if self.engine == "ctranslate2":
            self._check_export()

    def _check_export(self) -> None:
        if len(self.models) > 1:
            raise UsageError("--engine ctranslate2 knows no ensembles")
        (model,) = self.models
        if not is_export(model):
            raise UsageError(
                f"{model}: is no export; write one with `nmt export ctranslate2 {model} OUT`"
            )
        if self.precision is not None:
            raise UsageError("--engine ctranslate2: an export has its own precision")
        if self.shortlist is not None:
            raise UsageError("--engine ctranslate2 knows no shortlists of ours; use --engine torch")
        if self.alignment:
            raise UsageError("--engine ctranslate2 tells no alignments; use --engine torch")

    def identity(self) -> dict[str, Any]:
        """Return what tells translations by this from others.

        Raises:
            NMTError: if there is no model.
        """
        return {
            "models": [
                sha256_file(model / MANIFEST) if is_export(model) else model_checksum(model)
                for model in self.models
            ],
            "options": asdict(self.options),
            "engine": self.engine,
            "precision": self.precision or ("fp32" if self.engine == "torch" else None),
            "shortlist": None if self.shortlist is None else sha256_file(self.shortlist),
            "alignment": self.alignment,
            "split": self.split,
        }

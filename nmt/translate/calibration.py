"""The calibration of a model: how good its translations were, and so may be.

`nmt calibrate` writes it to quality.json, in a run folder or an export, or to NAME.quality.json
beside a model NAME.safetensors. `nmt translate --quality` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from nmt.data.manifest import build_value
from nmt.errors import DataError, UsageError
from nmt.interchange.ctranslate2_manifest import CALIBRATION, Export, is_export
from nmt.scoring.quality import Curve, features_of
from nmt.system.files import parse_json, read_file, write_text

if TYPE_CHECKING:
    from nmt.translate.output import Translation

_FORMAT = 1


@dataclass(frozen=True)
class Calibration:
    """The curve of a model, and what it holds for."""

    model: str  # checksum; an export has that of the model which was exported
    languages: tuple[str, str]
    options: dict[str, Any]  # of search, as given
    chrf: str  # signature
    lines: int
    curve: Curve

    @classmethod
    def open(cls, model: Path, options: Mapping[str, object]) -> Self:
        """Read the calibration of a model, a run folder or an export, for a search.

        UsageError if there is none, or it is of another search. DataError if it is of another
        model, or damaged.
        """
        path = calibration_file(model)
        remedy = f"run `nmt calibrate {model} --source FILE --reference FILE`"
        try:
            content = parse_json(read_file(path))
            if content.pop("format") != _FORMAT:
                raise ValueError
            calibration: Self = build_value(cls, content, "")
        except FileNotFoundError:
            raise UsageError(f"--quality: {model} was never calibrated; {remedy}") from None
        except (ValueError, KeyError, AttributeError, TypeError):
            raise DataError(f"{path}: damaged, or of another version; {remedy} again") from None
        if calibration.model != checksum(model):
            raise DataError(f"{path}: is of another model; {remedy} again")
        if options != calibration.options:
            raise UsageError(
                f"--quality: {model} was calibrated with {_spelt(calibration.options)}, and this "
                f"is {_spelt(options)}; {remedy} with the same options"
            )
        return calibration

    def write(self, model: Path) -> Path:
        """Write the calibration beside its model, and return the path."""
        path = calibration_file(model)
        write_text(path, json.dumps({"format": _FORMAT} | asdict(self), indent=1) + "\n")
        return path


def calibration_file(model: Path) -> Path:
    """Return where the calibration of a model is: in a run folder or an export, or beside it."""
    from nmt.models.model_file import RUN_MODELS, find_model

    if is_export(model):
        return model / CALIBRATION
    file = find_model(model)
    is_of_run = file.name in RUN_MODELS and file == find_model(file.parent)
    return file.with_name(CALIBRATION if is_of_run else f"{file.stem}.{CALIBRATION}")


def checksum(model: Path) -> str:
    """Return the checksum of a model, or of the one that was exported."""
    from nmt.models.model_file import model_checksum

    return Export.open(model).model if is_export(model) else model_checksum(model)


def _spelt(options: Mapping[str, object]) -> str:
    words = (name if value is True else f"{name} {value}" for name, value in options.items())
    return " ".join(words) or "the usual search"


def rate(curve: Curve, texts: Sequence[str], translations: list[Translation]) -> None:
    """Add the estimated quality to translations of texts, unless they are copied or missing."""
    import numpy as np

    rows = {number: row for number, row in enumerate(map(known_of, texts, translations)) if row}
    if rows:
        estimates = curve.estimates(np.array(list(rows.values())))
        for number, estimate in zip(rows, estimates, strict=True):
            translations[number] = replace(translations[number], quality=estimate)


def known_of(text: str, translation: Translation) -> list[float] | None:
    """Return what a calibration knows of a translation; None if it was not searched."""
    best = translation
    if best.error or best.copied or best.remembered or not best.segments:
        return None
    return features_of(text, best.text, best.log_prob, len(best.tokens), best.segments)


def for_export(model: Path, export: Path) -> bytes | None:
    """Return the calibration of a model, or else that of an earlier export of the same model."""
    from nmt.models.model_file import model_checksum

    mark = model_checksum(model).encode()
    files = calibration_file(model), export / CALIBRATION
    contents = [file.read_bytes() for file in files if file.is_file()]
    return next((content for content in contents if mark in content), None)

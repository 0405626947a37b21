"""The calibration of a model: how good its translations were, and so may be.

`nmt calibrate` writes it to quality.json, in a run folder or an export, or to NAME.quality.json
beside a model NAME.safetensors. `nmt translate --quality` reads it. The file holds one for each
pair of languages and each search that the model was calibrated for.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.data.language_tokens import Langs, Wanted
from nmt.data.manifest import build_value
from nmt.errors import DataError, UsageError
from nmt.interchange.ctranslate2_manifest import CALIBRATION, Export, is_export
from nmt.scoring.quality import Curve, features_of
from nmt.system.files import lock, parse_json, read_file, write_text

if TYPE_CHECKING:
    from nmt.translate.output import Translation

_FORMAT = 1


@dataclass(frozen=True)
class Calibration:
    """The curve of a model for a pair of languages and a search."""

    languages: Langs
    options: dict[str, Any]  # of search, as given
    chrf: str  # signature
    lines: int
    curve: Curve

    @property
    def use(self) -> tuple[Langs, dict[str, Any]]:
        """What it holds for."""
        return self.languages, self.options

    def write(self, path: Path, mark: str) -> None:
        """Write it to a file of calibrations, beside those for other uses of the same model.

        mark: the checksum of that model.
        """
        others = list[Calibration]()
        folder = os.open(path.parent, os.O_RDONLY)
        try:  # two that write at once would each leave out the other
            lock(folder, path.parent, f"{path}: another process writes it; run the command again")
            with contextlib.suppress(FileNotFoundError, DataError):
                others = [each for each in _read(path, mark) if each.use != self.use]
            calibrations = [asdict(each) for each in (*others, self)]
            content = {"format": _FORMAT, "model": mark, "calibrations": calibrations}
            write_text(path, json.dumps(content, indent=1) + "\n")
        finally:
            os.close(folder)


def find_calibration(
    model: Path, wanted: Wanted, options: Mapping[str, object], n_best: int
) -> Calibration:
    """Return the calibration of a model, a run folder or an export, for a use.

    UsageError if there is none. DataError if the file is of another model, or damaged.
    """
    from nmt.models.model_file import choose_languages

    path, mark = calibration_file(model), checksum(model)
    remedy = f"run `nmt calibrate {model} --source FILE --reference FILE` with the same options"
    try:
        calibrations = _read(path, mark)
    except FileNotFoundError:
        raise UsageError(f"--quality: there is no {path}; {remedy}") from None
    except DataError as error:
        raise DataError(f"{error}; {remedy}") from None
    languages = choose_languages(card_file(model), *wanted)
    for each in calibrations:
        if each.use == (languages, options):
            return each
    known = ", ".join(_spelt(*each.use) for each in calibrations)
    widened = f", which --n-best {n_best} needs" * (1 < n_best == options.get("--beam-size"))
    raise UsageError(
        f"--quality: {model} was calibrated for {known}, and not for "
        f"{_spelt(languages, options)}{widened}; {remedy}"
    )


def _read(path: Path, mark: str) -> list[Calibration]:
    """Read the calibrations of the model with a checksum (FileNotFoundError, DataError)."""
    try:
        content = parse_json(read_file(path))
        read: list[Calibration] = build_value(list[Calibration], content["calibrations"], "")
        if content["format"] != _FORMAT or not read:
            raise ValueError
        is_of_it = content["model"] == mark
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path}: damaged, or of another version") from None
    if not is_of_it:
        raise DataError(f"{path}: is of another model")
    return read


def calibration_file(model: Path) -> Path:
    """Return where the calibration of a model is: in a run folder or an export, or beside it."""
    from nmt.models.model_file import RUN_MODELS, find_model

    if is_export(model):
        return model / CALIBRATION
    file = find_model(model)
    is_of_run = file.name in RUN_MODELS and file == find_model(file.parent)
    return file.with_name(CALIBRATION if is_of_run else f"{file.stem}.{CALIBRATION}")


def card_file(model: Path) -> Path:
    """Return the file with the card of a model, a run folder or an export."""
    from nmt.models.model_file import CARD, find_model

    return model / CARD if is_export(model) else find_model(model)


def checksum(model: Path) -> str:
    """Return the checksum of a model, or of the one that was exported."""
    from nmt.models.model_file import model_checksum

    return Export.open(model).model if is_export(model) else model_checksum(model)


def _spelt(languages: Langs, options: Mapping[str, object]) -> str:
    words = (name if value is True else f"{name} {value}" for name, value in options.items())
    return " ".join([" to ".join(filter(None, languages)), *words])


def rate(curve: Curve, texts: Sequence[str], translations: list[Translation]) -> None:
    """Add the estimated quality to translations of texts, unless they are copied or missing."""
    import numpy as np

    rows = {number: row for number, row in enumerate(map(known_of, texts, translations)) if row}
    if rows:
        estimates = curve.estimates(np.array(list(rows.values())))
        for number, estimate in zip(rows, estimates, strict=True):
            translations[number] = replace(translations[number], quality=estimate)


def known_of(text: str, best: Translation) -> list[float] | None:
    """Return what a calibration knows of a translation; None if it was not searched."""
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

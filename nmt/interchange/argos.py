"""Export to Argos Translate: a package that argostranslate installs, and so LibreTranslate.

A package is a zip of one folder, with CTranslate2's weights in `model/`, one SentencePiece model
for both sides, `metadata.json` and `README.md`.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

from nmt.data.languages import english_name, is_code, primary_language, scripts_of
from nmt.errors import UsageError
from nmt.interchange import ctranslate2
from nmt.interchange.ctranslate2 import duties_of_others, quantized_specification
from nmt.interchange.exports import TAKE_CTRANSLATE2
from nmt.models.model_file import ModelCard, find_model, read_card
from nmt.system.files import atomic_path

ENDING = ".argosmodel"
_METADATA, _PIECES, _README = "metadata.json", "sentencepiece.model", "README.md"
_ARGOS_VERSION = "1.9.0"  # of the packages in Argos' index
_VERSION = re.compile(r"\d+(\.\d+)*")
_CODE = re.compile(r"[a-z]{2,3}")
_VARIANTS = {"pb": "Portuguese (Brazil)", "zt": "Chinese (traditional)"}
"""Argos' own codes, and its names for them."""


def export_argos(
    path: Path,
    out: Path,
    *,
    quantization: str = "int8",
    package_version: str = "1.0",
    src_name: str | None = None,
    tgt_name: str | None = None,
) -> str:
    """Export a model that fits. The package appears when it is complete.

    out: is new, or an earlier package, which is replaced.
    src_name: of the language of sources; None: the usual English one; tgt_name: likewise.
    Returns what was written, in words.
    """
    if out.suffix != ENDING:
        raise UsageError(f"{out}: name a file that ends in {ENDING}")
    if not _VERSION.fullmatch(package_version):
        raise UsageError(
            f"--package-version {package_version}: must be numbers with dots, such as 1.0"
        )
    if out.exists() and not _is_package(out):
        raise UsageError(f"{out}: exists and is not a package; choose another name or remove it")
    card = read_card(find_model(path))
    codes = [_code(lang) for lang in (card.src_lang, card.tgt_lang)]
    src = _name(codes[0], src_name, "--src-name")
    tgt = _name(codes[1], tgt_name, "--tgt-name")
    specification, _, _ = quantized_specification(path, quantization)
    metadata = {
        "package_version": package_version,
        "argos_version": _ARGOS_VERSION,
        "from_code": codes[0],
        "from_name": src,
        "to_code": codes[1],
        "to_name": tgt,
    }
    title = f"# {src} to {tgt}, version {package_version}"
    root = f"translate-{codes[0]}_{codes[1]}-{package_version.replace('.', '_')}"
    with atomic_path(out) as temporary:
        weights = temporary.with_name("model")  # in a folder that is removed
        weights.mkdir()
        specification.save(str(weights))
        with zipfile.ZipFile(temporary, "w") as package:
            for name, content in (
                (_METADATA, json.dumps(metadata, indent=2) + "\n"),
                (_README, f"{title}\n\nFor Argos Translate, by nmt.\n"),
                (_PIECES, card.src_vocabulary.model),
            ):
                package.writestr(_entry(f"{root}/{name}"), content)
            for file in sorted(weights.iterdir()):
                entry = _entry(f"{root}/model/{file.name}")
                entry.file_size = file.stat().st_size  # large ones need another form
                with file.open("rb") as read, package.open(entry, "w") as written:
                    shutil.copyfileobj(read, written)
    return f"Argos Translate, in {quantization}"


def _is_package(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as package:
            return any(name.endswith(f"/{_METADATA}") for name in package.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def _entry(name: str) -> zipfile.ZipInfo:
    """Return an entry of a zip without the time, so that equal packages have equal bytes."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o644 << 16
    return entry


def _name(code: str, name: str | None, option: str) -> str:
    """Return a language's name, that of the user or the usual one; UsageError without any."""
    if name is None and code not in _VARIANTS and not is_code(code):
        raise UsageError(f"{code} is not a registered language; name it by {option}")
    return name or _VARIANTS.get(code) or english_name(code)


def fault_of(card: ModelCard) -> str | None:
    """Return why Argos Translate cannot use a model; None if it can.

    It segments sources and joins the pieces of translations by one SentencePiece model.
    """
    if fault := ctranslate2.fault_of(card):
        return fault
    if duties := duties_of_others(card):
        return f"Argos Translate cannot {duties[0]}; {TAKE_CTRANSLATE2}"
    if not card.src_vocabulary.joins_pieces_of(card.tgt_vocabulary):
        return (
            "Argos Translate cannot join the pieces of its translations by the SentencePiece "
            "model of its sources; prepare the data with one vocabulary for both"
        )
    for lang in (card.src_lang, card.tgt_lang):
        if not _CODE.fullmatch(_code(lang)):
            return (
                f"{lang!r} does not begin with a code of two or three letters, as a package needs"
            )
    if (code := _code(card.src_lang)) == _code(card.tgt_lang):
        return f"both languages are {code} in Argos Translate"
    return None


def _code(lang: str) -> str:
    """Return the code of a language in Argos' index."""
    code = primary_language(lang)
    if code == "zh" and "Hant" in scripts_of(lang):
        return "zt"
    return "pb" if lang.replace("_", "-").lower() == "pt-br" else code

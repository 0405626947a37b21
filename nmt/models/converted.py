"""Models in the forms of other programs: what they are, and what to give instead."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

from nmt.errors import UsageError
from nmt.system.files import open_file

_WEIGHTS = "model.bin"  # of CTranslate2, and one of Marian's names


def is_of_marian(folder: Path) -> bool:
    """Tell whether a folder has Marian's list of what a model needs."""
    return any(folder.glob("*decoder.yml"))


def is_of_ctranslate2(folder: Path) -> bool:
    """Tell whether a folder has weights for CTranslate2."""
    return (folder / _WEIGHTS).is_file() and not is_of_marian(folder)


def refuse_converted(path: Path) -> None:
    """Refuse what was made for CTranslate2 or Argos Translate, packed or not (UsageError)."""
    folder = path.parent if path.name == _WEIGHTS else path
    if is_of_ctranslate2(folder):
        kind = "a CTranslate2 model"
    elif is_of_argos(path):
        kind = "a package of Argos Translate"
    else:
        return
    raise UsageError(
        f"{path}: is {kind}, from which nmt cannot read the model back; give what it was "
        "made of: a model file, or a folder of Hugging Face or Marian"
    )


def refuse_archive(path: Path) -> None:
    """Refuse a zip of any kind, with what to do instead (UsageError)."""
    if not (entries := _entries(path)):
        return
    if any(entry.suffix == ".npy" for entry in entries):
        advice = "holds arrays, as Marian writes them; import it: nmt import marian"
    elif any(entry.name == "data.pkl" for entry in entries):
        advice = "is a checkpoint of PyTorch; nmt import huggingface reads its folder"
    else:
        advice = "is a zip; unpack it, and give or import its folder"
    raise UsageError(f"{path}: {advice}")


def is_of_argos(path: Path) -> bool:
    """Tell whether a path is a package of Argos Translate: a zip, its folder, or the one above."""
    if not path.is_dir():
        ends = {"/".join(entry.parts[1:]) for entry in _entries(path)}
        return {"metadata.json", f"model/{_WEIGHTS}"} <= ends
    return any(
        is_of_ctranslate2(metadata.parent / "model")
        for pattern in ("metadata.json", "*/metadata.json")
        for metadata in path.glob(pattern)
    )


def _entries(path: Path) -> list[PurePosixPath]:
    """Return the names in a zip; none if it is something else."""
    try:
        with open_file(path) as file:  # which waits for no pipe
            if file.read(4) != b"PK\x03\x04":
                return []
        with zipfile.ZipFile(path) as archive:
            return list(map(PurePosixPath, archive.namelist()))
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return []

"""The manifest of a CTranslate2 export.

An export is a folder with CTranslate2's own files, `card.safetensors` (a model file without
weights, for vocabularies and limits) and `export.json`, which has the checksums of all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nmt.data.manifest import build_value
from nmt.errors import DataError
from nmt.system.files import parse_json, read_file, sha256_file

MANIFEST = "export.json"
CALIBRATION = "quality.json"  # by `nmt calibrate`, perhaps later than the export
FORMAT_VERSION = 1
# Of CTranslate2:
_MODEL = "model.bin"
_SHARED_TOKENS, _SRC_TOKENS = "shared_vocabulary.json", "source_vocabulary.json"


@dataclass(frozen=True)
class Export:
    """The manifest of an export."""

    model: str  # checksum of the exported model file
    quantization: str
    positions: int  # longest source or translation in tokens, with bos or eos
    files: dict[str, str]  # SHA-256 of the other files by name

    @classmethod
    def open(cls, folder: Path) -> Export:
        """Read an export's manifest; DataError if the folder is none, or a file was changed."""
        from nmt.models.model_file import CARD

        path = folder / MANIFEST
        try:
            content = parse_json(read_file(path))
            version = content.pop("format") if isinstance(content, dict) else None
            if version != FORMAT_VERSION:
                raise DataError(
                    f"{path}: has format {version}, and this nmt reads {FORMAT_VERSION}"
                )
            export: Export = build_value(cls, content, "")
            if not {CARD, _MODEL} <= export.files.keys():
                raise ValueError
            changed = [
                name
                for name, checksum in export.files.items()
                if Path(name).name != name or sha256_file(folder / name) != checksum
            ]
        except FileNotFoundError as error:
            raise DataError(
                f"{error.filename}: there is no such file; copy the whole folder, or export again"
            ) from None
        except (ValueError, KeyError):
            raise DataError(f"{path}: damaged: it is not an export's; export it again") from None
        if changed:
            raise DataError(f"{folder / changed[0]}: damaged: its checksum is not {MANIFEST}'s")
        return export

    def src_tokens(self, folder: Path, count: int) -> list[str]:
        """Read CTranslate2's names for the ids of a source; DataError if they are not so many."""
        path = folder / (_SRC_TOKENS if _SRC_TOKENS in self.files else _SHARED_TOKENS)
        try:
            tokens: list[str] = parse_json(read_file(path))
            if len(tokens) != count or not all(isinstance(token, str) for token in tokens):
                raise ValueError
        except (ValueError, TypeError, FileNotFoundError):
            raise DataError(f"{path}: damaged: not {count:,} tokens; export it again") from None
        return tokens


def is_export(path: Path) -> bool:
    """Tell whether a path is the folder of an export, complete or not."""
    is_of_marian = any(path.glob("*decoder.yml"))  # which may have a model.bin, too
    return (path / MANIFEST).is_file() or ((path / _MODEL).is_file() and not is_of_marian)

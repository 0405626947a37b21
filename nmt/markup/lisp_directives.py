"""What the format strings of Lisp and Scheme take: a list of values, as `msgfmt` sees it.

With loops (`~{ ~}`), branches (`~[ ~; ~]`) and exits (`~^`), texts with different directives can
take the same values, such as `~{~a~^, ~}` and `~{~s~^; ~}`. So each directive says which lists
of values are right, as a pattern: `~*~d` asks for two values or more, and the second is an integer.
A text takes what fits the patterns of all its directives, or of those in one branch or another.
Where that is hard to say, `msgfmt` asks for less, and so does this.

Source: https://www.lispworks.com/documentation/HyperSpec/Body/22_c.htm.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

_MOST_VALUES, _MOST_DIRECTIVES, _MOST_NESTED = 100, 1000, 20
_ANY = "any"
_KINDS = ("c", "i", "cn", "in", "ir", "cin", "irz", "f", "u")
"""What a value may be, in letters: character, integer, nil, real or complex number (z), format
string or function (u). The smallest kinds come first."""


class Values(NamedTuple):
    """A pattern of lists: their first values, and those that come again and again after them."""

    first: tuple[_Value, ...]
    loop: tuple[_Value, ...] = ()

    def unrolled(self, length: int) -> Values:
        """Return the same with at least so many first values, if there are that many."""
        more = length - len(self.first)
        if not self.loop or more <= 0:
            return self
        turn = more % len(self.loop)
        first = self.first + (self.loop * (more // len(self.loop) + 1))[:more]
        return Values(first, self.loop[turn:] + self.loop[:turn])


class _Value(NamedTuple):
    is_required: bool  # whether the list cannot end before it
    kind: _Kind


_Kind: TypeAlias = str | Values  # letters, _ANY, or a list of values
_Table = Mapping[str, tuple[str, tuple[str, ...]]]
_FREE, _NEEDED = _Value(False, _ANY), _Value(True, _ANY)
_EMPTY, _ALL = Values(()), Values((), (_FREE,))


class _DamagedError(Exception):
    """A text is no format string, or too large."""


def _table(*rows: tuple[str, str, tuple[str, ...]]) -> _Table:
    return {letter: (given, kinds) for letters, given, kinds in rows for letter in letters}


_OF_BOTH = (
    *(("as", "iiic", (_ANY,)), ("p", "", (_ANY,)), ("dbox", "icci", ("i",)), ("?", "", ("f",))),
    *(("r", "iicci", ("i",)), ("f", "iiicc", ("ir",)), ("eg", "iiiiccc", ("ir",))),
    *(("$", "iiic", ("ir",)), ("%&|~*[{", "i", ()), ("\n()]};", "", ()), ("^", "xxx", ())),
)
LISP = _table(
    *(*_OF_BOTH, ("w/", "", (_ANY,)), ("c", "", ("c",)), ("!", "x" * 99, ("u", _ANY))),
    *(("i", "i", ()), ("t", "ii", ()), ("<", "iiic", ()), ("_>", "", ())),
)
SCHEME = _table(
    *(*_OF_BOTH, ("y", "", (_ANY,)), ("k", "", ("f",)), ("c", "i", ("c",))),
    *(("i", "iiicc", ("irz",)), ("_/", "i", ()), ("t", "iic", ()), ("!q", "", ())),
)
"""What directives are given, and the kinds of the values that they take. They are given integers,
characters, or either (x)."""

_BEGINNING = (
    r"~(?P<given>(?>(?:(?:[-+]?\d{1,9}+|'[\s\S]|[Vv#])?,)*)(?:[-+]?\d{1,9}+|'[\s\S]|[Vv#])?)"
    r"(?P<modifiers>[:@]*+)"
)
LISP_DIRECTIVE = rf"{_BEGINNING}(?P<type>/[^/]*+/|[^/])"
SCHEME_DIRECTIVE = rf"{_BEGINNING}(?P<type>[\s\S])"
_GIVEN = re.compile(r"((?>(?:'[\s\S]|[^,'])*))(?:,|\Z)")
_LOOP_END = re.compile(r"~[,:@]*+\}")


def _both(one: _Kind, other: _Kind) -> _Kind | None:
    """Return the kind of what is of both kinds; None: nothing is."""
    if one == _ANY or other == _ANY:
        return other if one == _ANY else one
    if isinstance(one, Values):
        has_list = isinstance(other, Values) or "n" in other
        return _meet(one, other if isinstance(other, Values) else _EMPTY) if has_list else None
    if isinstance(other, Values):
        return _both(other, one)
    small, large = sorted((one, other), key=len)
    return small if set(small) <= set(large) else None


def _either(one: _Kind, other: _Kind) -> _Kind:
    """Return the smallest kind that has what is of either kind."""
    if isinstance(one, Values) and isinstance(other, Values):
        return _join(one, other) or _ANY
    letters = {letter for kind in (one, other) for letter in ("n" if kind == _EMPTY else kind)}
    return next((kind for kind in _KINDS if letters <= set(kind)), _ANY)


def _aligned(one: Values, other: Values) -> list[Values]:
    """Return both with loops of one size, which begin after the end of a list without."""
    length = max(len(one.first), len(other.first)) + 1
    size = math.lcm(len(one.loop) or 1, len(other.loop) or 1)
    if length + size > 2 * _MOST_VALUES:
        raise _DamagedError
    unrolled = [values.unrolled(length) for values in (one, other)]
    return [Values(first, loop * (size // (len(loop) or 1))) for first, loop in unrolled]


def _meet(one: Values | None, other: Values) -> Values | None:
    """Return what fits both patterns; None: nothing does."""
    if one is None:
        return None
    one, other = _aligned(one, other)
    values = list[_Value]()
    for pair in zip_longest(one.first + one.loop, other.first + other.loop):
        is_required = any(value.is_required for value in pair if value)
        kind = _both(pair[0].kind, pair[1].kind) if pair[0] and pair[1] else None
        if kind is None:
            return _ended(values, is_required=is_required)
        values.append(_Value(is_required, kind))
    return _normal(values, len(one.loop))


def _join(one: Values | None, other: Values | None) -> Values | None:
    """Return what fits one pattern or the other."""
    if one is None or other is None:
        return one or other
    aligned = _aligned(one, other)
    short, long = sorted(aligned, key=lambda values: (bool(values.loop), len(values.first)))
    pairs = zip(short.first + short.loop, long.first + long.loop, strict=False)
    values = [
        _Value(one.is_required and other.is_required, _either(one.kind, other.kind))
        for one, other in pairs
    ]
    rest = (long.first + long.loop)[len(values) :]
    values += [value._replace(is_required=False) for value in rest[:1]] + [*rest[1:]]
    return _normal(values, len(long.loop))


def _ended(values: list[_Value], *, is_required: bool) -> Values | None:
    """Return a list that ends here, or where it last may if one more is required; None: nowhere."""
    while is_required and values:
        is_required = values.pop().is_required
    return None if is_required else Values(tuple(values))


def _normal(values: list[_Value], size: int) -> Values:
    """Return the shortest pattern that says the same, of values that end with a loop."""
    first, loop = tuple(values[: len(values) - size]), tuple(values[len(values) - size :])
    sizes = (short for short in range(1, size) if loop == loop[:short] * (size // short))
    loop = loop[: next(sizes, size)]
    while first and loop and first[-1] == loop[-1]:
        first, loop = first[:-1], loop[-1:] + loop[:-1]
    return Values(first, loop)


def _repeated(values: Values, step: int) -> Values | None:
    """Return what fits a loop of such lists, each of them so many values after the one before."""
    if not step or (not values.loop and len(values.first) < step):
        return _join(values, _EMPTY)
    size = math.lcm(step, len(values.loop) or step)
    if size > _MOST_VALUES:
        raise _DamagedError
    first, loop = values.unrolled(len(values.first) + size - len(values.loop))
    repeated = list[_Value]()
    for at, (is_required, kind) in enumerate(first + loop):
        before = repeated[at - size] if at >= size else _FREE
        both, is_needed = _both(kind, before.kind), is_required or before.is_required
        if both is None and is_needed:
            return _ended(repeated, is_required=True)
        if both is None:
            size = 0
            break
        repeated.append(_Value(is_needed and at > 0, both))
    repeated[::step] = [value._replace(is_required=False) for value in repeated[::step]]
    return _normal(repeated, size)


@dataclass
class _Reader:
    """What a text asks of its values, up to a place in it."""

    table: _Table
    values: Values | None = _ALL  # None: no list is right
    at: int | None = 0  # the number of the next value, if that is known
    left: Values | None = None  # the lists with which the text was left early

    def take(self, *kinds: _Kind) -> None:
        for kind in kinds:
            if self.at is not None:
                self.ask(self.at, kind)
                self.at += 1

    def ask(self, at: int | None, kind: _Kind) -> None:
        """Ask for a value of this kind here."""
        if at is not None:
            needed = (_NEEDED,) * min(at, 2 * _MOST_VALUES)
            self.values = _meet(self.values, Values((*needed, _Value(True, kind)), (_FREE,)))

    def read(
        self, directives: Iterator[re.Match[str]], end: str = "", *, may_part: bool = False
    ) -> str:
        """Read up to an end, or to a `;` where the text may have parts.

        Return the `;` with its modifiers, or "".
        """
        for found in directives:
            sign, modifiers = (found["type"] or "\0")[0].lower(), found["modifiers"]
            if sign not in self.table or (sign in ")]}>" and sign != end):
                raise _DamagedError
            given = self._give(found["given"], sign, modifiers, end)
            if sign == end or (sign == ";" and may_part):
                return "" if sign == end else modifiers + sign
            if sign == ";":
                raise _DamagedError
            if sign == "(":
                self.read(directives, ")")
            elif sign == "[" and "@" in modifiers:
                self._branch_or_none(directives)
            elif sign == "[":
                self._branch(directives, is_two=":" in modifiers, has_number=bool(given))
            elif sign == "{":
                self._loop(directives, found)
            elif sign == "<":
                left, self.left = self.left, None
                while self.read(directives, ">", may_part=True):
                    pass
                self.at = self.at if self.left is None else None
                self.values, self.left = _join(self.values, self.left), left
            elif sign == "^":
                self._leave()
            elif sign == "*":
                self._go(modifiers, given)
            elif not (sign == "c" and given):  # which Scheme takes for the character
                self.at = self.at - 1 if self.at and sign == "p" and ":" in modifiers else self.at
                self.take(*self.table[sign][1])
            if sign in "?k" and "@" in modifiers:
                self.at = None
            elif sign in "?k":
                self.take(_ALL)
        if end:
            raise _DamagedError
        return ""

    def _give(self, text: str, sign: str, modifiers: str, end: str) -> str:
        """Take the values that a directive is given, and return what is given first."""
        given = _GIVEN.findall(text)
        allowed = self.table[sign][0]
        if sign == "[" and modifiers:
            allowed = ""
            if len(set(modifiers)) > 1:
                raise _DamagedError
        elif sign == ";" and end == ">":
            allowed = "i"
        for number, one in enumerate(given):
            wanted = allowed[number : number + 1]
            if one in ("v", "V"):
                self.take({"i": "in", "c": "cn", "x": "cin"}.get(wanted, _EMPTY))
            elif one and wanted not in ("x", "c" if one[0] == "'" else "i"):
                raise _DamagedError
        return str(given[0])

    def _go(self, modifiers: str, given: str) -> None:
        count = None if given in ("v", "V", "#") else int(given or "@" not in modifiers)
        if count is None:
            self.at = None
        elif count < 0:
            raise _DamagedError
        elif "@" in modifiers:
            self.at = count
        elif self.at is not None:
            self.at = max(0, self.at - count) if ":" in modifiers else self.at + count

    def _leave(self) -> None:
        here = replace(self)
        self.ask(self.at, _ANY)
        if self.at is None:
            self.left = _join(self.left, self.values)
        elif self.values != here.values:
            self.left = _join(self.left, _meet(here.values, Values((_FREE,) * self.at)))

    def _branch_or_none(self, directives: Iterator[re.Match[str]]) -> None:
        branch = replace(self)
        self.take(_EMPTY)
        branch.read(directives, "]")
        self.at = self.at if branch.values is None or branch.at == self.at else None
        self.values, self.left = _join(self.values, branch.values), branch.left

    def _branch(
        self, directives: Iterator[re.Match[str]], *, is_two: bool, has_number: bool
    ) -> None:
        """Read branches, of which a value says the number, or the second one of two by a truth."""
        chosen = None if has_number else self.at
        self.take(*() if has_number else (_ANY,))
        branches = list[_Reader]()
        is_last, separator = False, ";"
        while separator:
            branch = replace(self)
            if is_two and not is_last:
                branch.ask(chosen, _EMPTY)
            separator = branch.read(directives, "]", may_part=not is_last)
            if not is_two and not is_last:
                branch.ask(chosen, "i")
            if is_two and not is_last and not separator:
                raise _DamagedError
            branches.append(branch)
            self.left = branch.left
            is_last = is_last or is_two or ":" in separator
        if not is_last:
            branches.append(replace(self))
        self.values = None
        for branch in branches:
            self.values = _join(self.values, branch.values)
        ends = {branch.at for branch in branches if branch.values is not None}
        self.at = self.at if not ends else ends.pop() if len(ends) == 1 else None

    def _loop(self, directives: Iterator[re.Match[str]], found: re.Match[str]) -> None:
        body, modifiers = _Reader(self.table), found["modifiers"]
        body.read(directives, "}")
        if _LOOP_END.match(found.string, found.end()):  # a value is its text
            self.take("f")
        values = _join(body.values, body.left)
        if values is not None and ":" in modifiers:
            values = Values((), (_Value(False, values),))
        elif values is not None:
            values = _repeated(values, body.at or 0)
        if "@" not in modifiers:
            self.take(values or _EMPTY)
            return
        if self.at is not None:
            first, loop = values or _EMPTY
            needed = (_NEEDED,) * min(self.at, 2 * _MOST_VALUES)
            self.values = _meet(self.values, Values(needed + first, loop))
        self.at = None


def is_silent(found: re.Match[str], table: _Table) -> bool:
    """Tell whether a directive takes no value, and holds no text that does."""
    sign = found["type"][0].lower()
    return sign in table and not table[sign][1] and sign not in "{}[]<>^;"


def read_lisp(directives: Iterator[re.Match[str]], table: _Table) -> Values | None:
    """Return what a text takes, given its directives; None: it is damaged."""
    reader = _Reader(table)
    try:
        reader.read(_flat(directives))
        return _join(reader.values, reader.left)
    except _DamagedError:
        return None


def _flat(directives: Iterator[re.Match[str]]) -> Iterator[re.Match[str]]:
    """Yield the directives, if they are not too many, or nested too deep."""
    depth = 0
    for number, found in enumerate(directives):
        sign = found["type"] or "~"
        depth += (sign in "([{<") - (sign in ")]}>")
        if depth > _MOST_NESTED or number >= _MOST_DIRECTIVES:
            raise _DamagedError
        yield found

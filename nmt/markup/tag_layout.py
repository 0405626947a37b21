"""Places of tags in a translation, by the alignment of its units (`text_units`).

The tree of tags stays as it is: what is inside an element in the source, is inside it in the
translation, and only the order of neighbours may change. An element gets the run of units in which
most come from its own text. Neighbours never overlap: the one with the fewest units chooses first.
An element without any takes a unit that is weakly linked to it, or is empty, and goes, like a
single tag, next to the translation of the unit beside it. What a loose tag opens reaches to the end
of what it is in, and begins where most units behind it come from its text.

A piece that must stay as it is replaces its own run: exact copies first, then others of its kind
in order, and what else comes from it. A number is often written as a word, so it replaces that,
too. A sign such as an emoji replaces no word. A piece from which nothing comes is inserted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from nmt.data.words import is_in_word, is_letter, is_wide
from nmt.markup.kept_pieces import piece_pattern
from nmt.markup.line_ends import nearest_in_order
from nmt.markup.tags import STANDING, Marked, Node
from nmt.markup.text_units import Links, Span, aligned_units, first_from, link_weakly

OPENING, CLOSING = "([{«„“‘¿¡", ".,;:!?)]}»”’…"
"""Signs that have no space behind them, and before them."""
_JOINTS = "'’-‐"
_PUNCTUATION = frozenset(OPENING + CLOSING + "\"'-–—、。，！？：；")
_MOST_WORK = 20_000_000
"""Units looked at in all levels of a line's tree, which takes some seconds.

Each element looks at all units of its place, so elements in one another cost the square of their
number. For example, 6,000 of them with a word each look at 6,000 * 6,000 / 2 = 18 million. After so
much work, an element gets an empty place beside the translation of a neighbour, unless it has all
the text of its parent. No tag is lost by it.
"""


@dataclass
class Place:
    """Where a node is put: the units from `first` to `end` - 1 of the translation."""

    first: int
    end: int
    is_after: bool = True  # of an empty place: after the unit before it, or before the next one


class Layout:
    def __init__(self, marked: Marked, translation: str, links: Links, weaker: Links) -> None:
        """Find the places. See `nmt.markup.tag_writer.restore`."""
        self.marked, self.translation = marked, translation
        self.source, self.target, self.labels = aligned_units(marked, translation, links)
        self.weak_targets = link_weakly(self.source, self.target, weaker)
        self.places: dict[Node, Place] = {}
        self.work = 0
        self.runs: list[tuple[int, int]] = []  # of the children being placed
        self.of_pieces: set[int] = set()  # units of the source that stay as they are
        self.copied: set[Node] = set()  # pieces that the translation has
        # The order of the phases:
        # 1. Wrong links of punctuation are dropped. After the pieces, this would also drop the
        #    label of a `{` that has just been taken for the placeholder `%s` of the source.
        # 2. Pieces come before elements. An element gets the units that come from its text, and a
        #    piece may still take such a unit, or give it back.
        # 3. The last signs wait for the pieces, since they must not take a label from one.
        # 4. Now labels are final, and can be read the other way round. A weak link counts only for
        #    a unit from which nothing else comes.
        # 5. The tree is divided from the outside in: a child's place is within its parent's.
        self._unlink_punctuation()
        self._find_pieces()
        self._align_last_signs()
        self.targets: dict[int, list[int]] = defaultdict(list)  # of each unit of the source
        for unit, label in enumerate(self.labels):
            if label >= 0:
                self.targets[label].append(unit)
        for label, unit in self.weak_targets.items():
            self.targets.setdefault(label, [unit])
        self.places[marked.root] = Place(0, len(self.target))
        for node in marked.root.walk():
            if node.children:
                self._divide(node)

    def units_of(self, node: Node) -> tuple[int, int]:
        """Return a node's units of the source: the first, and the one after the last."""
        return first_from(self.source, node.start), first_from(self.source, node.end)

    def _is_sign(self, unit: Span, text: str) -> bool:
        return not any(map(str.isalnum, text[slice(*unit)]))

    def _unlink_punctuation(self) -> None:
        """Drop links of punctuation to words: it often attends to the word before it."""
        for number, ((start, end), label) in enumerate(zip(self.target, self.labels, strict=True)):
            is_punctuation = label >= 0 and self.translation[start:end] in _PUNCTUATION
            if is_punctuation and not self._is_sign(self.source[label], self.marked.text):
                self.labels[number] = -1

    def _align_last_signs(self) -> None:
        """Align the full stops of both texts: there, attention is often elsewhere."""
        ends = zip((self.source, self.target), (self.marked.text, self.translation), strict=True)
        last = len(self.source) - 1
        are_signs = all(units and self._is_sign(units[-1], text) for units, text in ends)
        if are_signs and not self.of_pieces & {last, self.labels[-1]}:
            self.labels[-1] = last

    def _find_pieces(self) -> None:
        """Set the labels of the pieces that must stay as they are."""
        pieces = [node for node in self.marked.root.walk() if node.piece_kind not in ("", STANDING)]
        if not pieces:
            return
        taken = self._take_copies(pieces)
        others: dict[str, deque[int]] = defaultdict(deque)
        for number, (start, end) in enumerate(self.target):
            kind = piece_pattern().fullmatch(self.translation, start, end)
            if kind and number not in taken:
                others[kind.lastgroup or ""].append(number)
        for piece in pieces:
            if piece not in self.copied and others[piece.piece_kind]:
                number = others[piece.piece_kind].popleft()
                taken.add(number)
                self.labels[number] = self.units_of(piece)[0]
        units: dict[str, set[int]] = defaultdict(set)
        for piece in pieces:
            units[piece.piece_kind].update(range(*self.units_of(piece)))
        self.of_pieces = set[int]().union(*units.values())
        replaceable = self.of_pieces - units["number"]  # a number is often written as a word
        for other, number in self.weak_targets.items():
            is_of_piece = self.labels[number] in replaceable and number not in taken
            if is_of_piece and other not in self.of_pieces:
                self.labels[number] = other
        for number, unit in enumerate(self.target):
            text = self.translation[slice(*unit)]
            never = units["sign"] if any(map(str.isalnum, text)) else set[int]()
            if text in _PUNCTUATION:
                never = units["sign"] | units["symbol"]
            elif self._is_elided(unit):
                never = self.of_pieces if len(text) <= 2 else never | units["symbol"]  # an article
            if number not in taken and self.labels[number] in never:
                self.labels[number] = -1

    def _is_elided(self, unit: Span) -> bool:
        """Tell whether a unit is written with the next word, as in `l'eau` or `aujourd'hui`."""
        following = self.translation[unit[1] : unit[1] + 2]
        return following[:1] in ("'", "’") and following[1:].isalpha()

    def _take_copies(self, pieces: Sequence[Node]) -> set[int]:
        """Label the units that are copies of pieces, the longest first, and return these units.

        The only copy that is aligned to a piece is its own. Others are taken by their places.
        """
        units_by_text: dict[str, list[int]] = defaultdict(list)
        for number, unit in enumerate(self.target):
            units_by_text[self.translation[slice(*unit)]].append(number)
        by_text: dict[str, list[Node]] = defaultdict(list)
        for piece in pieces:
            by_text[self.marked.text[piece.start : piece.end].strip()].append(piece)
        taken: set[int] = set()
        for text, equal in sorted(by_text.items(), key=lambda item: -len(item[0])):
            numbers = units_by_text[text] + (units_by_text["%"] if text == "%%" else [])
            copies = [range(number, number + 1) for number in numbers]
            if not copies and equal[0].piece_kind == "element":
                copies = self._longer_copies(text)
            copies = [copy for copy in copies if taken.isdisjoint(copy)]
            for piece, copy in self._pair_copies(equal, copies):
                self.copied.add(piece)
                taken.update(copy)
                for number in copy:
                    self.labels[number] = self.units_of(piece)[0]
        of_copied = {unit for piece in self.copied for unit in range(*self.units_of(piece))}
        for number, label in enumerate(self.labels):
            if label in of_copied and number not in taken:
                self.labels[number] = -1  # it would be replaced, too
        return taken

    def _longer_copies(self, text: str) -> list[range]:
        """Return the runs of units that are a text of several units."""
        copies, target, position = [], self.target, self.translation.find(text)
        while position >= 0:
            end = position + len(text)
            units = range(first_from(target, position), first_from(target, end))
            is_whole = units and (target[units[0]][0], target[units[-1]][1]) == (position, end)
            if is_whole:
                copies.append(units)
            position = self.translation.find(text, end if is_whole else position + 1)
        return copies

    def _pair_copies(
        self, pieces: Sequence[Node], copies: Sequence[range]
    ) -> Iterator[tuple[Node, range]]:
        """Pair pieces of one text with their copies, all in order."""
        of_unit = {unit: piece for piece in pieces for unit in range(*self.units_of(piece))}
        aligned: dict[Node, list[range]] = defaultdict(list)
        for copy in copies:
            labels = (self.labels[unit] for unit in copy)
            piece = next((of_unit[label] for label in labels if label in of_unit), None)
            if piece is not None:
                aligned[piece].append(copy)
        own = {piece: found[0] for piece, found in aligned.items() if len(found) == 1}
        yield from own.items()
        used = set(own.values())
        free = [copy for copy in copies if copy not in used]
        waiting = [piece for piece in pieces if piece not in own]
        places = [self.target[copy[0]][0] / len(self.translation) for copy in free]
        wanted = [piece.start / len(self.marked.text) for piece in waiting]
        for piece, number in zip(waiting, nearest_in_order(places, wanted), strict=False):
            yield piece, free[number]

    def _divide(self, node: Node) -> None:
        """Give each child of a node its place within the node's.

        Loose tags are first, because they cut off what the other children may have: all before
        `</i>` in `a b</i> c d` is inside it. Then come children from which units come. Those
        without any are last. They stand beside the translation of a neighbour, and outside of the
        runs that the others have got by then.

        For example, `Press <b>the red</b> button <br> now` and `Jetzt den roten Knopf drücken`:
        1 and 2 come from the text of `<b>`, so its place is 1 to 2. Nothing comes from `<br>`. The
        unit after it, `now`, is translated by unit 0. So `<br>` is put before that.
        """
        within, units = self.places[node], self.units_of(node)
        self.work += within.end - within.first
        has_time = self.work < _MOST_WORK
        children = [(child, *self.units_of(child)) for child in node.children]
        if children[0][0].loose == "close":
            child, _, src_end = children.pop(0)
            end = self._cut(within, range(src_end), is_end=True) if has_time else within.first
            self.places[child] = Place(within.first, end, is_after=False)
            within, units = replace(within, first=end), (src_end, units[1])
        if children and children[-1][0].loose == "open":
            child, src_first, _ = children.pop()
            behind = range(src_first, len(self.source))
            first = self._cut(within, behind, is_end=False) if has_time else within.end
            self.places[child] = Place(first, within.end)
            within, units = replace(within, end=first), (units[0], src_first)
        whole = [(child, first, end) for child, first, end in children if first < end]
        if len(whole) == 1 and whole[0][1:] == units:
            self.places[whole[0][0]] = replace(within)
        elif within.first < within.end and has_time:
            self._choose_runs(within, whole)
        placed = (self.places[child] for child, *_ in whole if child in self.places)
        self.runs = sorted((place.first, place.end) for place in placed if place.first < place.end)
        for child, *_ in children:
            if child not in self.places:
                place = self._between(within, units, child)
                if child.piece_kind:
                    self._leave_word(place, child, within)
                self.places[child] = place

    def _cut(self, within: Place, own: range, *, is_end: bool) -> int:
        """Return where a loose tag cuts a place: most units on its side come from its own text.

        own: the units of this text; is_end: whether they end at the tag, or begin there.
        """
        units = range(within.first, within.end)
        if not is_end:
            units = units[::-1]  # counted from the far end on
        labels = [self.labels[unit] for unit in units]
        signs = (0 if label < 0 else 1 if label in own else -1 for label in labels)
        totals = dict(zip(units, accumulate(signs), strict=True))
        edges = [unit for unit in sorted(units) if self.labels[unit] in own and totals[unit] >= 0]
        nowhere = within.first - 1 if is_end else within.end
        return max(edges, key=totals.__getitem__, default=nowhere) + is_end

    def _choose_runs(self, within: Place, children: Sequence[tuple[Node, int, int]]) -> None:
        """Give children the runs of units in which most come from their own text.

        For example, `A B D C E` is the translation of `<b>a b c e</b> <i>d</i>`. If `<b>` chose
        first, it would take all five units, of which four are its own, and leave none to `<i>`. The
        child with the fewest units has the fewest runs to choose from, so it is first: `<i>` takes
        D. `<b>` gets A B, the first of its two runs that are left. C E are in neither.
        """
        firsts = [first for _, first, _ in children]
        owned: dict[int, list[int]] = defaultdict(list)  # units by child
        owners: list[int | None] = []  # None: comes from nothing; -1: from other text
        for unit in range(within.first, within.end):
            label = self.labels[unit]
            child = bisect_right(firsts, label) - 1
            if label < 0:
                owners.append(None)
            elif child >= 0 and label < children[child][2]:
                owners.append(child)
                owned[child].append(unit)
            else:
                owners.append(-1)
        for child, (node, first, end) in enumerate(children):
            if child not in owned and not node.piece_kind:
                own = (unit for unit in range(first, end) if unit not in self.of_pieces)
                weak = (self.weak_targets.get(unit, -1) for unit in own)
                free = (unit for unit in weak if within.first <= unit < within.end)
                for unit in free:
                    if owners[unit - within.first] in (None, -1):
                        owners[unit - within.first] = child
                        owned[child].append(unit)
                        break
        taken = bytearray(len(owners))
        for child in sorted(owned, key=lambda child: (len(owned[child]), child)):
            node = children[child][0]
            offsets = range(owned[child][0] - within.first, owned[child][-1] + 1 - within.first)
            run = _best_run(owners, taken, child, offsets, is_kept=node.piece_kind != "")
            if run is None:
                continue
            first, end = self._without_signs(node, run[0] + within.first, run[1] + within.first)
            taken[first - within.first : end - within.first] = b"\1" * (end - first)
            self.places[node] = Place(first, end)

    def _without_signs(self, node: Node, first: int, end: int) -> tuple[int, int]:
        """Drop punctuation from the edges of a run, if the element itself has none there."""
        src_first, src_end = self.units_of(node)
        if not self._is_sign(self.source[src_end - 1], self.marked.text):
            while end - first > 1 and self._is_sign(self.target[end - 1], self.translation):
                end -= 1
        if not self._is_sign(self.source[src_first], self.marked.text):
            while end - first > 1 and self._is_sign(self.target[first], self.translation):
                first += 1
        return first, end

    def _between(self, within: Place, units: tuple[int, int], child: Node) -> Place:
        """Return the place of a child without a run.

        within: the place where it may be; units: of the source, which that is the translation of.
        """
        first, end = self.units_of(child)  # or twice the next one, if it has none
        if within.first == within.end:
            return replace(within)
        if first <= units[0]:
            return Place(within.first, within.first, is_after=False)
        if end >= units[1]:
            return Place(within.end, within.end)
        text = self.marked.text
        before, behind = text[child.start - 1], text[child.end]
        touches_previous = not before.isspace() and (
            behind.isspace() or (is_in_word(before) and not is_in_word(behind))
        )
        # The nearest unit with a translation decides. For a tag between units 3 and 4, these are
        # tried in turn: 4 3 5 2 6 1 and so on (3 4 2 5, if it touches 3). Only 8 on each side,
        # because what is farther away says less than the share of the text before the tag. It also
        # bounds the work of a line with thousands of tags among words that nothing comes from.
        sides = [(end, 1), (first - 1, -1)]
        for step in range(8):
            for unit, side in sides[::-1] if touches_previous else sides:
                place = self._beside(within, unit + side * step, side)
                if place is not None:
                    return place
        share = (first - units[0]) / (units[1] - units[0])
        position = within.first + round(share * (within.end - within.first))
        return self._outside(position, is_after=True)

    def _leave_word(self, place: Place, piece: Node, within: Place) -> None:
        """Move the place of a piece out of what is written together, such as `l'eau`."""
        text, translation = self.marked.text, self.translation
        beside = text[piece.start - 1 : piece.start], text[piece.end : piece.end + 1]
        if all(sign and (is_in_word(sign) or sign in _JOINTS) for sign in beside):
            return  # it is so itself
        step = 1 if place.is_after else -1
        while within.first < place.first < within.end:
            (_, end), (start, _) = self.target[place.first - 1 : place.first + 1]
            both = translation[end - 1], translation[start]
            are_joined = all(is_in_word(sign) or sign in _JOINTS for sign in both)
            if end < start or not are_joined or any(map(is_wide, both)):
                return
            place.first += step
            place.end += step

    def _beside(self, within: Place, unit: int, side: int) -> Place | None:
        """Return the place before (side 1) or after (-1) the translation of a unit."""
        targets = self.targets.get(unit, ())
        inside = [target for target in targets if within.first <= target < within.end]
        if not inside:
            return None
        if side > 0:
            return self._outside(inside[0], is_after=False)
        return self._outside(inside[-1] + 1, is_after=True)

    def touches(self, piece: Node) -> tuple[bool, bool]:
        """Tell whether a piece touches the same word before it as in the source, and behind it."""
        text, place = self.marked.text, self.places[piece]
        first, end = self.units_of(piece)
        touches_previous = is_letter(text[piece.start - 1 : piece.start])
        touches_next = is_letter(text[piece.end : piece.end + 1])
        return (
            touches_previous and place.first - 1 in self.targets.get(first - 1, ()),
            touches_next and place.end in self.targets.get(end, ()),
        )

    def _outside(self, position: int, *, is_after: bool) -> Place:
        """Move a place out of the runs of other children."""
        number = bisect_left(self.runs, (position, 0)) - 1
        if number >= 0 and position < self.runs[number][1]:
            position = self.runs[number][1] if is_after else self.runs[number][0]
        return Place(position, position, is_after)


def _best_run(
    owners: Sequence[int | None], taken: bytearray, child: int, units: range, *, is_kept: bool
) -> tuple[int, int] | None:
    """Return the run of free units that has the most units of a child, less those of others.

    A piece that must stay as it is never takes units of others, because they would be lost.

    This is the largest sum of neighbours (Kadane's algorithm), in one pass. Own units count 1,
    those of others -1, and units from nothing 0. For the owners 0 1 0 0 and child 0, the sums are
    1 0, and then a new run begins at the third unit: 1 2. So the run is 2 to 4.
    """
    best, run = 0, None
    total, start = 0, -1
    for unit in units:
        owner = owners[unit]
        if taken[unit] or (is_kept and owner not in (child, None)):
            total, start = 0, -1
        elif owner == child:
            if total <= 0:
                total, start = 0, unit
            total += 1
            if total > best:
                best, run = total, (start, unit + 1)
        elif owner is not None:
            total -= 1
    return run

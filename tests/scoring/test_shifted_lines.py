"""Where lines begin to come late: planted shifts are found, and good text has none."""

import random

import pytest

from nmt.scoring.shifted_lines import find_shift

_WORDS = {
    "spaced": [f"wort{n} " for n in range(400)],
    "unspaced": list(map(chr, range(0x4E00, 0x4F90))),
}


def texts(script: str, lines: int) -> tuple[list[str], list[str]]:
    """Return a reference, and a translation that has about half of its words."""
    draw = random.Random(lines)
    words = _WORDS[script]
    rows = [draw.choices(words, k=12) for _ in range(lines)]
    others = [[word if draw.random() < 0.6 else draw.choice(words) for word in row] for row in rows]
    return ["".join(row) for row in rows], ["".join(row) for row in others]


@pytest.mark.parametrize("script", _WORDS)
@pytest.mark.parametrize("lines", [40, 6_000])
def test_a_shift_is_found_where_it_begins(script: str, lines: int) -> None:
    reference, output = texts(script, lines)
    assert find_shift(output, reference) is None
    start = lines - 25
    for shift in (-2, -1, 1, 3):
        late = [*output[:start], *["?"] * shift, *output[start : lines - shift]]
        early = [*output[:start], *output[start - shift :], *["?"] * -shift]
        found = find_shift(late if shift > 0 else early, reference)
        assert found is not None
        assert found[1] == shift
        assert abs(found[0] - 1 - start) <= 3


def test_lines_in_another_order_are_no_shift() -> None:
    reference, output = texts("spaced", 200)
    random.Random(1).shuffle(output)
    assert find_shift(output, reference) is None
    assert find_shift([], []) is None
    assert find_shift(["Ja."] * 20, ["Ja."] * 20) is None

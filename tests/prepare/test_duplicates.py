"""The table of seen hashes says what a Python set says."""

import unicodedata

import numpy as np
import pytest

from nmt.prepare.duplicates import SeenHashes, hash_lines, normalized


# Hashes below 3,000 repeat often, in a batch and after it. The multiples of 4,002, the size of the
# table, all want the same slot, and collide.
@pytest.mark.parametrize("factor", [1, 4002])
def test_a_table_agrees_with_a_set_until_it_is_full(factor: int) -> None:
    random = np.random.default_rng(5)
    seen, expected = SeenHashes(3000), set[int]()
    assert seen._table.nbytes == 8 * 4002
    for size in [200] * 40 + [0]:
        batch = (1 + random.integers(0, 3000, size=size)).astype(np.uint64) * np.uint64(factor)
        new = []
        for value in batch.tolist():
            new.append(value not in expected)
            expected.add(value)
        assert seen.add(batch).tolist() == new


def test_hashes_are_the_same_on_every_machine() -> None:
    # BLAKE2b with an 8-byte digest of "Käse", as `b2sum -l 64` prints it, read little-endian.
    expected = int.from_bytes(bytes.fromhex("b03b72b0962cccca"), "little")
    assert hash_lines(["Käse", " Käse\t"]).tolist() == [expected, expected]


def test_composed_and_decomposed_lines_are_the_same() -> None:
    one, other = "Grüße aus 서울", unicodedata.normalize("NFD", "Grüße aus 서울")
    assert one != other
    hashes = hash_lines([one, other, f" {other} ", "Gru\u0308sse aus 서울"]).tolist()
    assert hashes[0] == hashes[1] == hashes[2] != hashes[3]
    assert hash_lines([one]).tolist() == hashes[:1]  # whatever stands beside it


def test_near_duplicates_differ_in_case_digits_punctuation_and_spaces() -> None:
    lines = [
        "Page 3 of 1,000!",
        "  page 17 of\u00a02 ",
        "Seite 3",
        "Straße ﬁn",
        "STRASSE-FIN",
        "...",
        "",
    ]
    page = "page0of0"
    assert normalized(lines) == [page, page, "seite0", "strassefin", "strassefin", "", ""]
    assert normalized(["Öl", "Ol"])[0] != normalized(["Ol"])[0]  # marks tell words apart
    assert normalized(["٣ كتب", "۱۲ كتب"]) == ["0كتب"] * 2
    assert normalized([]) == []

"""The table of seen hashes says what a Python set says."""

from __future__ import annotations

import numpy as np
import pytest

from nmt.prepare.duplicates import SeenHashes, hash_lines, hash_pairs


def test_a_batch_may_repeat_itself_and_earlier_batches() -> None:
    seen = SeenHashes(6)
    assert seen.add(np.array([7, 8, 7], np.uint64)).tolist() == [True, True, False]
    assert seen.add(np.array([9, 8, 9], np.uint64)).tolist() == [True, False, False]
    assert seen.add(np.array([], np.uint64)).tolist() == []


# Hashes below 3,000 repeat often; the multiples of 4,002, the size of the table, all want the same
# slot, and collide.
@pytest.mark.parametrize("factor", [1, 4002])
def test_a_table_agrees_with_a_set_until_it_is_full(factor: int) -> None:
    random = np.random.default_rng(5)
    seen, expected = SeenHashes(3000), set[int]()
    assert seen._table.nbytes == 8 * 4002
    for _ in range(60):
        batch = (1 + random.integers(0, 3000, size=200)).astype(np.uint64) * np.uint64(factor)
        new = []
        for value in batch.tolist():
            new.append(value not in expected)
            expected.add(value)
        assert seen.add(batch).tolist() == new


def test_hashes_are_the_same_on_every_machine() -> None:
    # BLAKE2b with an 8-byte digest of "Käse", as `b2sum -l 64` prints it, read little-endian.
    expected = int.from_bytes(bytes.fromhex("b03b72b0962cccca"), "little")
    assert hash_lines(["Käse", " Käse\t"]).tolist() == [expected, expected]


def test_pairs_differ_where_a_side_differs() -> None:
    one, two = hash_lines(["one", "two"])
    sides = [(one, one), (one, two), (two, one), (two, two)]
    hashes = hash_pairs(np.array([a for a, _ in sides]), np.array([b for _, b in sides]))
    assert len(set(hashes.tolist())) == 4

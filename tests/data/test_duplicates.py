"""The table of seen pairs says what a Python set says."""

from __future__ import annotations

import numpy as np
import pytest

from nmt.data.duplicates import SeenPairs, hash_pair


def test_a_batch_may_repeat_itself_and_earlier_batches() -> None:
    seen = SeenPairs()
    assert seen.add(np.array([7, 8, 7], np.uint64)).tolist() == [True, True, False]
    assert seen.add(np.array([9, 8, 9], np.uint64)).tolist() == [True, False, False]
    assert seen.add(np.array([], np.uint64)).tolist() == []
    assert len(seen) == 3


# Hashes below 3,000 repeat often; multiples of 2^40 all want the same slot, and collide.
@pytest.mark.parametrize("factor", [1, 1 << 40])
def test_growing_tables_agree_with_a_set(factor: int) -> None:
    random = np.random.default_rng(5)
    seen, expected = SeenPairs(slots=8), set[int]()
    for _ in range(40):
        batch = (1 + random.integers(0, 3000, size=200)).astype(np.uint64) * np.uint64(factor)
        new = []
        for value in batch.tolist():
            new.append(value not in expected)
            expected.add(value)
        assert seen.add(batch).tolist() == new
    assert len(seen) == len(expected)


def test_hashes_tell_apart_where_one_side_ends() -> None:
    assert hash_pair("a b", "c") != hash_pair("a", "b c")
    assert hash_pair("a", "b") != hash_pair("b", "a")
    # BLAKE2b with an 8-byte digest over "a\nb", as `b2sum -l 64` prints it, read little-endian.
    assert hash_pair("a", "b") == int.from_bytes(bytes.fromhex("a76de9f2d561975f"), "little")

"""Sinusoidal, learned and rotary positions against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from reference import rotated as rotated_by_loops
from reference import sinusoidal_positions as positions_by_formula

from nmt.models.positions import (
    LearnedPositions,
    PositionTable,
    rotated,
    rotations,
    sinusoidal_positions,
)


@pytest.mark.parametrize(("length", "d_model"), [(1, 2), (50, 16), (1_000, 64), (7, 512)])
def test_positions_are_the_paper_s_formula(length: int, d_model: int) -> None:
    found = sinusoidal_positions(length, d_model)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), positions_by_formula(length, d_model), atol=6e-7)


def test_wavelengths_run_from_two_pi_to_ten_thousand_times_that() -> None:
    # Column 0 is sin(pos); the last pair's angle is pos / 10000^(510 / 512), 10000 and not 1000.
    found = sinusoidal_positions(2, 512)[1]
    assert found[0] == pytest.approx(math.sin(1.0))
    assert found[510] == pytest.approx(math.sin(10000 ** -(510 / 512)), rel=1e-5)


def test_a_table_grows_and_takes_positions_in_any_order() -> None:
    table = PositionTable(sinusoidal_positions, 8)
    for start in (0, 254, 1_000, 5):
        places = np.array([[start + 2, start], [start, start + 1]])
        found = table(torch.from_numpy(places), start + 3)
        wanted = positions_by_formula(start + 3, 8)[places]
        np.testing.assert_allclose(found.numpy(), wanted, atol=6e-7)


def test_training_can_use_rotations_made_in_inference_mode() -> None:
    table, places = PositionTable(rotations, 8), torch.arange(3)
    with torch.inference_mode():
        table(places, 3)
    x = torch.ones(3, 1, 1, 8, requires_grad=True)
    torch.autograd.backward(rotated(x, table(places, 3)).sum())
    assert x.grad is not None


# ------------------------------------------------------------------------------ learned


def test_learned_positions_are_rows_of_a_matrix_and_later_ones_the_last() -> None:
    torch.manual_seed(1)
    positions = LearnedPositions(5, 4)
    assert torch.equal(positions(torch.tensor([4, 0, 2]), 5), positions.weight[[4, 0, 2]])
    found = positions(torch.tensor([3, 4, 5, 1_000]), 1_001)
    assert torch.equal(found, positions.weight[[3, 4, 4, 4]])


def test_learned_positions_start_with_variance_one_over_d_model() -> None:
    torch.manual_seed(1)
    # 128,000 draws: the standard error of the deviation is sigma / sqrt(2 * 128,000), 0.2 %.
    weight = LearnedPositions(2_000, 64).weight.detach()
    assert float(weight.std()) == pytest.approx(1 / 8, rel=0.01)


# ------------------------------------------------------------------------------- rotary


def test_rotary_positions_are_the_loop_reference() -> None:
    torch.manual_seed(2)
    x, places = torch.randn(7, 2, 3, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 40, 9])
    found = rotated(x, PositionTable(rotations, 6)(places, 41))
    for index in np.ndindex(7, 2, 3):
        expected = rotated_by_loops(x[index].numpy(), int(places[index[0]]))
        np.testing.assert_allclose(found[index].numpy(), expected, atol=1e-6)


def test_products_of_rotated_vectors_depend_only_on_their_distance() -> None:
    torch.manual_seed(3)
    query, key = (torch.randn(8, dtype=torch.float64).expand(50, 1, 1, 8) for _ in range(2))
    table = rotations(50, 8)
    products = rotated(query, table).flatten(1) @ rotated(key, table).flatten(1).T  # (50, 50)
    for distance in (-7, 0, 3):
        same = products.diagonal(distance)
        torch.testing.assert_close(same, same[:1].expand_as(same), atol=1e-5, rtol=0)
    assert abs(products[3, 0] - products[0, 3]) > 0.01  # on its sign too


def test_half_precision_is_rotated_by_exact_angles() -> None:
    torch.manual_seed(4)
    x, table = torch.randn(300, 1, 1, 8), rotations(300, 8)
    found = rotated(x.bfloat16(), table)
    assert found.dtype == torch.bfloat16
    # Rounding x and the result, to 8 bits of mantissa each; an angle of 299 so rounded is wrong.
    torch.testing.assert_close(found.float(), rotated(x, table), atol=0.03, rtol=0)

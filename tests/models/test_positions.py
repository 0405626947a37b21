"""Sinusoidal and rotary positions against their formulas; test_transformer.py has the others."""

import numpy as np
import pytest
import torch
from reference import rotated as rotated_by_loops
from reference import sinusoidal_positions as positions_by_formula
from reference import sinusoids_by_halves as halves_by_formula

from nmt.models import positions


@pytest.mark.parametrize(("length", "d_model"), [(1, 2), (50, 16), (1_000, 64), (7, 512)])
def test_positions_are_the_formulas_of_the_paper_and_of_marian(length: int, d_model: int) -> None:
    for table, formula in (
        (positions.sinusoidal_positions, positions_by_formula),
        (positions.sinusoids_by_halves, halves_by_formula),
    ):
        found = table(length, d_model)
        assert found.dtype == torch.float32
        np.testing.assert_allclose(found.numpy(), formula(length, d_model), atol=6e-7)


def test_a_table_grows_and_takes_positions_in_any_order() -> None:
    table = positions.PositionTable(positions.sinusoidal_positions, 8)
    for start in (0, 254, 1_000, 5):
        places = np.array([[start + 2, start], [start, start + 1]])
        found = table(torch.from_numpy(places), start + 3)
        wanted = positions_by_formula(start + 3, 8)[places]
        np.testing.assert_allclose(found.numpy(), wanted, atol=6e-7)


def test_training_can_use_rotations_made_in_inference_mode() -> None:
    table, places = positions.PositionTable(positions.rotations, 8), torch.arange(3)
    with torch.inference_mode():
        table(places, 3)
    x = torch.ones(3, 1, 1, 8, requires_grad=True)
    torch.autograd.backward(positions.rotated(x, table(places, 3)).sum())
    assert x.grad is not None


# In half precision, x and the result are rounded to 8 bits of mantissa each. An angle of 299 that
# is rounded so would be wrong.
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.bfloat16, 0.03)])
def test_rotary_positions_are_the_loop_reference(dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(2)
    x, places = torch.randn(7, 2, 3, 6).to(dtype), torch.tensor([0, 1, 2, 0, 1, 299, 9])
    found = positions.rotated(x, positions.PositionTable(positions.rotations, 6)(places, 300))
    assert found.dtype == dtype
    for index in np.ndindex(7, 2, 3):
        expected = rotated_by_loops(x[index].double().numpy(), int(places[index[0]]))
        np.testing.assert_allclose(found[index].double().numpy(), expected, atol=tolerance)


def test_compiled_rotations_do_without_complex_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    x, rotation = torch.randn(5, 2, 3, 6), positions.rotations(5, 6)
    expected = positions.rotated(x, rotation)
    with monkeypatch.context() as patch:
        patch.setattr(torch.compiler, "is_compiling", lambda: True)
        patch.delattr(torch, "view_as_complex")
        found = positions.rotated(x, rotation)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)

"""Compare the kernel for sentences with equation 1, forward and backward; print the errors as JSON.

    TRITON_INTERPRET=1 PYTHONPATH=.:tests python -m sentence_kernel

runs it on a CPU. Triton has to know that when it is imported, so this is a process of its own.
"""

import json

import numpy as np
import torch
from torch import Tensor

from nmt.models.kernels.packed_attention import ANY_DISTANCE
from nmt.models.kernels.sentence_attention import attend_sentences

H, K = 2, 16
OWN = [5, 0, 1, 40, 32, 70, 33]  # tokens of sentences; a tile has 64
OTHERS = [7, 1, 33, 1, 64, 31, 90]

CASES: dict[str, tuple[list[int], int]] = {
    "to itself": (OWN, ANY_DISTANCE),
    "to others": (OTHERS, ANY_DISTANCE),
    "causal": (OWN, 0),
}
"""The sentences of keys, and how far ahead queries see."""


def starts_of(lengths: list[int]) -> Tensor:
    """Return the start of each sentence, and the end of the last one."""
    return torch.from_numpy(np.cumsum([0, *lengths]).astype(np.int32))


def expected(xs: list[Tensor], own: Tensor, others: Tensor, after: int) -> Tensor:
    """Return equation 1, sentence by sentence."""
    query, key, value = (part for x in xs for part in x.unbind(1))
    results = []
    for first, end, first_key, end_key in zip(own, own[1:], others, others[1:], strict=False):
        q, k, v = query[first:end], key[first_key:end_key], value[first_key:end_key]
        distance = torch.arange(len(k)) - torch.arange(len(q))[:, None]
        scores = torch.einsum("thk,shk->hts", q, k) * K**-0.5
        weights = scores.masked_fill(distance > after, -torch.inf).softmax(-1)
        results.append(torch.einsum("hts,shk->thk", weights, v))
    return torch.cat(results)


def error(found: Tensor, wanted: Tensor) -> float:
    """Return the norm of the difference, by that of what is wanted."""
    return float((found.detach() - wanted.detach()).norm() / wanted.detach().norm())


def errors_of(lengths: list[int], after: int) -> list[float]:
    """Return the errors of the result and of the gradients."""
    own, others = starts_of(OWN), starts_of(lengths)
    torch.manual_seed(1)
    parts = [(own, 3)] if lengths is OWN else [(own, 1), (others, 2)]
    xs = [torch.randn(int(s[-1]), count, H, K, requires_grad=True) for s, count in parts]
    wide = [x.detach().double().requires_grad_() for x in xs]
    found = attend_sentences(xs, own, others, after=after)
    wanted = expected(wide, own, others, after)
    gradient = torch.randn_like(found)
    gradients = torch.autograd.grad(found, xs, gradient)
    wanted_gradients = torch.autograd.grad(wanted, wide, gradient.double())
    pairs = zip((found, *gradients), (wanted, *wanted_gradients), strict=True)
    return [error(a, b) for a, b in pairs]


def error_of_parts() -> float:
    """Return the error of the gradient of values in a part of a wider tensor, as with rotation."""
    own = starts_of([5, 3])
    torch.manual_seed(1)
    wide = torch.randn(8, 3 * H * K, requires_grad=True)
    query_key, value = torch.split(wide, [2 * H * K, H * K], dim=1)
    apart = [query_key.reshape(8, 2, H, K), value.view(8, 1, H, K)]
    gradients: list[Tensor] = []
    for xs in (apart, [wide.view(8, 3, H, K)]):
        attended = attend_sentences(xs, own, own, after=0)
        gradients += torch.autograd.grad(attended.square().sum(), wide)
    return error(*gradients)


if __name__ == "__main__":
    errors = {name: errors_of(*case) for name, case in CASES.items()}
    print(json.dumps(errors | {"of a part": [error_of_parts()]}))

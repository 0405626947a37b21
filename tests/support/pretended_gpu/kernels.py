"""Kernels that only GPUs have, as slow references in fp32, for the CPU.

The pretended GPU runs the CPU's kernels, so these are registered as such.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_HALVES = (torch.bfloat16, torch.float16)


def register() -> torch.library.Library:
    """Register the kernels; they are there as long as the library is."""
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for kernel in (
        _flash_attention_forward,
        _flash_attention_backward,
        _thnn_fused_lstm_cell,
        _thnn_fused_lstm_cell_backward_impl,
    ):
        library.impl(kernel.__name__, kernel, "CPU")  # type: ignore[no-untyped-call]
    return library


def _flash_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_query: int,
    longest_key: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    window_size_left: int = -1,
    window_size_right: int = -1,
) -> tuple[Tensor, ...]:
    """Attend in packed sentences: queries (n, H, K), keys and values (m, H, K), starts (B + 1,).

    Like the kernel, it writes nothing for tokens after the last sentence.
    """
    assert dropout_p == 0.0 and not is_causal and not return_debug_mask, "not written here"
    _check(query, key, value, query_starts, key_starts, longest_query, longest_key)
    output = torch.full_like(query, torch.nan)
    window = window_size_left, window_size_right
    for own, others in _sentences(query_starts, key_starts):
        weights = _weights(query[own], key[others], window)  # (H, T, S)
        output[own] = (weights @ _by_head(value[others])).transpose(0, 1).to(query.dtype)
    nothing = torch.empty(0)
    return output, torch.empty(query.shape[1], len(query)), nothing, nothing, nothing


def _flash_attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_query: int,
    longest_key: int,
    dropout_p: float,
    is_causal: bool,
    rng_state: Tensor,
    unused: Tensor,
    *,
    window_size_left: int = -1,
    window_size_right: int = -1,
) -> tuple[Tensor, ...]:
    """Return the gradients of queries, keys and values, shaped like them."""
    _check(query, key, value, query_starts, key_starts, longest_query, longest_key)
    gradients = [torch.full_like(x, torch.nan) for x in (query, key, value)]
    window = window_size_left, window_size_right
    scale = query.shape[-1] ** -0.5
    for own, others in _sentences(query_starts, key_starts):
        weights = _weights(query[own], key[others], window)  # (H, T, S)
        of_output = _by_head(gradient[own])  # (H, T, K)
        of_weights = of_output @ _by_head(value[others]).mT
        # of query key^T
        of_products = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * scale
        for found, place, x in zip(
            gradients,
            (own, others, others),
            (
                of_products @ _by_head(key[others]),
                of_products.mT @ _by_head(query[own]),
                weights.mT @ of_output,
            ),
            strict=True,
        ):
            found[place] = x.transpose(0, 1).to(found.dtype)
    return tuple(gradients)


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    longest_query: int,
    longest_key: int,
) -> None:
    """Check what FlashAttention 2 needs of its arguments, and in part does not check itself."""
    for x in (query, key, value):
        assert x.dtype in _HALVES and x.dtype == query.dtype, x.dtype
        assert x.stride(-1) == 1 and x.shape[-1] % 8 == 0 and x.shape[-1] <= 256, x.shape
        assert x.shape[1:] == query.shape[1:], (x.shape, query.shape)
    assert len(query_starts) == len(key_starts), (query_starts.shape, key_starts.shape)
    for starts, x, longest in (
        (query_starts, query, longest_query),
        (key_starts, key, longest_key),
    ):
        assert starts.dtype == torch.int32 and starts.is_contiguous(), starts.dtype
        lengths = starts.diff()
        assert starts[0] == 0 and bool((lengths >= 0).all()) and starts[-1] <= len(x), starts
        assert int(lengths.max()) <= longest, (lengths.max(), longest)


def _sentences(query_starts: Tensor, key_starts: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yield the places of each sentence that has queries."""
    own, others = query_starts.tolist(), key_starts.tolist()
    for place in range(len(own) - 1):
        if own[place] < own[place + 1]:
            yield slice(*own[place : place + 2]), slice(*others[place : place + 2])


def _by_head(x: Tensor) -> Tensor:
    return x.float().transpose(0, 1)  # (H, T or S, K)


def _weights(query: Tensor, key: Tensor, window: tuple[int, int]) -> Tensor:
    """Return the weights (H, T, S) of a sentence; the last query is beside the last key."""
    scores = _by_head(query) @ _by_head(key).mT * query.shape[-1] ** -0.5
    before, after = window
    at = torch.arange(len(query))[:, None] + len(key) - len(query)
    distance = torch.arange(len(key)) - at  # (T, S)
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if before >= 0:
        hidden |= distance < -before
    if after >= 0:
        hidden |= distance > after
    weights: Tensor = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return weights.masked_fill(hidden.all(-1, keepdim=True), 0.0)  # of queries that see nothing


def _thnn_fused_lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    memory: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output (N, H), the cell state (N, H) and the gates (N, 4H) for the gradient."""
    gates = input_gates + hidden_gates  # (N, 4H)
    for bias in (input_bias, hidden_bias):
        if bias is not None:
            gates = gates + bias
    enter, forget, candidate, leave = gates.chunk(4, dim=1)
    enter, forget, leave = enter.sigmoid(), forget.sigmoid(), leave.sigmoid()
    candidate = candidate.tanh()
    new = forget * memory + enter * candidate
    return leave * new.tanh(), new, torch.cat((enter, forget, candidate, leave), dim=1)


def _thnn_fused_lstm_cell_backward_impl(
    of_output: Tensor | None,
    of_new: Tensor | None,
    memory: Tensor,
    new: Tensor,
    workspace: Tensor,
    has_bias: bool,
) -> tuple[Any, ...]:
    """Return the gradients of the gates (N, 4H), the cell state before (N, H) and the bias."""
    enter, forget, candidate, leave = workspace.chunk(4, dim=1)
    of_output = torch.zeros_like(new) if of_output is None else of_output
    squashed = new.tanh()
    carried = of_output * leave * (1 - squashed * squashed)
    if of_new is not None:
        carried = carried + of_new
    of_gates = torch.cat(
        (
            carried * candidate * enter * (1 - enter),
            carried * memory * forget * (1 - forget),
            carried * enter * (1 - candidate * candidate),
            of_output * squashed * leave * (1 - leave),
        ),
        dim=1,
    )
    return of_gates, carried * forget, of_gates.sum(0) if has_bias else None

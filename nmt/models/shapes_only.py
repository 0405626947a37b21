"""Models without values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_DRAWING = {"normal_", "uniform_", "kaiming_uniform_", "xavier_uniform_"}


class _NothingDrawn(TorchFunctionMode):
    """Leaves tensors as they are that would be filled with random numbers."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if getattr(func, "__name__", "") in _DRAWING:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """Let what is built have shapes and types, and no values.

    That is torch's meta device. Numbers that are drawn there would go nowhere, by code that takes
    as long to import as all the rest of torch.
    """
    with torch.device("meta"), _NothingDrawn():
        yield

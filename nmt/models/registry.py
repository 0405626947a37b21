"""The registry of architectures, and the one way to build a model.

`shapes_only` builds models without values, for example to count their parameters.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from nmt.config.model_config import ModelConfig
from nmt.models.base import TranslationModel
from nmt.models.convolutional import ConvolutionalModel
from nmt.models.recurrent import RecurrentModel
from nmt.models.transformer import Transformer

ARCHITECTURES: dict[str, Callable[[Any, int, int], TranslationModel]] = {
    "transformer": Transformer,
    "conv_seq2seq": ConvolutionalModel,
    "rnn_attention": RecurrentModel,
}
"""Each is built from its configuration and the sizes of its vocabularies."""


def build_model(
    architecture: str, config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int
) -> TranslationModel:
    """Build a model with fresh weights, on the current default device."""
    return ARCHITECTURES[architecture](config, src_vocab_size, tgt_vocab_size)


def count_parameters(
    architecture: str, config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int
) -> int:
    """Count a model's parameters, tied ones once, without allocating them."""
    with shapes_only():
        model = build_model(architecture, config, src_vocab_size, tgt_vocab_size)
    return sum(parameter.numel() for parameter in model.parameters())


_DRAWING = {"normal_", "uniform_", "kaiming_uniform_", "xavier_uniform_"}


class _NothingDrawn(TorchFunctionMode):
    """Skips the filling of tensors with random numbers."""

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        keywords = kwargs or {}
        if getattr(func, "__name__", "") in _DRAWING:
            return args[0] if args else keywords["tensor"]
        return func(*args, **keywords)


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """Build tensors with shapes and types, but without values, on torch's meta device.

    Random initialisation is skipped: on this device it has no effect, but imports code that takes
    as long to load as the rest of torch.
    """
    with torch.device("meta"), _NothingDrawn():
        yield


def parameters_by_names(model: nn.Module) -> list[tuple[tuple[str, ...], nn.Parameter]]:
    """Return every parameter once, with all its names. The model file uses the first."""
    names: dict[nn.Parameter, list[str]] = {parameter: [] for parameter in model.parameters()}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[parameter].append(name)
    return [(tuple(of_one), parameter) for parameter, of_one in names.items()]

"""Weights of a model that only translates, laid out once for fast products on a CPU.

A library's products want weights in blocks of its own; the usual layout is rearranged at every
call, which costs most where few rows are multiplied, as in a step of the decoder.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from torch import nn

from nmt.models.contract import TranslationModel
from nmt.models.embeddings import TokenEmbedding
from nmt.models.kernels import KERNELS, Choice, choose
from nmt.models.linear import use_packed
from nmt.models.positions import LearnedPositions
from nmt.models.relative_attention import RelativePositions

_LOOKED_UP = (TokenEmbedding, LearnedPositions, RelativePositions, nn.Embedding)


def choose_kernel(models: Sequence[TranslationModel], precision: str) -> Choice:
    """Return the fastest kernel for the weights of some models (see `choose`)."""
    weights = (weight for model in models for weight in multiplied(model))
    return choose(((len(weight), weight.shape[1]) for weight in weights), precision)


def pack(model: TranslationModel, precision: str, kernel: str | None = None) -> None:
    """Pack all weights that the model multiplies by, and let go of the originals.

    Those of embeddings stay, and the output projection's, of which a shortlist takes rows.

    The model multiplies by its matrices through `linear`; only torch's own recurrent layers, which
    have no other way, multiply by theirs themselves, and keep them as they are.

    Args:
        model: in fp32, on the CPU; from now on it can only translate.
        precision: one of a CPU's `device.PRECISIONS`.
        kernel: one of that precision; the fastest for this model if None.
    """
    packer = KERNELS[precision][kernel or choose_kernel([model], precision).kernel]
    embeddings = _weights_of(model, _LOOKED_UP)
    for weight in list(multiplied(model)):
        use_packed(weight, packer(weight.detach()))
        if id(weight) not in embeddings and weight is not model.output_projection:
            # Of its shape, but of one number that spoils what it would be used for.
            weight.data = weight.new_full((1, 1), math.nan).expand_as(weight)


def multiplied(model: TranslationModel) -> Iterator[nn.Parameter]:
    """Yield the matrices by which the model multiplies through `linear`, tied ones once."""
    others = _weights_of(model, (*_LOOKED_UP, nn.RNNBase))
    for weight in model.parameters():
        if weight.dim() == 2 and (id(weight) not in others or weight is model.output_projection):
            yield weight


def _weights_of(model: nn.Module, kinds: tuple[type[nn.Module], ...]) -> set[int]:
    return {
        id(weight)
        for module in model.modules()
        if isinstance(module, kinds)
        for weight in module.parameters()
    }

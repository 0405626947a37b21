"""A Transformer's layers and attention matrices, for the formats of other toolkits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from torch import Tensor

from nmt.models.attention import CrossAttention, SelfAttention
from nmt.models.transformer import DecoderLayer, EncoderLayer, Transformer


def encoder_layers(model: Transformer) -> Iterable[EncoderLayer]:
    """Return the encoder's layers, the lowest first."""
    return cast(Iterable[EncoderLayer], model.encoder)


def decoder_layers(model: Transformer) -> Iterable[DecoderLayer]:
    """Return the decoder's layers, the lowest first."""
    return cast(Iterable[DecoderLayer], model.decoder)


@dataclass(frozen=True)
class Projections:
    """The four matrices of an attention, some of which `nmt` stacks; each (D, D)."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor

    @classmethod
    def of_self(cls, attention: SelfAttention) -> Projections:
        """Return the matrices of a self-attention."""
        query, key, value = attention.qkv.chunk(3)
        return cls(query, key, value, attention.output)

    @classmethod
    def of_cross(cls, attention: CrossAttention) -> Projections:
        """Return the matrices of a cross-attention."""
        key, value = attention.key_value.chunk(2)
        return cls(attention.query, key, value, attention.output)

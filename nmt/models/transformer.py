"""The Transformer exactly as in "Attention Is All You Need" (Vaswani et al. 2017).

Post-norm layers, sinusoidal positions, ReLU, attention projections without bias, embeddings that
may be shared three ways. Training runs all positions of packed sentences at once; search runs one
position at a time with cached keys and values, the memory's computed once per sentence and not per
hypothesis.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.data.batches import Batch, Packed
from nmt.model_config import TransformerConfig
from nmt.models.attention import (
    CrossAttention,
    SelfAttention,
    attend_grouped,
    noting_weights,
)
from nmt.models.contract import AttentionWeights, DecoderState, Memory, TranslationModel
from nmt.models.dropout import add_dropped
from nmt.models.embeddings import TokenEmbedding
from nmt.models.initial import output_projection
from nmt.models.key_value_cache import KeyValueCache, first_of, reorder_
from nmt.models.linear import linear
from nmt.models.packed_attention import Sentences, Table, takes_packed


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2 (equation 2)."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        nn.init.xavier_uniform_(self.inner.weight)
        self.outer.weight = nn.Parameter(output_projection(d_model, d_ff))
        for layer in (self.inner, self.outer):
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu_(linear(x, self.inner.weight, self.inner.bias))  # (B, T, F)
        return linear(hidden, self.outer.weight, self.outer.bias)  # (B, T, D)


class Residual(nn.Module):
    """LayerNorm(x + Dropout(sub-layer's output)) (sections 3.1 and 5.4)."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = dropout

    def forward(self, x: Tensor, output: Tensor) -> Tensor:
        normed: Tensor = self.norm(add_dropped(x, output, self.dropout, self.training))
        return normed


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.d_model, config.num_heads)
        self.after_attention = Residual(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.after_feed_forward = Residual(config.d_model, config.dropout)

    def forward(self, x: Tensor, sentences: Sentences) -> Tensor:
        """Encode x (n, D)."""
        x = self.after_attention(x, self.attention(x, sentences))
        return self.after_feed_forward(x, self.feed_forward(x))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the memory, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.d_model, config.num_heads)
        self.after_attention = Residual(config.d_model, config.dropout)
        self.cross_attention = CrossAttention(config.d_model, config.num_heads)
        self.after_cross_attention = Residual(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.after_feed_forward = Residual(config.d_model, config.dropout)

    def forward(self, x: Tensor, own: Sentences, memory: Tensor, others: Sentences) -> Tensor:
        """Decode x (n, D) with the memory (m, D) of its sentences."""
        x = self.after_attention(x, self.attention(x, own, causal=True))
        x = self.after_cross_attention(x, self.cross_attention(x, own, memory, others))
        return self.after_feed_forward(x, self.feed_forward(x))  # type: ignore[no-any-return]

    def step(self, x: Tensor, number: int, states: Sequence[TransformerState]) -> Tensor:
        """Decode one position x (N, D) of the hypotheses of some states: (N, D).

        Products are of all rows together, and only attention is of each state alone.
        """
        rows = [state.num_rows for state in states]
        parts = [
            state.cache.attend(number, qkv)
            for state, qkv in zip(states, torch.split(self.attention.project(x), rows), strict=True)
        ]
        x = self.after_attention(x, linear(_joined(parts), self.attention.output))  # (N, D)
        queries = linear(x, self.cross_attention.query)  # (N, D)
        parts = [
            attend_grouped(query, state.memory[number], state.mask)
            for state, query in zip(states, torch.split(queries, rows), strict=True)
        ]
        x = self.after_cross_attention(x, linear(_joined(parts), self.cross_attention.output))
        return self.after_feed_forward(x, self.feed_forward(x))  # type: ignore[no-any-return]


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


class TransformerState:
    """Cached keys and values of every decoder layer (see `DecoderState`)."""

    def __init__(self, layers: Sequence[DecoderLayer], memory: Memory) -> None:
        self.num_rows = len(memory.states)
        self.cache = KeyValueCache(len(layers))
        # Keys and values: (layers, 2, B, H, S, K).
        self.memory = torch.stack(
            [layer.cross_attention.project_memory(memory.states) for layer in layers]
        )
        self.mask = memory.mask.clone()  # (B, S); the memory stays as it is

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        """Keep these hypotheses, in this order."""
        self.cache.select(rows)
        self.num_rows = len(rows)
        reorder_(self.memory, 2, sentences)
        reorder_(self.mask, 0, sentences)
        self.memory = first_of(self.memory, 2, len(sentences))
        self.mask = first_of(self.mask, 0, len(sentences))


class Transformer(TranslationModel):
    """Encoder and decoder of the paper; fulfils `TranslationModel`."""

    def __init__(self, config: TransformerConfig, src_vocab_size: int, tgt_vocab_size: int) -> None:
        super().__init__()
        self.config = config
        width = config.d_model
        self.tgt_embedding = TokenEmbedding(tgt_vocab_size, width, config.dropout)
        self.src_embedding = (
            self.tgt_embedding
            if config.tie_embeddings == "all"
            else TokenEmbedding(src_vocab_size, width, config.dropout)
        )
        self.output_projection = (
            nn.Parameter(nn.init.normal_(torch.empty(tgt_vocab_size, width), std=width**-0.5))
            if config.tie_embeddings == "none"
            else self.tgt_embedding.weight
        )
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """The layers."""
        return [*self.encoder, *self.decoder]

    @property
    def is_padding_free(self) -> bool:
        """Whether the attention at hand takes packed sentences."""
        return takes_packed(self.output_projection, self.config.d_model // self.config.num_heads)

    def forward(self, batch: Batch) -> Tensor:
        """Return the last states (n, D) of the batch's target tokens."""
        sources, targets = self._sentences(batch.src), self._sentences(batch.tgt_in)
        memory = self._encode(sources)  # (m, D)
        x = self._embed(self.tgt_embedding, batch.tgt_in)  # (n, D)
        for layer in self.decoder:
            x = layer(x, targets, memory, sources)  # (n, D)
        return x

    @torch.no_grad()
    def attention_weights(self, batch: Batch) -> AttentionWeights:
        """Return what the pass that `forward` makes over a batch attends to."""
        attentions = (
            [layer.attention for layer in cast(Sequence[EncoderLayer], self.encoder)],
            [layer.attention for layer in self._decoder_layers()],
            [layer.cross_attention for layer in self._decoder_layers()],
        )
        with noting_weights(chain(*attentions)) as noted:
            self(batch)
        return AttentionWeights(*(torch.stack([noted[a] for a in part]) for part in attentions))

    @torch.no_grad()
    def cross_attention(self, batch: Batch, from_top: int) -> Tensor:
        """Return, of one layer, what the decoder looks at in the source: (B, H, T, S)."""
        layers = self._decoder_layers()
        attention = layers[max(0, len(layers) - 1 - from_top)].cross_attention
        with noting_weights([attention]) as noted:
            self(batch)
        return noted[attention]

    def encode(self, src: Packed) -> Memory:
        """Encode B sources, each closed by eos."""
        table = Table.of(src)
        states = self._encode(self._sentences(src))  # (n, D)
        return Memory(table.rows(states), table.mask)

    def _encode(self, sources: Sentences) -> Tensor:
        x = self._embed(self.src_embedding, sources.packed)  # (n, D)
        for layer in self.encoder:
            x = layer(x, sources)  # (n, D)
        return x

    def _embed(self, embedding: TokenEmbedding, packed: Packed) -> Tensor:
        embedded: Tensor = embedding(packed.tokens, packed.positions, packed.longest)
        return embedded  # (n, D)

    def _sentences(self, packed: Packed) -> Sentences:
        return Sentences.of(packed, as_packed=self.is_padding_free)

    def start(self, memory: Memory) -> TransformerState:
        """Return the state before the first target token: a hypothesis for each sentence, B."""
        return TransformerState(self._decoder_layers(), memory)

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        """Extend the hypotheses of some states by `tokens` (N,); return last states (N, D)."""
        own = cast(Sequence[TransformerState], states)
        device = self.output_projection.device
        lengths = torch.tensor([state.cache.length for state in own])  # (states,)
        rows = torch.tensor([state.num_rows for state in own])  # (states,)
        positions = lengths.repeat_interleave(rows).to(device)  # (N,)
        embed = self.tgt_embedding
        x: Tensor = embed(tokens.to(device), positions, int(lengths.max()) + 1)  # (N, D)
        for number, layer in enumerate(self._decoder_layers()):
            x = layer.step(x, number, own)  # (N, D)
        for state in own:
            state.cache.advance()
        return x  # (N, D)

    def _decoder_layers(self) -> Sequence[DecoderLayer]:
        return cast(Sequence[DecoderLayer], self.decoder)  # which they are

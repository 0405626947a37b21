"""The Transformer exactly as in "Attention Is All You Need" (Vaswani et al. 2017).

Post-norm layers, sinusoidal positions, ReLU, attention projections without bias, embeddings that
may be shared three ways. Training runs all positions of packed sentences at once; search runs one
position at a time with cached keys and values, the memory's computed once per sentence and not per
hypothesis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config import TransformerConfig
from nmt.data.batches import Batch, Packed
from nmt.models.attention import CrossAttention, KeyValueCache, SelfAttention, attend, merge_heads
from nmt.models.contract import Memory, TranslationModel
from nmt.models.dropout import add_dropped
from nmt.models.embeddings import TokenEmbedding
from nmt.models.initial import output_projection
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

    def step(
        self, x: Tensor, cache: KeyValueCache, key: Tensor, value: Tensor, memory_mask: Tensor
    ) -> Tensor:
        """Decode one position x (N, 1, D) with projected memory (B, H, S, K): (N, 1, D)."""
        query, own_key, own_value = self.attention.project(x)  # each (N, H, 1, K)
        attended = merge_heads(attend(query, *cache.append(own_key, own_value), None))  # (N, 1, D)
        x = self.after_attention(x, linear(attended, self.attention.output))  # (N, 1, D)
        # The W hypotheses of a sentence stand as W queries before its one memory.
        sentences = key.shape[0]
        grouped = x.view(sentences, -1, x.shape[-1])  # (B, W, D)
        attended = self.cross_attention.step(grouped, key, value, memory_mask)  # (B, W, D)
        grouped = self.after_cross_attention(grouped, attended)
        result: Tensor = self.after_feed_forward(grouped, self.feed_forward(grouped))
        return result.view_as(x)  # (N, 1, D)


class TransformerState:
    """Cached keys and values of every decoder layer (see `DecoderState`)."""

    def __init__(self, model: Transformer, memory: Memory) -> None:
        self.model = model
        self.memory_mask = memory.mask[:, None, None]  # (B, 1, 1, S)
        # For each layer keys and values, each (B, H, S, K).
        self.memory = [
            layer.cross_attention.project_memory(memory.states) for layer in model.decoder_layers()
        ]
        self.caches = [KeyValueCache() for _ in self.memory]

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` (N,) to the hypotheses and return the next token's logits (N, V)."""
        position = self.caches[0].length
        positions = torch.full((1,), position, device=tokens.device)
        x = self.model.tgt_embedding(tokens[:, None], positions, position + 1)  # (N, 1, D)
        for layer, cache, (key, value) in zip(
            self.model.decoder_layers(), self.caches, self.memory, strict=True
        ):
            x = layer.step(x, cache, key, value, self.memory_mask)  # (N, 1, D)
        return linear(x[:, 0], self.model.output_projection)  # (N, V)

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        """Keep these hypotheses, in this order."""
        for cache in self.caches:
            cache.select(rows)
        if len(sentences) < len(self.memory_mask):
            self.memory = [
                (key.index_select(0, sentences), value.index_select(0, sentences))
                for key, value in self.memory
            ]
            self.memory_mask = self.memory_mask.index_select(0, sentences)


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
        """Return the state before the first target token of the memory's B sentences."""
        return TransformerState(self, memory)

    def decoder_layers(self) -> Iterator[DecoderLayer]:
        """Iterate over the decoder's layers as what they are."""
        return (cast(DecoderLayer, layer) for layer in self.decoder)

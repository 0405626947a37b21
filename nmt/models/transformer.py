"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017).

By default it is exactly the paper's: post-norm layers, sinusoidal positions, ReLU, attention
projections without bias, embeddings shared three ways. The configuration can change these. Training
runs all positions of packed sentences at once. Search runs one position at a time with cached keys
and values; those of the memory are computed once per sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, islice
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from nmt.config.model_config import AttentionHead, TransformerConfig
from nmt.data.batches import Batch, Packed
from nmt.data.vocabulary import BOS_ID, EOS_ID
from nmt.models.attention import (
    CrossAttention,
    SelfAttention,
    attend_grouped,
    fused_backends,
    padding_bias,
)
from nmt.models.base import AttentionWeights, DecoderState, TranslationModel
from nmt.models.device import joined, to_device
from nmt.models.kernels.linear import linear
from nmt.models.kernels.packed_attention import Recorded, Sentences, takes_packed
from nmt.models.kernels.padded_layout import PaddedLayout
from nmt.models.kv_cache import CacheRows, KeyValueCache, move_, moved
from nmt.models.layers import Residual, bias, feed_forward, final_norm, shared_embeddings
from nmt.models.positions import Positions, added_positions, turning_positions
from nmt.models.ssru import SSRU, CellCache


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.after_attention = Residual(config)
        self.feed_forward = feed_forward(config)
        self.after_feed_forward = Residual(config)

    def forward(self, x: Tensor, sentences: Sentences) -> Tensor:
        """Encode x (n, D)."""
        x = self.after_attention(x, lambda y: self.attention(y, sentences))
        return self.after_feed_forward(x, self.feed_forward)  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Causal self-attention or SSRU, attention to the memory, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        is_recurrent = config.decoder_memory == "ssru"
        self.attention: SelfAttention | SSRU = (
            SSRU(config.d_model) if is_recurrent else SelfAttention(config)
        )
        self.after_attention = Residual(config)
        self.cross_attention = CrossAttention(config)
        self.after_cross_attention = Residual(config)
        self.feed_forward = feed_forward(config)
        self.after_feed_forward = Residual(config)

    def forward(
        self,
        x: Tensor,
        sentences: Sentences,
        memory: Tensor,
        memory_sentences: Sentences,
        head: int | None = None,
    ) -> tuple[Tensor, ...]:
        """Decode x (n, D) with the memory (m, D) of its sentences.

        Returns the output (n, D). If a head of the attention to the memory is given, also its
        queries (n, K) and keys (m, K).
        """
        seen: list[Tensor] = []

        def attend_to_memory(y: Tensor) -> Tensor:
            if head is None:
                attended: Tensor = self.cross_attention(y, sentences, memory, memory_sentences)
                return attended
            projected = self.cross_attention.project(y, memory)
            seen.extend(part[:, 0, head] for part in projected[:2])
            return self.cross_attention.attend(projected, sentences, memory_sentences)

        x = self.after_attention(x, lambda y: self.attention(y, sentences, causal=True))
        x = self.after_cross_attention(x, attend_to_memory)
        return self.after_feed_forward(x, self.feed_forward), *seen

    def step(
        self, x: Tensor, number: int, states: Sequence[TransformerState], rotation: Tensor | None
    ) -> Tensor:
        """Decode one position x (N, D) of the hypotheses of some states: (N, D).

        Matrix products take all rows together. Only attention goes state by state.
        """
        rows = [state.num_rows for state in states]

        def attend_to_itself(y: Tensor) -> Tensor:
            if isinstance(self.attention, SSRU):
                cells = [cast(CellCache, state.cache) for state in states]
                return self.attention.step(y, number, cells, rows)
            projected = self.attention.project(y, rotation)
            by_state = zip(*(torch.split(part, rows) for part in projected), strict=True)
            relative = self.attention.relative_vectors
            parts = [
                cast(KeyValueCache, state.cache).attend(number, of_state, relative)
                for state, of_state in zip(states, by_state, strict=True)
            ]
            return linear(joined(parts), self.attention.output, self.attention.output_bias)

        def attend_to_memory(y: Tensor) -> Tensor:
            queries = torch.split(self.cross_attention.project_query(y), rows)
            parts = [
                attend_grouped(query, *state.memory(number), state.score_bias)
                for state, query in zip(states, queries, strict=True)
            ]
            attention = self.cross_attention
            return linear(joined(parts), attention.output, attention.output_bias)

        x = self.after_attention(x, attend_to_itself)  # (N, D)
        x = self.after_cross_attention(x, attend_to_memory)  # (N, D)
        return self.after_feed_forward(x, self.feed_forward)  # type: ignore[no-any-return]


_GPU_ALIGNMENT = 8
"""Fused attention copies biases of scores whose rows are not a multiple of it, at each call."""

_NO_MOVES = np.zeros((2, 0), np.int64), np.zeros((2, 0), np.int64)


class TransformerState:
    """Cached keys and values, or cells, of every decoder layer (see `DecoderState`)."""

    def __init__(self, layers: Sequence[DecoderLayer], memory: Tensor, mask: Tensor) -> None:
        cache = CellCache if isinstance(layers[0].attention, SSRU) else KeyValueCache
        self.cache = cache(len(layers))
        self.places = CacheRows(len(memory))  # of the hypotheses in the cache
        projected = [layer.cross_attention.project_memory(memory) for layer in layers]
        keys, values = zip(*projected, strict=True)
        # Each (layers, parts, B, H, S, width). Keys and values are together if they are as wide.
        self._memory = (
            [torch.stack([*chain(*projected)]).view(len(layers), 2, *keys[0].shape)]
            if keys[0].shape == values[0].shape
            else [torch.stack(keys)[:, None], torch.stack(values)[:, None]]
        )
        self.score_bias = padding_bias(mask, memory.dtype)  # (B, S)
        self._count = len(memory)  # B, once the moves are done
        self.moves = _NO_MOVES

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.places.rows)

    def memory(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return a layer's keys (B, H, S, K) and values (B, H, S, V) of the sources."""
        key, value = chain.from_iterable(store[layer] for store in self._memory)
        return key, value

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        if self.moves is not _NO_MOVES:
            self.move(*to_device(self.moves, self.score_bias.device))
        by_place = self.places.select(rows.numpy(), len(sentences))
        self.moves = self.cache.select(by_place), moved(sentences.numpy())
        self._count = len(sentences)

    def move(self, in_cache: Tensor, in_memory: Tensor) -> None:
        """Move vectors as `moves` says, given the same on the device."""
        self.cache.move(in_cache)
        self._memory = [move_(store, 2, in_memory, self._count) for store in self._memory]
        self.score_bias = move_(self.score_bias, 0, in_memory, self._count)
        self.moves = _NO_MOVES


class Transformer(TranslationModel):
    def __init__(self, config: TransformerConfig, src_vocab_size: int, tgt_vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.tgt_embedding, self.src_embedding, self.output_projection = shared_embeddings(
            config, src_vocab_size, tgt_vocab_size
        )
        self.output_bias = bias(config.output_bias, tgt_vocab_size)
        self.src_positions, self.tgt_positions = added_positions(config), added_positions(config)
        self.rotations = turning_positions(config)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.encoder_norm = final_norm(config)
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        self.decoder_norm = final_norm(config)

    @property
    def blocks(self) -> Sequence[nn.Module]:
        return [*self.encoder, *self.decoder]

    @property
    def is_padding_free(self) -> bool:
        is_relative, widths = self.config.positions == "relative", self.config.head_widths
        return not is_relative and takes_packed(self.output_projection, *widths)

    def forward(self, batch: Batch, recorded: Recorded | None = None) -> Tensor:
        return self._forward(batch, None, recorded)[0]

    def forward_with_head(self, batch: Batch, head: AttentionHead) -> tuple[Tensor, Tensor, Tensor]:
        """Return the last states (n, D), and the head's queries (n, K) and keys (m, K)."""
        states, queries, keys = self._forward(batch, head)
        return states, queries, keys

    def _forward(
        self, batch: Batch, head: AttentionHead | None, recorded: Recorded | None = None
    ) -> list[Tensor]:
        src = self._read(batch.src)
        sources, targets = (self._sentences(side, recorded) for side in (src, batch.tgt_in))
        memory = self._encode(sources)  # (m, D)
        packed = batch.tgt_in
        x = self._embed_targets(packed.tokens, packed.positions, packed.longest)  # (n, D)
        guided = None if head is None else self._decoder_layer(head.from_top)
        seen: list[Tensor] = []
        for layer in self.decoder:
            of_layer = head.head if head is not None and layer is guided else None
            x, *queries_keys = layer(x, targets, memory, sources, of_layer)  # (n, D)
            seen += queries_keys
        return [self.decoder_norm(x), *seen]

    def attention_weights(self, batch: Batch) -> AttentionWeights:
        is_recurrent = self.config.decoder_memory == "ssru"
        attentions: tuple[list[nn.Module], ...] = (
            [layer.attention for layer in cast(Sequence[EncoderLayer], self.encoder)],
            [] if is_recurrent else [layer.attention for layer in self._decoder_layers()],
            [layer.cross_attention for layer in self._decoder_layers()],
        )
        weights = iter(self._weights(batch, [*chain(*attentions)]))
        encoder, decoder, cross = (list(islice(weights, len(part))) for part in attentions)
        stacked = torch.stack(cross)
        return AttentionWeights(
            encoder=torch.stack(encoder),
            decoder=torch.stack(decoder) if decoder else stacked[:0],
            cross=stacked,
        )

    def cross_attention(self, batch: Batch, from_top: int) -> Tensor:
        return self._weights(batch, [self._decoder_layer(from_top).cross_attention])[0]

    def _read(self, src: Packed) -> Packed:
        """Return the part of the sources that the encoder reads."""
        return src if self.config.source_end else src.without_last()

    def _encode(self, sources: Sentences) -> Tensor:
        """Return the memory (n, D)."""
        packed = sources.packed
        added = _of(self.src_positions, packed.positions, packed.longest)
        x = self.src_embedding(packed.tokens, added)  # (n, D)
        for layer in self.encoder:
            x = layer(x, sources)  # (n, D)
        return self.encoder_norm(x)  # type: ignore[no-any-return]

    def _embed_targets(self, tokens: Tensor, places: Tensor, end: int) -> Tensor:
        blank = None
        match self.config.first_input:
            case "eos":
                tokens = tokens.masked_fill(tokens == BOS_ID, EOS_ID)
            case "zeros":
                blank = tokens == BOS_ID  # (n,)
        added = _of(self.tgt_positions, places, end)
        return self.tgt_embedding(tokens, added, blank)  # type: ignore[no-any-return]  # (n, D)

    def _sentences(self, packed: Packed, recorded: Recorded | None = None) -> Sentences:
        heads = self.config.num_heads
        rotation = _of(self.rotations, packed.positions, packed.longest)
        return Sentences.of(
            packed, heads, as_packed=self.is_padding_free, rotation=rotation, recorded=recorded
        )

    def begin(self, src: Packed) -> TransformerState:
        src = self._read(src)
        layout = PaddedLayout.of(src, _GPU_ALIGNMENT if src.tokens.is_cuda else 1)
        memory = layout.rows(self._encode(self._sentences(src)))  # (B, S, D)
        return TransformerState(self._decoder_layers(), memory, layout.mask)

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        transformer_states = cast(Sequence[TransformerState], states)
        device = self.output_projection.device
        lengths = np.array([state.cache.length for state in transformer_states])  # (states,)
        counts = [state.num_rows for state in transformer_states]
        firsts = zip(transformer_states, accumulate(counts, initial=0), strict=False)
        # (N,) of the hypotheses in the caches, which follow each other
        rows = np.concatenate([state.places.rows + first for state, first in firsts])
        by_row = np.empty_like(rows)
        by_row[rows] = tokens.numpy()
        moves = chain.from_iterable(state.moves for state in transformer_states)
        # All that the device has to know of this step.
        last_tokens, positions, in_order, *on_device = to_device(
            [by_row, lengths.repeat(counts), rows, *moves], device
        )
        for number, state in enumerate(transformer_states):
            state.move(*on_device[2 * number : 2 * number + 2])
        end = int(lengths.max()) + 1
        x = self._embed_targets(last_tokens, positions, end)  # (N, D)
        rotation = _of(self.rotations, positions, end)
        with fused_backends(device):
            for number, layer in enumerate(self._decoder_layers()):
                x = layer.step(x, number, transformer_states, rotation)  # (N, D)
        for state in transformer_states:
            state.cache.advance()
        return self.decoder_norm(x).index_select(0, in_order)  # type: ignore[no-any-return]

    def _decoder_layer(self, from_top: int) -> DecoderLayer:
        layers = self._decoder_layers()
        return layers[max(0, len(layers) - 1 - from_top)]

    def _decoder_layers(self) -> Sequence[DecoderLayer]:
        return cast(Sequence[DecoderLayer], self.decoder)


def _of(positions: Positions | None, places: Tensor, end: int) -> Tensor | None:
    """Return the vectors of some positions, all below `end`, if the model has such positions."""
    return None if positions is None else positions(places, end)

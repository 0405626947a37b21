"""Convolutional sequence to sequence learning (Gehring et al. 2017).

Learnt position embeddings, blocks of a convolution and a gated linear unit, and an attention in
every layer of the decoder. Activations keep their variance by initial weights and by constant
factors (sections 3.4 and 3.5) instead of normalisation layers. Training runs all positions of
packed sentences at once; search runs one position at a time, and each layer of the decoder
remembers its last k - 1 inputs.

What is not the paper's: the projection to logits has no bias, as no model's here; embeddings may be
shared; all layers have one width; and weights are plain. The paper normalises them (Salimans and
Kingma 2016), and trains by steps that go by the size of the gradient, which Adam's do not: by Adam
normalised weights learn as plain ones do (with the settings below, the loss of updates 101 to 125
is 4.62 with them and 4.64 without), and the mean of two checkpoints would not be that of weights.

The decoder's attention reads what the gated linear unit gives, and the residual connection goes
round both, as in the authors' own implementation. Where it reads the sum behind the connection, the
model learns later (5 and 5 layers of 256, Multi30k, Adam, learning rate 0.003: loss of updates 126
to 150, of 1,000 tokens each, is 4.57 nats a token, against 4.40).

Legend: besides the contract's, H hidden width, k width of the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from nmt.data.batches import Batch, Packed
from nmt.model_config import ConvolutionalConfig
from nmt.models.attention import noting_weights
from nmt.models.contract import AttentionWeights, DecoderState, Memory, TranslationModel
from nmt.models.dropout import dropout
from nmt.models.gated_convolution import GatedConvolution, Neighbours
from nmt.models.initial import variance_preserving
from nmt.models.key_value_cache import first_of, reorder_
from nmt.models.linear import linear
from nmt.models.multi_step_attention import MultiStepAttention, Source
from nmt.models.table import Table

_EMBEDDING_STD = 0.1
_HALF = 0.5**0.5
"""Halves the variance of a sum of two terms of one variance."""


class PositionedEmbedding(nn.Module):
    """Embeddings of tokens plus those of their positions, with dropout on the sum (section 3.1).

    Positions from the last one of the table on, however far, share its vector.
    """

    def __init__(self, vocab_size: int, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.tokens = _embedding(vocab_size, config.d_model)
        self.positions = _embedding(config.max_positions, config.d_model)
        self.dropout = config.dropout

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Embed tokens (n,) that stand at some positions (n,): (n, D)."""
        positions = positions.clamp(max=self.positions.num_embeddings - 1)
        summed = self.tokens(tokens) + self.positions(positions)  # (n, D)
        return dropout(summed, self.dropout, self.training)


def _embedding(count: int, width: int) -> nn.Embedding:
    embedding = nn.Embedding(count, width)
    nn.init.normal_(embedding.weight, std=_EMBEDDING_STD)
    return embedding


class EncoderLayer(nn.Module):
    """A gated convolution and its residual connection."""

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.convolution = GatedConvolution(config.d_hidden, config.kernel_width, config.dropout)

    def forward(self, x: Tensor, neighbours: Neighbours) -> Tensor:
        """Encode x (n, H)."""
        dropped = dropout(x, self.dropout, self.training)
        return (self.convolution(neighbours.of_each(dropped)) + x) * _HALF  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """A gated convolution of what stands before, attention, and a residual connection."""

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.convolution = GatedConvolution(config.d_hidden, config.kernel_width, config.dropout)
        self.attention = MultiStepAttention(config.d_model, config.d_hidden)

    def forward(
        self, x: Tensor, g: Tensor, neighbours: Neighbours, own: Table, source: Source
    ) -> Tensor:
        """Decode x (n, H), with the embeddings g (n, D) of its tokens."""
        dropped = dropout(x, self.dropout, self.training)
        h = self.convolution(neighbours.of_each(dropped))  # (n, H)
        h = (h + self.attention(h, g, own, source)) * _HALF
        return (h + x) * _HALF  # type: ignore[no-any-return]

    def step(
        self, x: Tensor, g: Tensor, number: int, states: Sequence[ConvolutionalState]
    ) -> Tensor:
        """Decode one position x (N, H) of the hypotheses of some states: (N, H).

        Products are of all rows together, and only attention is of each state alone.
        """
        rows = [state.num_rows for state in states]
        neighbours = [
            state.neighbours(number, part)
            for state, part in zip(states, torch.split(x, rows), strict=True)
        ]
        h: Tensor = self.convolution(torch.cat(neighbours))  # (N, H)
        queries = torch.split(self.attention.queries(h, g), rows)  # each (N, D)
        attended = [
            state.source.attend(query.view(state.num_sentences, -1, query.shape[1])).flatten(0, 1)
            for state, query in zip(states, queries, strict=True)
        ]
        h = (h + self.attention.project(torch.cat(attended))) * _HALF
        return (h + x) * _HALF


class ConvolutionalState:
    """The last k - 1 inputs of every decoder layer (see `DecoderState`)."""

    def __init__(self, config: ConvolutionalConfig, memory: Memory) -> None:
        self.length = 0
        self.source = Source(memory)
        # (layers, N, k - 1, H), oldest first; before the first position there is nothing.
        self._inputs = memory.states.new_zeros(
            config.num_decoder_layers, len(memory.states), config.kernel_width - 1, config.d_hidden
        )

    @property
    def num_rows(self) -> int:
        """N."""
        return self._inputs.shape[1]

    @property
    def num_sentences(self) -> int:
        """B."""
        return len(self.source.mask)

    def neighbours(self, layer: int, x: Tensor) -> Tensor:
        """Add a layer's inputs x (N, H) of one position; return them behind those before.

        Returns:
            (N, k * H), from first to last.
        """
        own = self._inputs[layer]  # (N, k - 1, H)
        joined = torch.cat((own, x[:, None]), dim=1)  # (N, k, H)
        own.copy_(joined[:, 1:])
        return joined.flatten(1)

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        """Keep these hypotheses, in this order."""
        if len(rows) > self.num_rows:
            self._inputs = self._inputs.index_select(1, rows.to(self._inputs.device))
        else:
            reorder_(self._inputs, 1, rows)
            self._inputs = first_of(self._inputs, 1, len(rows))
        self.source.select(sentences)


class ConvolutionalModel(TranslationModel):
    """Encoder and decoder of the paper; fulfils `TranslationModel`."""

    def __init__(
        self, config: ConvolutionalConfig, src_vocab_size: int, tgt_vocab_size: int
    ) -> None:
        super().__init__()
        self.config = config
        embedded, hidden = config.d_model, config.d_hidden
        self.tgt_embedding = PositionedEmbedding(tgt_vocab_size, config)
        self.src_embedding = PositionedEmbedding(src_vocab_size, config)
        if config.tie_embeddings == "all":
            self.src_embedding.tokens = self.tgt_embedding.tokens
        projection = (
            variance_preserving(embedded, tgt_vocab_size, config.dropout)
            if config.tie_embeddings == "none"
            else self.tgt_embedding.tokens
        )
        self.output_projection = cast(nn.Parameter, projection.weight)
        self.encoder_input = variance_preserving(embedded, hidden, config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.encoder_output = variance_preserving(hidden, embedded)
        self.decoder_input = variance_preserving(embedded, hidden, config.dropout)
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        self.decoder_output = variance_preserving(hidden, embedded)

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """The layers."""
        return [*self.encoder, *self.decoder]

    def forward(self, batch: Batch) -> Tensor:
        """Return the last states (n, D) of the batch's target tokens."""
        source = Source(self.encode(batch.src))
        own = Table.of(batch.tgt_in)
        g = self.tgt_embedding(batch.tgt_in.tokens, batch.tgt_in.positions)  # (n, D)
        neighbours = self._neighbours(batch.tgt_in, causal=True)
        x = _mapped(g, self.decoder_input)  # (n, H)
        for layer in self._decoder_layers():
            x = layer(x, g, neighbours, own, source)  # (n, H)
        return self._last_states(x)

    @torch.no_grad()
    def attention_weights(self, batch: Batch) -> AttentionWeights:
        """Return what the pass that `forward` makes over a batch attends to."""
        attentions = [layer.attention for layer in self._decoder_layers()]
        with noting_weights(attentions) as noted:
            self(batch)
        cross = torch.stack([noted[attention] for attention in attentions])
        _, sentences, heads, tgt_length, src_length = cross.shape
        return AttentionWeights(
            encoder=cross.new_zeros(0, sentences, heads, src_length, src_length),
            decoder=cross.new_zeros(0, sentences, heads, tgt_length, tgt_length),
            cross=cross,
        )

    @torch.no_grad()
    def cross_attention(self, batch: Batch, from_top: int) -> Tensor:
        """Return, of one layer, what the decoder looks at in the source: (B, 1, T, S)."""
        layers = self._decoder_layers()
        attention = layers[max(0, len(layers) - 1 - from_top)].attention
        with noting_weights([attention]) as noted:
            self(batch)
        return noted[attention]

    def encode(self, src: Packed) -> Memory:
        """Encode B sources, each closed by eos; states (B, S, 2D) are z beside z + e."""
        table = Table.of(src)
        e = self.src_embedding(src.tokens, src.positions)  # (n, D)
        neighbours = self._neighbours(src, causal=False)
        x = _mapped(e, self.encoder_input)  # (n, H)
        for layer in self.encoder:
            x = layer(x, neighbours)  # (n, H)
        z = _mapped(x, self.encoder_output)  # (n, D)
        # All attentions send a gradient, more than the encoder bears: it gets their mean, and
        # embeddings, here, the sum (section 3.4).
        z = z.detach().lerp(z, 1 / self.config.num_decoder_layers)
        return Memory(table.rows(torch.cat((z, z + e), dim=1)), table.mask)

    def start(self, memory: Memory) -> ConvolutionalState:
        """Return the state before the first target token: a hypothesis for each sentence, B."""
        return ConvolutionalState(self.config, memory)

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        """Extend the hypotheses of some states by `tokens` (N,); return last states (N, D)."""
        own = cast(Sequence[ConvolutionalState], states)
        device = self.output_projection.device
        positions = torch.cat([torch.full((state.num_rows,), state.length) for state in own])
        g = self.tgt_embedding(tokens.to(device), positions.to(device))  # (N, D)
        x = _mapped(g, self.decoder_input)  # (N, H)
        for number, layer in enumerate(self._decoder_layers()):
            x = layer.step(x, g, number, own)  # (N, H)
        for state in own:
            state.length += 1
        return self._last_states(x)

    def _last_states(self, x: Tensor) -> Tensor:
        """Return last states (n, D) for what the decoder's last layer gives (n, H)."""
        return dropout(_mapped(x, self.decoder_output), self.config.dropout, self.training)

    def _neighbours(self, packed: Packed, *, causal: bool) -> Neighbours:
        return Neighbours.of(
            packed, self.config.kernel_width, self.output_projection, causal=causal
        )

    def _decoder_layers(self) -> Sequence[DecoderLayer]:
        return cast(Sequence[DecoderLayer], self.decoder)  # which they are


def _mapped(x: Tensor, layer: nn.Linear) -> Tensor:
    return linear(x, layer.weight, layer.bias)

"""The convolutional model (Gehring et al. 2017).

Learned position embeddings, layers of a convolution and a gated linear unit, and attention in every
decoder layer. Initial weights and constant factors keep the variance of activations (sections 3.4
and 3.5) instead of normalisation layers. In search, each decoder layer keeps its last k - 1 inputs.

Unlike in the paper, the projection to logits has no bias, embeddings may be shared, all layers have
one width, and weights are not normalised, which would prevent averaging checkpoints. As in the
authors' code, attention reads the gated output, and the residual connection spans both. A
convolution is one product of each token's k neighbours side by side, which a CPU does faster.

Legend: as in `models.base`, and H hidden width, k kernel width, m source tokens, n target tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config.model_config import ConvolutionalConfig
from nmt.data.batches import Batch, Packed
from nmt.models.attention import padding_bias
from nmt.models.base import AttentionWeights, DecoderState, TranslationModel
from nmt.models.device import joined, to_device
from nmt.models.kernels.linear import batched_type, linear
from nmt.models.kernels.packed_attention import Recorded, Sentences, attend_packed, takes_packed
from nmt.models.kernels.padded_layout import PaddedLayout
from nmt.models.kv_cache import KeptRows, move_
from nmt.models.layers import dropout, variance_preserving


@dataclass(frozen=True)
class Neighbours:
    """The neighbours that a convolution sees from each token; made once per forward pass."""

    before: int  # how many of the k neighbours, the token included, come before it
    in_sentence: Tensor
    """(k, n, 1) of the states' type: 1 if the neighbour is in the same sentence, else 0."""

    @classmethod
    def of(cls, packed: Packed, k: int, like: Tensor, *, causal: bool) -> Neighbours:
        """Find the neighbours: the same number on either side, or only those before.

        packed: the sentences; k: neighbours of each token, an odd number unless causal; like: a
        tensor of the states' type; causal: whether a token sees only itself and those before it.
        """
        before = k - 1 if causal else k // 2
        around = F.pad(packed.sentences, (before, k - 1 - before), value=-1)  # (n + k - 1,)
        in_sentence = around.unfold(0, len(packed.sentences), 1) == packed.sentences  # (k, n)
        return cls(before, in_sentence[..., None].to(like.dtype))

    def of_each(self, x: Tensor) -> Tensor:
        """Lay out the neighbours of each token of x (n, H), 0 beyond its sentence: (n, k * H)."""
        k, count, _ = self.in_sentence.shape
        around = F.pad(x, (0, 0, self.before, k - 1 - self.before))  # (n + k - 1, H)
        # Each is a view shifted by one token, which the mask cuts at the ends of sentences.
        shifted = [around[j : j + count] * self.in_sentence[j] for j in range(k)]  # each (n, H)
        return torch.cat(shifted, dim=1)


class GatedConvolution(nn.Module):
    """v(W X + b), where v([A B]) = A * sigmoid(B) is the gated linear unit (Dauphin et al. 2016).

    The weight starts at a size that gives the output the variance of the input before its dropout
    (section 3.5).
    """

    def __init__(self, d_hidden: int, kernel_width: int, dropout: float) -> None:
        super().__init__()
        inputs = kernel_width * d_hidden
        weight = torch.empty(2 * d_hidden, inputs)
        std = (4 * (1 - dropout) / inputs) ** 0.5
        self.weight = nn.Parameter(nn.init.normal_(weight, std=std))  # (2H, k * H)
        self.bias = nn.Parameter(torch.zeros(2 * d_hidden))

    def forward(self, neighbours: Tensor) -> Tensor:
        """Return (n, H) for the neighbours (n, k * H) of n tokens, from first to last."""
        return F.glu(linear(neighbours, self.weight, self.bias))


class ConvolutionalMemory:
    """The keys and values of B sources for search, where they are padded."""

    def __init__(self, keys_values: Tensor, mask: Tensor) -> None:
        self.keys_values = keys_values  # (2, B, S, D)
        self.score_bias = padding_bias(mask, keys_values.dtype)  # (B, S)

    def move(self, moves: Tensor, count: int) -> None:
        """Keep so many sentences, after moves (2, moves); see `move_`."""
        self.keys_values = move_(self.keys_values, 1, moves, count)
        self.score_bias = move_(self.score_bias, 0, moves, count)

    def attend(self, queries: Tensor) -> Tensor:
        """Return the weighted sums (B, W, D) of values for queries (B, W, D)."""
        keys, values = self.keys_values.to(batched_type(queries))
        scores = torch.bmm(queries.to(keys.dtype), keys.transpose(1, 2))  # (B, W, S)
        weights = scores.add_(self.score_bias[:, None]).softmax(dim=-1)
        return torch.bmm(weights, values).to(queries.dtype)


class MultiStepAttention(nn.Module):
    """A decoder layer's attention (section 3.3), from states h and token embeddings g.

    In training the keys and values of all sources are one tensor (m, 2, 1, D), with one head.
    """

    def __init__(self, d_model: int, d_hidden: int) -> None:
        super().__init__()
        self.query = variance_preserving(d_hidden, d_model)
        self.output = variance_preserving(d_model, d_hidden)

    def queries(self, h: Tensor, g: Tensor) -> Tensor:
        """Return d = W h + b + g (n, D) for h (n, H) and g (n, D)."""
        return linear(h, self.query.weight, self.query.bias) + g

    def project(self, attended: Tensor) -> Tensor:
        """Map the weighted sums (n, D) to what is added to the states (n, H)."""
        return linear(attended, self.output.weight, self.output.bias)

    def forward(
        self, h: Tensor, g: Tensor, sentences: Sentences, keys_values: Tensor, sources: Sentences
    ) -> Tensor:
        """Attend from h (n, H) and g (n, D) of some sentences to their sources: (n, H)."""
        queries = self.queries(h, g) * g.shape[1] ** 0.5  # the paper does not divide the scores
        projected = queries[:, None, None], keys_values
        sentences.record(self, projected, sources)
        attended = attend_packed(projected, sentences, sources)  # (n, 1, D)
        return self.project(attended[:, 0])


_EMBEDDING_STD = 0.1
_HALF = 0.5**0.5  # scales the sum of two tensors of equal variance back to that variance


class PositionedEmbedding(nn.Module):
    """Embeddings of tokens plus those of their positions, with dropout on the sum (section 3.1).

    Later positions share the last vector.
    """

    def __init__(self, vocab_size: int, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.tokens = _embedding(vocab_size, config.d_model)
        self.positions = _embedding(config.max_positions, config.d_model)
        self.dropout = config.dropout

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Embed tokens (n,) at positions (n,): (n, D)."""
        positions = positions.clamp(max=self.positions.num_embeddings - 1)
        summed = self.tokens(tokens) + self.positions(positions)  # (n, D)
        return dropout(summed, self.dropout, self.training)


def _embedding(count: int, width: int) -> nn.Embedding:
    embedding = nn.Embedding(count, width)
    nn.init.normal_(embedding.weight, std=_EMBEDDING_STD)
    return embedding


class ConvolutionalEncoderLayer(nn.Module):
    """A gated convolution and its residual connection."""

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.convolution = GatedConvolution(config.d_hidden, config.kernel_width, config.dropout)

    def forward(self, x: Tensor, neighbours: Neighbours) -> Tensor:
        """Encode x (n, H)."""
        dropped = dropout(x, self.dropout, self.training)
        return (self.convolution(neighbours.of_each(dropped)) + x) * _HALF  # type: ignore[no-any-return]


class ConvolutionalDecoderLayer(nn.Module):
    """A causal gated convolution, attention, and a residual connection."""

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.convolution = GatedConvolution(config.d_hidden, config.kernel_width, config.dropout)
        self.attention = MultiStepAttention(config.d_model, config.d_hidden)

    def forward(
        self,
        x: Tensor,
        g: Tensor,
        neighbours: Neighbours,
        sentences: Sentences,
        keys_values: Tensor,
        sources: Sentences,
    ) -> Tensor:
        """Decode x (n, H), with the embeddings g (n, D) of its tokens."""
        dropped = dropout(x, self.dropout, self.training)
        h = self.convolution(neighbours.of_each(dropped))  # (n, H)
        h = (h + self.attention(h, g, sentences, keys_values, sources)) * _HALF
        return (h + x) * _HALF  # type: ignore[no-any-return]

    def step(
        self, x: Tensor, g: Tensor, number: int, states: Sequence[ConvolutionalState]
    ) -> Tensor:
        """Decode one position x (N, H) of the hypotheses of some states: (N, H).

        Matrix products take all rows together. Only attention goes state by state.
        """
        rows = [state.active.num_rows for state in states]
        parts = zip(states, torch.split(x, rows), strict=True)
        neighbours = [state.neighbours(number, part) for state, part in parts]
        h: Tensor = self.convolution(joined(neighbours))  # (N, H)
        queries = torch.split(self.attention.queries(h, g), rows)  # each (N, D)
        attended = []
        for state, query in zip(states, queries, strict=True):
            by_sentence = query.view(state.active.num_sentences, -1, query.shape[1])  # (B, W, D)
            attended.append(state.source.attend(by_sentence).flatten(0, 1))
        h = h + self.attention.project(joined(attended))
        return torch.add(x, h, alpha=_HALF).mul_(_HALF)


class ConvolutionalState:
    """The last k - 1 inputs of every decoder layer (see `DecoderState`)."""

    def __init__(self, config: ConvolutionalConfig, source: ConvolutionalMemory) -> None:
        self.length = 0
        self.source = source
        count = source.keys_values.shape[1]  # B
        self.active = KeptRows(count)
        # (layers, N, k - 1, H), oldest first, zero before the first position
        self._inputs = source.keys_values.new_zeros(
            config.num_decoder_layers, count, config.kernel_width - 1, config.d_hidden
        )

    def neighbours(self, layer: int, x: Tensor) -> Tensor:
        """Keep a layer's inputs x (N, H); return them after those before: (N, k * H)."""
        before = self._inputs[layer]  # (N, k - 1, H)
        both = torch.cat((before, x[:, None]), dim=1)  # (N, k, H)
        before.copy_(both[:, 1:])  # the oldest is seen for the last time
        return both.flatten(1)

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        self.active.select(rows, sentences)

    def move(self, of_rows: Tensor, of_sentences: Tensor) -> None:
        self._inputs = move_(self._inputs, 1, of_rows, self.active.num_rows)
        self.source.move(of_sentences, self.active.num_sentences)
        self.active.are_moved()


class ConvolutionalModel(TranslationModel):
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
        projection: nn.Module = self.tgt_embedding.tokens
        if config.tie_embeddings == "none":
            projection = variance_preserving(embedded, tgt_vocab_size, config.dropout)
        self.output_projection = cast(nn.Parameter, projection.weight)
        self.encoder_input = variance_preserving(embedded, hidden, config.dropout)
        self.encoder = nn.ModuleList(
            ConvolutionalEncoderLayer(config) for _ in range(config.num_encoder_layers)
        )
        self.encoder_output = variance_preserving(hidden, embedded)
        self.decoder_input = variance_preserving(embedded, hidden, config.dropout)
        self.decoder = nn.ModuleList(
            ConvolutionalDecoderLayer(config) for _ in range(config.num_decoder_layers)
        )
        self.decoder_output = variance_preserving(hidden, embedded)

    @property
    def is_padding_free(self) -> bool:
        width = self.config.d_model
        return takes_packed(self.output_projection, width, width)

    @property
    def blocks(self) -> Sequence[nn.Module]:
        return [*self.encoder, *self.decoder]

    def forward(self, batch: Batch, recorded: Recorded | None = None) -> Tensor:
        sources, targets = self._sentences(batch.src), self._sentences(batch.tgt_in, recorded)
        keys_values = self._encode(batch.src)  # (m, 2, 1, D)
        g = self.tgt_embedding(batch.tgt_in.tokens, batch.tgt_in.positions)  # (n, D)
        neighbours = self._neighbours(batch.tgt_in, causal=True)
        x = _mapped(g, self.decoder_input)  # (n, H)
        for layer in self._decoder_layers():
            x = layer(x, g, neighbours, targets, keys_values, sources)  # (n, H)
        return self._last_states(x)

    def attention_weights(self, batch: Batch) -> AttentionWeights:
        attentions = [layer.attention for layer in self._decoder_layers()]
        cross = torch.stack(self._weights(batch, attentions))
        return AttentionWeights(encoder=cross[:0], decoder=cross[:0], cross=cross)

    def cross_attention(self, batch: Batch, from_top: int) -> Tensor:
        layers = self._decoder_layers()
        attention = layers[max(0, len(layers) - 1 - from_top)].attention
        return self._weights(batch, [attention])[0]

    def _encode(self, src: Packed) -> Tensor:
        """Return the keys z and values (z + e) * sqrt(S) of all layers' attention: (m, 2, 1, D).

        z is the encoder's output and e the source's embeddings. A mean of S values has less
        variance than one value. The factor S * sqrt(1 / S) restores it for equal weights (section
        3.4).
        """
        e = self.src_embedding(src.tokens, src.positions)  # (m, D)
        neighbours = self._neighbours(src, causal=False)
        x = _mapped(e, self.encoder_input)  # (m, H)
        for layer in self.encoder:
            x = layer(x, neighbours)  # (m, H)
        z = _mapped(x, self.encoder_output)  # (m, D)
        # Each decoder layer sends a gradient. The encoder gets their mean, which keeps training
        # stable (section 3.4); the embeddings get the sum.
        z = z.detach().lerp(z, 1 / self.config.num_decoder_layers)
        scales = src.starts.diff().double().sqrt().to(z.dtype)  # (B,)
        values = (z + e) * scales[src.sentences, None]
        return torch.stack((z, values), dim=1)[:, :, None]

    def _sentences(self, packed: Packed, recorded: Recorded | None = None) -> Sentences:
        return Sentences.of(packed, 1, as_packed=self.is_padding_free, recorded=recorded)

    def begin(self, src: Packed) -> ConvolutionalState:
        layout = PaddedLayout.of(src)
        keys_values = self._encode(src)[:, :, 0].unbind(1)  # each (m, D)
        laid_out = torch.stack([layout.rows(x) for x in keys_values])  # (2, B, S, D)
        return ConvolutionalState(self.config, ConvolutionalMemory(laid_out, layout.mask))

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        convolutional_states = cast(Sequence[ConvolutionalState], states)
        device = self.output_projection.device
        lengths = np.array([state.length for state in convolutional_states])  # (states,)
        counts = [state.active.num_rows for state in convolutional_states]
        moves = chain.from_iterable(state.active.moves() for state in convolutional_states)
        # All that the device has to know of this step.
        last_tokens, positions, *on_device = to_device(
            [tokens.numpy(), lengths.repeat(counts), *moves], device
        )
        for number, state in enumerate(convolutional_states):
            state.move(*on_device[2 * number : 2 * number + 2])
        g = self.tgt_embedding(last_tokens, positions)  # (N, D)
        x = _mapped(g, self.decoder_input)  # (N, H)
        for number, layer in enumerate(self._decoder_layers()):
            x = layer.step(x, g, number, convolutional_states)  # (N, H)
        for state in convolutional_states:
            state.length += 1
        return self._last_states(x)

    def _last_states(self, x: Tensor) -> Tensor:
        """Map the last layer's output (n, H) to last states (n, D)."""
        return dropout(_mapped(x, self.decoder_output), self.config.dropout, self.training)

    def _neighbours(self, packed: Packed, *, causal: bool) -> Neighbours:
        return Neighbours.of(
            packed, self.config.kernel_width, self.output_projection, causal=causal
        )

    def _decoder_layers(self) -> Sequence[ConvolutionalDecoderLayer]:
        return cast(Sequence[ConvolutionalDecoderLayer], self.decoder)


def _mapped(x: Tensor, layer: nn.Linear) -> Tensor:
    return linear(x, layer.weight, layer.bias)

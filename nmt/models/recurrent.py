"""Encoder and decoder of LSTMs with additive attention (Bahdanau, Cho and Bengio 2015).

What differs from the paper is what later work settled on: LSTMs instead of gated units, layers of
them with residual connections from the second on (Wu et al. 2016, section 3.1), and input feeding
(Luong et al. 2015, section 3.3): the state that has just read a token attends, what it has seen
and itself make the attentional state (equation 5), which gives the logits and is fed
to the next step. The decoder begins with zeros. Dropout is on what goes up, from embeddings to
logits, never on what goes on to the next step (Zaremba et al. 2014).

Sentences are laid out in tables, time first: T (S) positions of B sentences.

Additive attention (Bahdanau, Cho and Bengio 2015, section 3.1 and appendix A.1.2).

LSTM decoder with attention and input feeding (Luong et al. 2015, section 3.3).

Legend: N hypotheses, T positions, D the width of embeddings and attentional states, H that of
layers, A that of the attention's hidden layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.data.batches import Batch, Packed
from nmt.model_config import RecurrentConfig
from nmt.models.base import AttentionWeights, DecoderState, Memory, TranslationModel
from nmt.models.kernels.dropout import add_dropped, dropout
from nmt.models.kernels.linear import linear
from nmt.models.kernels.padded_layout import Table
from nmt.models.kv_cache import first_of, reorder_
from nmt.models.layers import shared_embeddings
from nmt.models.lstm import BidirectionalLSTM, LSTMCell, StepProduct, reversal


@dataclass
class Keys:
    """What hypotheses of B sentences attend to, computed once a sentence."""

    keys: Tensor  # (B, S, A)
    values: Tensor  # (B, S, H)
    mask: Tensor  # (B, S) bool, True = a real token

    def select(self, sentences: Tensor) -> None:
        """Keep these sentences (B',) int64 on the CPU, in this order; changed in place."""
        for name, x in vars(self).items():
            reorder_(x, 0, sentences)
            setattr(self, name, first_of(x, 0, len(sentences)))


class AdditiveAttention(nn.Module):
    """Weights softmax(v^T tanh(W query + U value)), and the sum of values by them.

    Legend: A the width of the hidden layer that compares, H that of queries and values.
    """

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.query = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inner, width)))  # (A, H) W
        self.key = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inner, width)))  # (A, H) U
        self.score = nn.Parameter(nn.init.normal_(torch.empty(inner), std=inner**-0.5))  # (A,) v

    def keys(self, values: Tensor, mask: Tensor) -> Keys:
        """Prepare values (B, S, H), of which those under the mask (B, S) can be attended to."""
        return Keys(linear(values, self.key), values, mask)

    def forward(self, queries: Tensor, memory: Keys) -> tuple[Tensor, Tensor]:
        """Attend from the N = B * W hypotheses of B sentences to their sentence.

        Args:
            queries: (N, A), already multiplied by W.
            memory: made by `keys`.

        Returns:
            Sums of values (N, H), and the weights (N, S), which are fp32 at least.
        """
        sentences, _, inner = memory.keys.shape
        compared = queries.view(sentences, -1, 1, inner) + memory.keys[:, None]  # (B, W, S, A)
        scores = F.linear(compared.tanh(), self.score[None])[..., 0]  # (B, W, S)
        wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
        weights = wide.masked_fill(~memory.mask[:, None], -torch.inf).softmax(dim=-1)
        summed = torch.bmm(weights.to(memory.values.dtype), memory.values)  # (B, W, H)
        return summed.flatten(0, 1), weights.flatten(0, 1)


Passed = tuple[Tensor, ...]
"""What a step passes to the next, of N hypotheses: the attentional state (N, D), then of each layer
its output (N, H) and what its cells hold (N, H)."""

Attend = Callable[[Tensor], Tensor]
"""From queries (N, A) to what they find in the memory (N, H)."""


class InputFeedingDecoder(nn.Module):
    """Layers of LSTMs, the attention of the last, and the attentional state."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        embedded, hidden = config.d_model, config.d_hidden
        self.config = config
        # The first layer reads the last token's embedding, too, which training knows beforehand.
        bound = hidden**-0.5
        self.embedded = nn.Parameter(
            nn.init.uniform_(torch.empty(4 * hidden, embedded), -bound, bound)
        )  # (4H, D)
        widths = [embedded] + [hidden] * (config.num_decoder_layers - 1)
        self.cells = nn.ModuleList(LSTMCell(width, hidden) for width in widths)
        self.attention = AdditiveAttention(hidden, embedded)
        self.attentional = nn.Parameter(
            nn.init.xavier_uniform_(torch.empty(embedded, 2 * hidden))
        )  # (D, 2H)

    def beginning(self, count: int) -> Passed:
        """Return what is passed to the first step of so many hypotheses: zeros."""
        widths = [self.config.d_model] + [self.config.d_hidden] * (2 * len(self.cells))
        return tuple(self.embedded.new_zeros(count, width) for width in widths)

    def forward(self, embedded: Tensor, passed: Passed, attend: Attend) -> tuple[Tensor, Passed]:
        """Go through T positions of N hypotheses.

        Args:
            embedded: (T, N, D), the tokens that are read.
            passed: to the first of these steps.
            attend: to the hypotheses' memories.

        Returns:
            The attentional states (T, N, D), and what is passed on.
        """
        steps = embedded.shape[:2]
        cells = cast(Sequence[LSTMCell], self.cells)
        first, *others = cells
        known = [linear(embedded, self.embedded, first.bias)]  # (T, N, 4H)
        known += [cell.bias.expand(*steps, -1) for cell in others]
        gates = [StepProduct(cell.weight, part) for cell, part in zip(cells, known, strict=True)]
        nothing = embedded.new_zeros(())
        query, attentional = (
            StepProduct(weight, nothing.expand(*steps, len(weight)))
            for weight in (self.attention.query, self.attentional)
        )
        fed, *layers = passed
        hidden, memories = layers[::2], layers[1::2]
        states = []
        for _ in range(len(embedded)):
            x = fed
            for number, cell in enumerate(cells):
                read = torch.cat((x, hidden[number]), dim=1)  # (N, D + H or 2H)
                hidden[number], memories[number] = cell(gates[number](read), memories[number])
                x = self._up(x, hidden[number], is_first=number == 0)  # (N, H)
            found = attend(query(x))  # (N, H)
            fed = attentional(torch.cat((found, x), dim=1)).tanh()  # (N, D)
            states.append(fed)
        return torch.stack(states), (fed, *chain(*zip(hidden, memories, strict=True)))

    def _up(self, x: Tensor, output: Tensor, *, is_first: bool) -> Tensor:
        """Return what a layer that read x passes to the layer above."""
        if is_first:
            return dropout(output, self.config.dropout, self.training)
        return add_dropped(x, output, self.config.dropout, self.training)


def joined(parts: Sequence[Passed]) -> Passed:
    """Return the rows of all parts, those of one behind those of the other."""
    return parts[0] if len(parts) == 1 else tuple(map(torch.cat, zip(*parts, strict=True)))


def split(passed: Passed, rows: Sequence[int]) -> list[Passed]:
    """Undo `joined`, of parts with so many rows."""
    return list(zip(*(torch.split(x, list(rows)) for x in passed), strict=True))


class RecurrentState:
    """What N hypotheses of B sentences have come to (see `DecoderState`)."""

    def __init__(self, passed: Passed, keys: Keys) -> None:
        self.passed = passed
        self.keys = keys

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        """Keep these hypotheses, in this order."""
        if not torch.equal(rows, torch.arange(self.num_rows)):
            chosen = rows.to(self.keys.mask.device)
            self.passed = tuple(x.index_select(0, chosen) for x in self.passed)
        self.keys.select(sentences)

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.passed[0])


class RecurrentModel(TranslationModel):
    """Encoder and decoder; fulfils `TranslationModel`."""

    def __init__(self, config: RecurrentConfig, src_vocab_size: int, tgt_vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.tgt_embedding, self.src_embedding, self.output_projection = shared_embeddings(
            config, src_vocab_size, tgt_vocab_size
        )
        widths = [config.d_model] + [config.d_hidden] * (config.num_encoder_layers - 1)
        self.encoder = nn.ModuleList(BidirectionalLSTM(one, config.d_hidden) for one in widths)
        self.decoder = InputFeedingDecoder(config)

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """What a step of the decoder does between its products."""
        return [*self.decoder.cells, self.decoder.attention]

    def forward(self, batch: Batch) -> Tensor:
        """Return the last states (n, D) of the batch's target tokens."""
        return self._decode(batch, [])

    @torch.no_grad()
    def attention_weights(self, batch: Batch) -> AttentionWeights:
        """Return what the pass that `forward` makes over a batch attends to."""
        noted: list[Tensor] = []
        self._decode(batch, noted)
        cross = torch.stack(noted, dim=1)  # (B, T, S)
        cross.masked_fill_(~Table.of(batch.tgt_in).mask[:, :, None], 0.0)
        sentences, tgt, src = cross.shape
        return AttentionWeights(
            cross.new_zeros(0, sentences, 1, src, src),
            cross.new_zeros(0, sentences, 1, tgt, tgt),
            cross[None, :, None],
        )

    def cross_attention(self, batch: Batch, from_top: int) -> Tensor:
        """Return what the decoder looks at in the source: (B, 1, T, S)."""
        del from_top  # there is one attention
        return self.attention_weights(batch).cross[0]

    def _decode(self, batch: Batch, noted: list[Tensor]) -> Tensor:
        """Do what `forward` does, and note the attention's weights (B, S) of each step."""
        keys = self._keys(self.encode(batch.src))
        table = Table.of(batch.tgt_in)
        embedded = self.tgt_embedding(batch.tgt_in.tokens[table.tokens.t()])  # (T, B, D)

        def attend(queries: Tensor) -> Tensor:
            found, weights = self.decoder.attention(queries, keys)
            noted.append(weights)
            return found  # type: ignore[no-any-return]

        count = len(table.tokens)
        states, _ = self.decoder(embedded, self.decoder.beginning(count), attend)  # (T, B, D)
        places = table.positions * count + table.sentences  # (n,)
        packed = states.flatten(0, 1).index_select(0, places)  # (n, D)
        return dropout(packed, self.config.dropout, self.training)

    def encode(self, src: Packed) -> Memory:
        """Encode B sources, each closed by eos."""
        table = Table.of(src)
        x = self.src_embedding(src.tokens[table.tokens.t()])  # (S, B, D)
        order = reversal(table)
        first, *others = self.encoder
        p, training = self.config.dropout, self.training
        x = dropout(first(x, order), p, training)  # (S, B, H)
        for layer in others:
            x = add_dropped(x, layer(x, order), p, training)
        return Memory(x.transpose(0, 1).contiguous(), table.mask)

    def _keys(self, memory: Memory) -> Keys:
        return self.decoder.attention.keys(memory.states, memory.mask)

    def start(self, memory: Memory) -> RecurrentState:
        """Return the state before the first target token: a hypothesis for each sentence, B."""
        own = Memory(memory.states.clone(), memory.mask.clone())  # the memory stays as it is
        return RecurrentState(self.decoder.beginning(len(memory.states)), self._keys(own))

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        """Extend the hypotheses of some states by `tokens` (N,); return last states (N, D)."""
        own = cast(Sequence[RecurrentState], states)
        rows = [state.num_rows for state in own]

        def attend(queries: Tensor) -> Tensor:
            parts = [
                self.decoder.attention(part, state.keys)[0]
                for part, state in zip(torch.split(queries, rows), own, strict=True)
            ]
            return torch.cat(parts)

        embedded = self.tgt_embedding(tokens.to(self.output_projection.device)[None])  # (1, N, D)
        found, passed = self.decoder(embedded, joined([state.passed for state in own]), attend)
        for state, part in zip(own, split(passed, rows), strict=True):
            state.passed = part
        return found[0]  # type: ignore[no-any-return]

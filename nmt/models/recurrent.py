"""Encoder and decoder of LSTMs with additive attention (Bahdanau, Cho and Bengio 2015).

What differs from the paper is what later work settled on: LSTMs instead of gated units, layers of
them with residual connections from the second on (Wu et al. 2016, section 3.1), and input feeding
(Luong et al. 2015, section 3.3): the state that has just read a token attends, what it has seen
and itself make the attentional state (equation 5), which gives the logits and is fed
to the next step. The decoder begins with zeros. Dropout is on what goes up, from embeddings to
logits, never on what goes on to the next step (Zaremba et al. 2014).

Sentences are laid out in tables, time first: T (S) positions of B sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from nmt.data.batches import Batch, Packed
from nmt.model_config import RecurrentConfig
from nmt.models.additive_attention import Keys
from nmt.models.contract import AttentionWeights, DecoderState, Memory, TranslationModel
from nmt.models.dropout import add_dropped, dropout
from nmt.models.embeddings import shared_embeddings
from nmt.models.lstm import BidirectionalLSTM, reversal
from nmt.models.recurrent_decoder import InputFeedingDecoder, Passed, joined, split
from nmt.models.table import Table


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

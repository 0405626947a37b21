"""The recurrent model: LSTMs with additive attention (Bahdanau, Cho and Bengio 2015).

It differs from the paper where later work settled on something else: LSTMs instead of gated units,
several layers with residual connections from the second on (Wu et al. 2016, section 3.1), and input
feeding (Luong et al. 2015, section 3.3). The context and the attending state give the attentional
state (equation 5), which gives the logits and is fed to the next step. Dropout is between layers,
never from step to step (Zaremba et al. 2014).

Legend: B sentences, N hypotheses, T (S) positions, D the width of embeddings and attentional
states, H of layers, A of the attention's hidden layer, I of a layer's inputs. Sentences are padded,
time first. LSTMs have forget gates (Hochreiter and Schmidhuber 1997; Gers et al. 2000).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from nmt.config.model_config import RecurrentConfig
from nmt.data.batches import Batch, Packed
from nmt.models.base import AttentionWeights, DecoderState, TranslationModel
from nmt.models.device import joined, to_device
from nmt.models.kernels.linear import batched_type, linear
from nmt.models.kernels.padded_layout import PaddedLayout
from nmt.models.kv_cache import KeptRows, move_
from nmt.models.layers import add_dropped, dropout, shared_embeddings

_FORGET_BIAS = 1.0
"""Makes cells remember at first (Jozefowicz et al. 2015)."""


class BidirectionalLSTM(nn.Module):
    """A layer that reads sentences in both directions, each by half of its H units.

    It uses torch's LSTM, which multiplies the inputs of all positions at once. On CPUs it goes
    through all steps in oneDNN, on GPUs in cuDNN. Both are far faster than single steps. They pad
    sentences, so it reads groups of similar length. torch's packed sequences take longer on CPUs.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.ahead = _lstm(width, hidden // 2)
        self.back = _lstm(width, hidden // 2)

    def forward(self, x: Tensor, groups: Sequence[tuple[ReadingOrder, ReadingOrder]]) -> Tensor:
        """Read packed sentences x (n, I), in groups of these orders ahead and back: (n, H)."""
        read = [
            torch.cat((_read(self.ahead, x, ahead), _read(self.back, x, back)), dim=1)
            for ahead, back in groups
        ]
        return torch.cat(read)


ReadingOrder = tuple[Tensor, Tensor]
"""The order in which a group of B sentences is read, padded to S positions: the token (S, B) at
each place, at padding any of the same sentence, and where each of its tokens is among them (n,)."""


def both_orders(layout: PaddedLayout) -> tuple[ReadingOrder, ReadingOrder]:
    """Return how the sentences of a padded layout are read ahead and back.

    For example, sentences of 3 and 2 tokens are 0 1 2 and 3 4. Ahead, they are read as the rows
    0 3, 1 4 and 2 -, and back as 2 4, 1 3 and 0 -.
    """
    count, longest = layout.tokens.shape
    lengths = layout.mask.sum(dim=1)  # (B,)
    steps = torch.arange(longest, device=lengths.device)
    reversed_ = (lengths[:, None] - 1 - steps).clamp_min(0)  # (B, S)
    turned = lengths[layout.sentences] - 1 - layout.positions  # (n,)
    return (
        (layout.tokens.t(), layout.positions * count + layout.sentences),
        (layout.tokens.gather(1, reversed_).t(), turned * count + layout.sentences),
    )


def _read(lstm: nn.LSTM, x: Tensor, order: ReadingOrder) -> Tensor:
    """Read a group of the packed sentences x (n, I): (n of the group, H / 2)."""
    tokens, places = order
    padded = x.index_select(0, tokens.flatten()).view(*tokens.shape, -1)  # (S, B, I)
    with warnings.catch_warnings():
        # The weights are views of the vector of all weights, and cuDNN copies them.
        warnings.filterwarnings("ignore", "RNN module weights are not part of single")
        states, _ = lstm(padded)  # (S, B, H / 2)
    return states.flatten(0, 1).index_select(0, places)  # type: ignore[no-any-return]


def _lstm(width: int, hidden: int) -> nn.LSTM:
    lstm = nn.LSTM(width, hidden)
    biases: list[nn.Parameter] = [lstm.get_parameter(f"bias_{of}_l0") for of in ("ih", "hh")]
    for bias in biases:
        nn.init.zeros_(bias)
    nn.init.constant_(biases[0][hidden : 2 * hidden], _FORGET_BIAS)
    return lstm


def _uniform(rows: int, columns: int, bound: float) -> nn.Parameter:
    return nn.Parameter(nn.init.uniform_(torch.empty(rows, columns), -bound, bound))


class LSTMCell(nn.Module):
    """One step of a layer: its weights, and the next state from the gates.

    Gates are in the order input, forget, output, candidate.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        # (4H, I + H) for the input and the layer's last output
        self.weight = _uniform(4 * hidden, width + hidden, hidden**-0.5)
        self.bias = nn.Parameter(torch.zeros(4 * hidden))  # (4H,)
        nn.init.constant_(self.bias[hidden : 2 * hidden], _FORGET_BIAS)

    def forward(self, gates: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output and the next cell state, each (N, H).

        gates: (N, 4H), before sigmoid and tanh; memory: (N, H), the cell state.
        """
        input_gate, forget_gate, output_gate = gates[:, : 3 * self.hidden].sigmoid().chunk(3, dim=1)
        candidate = gates[:, 3 * self.hidden :].tanh()
        memory = torch.addcmul(forget_gate * memory, input_gate, candidate)  # (N, H)
        return output_gate * memory.tanh(), memory


@dataclass
class RecurrentMemory:
    """The keys and values of B sentences, computed once per sentence."""

    keys: Tensor  # (B, S, A)
    values: Tensor  # (B, S, H)
    mask: Tensor  # (B, S) bool, True = a real token

    def move(self, moves: Tensor, count: int) -> None:
        """Keep so many sentences, after moves (2, moves), in place; see `move_`."""
        for name, x in vars(self).items():
            setattr(self, name, move_(x, 0, moves, count))


class AdditiveAttention(nn.Module):
    """Weights softmax(v^T tanh(W query + U value)), and the weighted sum of values.

    Bahdanau, Cho and Bengio 2015, section 3.1 and appendix A.1.2.
    """

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.query = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inner, width)))  # (A, H) W
        self.key = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inner, width)))  # (A, H) U
        self.score = nn.Parameter(nn.init.normal_(torch.empty(inner), std=inner**-0.5))  # (A,) v

    def keys(self, values: Tensor, layouts: Sequence[PaddedLayout]) -> list[RecurrentMemory]:
        """Prepare the packed values (m, H), laid out group by group."""
        projected = linear(values, self.key)  # (m, A)
        return [
            RecurrentMemory(layout.rows(projected), layout.rows(values), layout.mask)
            for layout in layouts
        ]

    def forward(self, queries: Tensor, memory: RecurrentMemory) -> Tensor:
        """Return the weights with which N = B * W hypotheses of B sentences see their sources.

        queries: (N, A), already multiplied by W; memory: made by `keys`.
        Returns (N, S) in fp32 at least.
        """
        sentences, _, inner = memory.keys.shape
        compared = queries.view(sentences, -1, 1, inner) + memory.keys[:, None]  # (B, W, S, A)
        scores = linear(compared.tanh(), self.score[None])[..., 0]  # (B, W, S)
        wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
        # Not by -inf, of which an empty sentence would get NaN.
        lowest = torch.finfo(wide.dtype).min
        return wide.masked_fill(~memory.mask[:, None], lowest).softmax(dim=-1).flatten(0, 1)


def _weighted_sums(weights: Tensor, memory: RecurrentMemory) -> Tensor:
    """Return the sums (N, H) of the values of B sentences by weights (N, S), N = B * W."""
    values = memory.values.to(batched_type(memory.values))  # (B, S, H)
    by_sentence = weights.to(values.dtype).view(len(values), -1, values.shape[1])  # (B, W, S)
    return torch.bmm(by_sentence, values).flatten(0, 1).to(memory.values.dtype)


Passed = tuple[Tensor, ...]
"""The state that N hypotheses pass to the next step: the attentional state (N, D), then the output
(N, H) and cell state (N, H) of each layer. In search they are side by side in one tensor."""


class StepLayout(NamedTuple):
    """Packed sentences step by step: at each position, those of the groups that still go on.

    A group goes on until its longest sentence ends, and so do all groups before it. For example,
    three groups of one sentence each, 0 1 2, 3 4 and 5, have the steps 0 3 5, 1 4 and 2.
    """

    rows: list[int]  # how many sentences go on at each position, the first ones
    groups: dict[int, int]  # how many groups these are, by the number of rows
    tokens: Tensor  # (r,) int64: of each row of each step; at padding, the sentence's last
    places: Tensor  # (n,) int64: where each token is

    @classmethod
    def of(cls, packed: Packed) -> StepLayout:
        """Lay out sentences, with little padding if the longest come first."""
        rows: list[int] = []
        groups = {}
        for number, group in reversed([*enumerate(packed.groups, start=1)]):
            groups[group.sentences.stop] = number
            rows += [group.sentences.stop] * (group.longest - len(rows))
        columns = PaddedLayout.of(packed).tokens.t()  # (T, B)
        tokens = torch.cat([column[:count] for column, count in zip(columns, rows, strict=False)])
        (starts,) = to_device([np.array([0, *accumulate(rows)])], tokens.device)
        return cls(rows, groups, tokens, starts[packed.positions] + packed.sentences)


Attend = Callable[[Tensor], Tensor]  # from queries (N, A) to weighted sums of values (N, H)


class InputFeedingDecoder(nn.Module):
    """LSTM layers, attention and the attentional state (Luong et al. 2015, section 3.3)."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        embedded, hidden = config.d_model, config.d_hidden
        self.config = config
        # The first layer also reads the last token's embedding, known beforehand in training.
        self.embedded = _uniform(4 * hidden, embedded, hidden**-0.5)  # (4H, D)
        widths = [embedded] + [hidden] * (config.num_decoder_layers - 1)
        self.cells = nn.ModuleList(LSTMCell(width, hidden) for width in widths)
        self.attention = AdditiveAttention(hidden, embedded)
        self.attentional = nn.Parameter(
            nn.init.xavier_uniform_(torch.empty(embedded, 2 * hidden))
        )  # (D, 2H)

    @property
    def widths(self) -> list[int]:
        """The widths of what is passed to the next step."""
        return [self.config.d_model] + [self.config.d_hidden] * (2 * len(self.cells))

    def beginning(self, count: int) -> Passed:
        """Return the first state of `count` hypotheses: zeros."""
        return tuple(self.embedded.new_zeros(count, width) for width in self.widths)

    def forward(
        self, embedded: Tensor, rows: Sequence[int], passed: Passed, attend: Attend
    ) -> tuple[Tensor, Passed]:
        """Go through some positions of hypotheses, the last of which may end before the others.

        embedded: (r, D), embeddings of the tokens, position by position.
        rows: how many hypotheses go on at each position, the first ones; r is their sum.
        passed: the state before the first of these steps.
        attend: attends to the hypotheses' sources.
        Returns the attentional states (r, D), and the state after the last step.
        """
        cells = cast(Sequence[LSTMCell], self.cells)
        # What the embeddings add to the first layer's gates, for all positions in one product.
        of_embedded = linear(embedded, self.embedded, cells[0].bias)  # (r, 4H)
        states = []
        for added in torch.split(of_embedded, list(rows)):  # (N, 4H) of each position
            passed = tuple(x[: len(added)] for x in passed)
            fed, *layers = passed
            hidden, memories = layers[::2], layers[1::2]
            x = fed
            for number, cell in enumerate(cells):
                read = torch.cat((x, hidden[number]), dim=1)  # (N, D + H or 2H)
                gates = linear(read, cell.weight) + (cell.bias if number else added)  # (N, 4H)
                hidden[number], memories[number] = cell(gates, memories[number])
                x = self._up(x, hidden[number], is_first=number == 0)  # (N, H)
            context = attend(linear(x, self.attention.query))  # (N, H)
            fed = linear(torch.cat((context, x), dim=1), self.attentional).tanh()  # (N, D)
            states.append(fed)
            passed = (fed, *chain(*zip(hidden, memories, strict=True)))
        return joined(states), passed

    def _up(self, x: Tensor, output: Tensor, *, is_first: bool) -> Tensor:
        """Return the input of the next layer: the residual sum, from the second layer on."""
        if is_first:
            return dropout(output, self.config.dropout, self.training)
        return add_dropped(x, output, self.config.dropout, self.training)


class RecurrentState:
    """The state of N hypotheses of B sentences (see `DecoderState`)."""

    def __init__(self, passed: Tensor, keys: RecurrentMemory) -> None:
        self.passed = passed  # (N, sum of widths)
        self.keys = keys
        self.active = KeptRows(len(passed))

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        self.active.select(rows, sentences)

    def move(self, of_rows: Tensor, of_sentences: Tensor) -> None:
        self.passed = move_(self.passed, 0, of_rows, self.active.num_rows)
        self.keys.move(of_sentences, self.active.num_sentences)
        self.active.are_moved()


class RecurrentModel(TranslationModel):
    def __init__(self, config: RecurrentConfig, src_vocab_size: int, tgt_vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.tgt_embedding, self.src_embedding, self.output_projection = shared_embeddings(
            config, src_vocab_size, tgt_vocab_size
        )
        widths = [config.d_model] + [config.d_hidden] * (config.num_encoder_layers - 1)
        self.encoder = nn.ModuleList(BidirectionalLSTM(width, config.d_hidden) for width in widths)
        self.decoder = InputFeedingDecoder(config)

    @property
    def blocks(self) -> Sequence[nn.Module]:
        return [*self.decoder.cells, self.decoder.attention]

    def forward(self, batch: Batch) -> Tensor:
        return self._decode(batch, [])

    @torch.no_grad()
    def attention_weights(self, batch: Batch) -> AttentionWeights:
        src, tgt_in = batch.src.in_one_group(), batch.tgt_in.in_one_group()
        recorded: list[Tensor] = []
        self._decode(Batch(src, tgt_in, batch.targets), recorded)
        cross = torch.stack(recorded, dim=1)  # (B, T, S)
        cross.masked_fill_(~PaddedLayout.of(tgt_in).mask[:, :, None], 0.0)
        cross = cross[None, :, None]  # (1, B, 1, T, S)
        return AttentionWeights(encoder=cross[:0], decoder=cross[:0], cross=cross)

    def cross_attention(self, batch: Batch, from_top: int) -> Tensor:
        del from_top  # there is one attention
        return self.attention_weights(batch).cross[0]

    def _decode(self, batch: Batch, recorded: list[Tensor]) -> Tensor:
        """Do a forward pass, and record the attention weights of each group and step."""
        layouts = [PaddedLayout.of_group(batch.src, group) for group in batch.src.groups]
        keys = self.decoder.attention.keys(self._encode(batch.src, layouts), layouts)
        steps = StepLayout.of(batch.tgt_in)
        sizes = [len(group.mask) for group in keys]

        def attend(queries: Tensor) -> Tensor:
            count = steps.groups[len(queries)]  # of the groups that go on
            contexts = []
            for part, group in zip(torch.split(queries, sizes[:count]), keys[:count], strict=True):
                weights = self.decoder.attention(part, group)  # (N of the group, S)
                recorded.append(weights)
                contexts.append(_weighted_sums(weights, group))
            return torch.cat(contexts)

        embedded = self.tgt_embedding(batch.tgt_in.tokens[steps.tokens])  # (r, D)
        beginning = self.decoder.beginning(steps.rows[0])
        states, _ = self.decoder(embedded, steps.rows, beginning, attend)  # (r, D)
        packed = states.index_select(0, steps.places)  # (n, D)
        return dropout(packed, self.config.dropout, self.training)

    def _encode(self, src: Packed, layouts: Sequence[PaddedLayout]) -> Tensor:
        """Return the memory (m, H) of sources, which are read in groups of these layouts."""
        readings = [both_orders(layout) for layout in layouts]
        first, *others = self.encoder
        p, training = self.config.dropout, self.training
        x = dropout(first(self.src_embedding(src.tokens), readings), p, training)  # (m, H)
        for layer in others:
            x = add_dropped(x, layer(x, readings), p, training)
        return x

    def begin(self, src: Packed) -> RecurrentState:
        layouts = [PaddedLayout.of_group(src, group) for group in src.groups]
        memory = self._encode(src, layouts)  # (m, H)
        (keys,) = self.decoder.attention.keys(memory, [PaddedLayout.of(src)])
        return RecurrentState(memory.new_zeros(len(keys.mask), sum(self.decoder.widths)), keys)

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        recurrent_states = cast(Sequence[RecurrentState], states)
        rows = [state.active.num_rows for state in recurrent_states]
        moves = chain.from_iterable(state.active.moves() for state in recurrent_states)
        # All that the device has to know of this step.
        last_tokens, *on_device = to_device([tokens.numpy(), *moves], self.output_projection.device)
        for number, state in enumerate(recurrent_states):
            state.move(*on_device[2 * number : 2 * number + 2])

        memories = [state.keys for state in recurrent_states]

        def attend(queries: Tensor) -> Tensor:
            parts = zip(torch.split(queries, rows), memories, strict=True)
            weighted = ((self.decoder.attention(part, memory), memory) for part, memory in parts)
            return joined([_weighted_sums(*each) for each in weighted])

        embedded = self.tgt_embedding(last_tokens)  # (N, D)
        whole = joined([state.passed for state in recurrent_states])
        before = torch.split(whole, self.decoder.widths, dim=1)
        last_states, passed = self.decoder(embedded, [len(tokens)], before, attend)
        parts = torch.split(torch.cat(passed, dim=1), rows)
        for state, part in zip(recurrent_states, parts, strict=True):
            state.passed = part
        return last_states  # type: ignore[no-any-return]

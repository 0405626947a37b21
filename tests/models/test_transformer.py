"""The models: the Transformer is torch's own, and every architecture keeps the contract.

The contract is that step by step equals teacher-forced, that hypotheses can be reordered, and that
neither companions nor padding nor the future move a logit. In float64, so that bounds are tight.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from pairs import batch_of
from reference import sinusoidal_positions
from torch import Tensor, nn

from nmt.config import ModelConfig, TransformerConfig
from nmt.data.batches import FixedShape, pack_sources
from nmt.models.contract import Memory, TranslationModel
from nmt.models.dropout import seed_dropout
from nmt.models.registry import ARCHITECTURES, build_model
from nmt.models.transformer import DecoderLayer, EncoderLayer, Transformer

PAD, BOS, EOS = 0, 2, 3
SRC_VOCAB, TGT_VOCAB = 23, 29

TINY: dict[str, ModelConfig] = {
    "transformer": TransformerConfig(
        num_encoder_layers=2, num_decoder_layers=2, d_model=16, d_ff=40, num_heads=4, dropout=0.2
    )
}
"""A small configuration of each architecture."""

SOURCES = [[5, 6, 7, 8, 9, 10, 11], [12, 13], [14, 15, 16, 17]]
TARGETS = [[20, 21, 22], [4, 5, 6, 7, 8, 9], [10]]


def assert_equal(found: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


def test_every_architecture_is_tested() -> None:
    assert TINY.keys() == ARCHITECTURES.keys()


def tiny(architecture: str, tie_embeddings: str = "none", seed: int = 1) -> TranslationModel:
    torch.manual_seed(seed)
    config = replace(TINY[architecture], tie_embeddings=tie_embeddings)
    sizes = (TGT_VOCAB, TGT_VOCAB) if tie_embeddings == "all" else (SRC_VOCAB, TGT_VOCAB)
    return build_model(architecture, config, *sizes).double().eval()


@pytest.fixture(params=ARCHITECTURES)
def model(request: pytest.FixtureRequest) -> TranslationModel:
    return tiny(request.param)


@torch.no_grad()
def forced_logits(
    model: TranslationModel, sources: list[list[int]], targets: list[list[int]]
) -> list[Tensor]:
    """The teacher-forced logits of each pair, (length + 1, V)."""
    logits = model(batch_of(sources, targets)) @ model.output_projection.T
    return list(logits.split([len(ids) + 1 for ids in targets]))


def encode(model: TranslationModel, sources: list[list[int]]) -> Memory:
    return model.encode(pack_sources(sources))


# ------------------------------------------------------------------ torch's Transformer


def torch_encoder_layer(layer: EncoderLayer, config: TransformerConfig) -> nn.Module:
    theirs = nn.TransformerEncoderLayer(
        config.d_model, config.num_heads, config.d_ff, 0.0, batch_first=True, norm_first=False
    ).to(layer.attention.output.dtype)
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": layer.attention.qkv,
            "self_attn.in_proj_bias": torch.zeros(3 * config.d_model),
            "self_attn.out_proj.weight": layer.attention.output,
            "self_attn.out_proj.bias": torch.zeros(config.d_model),
            "linear1.weight": layer.feed_forward.inner.weight,
            "linear1.bias": layer.feed_forward.inner.bias,
            "linear2.weight": layer.feed_forward.outer.weight,
            "linear2.bias": layer.feed_forward.outer.bias,
            "norm1.weight": layer.after_attention.norm.weight,
            "norm1.bias": layer.after_attention.norm.bias,
            "norm2.weight": layer.after_feed_forward.norm.weight,
            "norm2.bias": layer.after_feed_forward.norm.bias,
        }
    )
    return theirs


def torch_decoder_layer(layer: DecoderLayer, config: TransformerConfig) -> nn.Module:
    theirs = nn.TransformerDecoderLayer(
        config.d_model, config.num_heads, config.d_ff, 0.0, batch_first=True, norm_first=False
    ).to(layer.attention.output.dtype)
    cross = layer.cross_attention
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": layer.attention.qkv,
            "self_attn.in_proj_bias": torch.zeros(3 * config.d_model),
            "self_attn.out_proj.weight": layer.attention.output,
            "self_attn.out_proj.bias": torch.zeros(config.d_model),
            "multihead_attn.in_proj_weight": torch.cat((cross.query, cross.key_value)),
            "multihead_attn.in_proj_bias": torch.zeros(3 * config.d_model),
            "multihead_attn.out_proj.weight": cross.output,
            "multihead_attn.out_proj.bias": torch.zeros(config.d_model),
            "linear1.weight": layer.feed_forward.inner.weight,
            "linear1.bias": layer.feed_forward.inner.bias,
            "linear2.weight": layer.feed_forward.outer.weight,
            "linear2.bias": layer.feed_forward.outer.bias,
            "norm1.weight": layer.after_attention.norm.weight,
            "norm1.bias": layer.after_attention.norm.bias,
            "norm2.weight": layer.after_cross_attention.norm.weight,
            "norm2.bias": layer.after_cross_attention.norm.bias,
            "norm3.weight": layer.after_feed_forward.norm.weight,
            "norm3.bias": layer.after_feed_forward.norm.bias,
        }
    )
    return theirs


def randomised(model: TranslationModel) -> Transformer:
    """The model with biases and norms that are not the zeros and ones of the start."""
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*ids, *[PAD] * (longest - len(ids))] for ids in rows])


@torch.no_grad()
def torch_logits(model: Transformer, config: TransformerConfig) -> Tensor:
    """What torch's own encoder and decoder layers make of the same weights, for all pairs."""
    src = padded([[*ids, EOS] for ids in SOURCES])
    tgt_in = padded([[BOS, *ids] for ids in TARGETS])
    dtype = model.output_projection.dtype

    def embed(tokens: Tensor, weight: Tensor) -> Tensor:
        positions = sinusoidal_positions(tokens.shape[1], config.d_model).astype(np.float32)
        return weight[tokens] * math.sqrt(config.d_model) + torch.from_numpy(positions).to(dtype)

    padding = src == PAD
    memory = embed(src, model.src_embedding.weight)
    for encoder_layer in model.encoder:
        assert isinstance(encoder_layer, EncoderLayer)
        layer = torch_encoder_layer(encoder_layer, config).train()  # without its fused fast path
        memory = layer(memory, src_key_padding_mask=padding)
    length = tgt_in.shape[1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    x = embed(tgt_in, model.tgt_embedding.weight)
    for decoder_layer in model.decoder:
        layer = torch_decoder_layer(cast(DecoderLayer, decoder_layer), config).train()
        x = layer(x, memory, tgt_mask=future, memory_key_padding_mask=padding)
    return (x @ model.output_projection.T)[tgt_in != PAD]


@pytest.mark.parametrize("tie_embeddings", ["all", "decoder", "none"])
def test_the_transformer_is_torch_s_post_norm_transformer_without_attention_biases(
    tie_embeddings: str,
) -> None:
    config = TINY["transformer"]
    model = randomised(tiny("transformer", tie_embeddings))
    batch = batch_of(SOURCES, TARGETS)
    with torch.no_grad():
        found = model(batch) @ model.output_projection.T
    assert_equal(found, torch_logits(model, config))
    with torch.no_grad():
        found = model.float()(batch) @ model.output_projection.T
    assert_equal(found, torch_logits(model, config), tolerance=2e-5)


def test_attention_weights_are_those_of_torch_s_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TINY["transformer"]
    model, batch = randomised(tiny("transformer")), batch_of(SOURCES, TARGETS)
    theirs: list[Tensor] = []  # of each attention that torch's model goes through (B, H, T, S)
    attend = nn.MultiheadAttention.forward

    def attend_and_note(
        self: nn.MultiheadAttention, *args: Tensor, **options: object
    ) -> tuple[Tensor, Tensor | None]:
        options |= {"need_weights": True, "average_attn_weights": False}
        attended, weights = attend(self, *args, **options)  # type: ignore[arg-type]
        assert weights is not None
        theirs.append(weights)
        return attended, weights

    monkeypatch.setattr(nn.MultiheadAttention, "forward", attend_and_note)
    # Torch's model ends at the states that ours comes to when nobody looks.
    with torch.no_grad():
        assert_equal(model(batch) @ model.output_projection.T, torch_logits(model, config))
    found = model.attention_weights(batch)
    # Theirs has weights from padding, too; sources have 8, 3 and 5 tokens, targets 4, 7 and 2.
    src, tgt = (
        (torch.arange(length) < torch.tensor(lengths)[:, None])[:, None, :, None]
        for length, lengths in ((8, (8, 3, 5)), (7, (4, 7, 2)))
    )
    assert_equal(found.encoder, torch.stack(theirs[:2]) * src)
    assert_equal(found.decoder, torch.stack(theirs[2::2]) * tgt)
    assert_equal(found.cross, torch.stack(theirs[3::2]) * tgt)


def test_the_start_is_the_usual_one() -> None:
    config = replace(TINY["transformer"], d_model=64, d_ff=256)
    torch.manual_seed(1)
    model = build_model("transformer", config, 500, 500)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert torch.equal(parameter, torch.full_like(parameter, float("norm.weight" in name)))
        elif "feed_forward" in name:
            # Xavier's uniform bound, sqrt(6 / (64 + 256)) = 0.137, and half of it on the way out.
            bound = math.sqrt(6 / 320) * (0.5 if "outer" in name else 1.0)
            assert 0.99 * bound < float(parameter.detach().abs().max()) <= bound
    # Logits of a fresh model have a variance near 1: the loss starts near log V.
    with torch.no_grad():
        logits = model.eval()(batch_of(SOURCES, TARGETS)) @ model.output_projection.T
    assert 0.5 < float(logits.std()) < 2.0


# --------------------------------------------------------------------------- contract


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("tie_embeddings", ["none", "all"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_step_by_step_is_teacher_forced(architecture: str, tie_embeddings: str, width: int) -> None:
    model = tiny(architecture, tie_embeddings)
    length = 40  # beyond the first capacities of a cache
    random = np.random.default_rng(1)
    targets = random.integers(4, TGT_VOCAB, (len(SOURCES) * width, length)).tolist()
    sources = [source for source in SOURCES for _ in range(width)]
    forced = torch.stack(forced_logits(model, sources, targets))  # (N, length + 1, V)
    with torch.inference_mode():
        state = model.start(encode(model, SOURCES))
        first = model.project(model.step([state], torch.full((len(SOURCES),), BOS)))
        assert_equal(first, forced[::width, 0])
        rows = torch.arange(len(SOURCES)).repeat_interleave(width)  # each goes on in `width` ways
        state.select(rows, torch.arange(len(SOURCES)))
        for position in range(length):
            tokens = torch.tensor([ids[position] for ids in targets])
            logits = model.project(model.step([state], tokens))
            assert_equal(logits, forced[:, position + 1])


def test_states_that_began_at_different_times_step_together(model: TranslationModel) -> None:
    random = np.random.default_rng(3)
    targets = random.integers(4, TGT_VOCAB, (len(SOURCES), 9)).tolist()
    forced = torch.stack(forced_logits(model, SOURCES, targets))  # (B, 10, V)
    inputs = [[BOS, *ids] for ids in targets]
    with torch.inference_mode():
        early, late = (model.start(encode(model, part)) for part in (SOURCES[:2], SOURCES[2:]))
        for position in range(3):
            model.step([early], torch.tensor([ids[position] for ids in inputs[:2]]))
        for position in range(6):
            tokens = [ids[position + 3] for ids in inputs[:2]]
            tokens += [ids[position] for ids in inputs[2:]]
            logits = model.project(model.step([early, late], torch.tensor(tokens)))
            assert_equal(logits[:2], forced[:2, position + 3])
            assert_equal(logits[2:], forced[2:, position])


def test_select_reorders_hypotheses_and_drops_sentences(model: TranslationModel) -> None:
    random = np.random.default_rng(2)
    steps = random.integers(4, TGT_VOCAB, (12, len(SOURCES) * 2)).tolist()
    sentences = [0, 1, 2]
    prefixes: list[list[int]] = [[] for _ in SOURCES]
    # After these steps: which rows go on, as (row among those alive, ...), and which sentences.
    selections: dict[int, tuple[list[int], list[int]]] = {
        0: ([0, 0, 1, 1, 2, 2], [0, 1, 2]),  # each becomes two
        2: ([1, 0, 3, 3, 4, 5], [0, 1, 2]),  # swap; copy the second; as it is
        4: ([4, 5, 3, 2], [2, 1]),  # the first sentence leaves, and the last takes its place
        5: ([3, 2], [1]),  # the first of them leaves
        9: ([0, 0], [0]),
    }
    with torch.inference_mode():
        state = model.start(encode(model, SOURCES))
        tokens = torch.full((len(prefixes),), BOS)
        for number, step in enumerate(steps):
            logits = model.project(model.step([state], tokens))
            width = len(prefixes) // len(sentences)
            sources = [SOURCES[s] for s in sentences for _ in range(width)]
            fresh = forced_logits(model, sources, prefixes)
            assert_equal(logits, torch.stack([one[-1] for one in fresh]))
            if number in selections:
                rows, kept = selections[number]
                state.select(torch.tensor(rows), torch.tensor(kept))
                prefixes = [prefixes[row] for row in rows]
                sentences = [sentences[sentence] for sentence in kept]
            tokens = torch.tensor(step[: len(prefixes)])
            prefixes = [[*ids, int(t)] for ids, t in zip(prefixes, tokens, strict=True)]
    assert sentences == [1]


def test_a_sentence_does_not_depend_on_its_companions(model: TranslationModel) -> None:
    together = forced_logits(model, SOURCES, TARGETS)
    for index, logits in enumerate(together):
        (alone,) = forced_logits(model, [SOURCES[index]], [TARGETS[index]])
        assert_equal(logits, alone)
    reversed_order = forced_logits(model, SOURCES[::-1], TARGETS[::-1])
    for logits, other in zip(together, reversed_order[::-1], strict=True):
        assert_equal(logits, other)


def test_a_later_target_token_moves_no_earlier_logit(model: TranslationModel) -> None:
    (before,) = forced_logits(model, [SOURCES[0]], [TARGETS[1]])
    for position in range(len(TARGETS[1])):
        changed = [*TARGETS[1]]
        changed[position] = 25
        (after,) = forced_logits(model, [SOURCES[0]], [changed])
        # The token at `position` is read at position + 1, after begin.
        assert torch.equal(after[: position + 1], before[: position + 1])
        assert not torch.allclose(after[position + 1], before[position + 1])


def test_every_source_token_counts(model: TranslationModel) -> None:
    (before,) = forced_logits(model, [SOURCES[0]], [TARGETS[0]])
    for position in range(len(SOURCES[0])):
        changed = [*SOURCES[0]]
        changed[position] = 20
        (after,) = forced_logits(model, [changed], [TARGETS[0]])
        assert not torch.allclose(after[0], before[0])


def test_a_token_s_attention_weights_sum_to_one_and_are_none_at_padding(
    model: TranslationModel,
) -> None:
    weights = model.attention_weights(batch_of(SOURCES, TARGETS))
    src = torch.arange(8) < torch.tensor([8, 3, 5])[:, None]  # (B, S), eos counted
    tgt = torch.arange(7) < torch.tensor([4, 7, 2])[:, None]  # (B, T), bos counted
    for found, own, others in (
        (weights.encoder, src, src),
        (weights.decoder, tgt, tgt),
        (weights.cross, tgt, src),
    ):
        layers, sentences, heads, *lengths = found.shape
        assert [sentences, *lengths] == [len(SOURCES), own.shape[1], others.shape[1]]
        sums = own.double()[None, :, None].expand(layers, -1, heads, -1)
        assert_equal(found.sum(dim=-1), sums)
        assert not (found * ~others[:, None, None]).any()
    assert not weights.decoder.triu(1).any()
    assert len(weights.cross)


def test_looking_at_attention_leaves_the_model_as_it_was(model: TranslationModel) -> None:
    batch = batch_of(SOURCES, TARGETS)
    with torch.no_grad():
        before = model(batch)
        model.attention_weights(batch)
        assert torch.equal(model(batch), before)
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_weights_of_a_model_in_half_precision_are_in_fp32(
    model: TranslationModel, dtype: torch.dtype
) -> None:
    batch = batch_of(SOURCES, TARGETS)
    expected = model.attention_weights(batch).cross
    found = model.to(dtype).attention_weights(batch).cross
    assert found.dtype == torch.float32
    assert_equal(found.double(), expected, tolerance=0.02)
    sums = found[:, 1].sum(dim=-1)  # of the longest target
    assert_equal(sums, torch.ones_like(sums), tolerance=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("tokens", [16, 40, 64])
def test_a_fixed_shape_moves_no_state_of_a_real_token(model: TranslationModel, tokens: int) -> None:
    shape = FixedShape.for_up_to(tokens, longest=9)
    batch = batch_of(SOURCES, TARGETS, shape)
    states = model(batch)
    assert len(states) == shape.tokens
    assert_equal(states[: batch.num_tokens], model(batch_of(SOURCES, TARGETS)))


def test_dropout_acts_while_training_and_at_no_other_time(model: TranslationModel) -> None:
    batch = batch_of(SOURCES, TARGETS)
    with torch.no_grad():
        assert torch.equal(model(batch), model(batch))
        model.train()
        assert not torch.allclose(model(batch), model(batch))
        seed_dropout(3)
        first = model(batch)
        seed_dropout(3)
        assert torch.equal(model(batch), first)


def test_every_parameter_gets_a_gradient(model: TranslationModel) -> None:
    logits = model(batch_of(SOURCES, TARGETS)) @ model.output_projection.T
    torch.autograd.backward(logits.square().sum())
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


# ----------------------------------------------------------------------- tied weights


def test_three_way_tying_is_one_parameter() -> None:
    model = tiny("transformer", "all")
    assert isinstance(model, Transformer)
    assert model.src_embedding is model.tgt_embedding
    assert model.output_projection is model.tgt_embedding.weight


def test_the_decoder_s_tying_is_two_parameters() -> None:
    model = tiny("transformer", "decoder")
    assert isinstance(model, Transformer)
    assert model.src_embedding.weight.shape == (SRC_VOCAB, 16)
    assert model.output_projection is model.tgt_embedding.weight


def test_without_tying_there_are_three_parameters() -> None:
    model = tiny("transformer", "none")
    assert isinstance(model, Transformer)
    matrices = (model.src_embedding.weight, model.tgt_embedding.weight, model.output_projection)
    assert len({id(matrix) for matrix in matrices}) == 3


def test_a_tied_weight_is_trained_from_all_its_uses() -> None:
    model = tiny("transformer", "all")
    assert isinstance(model, Transformer)
    logits = model(batch_of(SOURCES, TARGETS)) @ model.output_projection.T
    torch.autograd.backward(logits.square().sum())
    gradient = model.tgt_embedding.weight.grad
    assert gradient is not None
    assert gradient[SOURCES[0][0]].abs().max() > 0  # as a source token
    assert gradient[28].abs().max() > 0  # in neither text: as an output alone

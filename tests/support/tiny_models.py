"""A small model of every kind, and what is asked of all of them."""

from dataclasses import replace

import torch
from pairs import batch_of
from torch import Tensor

from nmt.config import model_config
from nmt.data.batches import pack_sources
from nmt.models.base import DecoderState, TranslationModel
from nmt.models.registry import build_model

PAD, BOS, EOS = 0, 2, 3
SRC_VOCAB, TGT_VOCAB = 23, 29

TRANSFORMER = model_config.TransformerConfig(
    num_encoder_layers=2, num_decoder_layers=2, d_model=16, d_ff=40, num_heads=4, dropout=0.2
)
CONVOLUTIONAL = model_config.ConvolutionalConfig(
    num_encoder_layers=3,
    num_decoder_layers=2,
    d_model=12,
    d_hidden=16,
    dropout=0.2,
    max_positions=20,  # fewer than the longest target of the contract's tests has
)
TINY: dict[str, model_config.ModelConfig] = {
    "transformer": TRANSFORMER,
    "conv_seq2seq": CONVOLUTIONAL,
    "transformer_pre_norm": replace(TRANSFORMER, pre_norm=True),
    "transformer_learned_positions": replace(TRANSFORMER, positions="learned", max_positions=7),
    "transformer_narrow_keys": replace(TRANSFORMER, d_k=3, d_v=5),
    "transformer_relative": replace(
        TRANSFORMER, positions="relative", max_relative_distance=3, d_k=3, d_v=5
    ),
    "transformer_modern": replace(
        TRANSFORMER, pre_norm=True, norm="rms", feed_forward="swiglu", positions="rotary"
    ),
    "transformer_imported": replace(
        TRANSFORMER,
        attention_bias=True,
        output_bias=True,
        first_input="zeros",
        positions="sinusoidal_halves",
        feed_forward="swish",
        norm_epsilon=1e-3,
    ),
    "transformer_imported_pre_norm": replace(
        TRANSFORMER,
        attention_bias=True,
        pre_norm=True,
        feed_forward="gelu",
        first_input="eos",
        first_position=2,
    ),
    "transformer_ssru": replace(TRANSFORMER, decoder_memory="ssru"),
    "rnn_attention": model_config.RecurrentConfig(
        num_encoder_layers=2, num_decoder_layers=3, d_model=16, d_hidden=20, dropout=0.2
    ),
}
"""A small configuration of each architecture, and of each of its variants."""

SOURCES = [[5, 6, 7, 8, 9, 10, 11], [12, 13], [14, 15, 16, 17]]
TARGETS = [[20, 21, 22], [4, 5, 6, 7, 8, 9], [10]]


def assert_equal(found: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


def architecture_of(config: model_config.ModelConfig) -> str:
    (architecture,) = (a for a, cls in model_config.MODEL_CONFIGS.items() if type(config) is cls)
    return architecture


def tiny(kind: str, tie_embeddings: str = "none", seed: int = 1) -> TranslationModel:
    """Return one of `TINY` in float64, in evaluation mode."""
    torch.manual_seed(seed)
    config = replace(TINY[kind], tie_embeddings=tie_embeddings)
    sizes = (TGT_VOCAB, TGT_VOCAB) if tie_embeddings == "all" else (SRC_VOCAB, TGT_VOCAB)
    return build_model(architecture_of(config), config, *sizes).double().eval()


@torch.no_grad()
def forced_logits(
    model: TranslationModel, sources: list[list[int]], targets: list[list[int]]
) -> list[Tensor]:
    """Return the teacher-forced logits of each pair, (length + 1, V)."""
    logits = model.project(model(batch_of(sources, targets)))
    return list(torch.split(logits, [len(ids) + 1 for ids in targets]))


def begin(model: TranslationModel, sources: list[list[int]]) -> DecoderState:
    return model.begin(pack_sources(sources))

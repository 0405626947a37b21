"""The values of each architecture: their defaults, what they mean, and what they may be."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.config_values import value


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What every architecture has."""

    d_model: int = value(
        512, "Width of embeddings and of the decoder's last states.", minimum=2, below=1e6
    )
    dropout: float = value(
        0.1, "Probability with which a unit is dropped in training.", minimum=0.0, below=1.0
    )
    tie_embeddings: str = value(
        "all",
        "Which of source embedding, target embedding and output projection are one matrix: "
        "all three, the decoder's two, or none. Separate vocabularies cannot share all.",
        choices=("all", "decoder", "none"),
    )

    def problems(self) -> list[str]:
        """Return what is wrong with the combination of values."""
        return []


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """The Transformer of Vaswani et al. (2017); defaults are its base model."""

    num_encoder_layers: int = value(
        6, "Layers of the encoder (the paper's N).", minimum=1, below=1000
    )
    num_decoder_layers: int = value(
        6, "Layers of the decoder (the paper's N).", minimum=1, below=1000
    )
    d_model: int = value(
        512, "Width of the residual stream; even, divisible by num_heads.", minimum=2, below=1e6
    )
    d_ff: int = value(2048, "Inner width of the feed-forward sub-layer.", minimum=1, below=1e6)
    num_heads: int = value(8, "Attention heads, each d_model / num_heads wide.", minimum=1)
    dropout: float = value(
        0.1,
        "P_drop: on each sub-layer's output and on the sum of embeddings and positions.",
        minimum=0.0,
        below=1.0,
    )

    def problems(self) -> list[str]:
        """Return what is wrong with the combination of values."""
        found = []
        if self.num_heads > 0 and self.d_model % self.num_heads:
            found.append(f"d_model {self.d_model} is not divisible by num_heads {self.num_heads}")
        if self.d_model % 2:
            found.append(f"d_model {self.d_model} is odd; sinusoidal positions come in pairs")
        return found


@dataclass(frozen=True, kw_only=True)
class ConvolutionalConfig(ModelConfig):
    """The convolutional model of Gehring et al. (2017); all its layers have one width."""

    num_encoder_layers: int = value(15, "Layers of the encoder.", minimum=1, below=1000)
    num_decoder_layers: int = value(
        15, "Layers of the decoder, each with an attention.", minimum=1, below=1000
    )
    d_hidden: int = value(512, "Width of the convolutions' outputs.", minimum=1, below=1e6)
    kernel_width: int = value(
        3, "Neighbouring tokens that a convolution sees, an odd number.", minimum=1, below=1000
    )
    dropout: float = value(
        0.2,
        "Probability with which a unit is dropped of embeddings, of each convolution's input and "
        "of the decoder's output.",
        minimum=0.0,
        below=1.0,
    )
    max_positions: int = value(
        1024,
        "Positions that have a vector of their own; those beyond share the last one's.",
        minimum=1,
        below=1e6,
    )

    def problems(self) -> list[str]:
        """Return what is wrong with the combination of values."""
        if self.kernel_width % 2:
            return []
        return [f"kernel_width {self.kernel_width} is even; use an odd one: as many on either side"]


MODEL_CONFIGS: dict[str, type[ModelConfig]] = {
    "transformer": TransformerConfig,
    "conv_seq2seq": ConvolutionalConfig,
}
"""The configuration class of each architecture."""

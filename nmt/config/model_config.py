"""The values of each architecture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from nmt.config.fields import fraction, value

_layers = partial(value, minimum=1, below=1000)


def _size(default: int, help: str, *, minimum: int = 1) -> Any:
    return value(default, help, minimum=minimum, below=1e6)


@dataclass(frozen=True)
class AttentionHead:
    """A head of the decoder's attention to the source."""

    from_top: int  # its layer, counted from the last one, which is 0
    head: int


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The values that all architectures have."""

    d_model: int = _size(512, "Width of embeddings and of the decoder's last states.", minimum=2)
    dropout: float = fraction(0.1, "Probability that a unit is dropped in training.")
    tie_embeddings: str = value(
        "all",
        "Which of source embedding, target embedding and output projection are one matrix: "
        "all three, the decoder's two, or none. Separate vocabularies cannot share all.",
        choices=("all", "decoder", "none"),
    )

    @property
    def longest_sentence(self) -> int | None:
        """Maximum tokens of a training sentence, including eos or bos; None: no limit.

        Sentences to translate may be longer.
        """
        return None

    def problems(self) -> list[str]:
        """Return what is wrong with the combination of values."""
        return []


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """The Transformer of Vaswani et al. (2017); defaults are its base model."""

    num_encoder_layers: int = _layers(6, "Layers of the encoder (the paper's N).")
    num_decoder_layers: int = _layers(6, "Layers of the decoder (the paper's N).")
    d_model: int = _size(
        512,
        "Width of the residual stream: even, for sinusoids, and divisible by num_heads, unless d_k "
        "and d_v are set.",
        minimum=2,
    )
    d_ff: int = _size(2048, "Inner width of the feed-forward sub-layer.")
    num_heads: int = value(8, "Attention heads, each d_model / num_heads wide.", minimum=1)
    d_k: int = _size(0, "Width of a head's queries and keys; 0: d_model / num_heads.", minimum=0)
    d_v: int = _size(0, "Width of a head's values; 0: d_model / num_heads.", minimum=0)
    pre_norm: bool = value(
        False,
        "Whether to normalise before each sub-layer and after the last layer of each stack, "
        "instead of after each sub-layer and its residual connection (the paper's).",
    )
    norm: str = value(
        "layer",
        "LayerNorm, or RMSNorm, which neither centres nor has a bias (Zhang and Sennrich 2019).",
        choices=("layer", "rms"),
    )
    norm_epsilon: float = fraction(
        0.0,
        "Added to the variance or mean square before the norm divides by its root; 0: 1e-5 for "
        "LayerNorm, 1e-6 for RMSNorm.",
    )
    feed_forward: str = value(
        "relu",
        "Between two products the paper's ReLU, Swish or GELU; or SwiGLU (Shazeer 2020): two "
        "factors, each d_ff wide, multiplied before the last product, and no biases.",
        choices=("relu", "swish", "gelu", "swiglu"),
    )
    decoder_memory: str = value(
        "attention",
        "How the decoder sees its earlier tokens: by self-attention, or by SSRU (Kim et al. 2019), "
        "a recurrent unit whose step costs the same at any length.",
        choices=("attention", "ssru"),
    )
    attention_bias: bool = value(
        False, "Whether queries, keys, values and the output of attention have biases."
    )
    output_bias: bool = value(
        False, "Whether each target token has a bias, which is added to its logit."
    )
    first_input: str = value(
        "bos",
        "Embedding that the decoder reads before the first token: that of bos, that of eos, or "
        "zeros.",
        choices=("bos", "eos", "zeros"),
    )
    source_end: bool = value(
        True, "Whether the encoder reads an eos after a source, which OpenNMT's does not."
    )
    positions: str = value(
        "sinusoidal",
        "Position encoding: the paper's sinusoids, Marian's (first all sines, then all cosines) or "
        "learned vectors, added to the embeddings; rotary, which rotates the queries and keys of "
        "self-attention (Su et al. 2021); or relative, vectors for each distance that "
        "self-attention adds to keys and values (Shaw et al. 2018).",
        choices=("sinusoidal", "sinusoidal_halves", "learned", "rotary", "relative"),
    )
    first_position: int = _size(
        0, "Position of a sentence's first token, for sinusoids.", minimum=0
    )
    max_positions: int = _size(
        1024,
        "Positions with their own learned vector, including bos or eos; later ones share the last "
        "vector. Only for learned positions.",
    )
    max_relative_distance: int = value(
        16,
        "Distance in tokens beyond which all distances share one vector (k of Shaw et al. 2018). "
        "Only for relative positions.",
        minimum=1,
        below=1e4,
    )
    dropout: float = fraction(
        0.1, "P_drop: on each sub-layer's output and on the sum of embeddings and positions."
    )

    def problems(self) -> list[str]:
        """Return what is wrong with the combination of values."""
        problems = []
        if self.num_heads > 0 and self.d_model % self.num_heads and not (self.d_k and self.d_v):
            problems.append(
                f"d_model {self.d_model} is not divisible by num_heads {self.num_heads}"
            )
        elif self.num_heads > 0 and self.positions == "rotary" and self.head_widths[0] % 2:
            problems.append(
                f"a head's queries are {self.head_widths[0]} wide, which is odd; rotary positions "
                "turn pairs: set d_k"
            )
        if self.positions.startswith("sinusoidal") and self.d_model % 2:
            problems.append(f"d_model {self.d_model} is odd; sinusoidal positions come in pairs")
        return problems

    @property
    def longest_sentence(self) -> int | None:
        """Return the number of learned positions; None for other positions."""
        return self.max_positions if self.positions == "learned" else None

    @property
    def head_widths(self) -> tuple[int, int]:
        """Widths of a head: of its queries and keys, and of its values."""
        width = self.d_model // self.num_heads
        return self.d_k or width, self.d_v or width


@dataclass(frozen=True, kw_only=True)
class ConvolutionalConfig(ModelConfig):
    """The convolutional model of Gehring et al. (2017); all of its layers have the same width."""

    num_encoder_layers: int = _layers(15, "Layers of the encoder.")
    num_decoder_layers: int = _layers(15, "Layers of the decoder, each with an attention.")
    d_hidden: int = _size(512, "Width of the convolutions' outputs.")
    kernel_width: int = value(
        3, "Tokens that a convolution covers, an odd number.", minimum=1, below=1000
    )
    dropout: float = fraction(
        0.2,
        "Probability that a unit is dropped: in embeddings, each convolution's input and the "
        "decoder's output.",
    )
    max_positions: int = _size(
        1024, "Positions with their own vector; later ones share the last vector."
    )

    def problems(self) -> list[str]:
        """Return what is wrong with the combination of values."""
        if self.kernel_width % 2:
            return []
        return [f"kernel_width {self.kernel_width} is even; use an odd number"]


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(ModelConfig):
    """LSTMs with attention (Bahdanau, Cho and Bengio 2015), about as large as the base model."""

    num_encoder_layers: int = _layers(3, "Layers of the encoder, each of them in both directions.")
    num_decoder_layers: int = _layers(3, "Layers of the decoder.")
    d_model: int = _size(
        512,
        "Width of embeddings, of the attentional state, and of attention's hidden layer.",
        minimum=2,
    )
    d_hidden: int = _size(
        1024,
        "Units of each LSTM layer, an even number: the encoder has half of them in each direction.",
        minimum=2,
    )
    dropout: float = fraction(
        0.2,
        "Probability that a unit is dropped: in embeddings, each layer's output and the state "
        "before the logits; never in the state passed to the next step.",
    )

    def problems(self) -> list[str]:
        """Return what is wrong with the combination of values."""
        if self.d_hidden % 2:
            return [f"d_hidden {self.d_hidden} is odd; the encoder's two directions share it"]
        return []


MODEL_CONFIGS: dict[str, type[ModelConfig]] = {
    "transformer": TransformerConfig,
    "conv_seq2seq": ConvolutionalConfig,
    "rnn_attention": RecurrentConfig,
}
"""The configuration class of each architecture."""

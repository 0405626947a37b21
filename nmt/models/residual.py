"""What stands around each sub-layer of a Transformer: the residual connection, dropout, a norm."""

from __future__ import annotations

from torch import Tensor, nn

from nmt.model_config import TransformerConfig
from nmt.models.dropout import add_dropped

# As LayerNorm's: of the mean square. torch's own default is the smallest step of the type, which is
# 0.008 in bf16, and would make one model another in each precision.
_RMS_EPSILON = 1e-6


def norm(config: TransformerConfig) -> nn.LayerNorm | nn.RMSNorm:
    """Return LayerNorm (Ba et al. 2016) or RMSNorm (Zhang and Sennrich 2019, equation 4)."""
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, eps=_RMS_EPSILON)
    return nn.LayerNorm(config.d_model)


def final_norm(config: TransformerConfig) -> nn.Module:
    """Return what closes a stack of layers: pre-norm layers leave their sums without a norm."""
    return norm(config) if config.pre_norm else nn.Identity()


class Residual(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))) (Vaswani et al. 2017, sections 3.1 and 5.4).

    With pre-norm, it is x + Dropout(Sublayer(LayerNorm(x))) (Xiong et al. 2020, figure 1).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = norm(config)
        self.pre_norm = config.pre_norm
        self.dropout = config.dropout

    def prepared(self, x: Tensor) -> Tensor:
        """Return x (n, D) as the sub-layer takes it."""
        return self.norm(x) if self.pre_norm else x

    def forward(self, x: Tensor, output: Tensor) -> Tensor:
        """Return what comes of x (n, D) and the sub-layer's output (n, D) for it."""
        summed = add_dropped(x, output, self.dropout, self.training)
        return summed if self.pre_norm else self.norm(summed)

"""A checksum of weights, computed where they are, that is the same on every device."""

from __future__ import annotations

import torch
from torch import Tensor

from nmt.errors import NMTError
from nmt.training.distributed import Ranks

# Values looked at in one go: 32 MB of int64, and a few times that while they are summed.
_CHUNK = 1 << 22


def checksum(vector: Tensor) -> str:
    """Return 16 hexadecimal digits that tell vectors apart bit for bit.

    The values' bits, as integers b_i of 32 bits, are summed with odd weights, (2 i + 1) b_i modulo
    2^64: their sum, and twice the sum weighted by position. Integers add up to the same in any
    order. A change of one value is always noticed, and so is a swap of two different ones, since
    neither can change the sum by a multiple of 2^64. Vectors that differ in many values are
    mistaken for each other by chance alone, about once in 2^64. It is no defence against somebody
    who looks for such a case.

    Args:
        vector: (n,) fp32, on any device; n below 2^31.
    """
    bits = vector.detach().view(torch.int32)  # (n,)
    total = torch.zeros((), dtype=torch.int64, device=vector.device)
    for start in range(0, len(bits), _CHUNK):
        chunk = bits[start : start + _CHUNK].to(torch.int64)
        end = start + len(chunk)
        weights = torch.arange(2 * start + 1, 2 * end, 2, device=vector.device)
        total += (chunk * weights).sum()
    return f"{int(total) % 2**64:016x}"


def checksum_of_all(weights: Tensor, ranks: Ranks) -> str:
    """Return the checksum of weights (n,) that all ranks have.

    Raises:
        NMTError: if they differ.
    """
    found = ranks.gather(checksum(weights))
    if len(set(found)) > 1:
        raise NMTError(f"the weights of the ranks differ: {found}; train on machines of one kind")
    return str(found[0])

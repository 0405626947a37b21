"""Guided alignment: a loss that lets a head of attention show which word stands for which.

One head of the decoder's attention to the source is trained to look at the source token that the
next target token is linked with (Chen et al. 2016, "Guided Alignment Training for Topic-Aware
Neural Machine Translation"). The other heads stay free. As in Marian it is the first head of the
last layer. Garg et al. (2019) took the penultimate layer, which learnt less here: see README.md.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nmt import console
from nmt.config.model_config import AttentionHead
from nmt.config.training_config import TrainingConfig
from nmt.data.batches import NO_LINK, Batch
from nmt.data.folder import DataFolder
from nmt.lexical.alignment_links import TokenLinker
from nmt.lexical.ibm_model1 import LEXICON_STEPS
from nmt.models.device import return_freed_memory
from nmt.models.kernels.padded_layout import PaddedLayout
from nmt.system.distributed import Ranks

GUIDED_HEAD = AttentionHead(from_top=0, head=0)


def alignment_loss(queries: Tensor, keys: Tensor, batch: Batch) -> Tensor:
    """Return the cross-entropy of a head's attention with the links, summed over links.

    That is the sum of -log softmax(query keys^T / sqrt(K)) at the linked source token, over target
    tokens with a link. The keys are those of the target's source.

    queries: (n, K), of the positions of `batch.tgt_in`.
    keys: (m, K), of the tokens of `batch.src`.
    batch: pairs with links.
    Returns a scalar in fp32 at least.
    """
    links, wide = batch.links, torch.promote_types(queries.dtype, torch.float32)
    assert links is not None
    total = torch.zeros((), dtype=wide, device=queries.device)
    for src, tgt in zip(links.src, links.tgt, strict=True):
        own, others = (
            PaddedLayout.of_group(packed, group)
            for packed, group in ((batch.tgt_in, tgt), (batch.src, src))
        )
        query, key = own.rows(queries).to(wide), others.rows(keys).to(wide)  # (B, T or S, K)
        scores = torch.bmm(query * query.shape[-1] ** -0.5, key.transpose(1, 2))  # (B, T, S)
        log_probs = scores.masked_fill(~others.mask[:, None], -math.inf).log_softmax(dim=-1)
        linked = links.sources[own.tokens]  # (B, T)
        at_link = log_probs.gather(2, linked.clamp(min=0)[..., None])[..., 0]  # (B, T)
        # Not by an index of booleans, for which the host would wait.
        total = total - at_link.masked_fill(~own.mask | (linked == NO_LINK), 0.0).sum()
    return total


def learn_links(config: TrainingConfig, data: DataFolder, ranks: Ranks) -> TokenLinker | None:
    """Return what links the tokens of pairs if a recipe needs it, the same on all ranks.

    The first rank learns the lexicon, as it takes memory, and sends it to the others.
    """
    if not config.guided_alignment:
        return None
    sizes = len(data.src_vocabulary), len(data.tgt_vocabulary)
    parts: list[Tensor] = []
    with ranks.raise_on_all_ranks():
        if ranks.is_first:
            with console.progress("linking", total=2 * LEXICON_STEPS, unit="steps") as bar:
                linker = TokenLinker.learn(data.train, *sizes, bar.update)
            parts = [torch.from_numpy(x) for x in (linker.keys, linker.forward, linker.backward)]
            return_freed_memory()  # which is more than training takes
    count = ranks.gather(len(parts[0]) if parts else 0)[0]
    parts = parts or [
        torch.empty(count, dtype=dtype) for dtype in (torch.int64, torch.float64, torch.float64)
    ]
    keys, forward, backward = (ranks.broadcast_(part).numpy() for part in parts)
    return TokenLinker(keys, forward, backward, sizes[1])

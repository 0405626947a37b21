"""Shortlists of target tokens for each sentence, so that few logits are computed.

The output layer is up to half of a decoder's work. The tokens of a translation are nearly always
among the most probable translations of its source's tokens and the most frequent tokens of all
(Schwenk et al. 2007; Jean et al. 2015, section 3.2). Each sentence has its own list, which does not
depend on its batch, and its own copy of these tokens' rows of the output projection. The union of a
batch's lists would be most of a vocabulary of 8,000. A sentence whose list is too long to pay is
searched without one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch import device as Device

from nmt.data.folder import DataFolder, PairDataset
from nmt.data.vocabulary import EOS_ID, Vocabulary
from nmt.errors import DataError, UsageError
from nmt.lexical.lexicon import learn_lexicon
from nmt.models.base import Decoder
from nmt.models.device import to_device
from nmt.models.tensor_file import TensorFile, write_tensors
from nmt.search.engine import Source
from nmt.search.top_k import Fields, Integers, NextTokens, Pick, StepQuery, pick_tokens

_KIND, _VERSION = "a shortlist", 1

_COST, _WIDEST = 32, 4
"""A list pays up to a 32nd of the vocabulary for each hypothesis of a sentence, up to an 8th."""

_SPECIAL = np.arange(EOS_ID + 1)  # first on each list, so that eos is at EOS_ID everywhere


@dataclass(frozen=True)
class Shortlist:
    """The target tokens that may translate each source token."""

    frequent: Integers  # (F,) on every sentence's list
    best: Integers  # (source vocabulary, K) top translations of each token, padded with -1

    def of(self, source: Source) -> Integers:
        """Return a sentence's list, ascending, with the tokens of its prefix and its phrases."""
        own = self.best[np.array(source.ids)].ravel()
        forced = (*source.prefix, *chain.from_iterable(phrase.tokens for phrase in source.phrases))
        parts = (_SPECIAL, self.frequent, own[own >= 0], np.array(forced, np.int64))
        return np.unique(np.concatenate(parts))

    def pays(self, source: Source, vocab_size: int, width: int) -> bool:
        """Tell whether a sentence's list makes its search with so many hypotheses faster.

        A step reads the rows of its tokens once for each sentence. Those of the whole vocabulary it
        reads once for many sentences, and computes with them for each hypothesis.
        """
        return len(self.of(source)) * _COST <= vocab_size * min(width, _WIDEST)

    def coverage(self, pairs: PairDataset) -> tuple[float, float]:
        """Return the mean length of the lists, and the share of target tokens on them."""
        length = covered = tokens = 0
        for pair in range(len(pairs)):
            target = pairs.tgt(pair)
            own = self.of(Source(tuple(pairs.src(pair).tolist())))
            length += len(own)
            covered += int(np.isin(target, own).sum())
            tokens += len(target)
        return length / len(pairs), covered / tokens

    def write(self, path: Path, src_vocabulary: Vocabulary, tgt_vocabulary: Vocabulary) -> None:
        """Write a file for models with these vocabularies, whole or not at all."""
        tensors = {
            "frequent": torch.from_numpy(self.frequent.astype(np.int32)),
            "best": torch.from_numpy(self.best.astype(np.int32)),
        }
        header = {"vocabularies": _checksums(src_vocabulary, tgt_vocabulary)}
        write_tensors(path, tensors, header, kind=_KIND, version=_VERSION)

    @classmethod
    def open(cls, path: Path, src_vocabulary: Vocabulary, tgt_vocabulary: Vocabulary) -> Shortlist:
        """Read a file for models with these vocabularies.

        Raises:
            DataError: if it is missing, damaged or for other vocabularies.
        """
        file = TensorFile(path, kind=_KIND, version=_VERSION)
        file.verify()
        if file.header.get("vocabularies") != _checksums(src_vocabulary, tgt_vocabulary):
            raise DataError(
                f"{path}: made for other vocabularies than the model's; export one from "
                "the model's training data"
            )
        frequent, best = (file.read(name).numpy().astype(np.int64) for name in ("frequent", "best"))
        sizes = best.ndim == 2 and len(best) == len(src_vocabulary) and frequent.ndim == 1
        known = (-1, len(tgt_vocabulary))
        for tokens in (frequent, best):
            sizes = sizes and bool(((tokens >= known[0]) & (tokens < known[1])).all())
        if not sizes or (frequent < 0).any():
            raise DataError(f"{path}: damaged: it has tokens that are not in its vocabularies")
        return cls(frequent, best)


def learn_shortlist(
    folder: DataFolder,
    *,
    frequent: int,
    best: int,
    on_progress: Callable[[int], object] | None = None,
) -> Shortlist:
    """Learn a shortlist from the training pairs of a data folder.

    Each list has the `frequent` most frequent target tokens, and the `best` most probable
    translations of each source token.
    """
    sizes = len(folder.src_vocabulary), len(folder.tgt_vocabulary)
    lexicon = learn_lexicon(folder.train, *sizes, on_progress=on_progress)
    most_frequent = np.argsort(-lexicon.target_counts, kind="stable")[:frequent]
    return Shortlist(most_frequent, lexicon.best(best, sizes[0]))


def check_replaceable(path: Path) -> None:
    """Refuse to replace a file that is not a shortlist (UsageError)."""
    if path.exists():
        try:
            TensorFile(path, kind=_KIND, version=_VERSION)
        except DataError:
            raise UsageError(
                f"{path}: exists and is not a shortlist; choose another name or remove it"
            ) from None


def _checksums(*vocabularies: Vocabulary) -> list[str]:
    return [hashlib.sha256(vocabulary.model).hexdigest() for vocabulary in vocabularies]


class BatchShortlist:
    """The shortlists of B sentences, and the model's projections onto them."""

    def __init__(
        self, lists: Sequence[Integers], model: Decoder, barred_ids: Sequence[int], device: Device
    ) -> None:
        """Take each sentence's list, ascending, with `_SPECIAL` first."""
        self._model = model
        self._device = device
        self._tokens = np.full((len(lists), max(map(len, lists))), model.vocab_size)  # (B, U)
        for row, tokens in enumerate(lists):
            self._tokens[row, : len(tokens)] = tokens
        special = [token for token in barred_ids if token <= EOS_ID]
        self._barred_special = tuple(special)  # at the same places of each list
        self._is_barred = np.isin(self._tokens, np.setdiff1d(barred_ids, special))  # (B, U) others
        self._projections = model.own_projections(*to_device([self._tokens], device))

    def pick(self, pick: Pick, features: Tensor, query: StepQuery) -> Fields:
        """Pick each hypothesis's next tokens from its sentence's shortlist, for `with_ids`.

        features: (B * W, F) sentence by sentence; see `Decoder.step`.
        """
        logits = self._model.project_onto(self._projections, features)  # (B * W, U)
        query = query.onto(self._tokens)
        if self._is_barred.any():
            width = len(features) // len(self._tokens)
            query.barred.append(np.argwhere(self._is_barred.repeat(width, axis=0)))
        return pick_tokens([logits], query, pick=pick, barred_ids=self._barred_special)

    def with_ids(self, picked: NextTokens) -> NextTokens:
        """Return what was picked, with ids instead of places on the lists."""
        rows = np.arange(len(picked.tokens)) // (len(picked.tokens) // len(self._tokens))
        tokens = self._tokens[rows[:, None], picked.tokens]  # (N, k)
        # Padding has no probability, but the model reads it.
        return replace(picked, tokens=np.minimum(tokens, self._model.vocab_size - 1))

    def select(self, sentences: Integers) -> None:
        """Keep these sentences, in this order."""
        if len(sentences) == len(self._tokens):  # all of them
            return
        self._tokens, self._is_barred = self._tokens[sentences], self._is_barred[sentences]
        moved = np.flatnonzero(sentences != np.arange(len(sentences)))
        places, origins = to_device([moved, sentences[moved]], self._device)
        kept = []
        for weight, bias in self._projections:
            weight[places], bias[places] = weight[origins], bias[origins]  # few, see `closed_up`
            kept.append((weight[: len(sentences)], bias[: len(sentences)]))
        self._projections = kept

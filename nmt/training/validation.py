"""Validation: loss and perplexity on the valid pairs, and translations of the valid texts.

Every rank does a share, and all of them get the metrics.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from nmt.config import TrainingConfig
from nmt.data.batches import collate, parts_by_length
from nmt.data.corpus import read_pairs
from nmt.data.epochs import Indices
from nmt.data.folder import DataFolder
from nmt.distributed import Ranks
from nmt.errors import NMTError, Stopped
from nmt.models.base import TranslationModel
from nmt.models.device import memory_errors
from nmt.runs.report import Sample, ValidationResult
from nmt.scoring.metrics import score
from nmt.search.options import SearchOptions
from nmt.training.loss import smoothed_cross_entropy
from nmt.translate.torch_engine import TorchEngine
from nmt.translate.translator import Translator

_PARTS_TRIED, _LINES_TRIED = 4, 16  # of valid, to estimate the time of all of it


class Validator:
    """Measures a model on a data folder's valid split."""

    def __init__(
        self, data: DataFolder, ranks: Ranks, device: torch.device, config: TrainingConfig
    ) -> None:
        self.data = data
        self.ranks = ranks
        self.device = device
        self.config = config
        self.micro_batch_tokens = config.micro_batch_tokens
        self._sources, self._references = (
            path.read_bytes().decode().split("\n")[:-1] for path in data.valid_text
        )
        self._old = read_pairs(config.valid_old, *data.info.langs) if config.valid_old else None
        self._shown = spread(config.sample_translations, len(self._sources))  # lines of samples

    def measure(
        self, model: TranslationModel, stop_requested: Callable[[], bool]
    ) -> ValidationResult | None:
        """Measure the model; return None if any rank was asked to stop before the end."""

        def check_stop() -> None:
            if stop_requested():
                raise Stopped("in validation")

        model.eval()
        try:
            loss, nll = self._losses(model, check_stop)
            if not math.isfinite(loss):
                return ValidationResult(loss, nll, None, None)
            bleu, signature, samples = self._translations(model, check_stop)
            old_bleu = self._old_bleu(model, check_stop)
        except Stopped:
            return None
        finally:
            model.train()
        return ValidationResult(loss, nll, bleu, signature, samples, old_bleu)

    @torch.inference_mode()
    def _losses(
        self, model: TranslationModel, check_stop: Callable[[], None]
    ) -> tuple[float, float]:
        sums = torch.zeros(3, dtype=torch.float64)  # loss, nll, tokens
        parts = parts_by_length(self.data.valid, self.micro_batch_tokens)
        with self.ranks.together():  # a stop on one rank ends it on all
            for part in parts[self.ranks.rank :: self.ranks.world_size]:
                check_stop()
                sums += torch.tensor(self._sums(model, part), dtype=torch.float64)
        loss_sum, nll_sum, tokens = self.ranks.sum_(sums).tolist()
        return loss_sum / tokens, nll_sum / tokens

    def _sums(self, model: TranslationModel, part: Indices) -> list[float]:
        """Return loss, nll and tokens of some pairs; if memory runs out, by halves."""
        try:
            with memory_errors():
                batch = collate(*self.data.valid.rows(part)).to(self.device)
                loss, nll = smoothed_cross_entropy(
                    model(batch),
                    model.output_projection,
                    batch.targets,
                    self.config.label_smoothing,
                    bias=model.output_bias,
                )
                return [loss.item(), nll.item(), batch.num_tokens]
        except MemoryError:
            if len(part) == 1:
                raise
        halves = (self._sums(model, half) for half in np.array_split(part, 2))
        return [sum(both) for both in zip(*halves, strict=True)]

    def _translations(
        self, model: TranslationModel, check_stop: Callable[[], None]
    ) -> tuple[float | None, str | None, tuple[Sample, ...]]:
        """Translate the raw valid text; return BLEU, its signature and the samples.

        BLEU needs all lines. Without BLEU only the samples are translated.
        """
        with_bleu = self.config.validate_bleu
        lines = range(len(self._sources)) if with_bleu else self._shown
        texts = self._translate(model, [self._sources[line] for line in lines], check_stop)
        found = dict(zip(lines, texts, strict=True))
        samples = tuple(
            Sample(line + 1, self._sources[line], self._references[line], found[line])
            for line in self._shown
        )
        if not with_bleu:
            return None, None, samples
        result = score(texts, [self._references], metrics=("bleu",))["bleu"]
        return result.score, result.signature, samples

    def _old_bleu(self, model: TranslationModel, check_stop: Callable[[], None]) -> float | None:
        if self._old is None:
            return None
        sources, references = self._old
        texts = self._translate(model, sources, check_stop)
        return score(texts, [references], metrics=("bleu",))["bleu"].score

    def _translate(
        self, model: TranslationModel, sources: list[str], check_stop: Callable[[], None]
    ) -> list[str]:
        """Translate lines by beam search, in the precision of training; each rank does a share."""
        if not sources:
            return []
        size = self.ranks.world_size
        mine = sources[self.ranks.rank :: size]
        texts: list[str] = []
        with self.ranks.together():  # a stop or failure on one rank ends it on all
            for found in self._translator(model).translate(mine, on_step=check_stop):
                if found.error:
                    raise NMTError(f"a valid line was not translated: {found.error}")
                texts.append(found.text)
        translations = [""] * len(sources)
        for rank, part in enumerate(self.ranks.gather(texts)):
            translations[rank::size] = part
        return translations

    def _translator(
        self, model: TranslationModel, options: SearchOptions | None = None
    ) -> Translator:
        options = (options or SearchOptions()).into(self.data.tgt_vocabulary)
        return Translator(
            TorchEngine(model, options, device=self.device),
            self.data.src_vocabulary,
            self.data.tgt_vocabulary,
            languages=self.data.info.langs,
            max_src_tokens=self.data.info.max_length,
        )

    def estimated_seconds(self, model: TranslationModel) -> float:
        """Estimate from a part how long this process would take to `measure` a model by itself.

        The translations are no longer than their sources, because an untrained model does not end
        them.
        """
        lines, old = len(self._sources), len(self._old[0]) if self._old else 0
        count = lines if self.config.validate_bleu else len(self._shown)
        tried = [self._sources[n] for n in spread(min(count + old, _LINES_TRIED), lines)]
        parts = parts_by_length(self.data.valid, self.micro_batch_tokens)  # about equal
        model.eval()
        try:
            with torch.inference_mode():
                started = time.monotonic()
                for part in spread(_PARTS_TRIED, len(parts)):
                    self._sums(model, parts[part])
                seconds = (time.monotonic() - started) * max(1.0, len(parts) / _PARTS_TRIED)
            if tried:
                translator = self._translator(model, SearchOptions(max_extra_tokens=0))
                started = time.monotonic()
                translator.translate(tried)
                seconds += (time.monotonic() - started) * (count + old) / len(tried)
        finally:
            model.train()
        return seconds


def spread(count: int, total: int) -> Sequence[int]:
    """Return `count` evenly spaced indices of `total`, at most all: 2 of 8 are 2 and 6.

    Each is the middle of one of `count` equal parts.
    """
    count = min(count, total)
    return [(2 * part + 1) * total // (2 * count) for part in range(count)]

"""Validation: loss and perplexity on the valid pairs, and translations of the valid texts.

Every rank does a share, and all of them get the metrics. BLEU's tokenizer is chosen when a run
starts, one for each pair of languages. A recipe's `validate_tokenizer` is one name, or one for each
pair: `en-de:13a,en-zh:zh`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from nmt import console
from nmt.config.training_config import TrainingConfig
from nmt.data.batches import collate, parts_by_length
from nmt.data.composition import compose_lines
from nmt.data.epochs import Indices
from nmt.data.folder import DataFolder, HeldOut
from nmt.data.language_tokens import spell_pair
from nmt.data.words import has_letters
from nmt.errors import NMTError, Stopped, UsageError, did_you_mean
from nmt.models.base import TranslationModel
from nmt.models.device import memory_errors
from nmt.runs.report import TextResult, ValidationResult
from nmt.scoring.metrics import Score, make_metrics, score
from nmt.scoring.options import TOKENIZERS
from nmt.scoring.text_warnings import unspaced_lines
from nmt.scoring.tokenizers import has_packages, missing_packages, splits_at_spaces, tokenizer_for
from nmt.search.options import SearchOptions
from nmt.search.torch_engine import TorchEngine
from nmt.system.distributed import Ranks
from nmt.training.first_weights import whole_src_tokens
from nmt.training.loss import losses_of
from nmt.translate.language_pair import LanguagePair
from nmt.translate.options import TranslationConfig
from nmt.translate.translator import Translator

_SEARCH = SearchOptions(no_guard=True)  # a young model loops nearly everywhere
_AUTO = "auto"
_PARTS_TRIED, _LINES_TRIED = 4, 16  # of valid, to estimate the time of all of it


@dataclass
class _ValidText:
    """The lines of a text of valid."""

    langs: tuple[str, str]
    sources: list[str]
    references: list[str]
    shown: Sequence[int] = ()  # lines of samples

    @classmethod
    def read(cls, text: HeldOut) -> _ValidText:
        """Read the lines. Those that end a document are blank on both sides, and left out."""
        pairs = [pair for pair in zip(*text.lines(), strict=True) if any(map(str.strip, pair))]
        return cls(text.langs, [src for src, _ in pairs], [tgt for _, tgt in pairs])

    @property
    def pair(self) -> str:
        return spell_pair(self.langs)

    @property
    def search(self) -> SearchOptions:
        """The options of search: lines without letters are copied, unless most are such lines."""
        letters = sum(map(has_letters, self.sources))
        return replace(_SEARCH, no_copy=2 * letters < len(self.sources))


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
        self._on_progress: Callable[[int], object] = int
        self._stop_requested: Callable[[], bool] = bool
        self._whole_src_tokens = whole_src_tokens(data)
        self._texts = [_ValidText.read(text) for text in data.valid_texts]
        self._tokenizers = tokenizers_of(config.validate_tokenizer, data)
        shares = np.array_split(np.arange(config.sample_translations), len(self._texts))
        for text, share in zip(self._texts, shares, strict=True):
            text.shown = spread(len(share), len(text.sources))
            if text.search.no_copy:
                console.notice(
                    f"{text.pair}: most sources of valid have no letters, and are translated as "
                    "with nmt translate --no-copy"
                )

    def doubts(self) -> list[str]:
        """Return why BLEU may not tell a good model from a bad one, and what to do."""
        return [
            f"valid of {text.pair}: {len(unspaced):,} of {len(text.references):,} {text.langs[1]} "
            f"lines have no spaces between words, at which BLEU's tokenizer {tokenizer} splits; "
            "check that code, or begin a new run with --set validate_tokenizer=char"
            for text in self._texts
            if "bleu" in self.config.metrics
            and splits_at_spaces(tokenizer := self._tokenizers[text.pair])
            and (unspaced := unspaced_lines(text.references))
        ]

    @property
    def work(self) -> int:
        """How many lines `measure` has done in the end: each is scored and translated."""
        metrics = self.config.metrics
        translated = [len(text.sources if metrics else text.shown) for text in self._texts]
        return (len(self.data.valid) + sum(translated)) // self.ranks.world_size

    def measure(
        self,
        model: TranslationModel,
        stop_requested: Callable[[], bool],
        on_progress: Callable[[int], object] = int,
    ) -> ValidationResult | None:
        """Measure the model; return None if any rank was asked to stop before the end.

        on_progress: called with the number of lines just done by this rank.
        """
        self._on_progress, self._stop_requested = on_progress, stop_requested
        model.eval()
        try:
            loss, nll, nlls = self._losses(model)
            if not math.isfinite(loss):
                return ValidationResult(loss, nll)
            scores, samples = self._translations(model)
        except Stopped:
            return None
        finally:
            model.train()
        texts = tuple(map(TextResult, (text.langs for text in self._texts), nlls, scores))
        return ValidationResult(loss, nll, texts, samples)

    def _check_stop(self) -> None:
        if self._stop_requested():
            raise Stopped("in validation")

    @torch.inference_mode()
    def _losses(self, model: TranslationModel) -> tuple[float, float, list[float]]:
        """Return loss and nll over all texts, and the nll of each."""
        sums = torch.zeros(len(self._texts), 3, dtype=torch.float64)  # loss, nll, tokens
        parts = self._parts()
        with self.ranks.raise_on_all_ranks():  # a stop on one rank ends it on all
            for text, part in parts[self.ranks.rank :: self.ranks.world_size]:
                self._check_stop()
                sums[text] += torch.tensor(self._sums(model, part), dtype=torch.float64)
                self._on_progress(len(part))
        sums = self.ranks.sum_(sums)
        loss_sum, nll_sum, tokens = sums.sum(0).tolist()
        nlls = (sums[:, 1] / sums[:, 2]).tolist()
        return loss_sum / tokens, nll_sum / tokens, nlls

    def _parts(self) -> list[tuple[int, Indices]]:
        """Return all pairs of valid in parts, each with the number of its text."""
        parts, first = [], 0
        for number, text in enumerate(self.data.valid.by_shard()):
            lengths = text.lengths(np.arange(len(text)))
            parts_of_text = parts_by_length(*lengths, self.micro_batch_tokens)
            parts += [(number, first + part) for part in parts_of_text]
            first += len(text)
        return parts

    def _sums(self, model: TranslationModel, part: Indices) -> list[float]:
        """Return loss, nll and tokens of some pairs; if memory runs out, by halves."""
        try:
            with memory_errors():
                rows, on_gpu = self.data.valid.rows(part), self.device.type == "cuda"
                batch = collate(*rows, on_gpu=on_gpu, in_multiples=not on_gpu).to(self.device)
                loss, nll = losses_of(model, batch, self.config.label_smoothing)
                return [loss.item(), nll.item(), batch.num_tokens]
        except MemoryError:
            if len(part) == 1:
                raise
        halves = (self._sums(model, half) for half in np.array_split(part, 2))
        return [sum(both) for both in zip(*halves, strict=True)]

    def _translations(
        self, model: TranslationModel
    ) -> tuple[list[dict[str, Score]], list[dict[str, Any]]]:
        """Translate the raw valid texts; return the scores of each, and the samples.

        Scores need all lines. Without scores only the samples are translated.
        """
        metrics = self.config.metrics
        scores, samples = list[dict[str, Score]](), list[dict[str, Any]]()
        for text in self._texts:
            lines = range(len(text.sources)) if metrics else text.shown
            sources = [text.sources[line] for line in lines]
            outputs = self._translate(model, sources, text)
            translations = dict(zip(lines, outputs, strict=True))
            samples += [
                {
                    "line": line + 1,
                    "source": text.sources[line],
                    "reference": text.references[line],
                    "translation": translations[line],
                }
                for line in text.shown
            ]
            scores.append(self._scores(outputs, text) if metrics else {})
        return scores, samples

    def _scores(self, outputs: Sequence[str], text: _ValidText) -> dict[str, Score]:
        """Return scores by metric; of NFC, if the model can write nothing else."""
        references: Sequence[str] = text.references
        if self.data.tgt_vocabulary.composes:
            outputs, references = compose_lines(outputs), compose_lines(references)
        tokenizer = self._tokenizers[text.pair]
        return score(outputs, [references], self.config.metrics, tokenize=tokenizer)

    def _translate(
        self, model: TranslationModel, sources: list[str], text: _ValidText
    ) -> list[str]:
        """Translate lines of a text by beam search.

        Each rank does a share.
        """
        if not sources:
            return []
        size = self.ranks.world_size
        mine = sources[self.ranks.rank :: size]
        texts: list[str] = []
        translator = self._translator(model, text.langs, text.search)
        with self.ranks.raise_on_all_ranks():  # a stop or failure on one rank ends it on all
            translated = translator.translate(
                mine, on_progress=self._on_progress, on_step=self._check_stop
            )
            for translation in translated:
                if translation.error:
                    raise NMTError(f"a valid line was not translated: {translation.error}")
                texts.append(translation.text)
        translations = [""] * len(sources)
        for rank, part in enumerate(self.ranks.gather(texts)):
            translations[rank::size] = part
        return translations

    def _translator(
        self, model: TranslationModel, langs: tuple[str, str], options: SearchOptions
    ) -> Translator:
        src, tgt = self.data.vocabularies(langs)
        threads = torch.get_num_threads()
        engine = TorchEngine(model, options.into(tgt), device=self.device, threads=threads)
        return Translator(
            engine,
            LanguagePair(langs, src, tgt, self.data.info.max_length, self._whole_src_tokens),
            TranslationConfig(search=options),
        )

    def estimated_seconds(self, model: TranslationModel) -> float:
        """Estimate from a part how long this process would take to `measure` a model by itself.

        The translations are no longer than their sources, because an untrained model does not end
        them.
        """
        sources = [source for text in self._texts for source in text.sources]
        shown = sum(len(text.shown) for text in self._texts)
        count = len(sources) if self.config.metrics else shown
        tried = [sources[n] for n in spread(min(count, _LINES_TRIED), len(sources))]
        parts = [part for _, part in self._parts()]  # about equal
        model.eval()
        try:
            with torch.inference_mode():
                started = time.monotonic()
                for part in spread(_PARTS_TRIED, len(parts)):
                    self._sums(model, parts[part])
                seconds = (time.monotonic() - started) * max(1.0, len(parts) / _PARTS_TRIED)
            if tried:
                first = self._texts[0]
                options = replace(first.search, max_extra_tokens=0)
                translator = self._translator(model, first.langs, options)
                started = time.monotonic()
                translator.translate(tried)
                seconds += (time.monotonic() - started) * count / len(tried)
        finally:
            model.train()
        return seconds


def spread(count: int, total: int) -> Sequence[int]:
    """Return `count` evenly spaced indices of `total`, at most all: 2 of 8 are 2 and 6.

    Each is the middle of one of `count` equal parts.
    """
    count = min(count, total)
    return [(2 * part + 1) * total // (2 * count) for part in range(count)]


# --- BLEU's tokenizer


def resolve_tokenizers(config: TrainingConfig, named: str, data: DataFolder, ranks: Ranks) -> str:
    """Return the tokenizer of each pair, as `validate_tokenizer` has them.

    Every rank scores, so what a tokenizer needs must be installed for all of them.

    config: the recipe's values.
    named: the recipe's `validate_tokenizer`, or that of the run that goes on.
    data: the data folder.
    ranks: all of them take part.
    UsageError if the run computes BLEU, and the packages of a tokenizer are missing. DataError if
    the model of a tokenizer cannot be downloaded.
    """
    usable = [name for name in TOKENIZERS if has_packages(name)]
    usable = [name for name in TOKENIZERS if all(name in names for names in ranks.gather(usable))]
    tokenizers = tokenizers_of(named, data, is_installed=usable.__contains__)
    computes_bleu = "bleu" in config.metrics
    for pair, tokenizer in tokenizers.items():
        if computes_bleu and tokenizer not in usable:
            raise UsageError(
                f"BLEU of {pair} is computed with {tokenizer} (validate_tokenizer), which "
                f"{missing_packages(tokenizer)}"
            )
    if computes_bleu:
        # A model is downloaded now, and once, not at the first validation.
        with ranks.raise_on_all_ranks():
            if ranks.local_rank == 0:
                for tokenizer in set(tokenizers.values()):
                    make_metrics(["bleu"], [["a"]], tokenize=tokenizer)
    if named == _AUTO:  # with the pairs, so that a recipe for other languages does not keep it
        return ",".join(f"{pair}:{tokenizer}" for pair, tokenizer in tokenizers.items())
    return named


def tokenizers_of(
    named: str, data: DataFolder, *, is_installed: Callable[[str], bool] | None = None
) -> dict[str, str]:
    """Return the tokenizer of each pair of languages of valid.

    named: a recipe's validate_tokenizer.
    data: the data folder.
    is_installed: for auto, tells whether the packages of a tokenizer are there.
    UsageError if a name is unknown, or the pairs are not those of the data.
    """
    targets = {spell_pair(text.langs): text.langs[1] for text in data.valid_texts}
    if named == _AUTO:
        return {
            pair: tokenizer_for(tgt, is_installed=is_installed) for pair, tgt in targets.items()
        }
    if ":" in named:
        entries = (entry.rpartition(":") for entry in named.split(","))
        tokenizers = {pair.strip(): name.strip() for pair, _, name in entries}
        if tokenizers.keys() != targets.keys():
            raise UsageError(
                f"validate_tokenizer has {', '.join(tokenizers)}, but {data.path} has "
                f"{', '.join(targets)}; name a tokenizer for each pair, or set "
                f"validate_tokenizer={_AUTO}"
            )
    else:
        tokenizers = dict.fromkeys(targets, named)
    for name in tokenizers.values():
        if name not in TOKENIZERS:
            known = did_you_mean(name, [*TOKENIZERS, _AUTO])
            raise UsageError(f"validate_tokenizer: unknown tokenizer {name!r}{known}")
    return {pair: tokenizers[pair] for pair in targets}

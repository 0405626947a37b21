"""Forced-decoding scores: how likely a model finds given translations.

If search found the same tokens, the scores equal those of search, up to rounding. Text is encoded
as in training. If search produced other subwords for the same text, the scores differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from nmt.data.batches import Batch
from nmt.search.beam_search import logits_in_blocks
from nmt.search.engine import NOT_A_NUMBER, OUT_OF_MEMORY
from nmt.search.forced import BATCH_TOKENS, Pair, forced
from nmt.search.options import SearchOptions
from nmt.translate.output import BLANK, Translation
from nmt.translate.torch_engine import LoadedModel, load_models
from nmt.translate.translator import POOL_LINES

TextPair = tuple[str, str]
"""A source and its translation."""


@dataclass
class Likelihood:
    """The likelihood of a text, summed over its translations, and counts to report."""

    lines: int = 0
    tokens: int = 0  # with eos of each translation; none for blank lines
    log_prob: float = 0.0  # natural logarithm
    long_lines: int = 0  # with a side longer than any in training
    first_long_line: int = 0  # from 1; 0: none
    failed_lines: int = 0
    first_failed_line: int = 0
    first_error: str = ""  # why it failed

    @property
    def nll(self) -> float:
        """Negative log-likelihood, nats a token; NaN without tokens."""
        return -self.log_prob / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """exp(nll), per subword, as in validation."""
        return math.exp(min(self.nll, 700.0))

    def add(self, translation: Translation, *, is_long: bool) -> None:
        """Count the next line's translation."""
        self.lines += 1
        if translation.error:
            self.failed_lines += 1
            self.first_failed_line = self.first_failed_line or self.lines
            self.first_error = self.first_error or translation.error
            return
        self.tokens += len(translation.tokens) + translation.segments  # eos of each segment
        self.log_prob += translation.log_prob
        if is_long:
            self.long_lines += 1
            self.first_long_line = self.first_long_line or self.lines


class Scorer:
    """Scores translations with a model or an ensemble."""

    def __init__(self, loaded: LoadedModel, options: SearchOptions | None = None) -> None:
        """Set up the scorer; of the options, only the length penalty counts."""
        self.max_tokens = loaded.max_src_tokens  # of either side in training
        self.vocab_size = loaded.model.vocab_size  # of the target
        self._most_tokens = max(BATCH_TOKENS, self.max_tokens)  # in a batch
        self._model = loaded.model
        self._device = loaded.device
        self._src_vocabulary = loaded.src_vocabulary
        self._tgt_vocabulary = loaded.tgt_vocabulary
        self._options = options or SearchOptions()

    @classmethod
    def load(
        cls,
        path: Path | str | Sequence[Path | str],
        options: SearchOptions | None = None,
        *,
        device: torch.device | str = "cpu",
        precision: str = "fp32",
    ) -> Scorer:
        """Load a model file, or the best model of a run folder; or several as an ensemble.

        See `load_models`.
        """
        return cls(load_models(path, device=device, precision=precision), options)

    def stream(
        self,
        pairs: Iterable[TextPair],
        likelihood: Likelihood,
        *,
        pool_pairs: int = POOL_LINES,
        on_progress: Callable[[int], object] | None = None,
    ) -> Iterator[Translation]:
        """Score pairs as they come, `pool_pairs` at a time.

        Args:
            pairs: source and translation, without line ends.
            likelihood: updated with each pair.
            pool_pairs: larger pools give batches of more similar length.
            on_progress: called with the number of pairs just done.

        Yields:
            Each pair's translation with its scores, in order. If a pair cannot be scored, `error`
            says why, and the score is -inf. If both sides are blank, the score is 0.
        """
        waiting = iter(pairs)
        while pool := list(islice(waiting, pool_pairs)):
            sources, texts = zip(*pool, strict=True)
            src_ids, tgt_ids = (
                self._src_vocabulary.encode(sources),
                self._tgt_vocabulary.encode(texts),
            )
            longest = [max(map(len, ids)) for ids in zip(src_ids, tgt_ids, strict=True)]
            scored_numbers = [
                number
                for number, pair in enumerate(pool)
                if longest[number] <= self._most_tokens and not all(map(_is_blank, pair))
            ]
            found = self.log_probs(
                [(tuple(src_ids[number]), tuple(tgt_ids[number])) for number in scored_numbers],
                on_progress,
            )
            log_probs = dict(zip(scored_numbers, found, strict=True))
            for number, text in enumerate(texts):
                if number in log_probs:
                    scored = self._translation(text, tgt_ids[number], log_probs[number])
                elif longest[number] > self._most_tokens:
                    scored = _failed(text, f"more than {self._most_tokens:,} tokens")
                else:
                    scored = BLANK
                likelihood.add(scored, is_long=longest[number] > self.max_tokens)
                yield scored

    def log_probs(
        self, pairs: Sequence[Pair], on_progress: Callable[[int], object] | None = None
    ) -> list[list[float] | None]:
        """Return the log-probability of each target token and of the final eos.

        None for a pair that does not fit into memory.

        Args:
            pairs: ids of sources and targets, without eos.
            on_progress: called with the number of pairs just done.
        """
        return forced(pairs, self._of_batch, self._device, on_progress=on_progress)

    @torch.inference_mode()
    def _of_batch(self, batch: Batch) -> list[list[float]]:
        features = self._model.forward(batch)  # (n, F)
        blocks, first = [], 0
        for logits in logits_in_blocks(self._model, features):
            targets = batch.targets[first : first + len(logits), None]
            first += len(logits)
            blocks.append(logits.float().log_softmax(dim=-1).gather(1, targets)[:, 0])
        lengths = batch.tgt_in.starts.diff().tolist()
        return [part.tolist() for part in torch.split(torch.cat(blocks).cpu(), lengths)]

    def _translation(
        self, text: str, ids: Sequence[int], log_probs: list[float] | None
    ) -> Translation:
        if log_probs is None:
            return _failed(text, OUT_OF_MEMORY)
        log_prob = sum(log_probs)
        if not math.isfinite(log_prob):
            return _failed(text, NOT_A_NUMBER)
        return Translation(
            text,
            log_prob / self._options.penalty(len(log_probs)),
            log_prob,
            tuple(self._tgt_vocabulary.tokens(ids)),
            tuple(log_probs[:-1]),
            1,
        )


def _failed(text: str, error: str) -> Translation:
    return Translation(text, -math.inf, -math.inf, (), (), 1, error=error)


def _is_blank(line: str) -> bool:
    return not line or line.isspace()

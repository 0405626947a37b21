"""What `nmt score` prints where a model is asked how likely translations are."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from nmt import console
from nmt.data.corpus import Encoding
from nmt.errors import DataError, NMTError, UsageError
from nmt.scoring.inputs import name_of, stream_together

if TYPE_CHECKING:
    from nmt.scoring.figures import Figure
    from nmt.search.options import SearchOptions
    from nmt.translate.output import Translation
    from nmt.translate.rescoring import Likelihood, Scorer


@dataclass(frozen=True, kw_only=True)
class ByModel:
    """What is asked of models."""

    models: list[Path]
    source: Path
    form: str  # "sentences", "tokens", "rerank": of the lines to print; "": perplexity
    weight: float
    options: SearchOptions
    device: str
    precision: str
    encoding: Encoding

    @classmethod
    def of(
        cls,
        models: list[Path] | None,
        source: Path | None,
        *,
        forms: Mapping[str, bool],
        weight: float | None,
        length_penalty: float | None,
        length_penalty_form: str | None,
        device: str | None,
        precision: str | None,
        encoding: str,
    ) -> ByModel | None:
        """Put together what the command line asks of models; None where it names none.

        Args:
            forms: whether each form of lines is asked for.
            models, source, weight, length_penalty, length_penalty_form, device, precision,
                encoding: the options of these names.

        Raises:
            UsageError: if an option is missing, or says nothing beside the others.
        """
        asked = [f"--{name}" for name, is_asked in forms.items() if is_asked]
        penalty = {
            "--length-penalty": length_penalty,
            "--length-penalty-form": length_penalty_form,
        }
        others = {
            "--weight": weight,
            "--device": device,
            "--precision": precision,
        }
        given = [*asked, *(name for name, v in (penalty | others).items() if v is not None)]
        if not models:
            if given := [name for name in given if name != "--sentences"]:
                raise UsageError(f"{given[0]} is about what a model says; name one by --model")
            return None
        if source is None:
            raise UsageError("--model needs --source FILE: what was translated")
        if len(asked) > 1:
            raise UsageError(f"{asked[0]} and {asked[1]} print different lines; choose one")
        if weight is not None and asked != ["--rerank"]:
            raise UsageError("--weight is for --rerank")
        if not asked and (useless := [name for name in given if name in penalty]):
            raise UsageError(
                f"{useless[0]} is for scores, which --sentences, --tokens and --rerank print; "
                "perplexity knows none"
            )
        # Here, since most calls name no model.
        from nmt.search.options import SearchOptions

        return cls(
            models=models,
            source=source,
            form=asked[0].removeprefix("--") if asked else "",
            weight=1.0 if weight is None else weight,
            options=SearchOptions(
                length_penalty=0.6 if length_penalty is None else length_penalty,
                length_penalty_form=length_penalty_form or "wu",
            ),
            device=device or "auto",
            precision=precision or "fp32",
            encoding=Encoding.find(encoding),
        )

    def perplexities(
        self, texts: Mapping[str, tuple[str, Iterable[str]]], sources: Iterable[Iterable[str]]
    ) -> dict[str, Figure]:
        """Return the perplexity of texts, by what each is, such as `reference`.

        texts: name and lines of each.
        sources: for each text what it translates.
        """
        from nmt.scoring.figures import Figure
        from nmt.scoring.metrics import Score
        from nmt.translate.rescoring import Likelihood

        scorer = self._scorer()
        results = {}
        for (kind, (name, lines)), its_sources in zip(texts.items(), sources, strict=False):
            found = Likelihood()
            for _ in self._scored(scorer, found, self._pairs(its_sources, lines, name)):
                pass
            _tell(found, name, scorer)
            if not found.tokens:
                raise DataError(f"{name} has no line with text; there is nothing to score")
            detail = {
                "nll": found.nll,
                "log_prob": found.log_prob,
                "tokens": found.tokens,
                "lines": found.lines,
            }
            score = Score(f"{kind} perplexity", found.perplexity, self._signature(scorer), detail)
            results[f"{kind}_perplexity"] = Figure(score, None, (), None)
        return results

    def print_lines(self, path: Path) -> None:
        """Print what is asked for of each line of a file, or of stdin for -."""
        from nmt.translate.output import (
            read_n_best,
            render_json,
            render_scored,
            rerank,
            with_sources,
        )
        from nmt.translate.rescoring import Likelihood

        name = name_of(path)
        sources, lines = stream_together((self.source, path), self.encoding)
        scorer, found = self._scorer(), Likelihood()
        rendered: Iterator[str]
        if self.form == "rerank":
            entries = with_sources(read_n_best(lines, name), sources, name_of(self.source))
            score = partial(self._scored, scorer, found)
            rendered = map(str, rerank(entries, score, self.weight))
        else:
            render = render_scored if self.form == "sentences" else render_json
            scored = self._scored(scorer, found, self._pairs(sources, lines, name))
            rendered = (text for n, each in enumerate(scored) for text in render(n, each))
        for text in rendered:
            sys.stdout.buffer.write(f"{text}\n".encode())
        _tell(found, name, scorer)

    def _scorer(self) -> Scorer:
        from nmt.models.device import choose_device, keep_freed_memory
        from nmt.translate.rescoring import Scorer

        device = choose_device(self.device)
        if device.type == "cpu":
            keep_freed_memory()
        return Scorer.load(self.models, self.options, device=device, precision=self.precision)

    def _scored(
        self, scorer: Scorer, found: Likelihood, pairs: Iterable[tuple[str, str]]
    ) -> Iterator[Translation]:
        with console.progress("scoring", total=None, unit="lines") as bar:
            yield from scorer.stream(pairs, found, on_progress=bar.update)

    def _pairs(
        self, sources: Iterable[str], lines: Iterable[str], name: str
    ) -> Iterator[tuple[str, str]]:
        """Yield each source with its translation.

        Raises:
            DataError: at the end, if there are more of one than of the other.
        """
        sources_read = lines_read = 0
        for source, line in zip_longest(sources, lines):
            sources_read += source is not None
            lines_read += line is not None
            if source is not None and line is not None:
                yield source, line
        if sources_read != lines_read:
            raise DataError(
                f"the numbers of lines differ: {name} has {lines_read:,}, "
                f"{name_of(self.source)} has {sources_read:,}; "
                "line N of one is the translation of line N of the other"
            )

    def _signature(self, scorer: Scorer) -> str:
        from nmt import __version__
        from nmt.models.model_file import model_checksum

        choices = {
            "model": "+".join(model_checksum(model)[:12] for model in self.models),
            "subwords": scorer.vocab_size,
            "eos": "yes",
            "precision": self.precision,
            "version": f"nmt-{__version__}",
        }
        return "|".join(f"{key}:{value}" for key, value in choices.items())


def refuse_beside(form: str, of_hypothesis: Mapping[str, object], *, as_json: bool) -> None:
    """Refuse what says nothing where REFERENCE alone is scored.

    Args:
        form: of the lines that are printed, if any.
        of_hypothesis: what compares with a HYPOTHESIS, by name, and this itself; None where it is
            not given.
        as_json: whether one JSON object is asked for.

    Raises:
        UsageError: naming the first.
    """
    given = next((name for name, value in of_hypothesis.items() if value is not None), None)
    if form and given is not None:
        raise UsageError(f"--{form} prints lines of REFERENCE alone; leave out {given}")
    if form and as_json:
        raise UsageError(f"--json prints one object, and --{form} lines; --tokens has JSON in them")
    if given is not None:
        raise UsageError(f"{given} is for a HYPOTHESIS; name one, or - for stdin")


def _tell(found: Likelihood, name: str, scorer: Scorer) -> None:
    """Warn of lines that are too long; NMTError where some have no probability."""
    if found.long_lines:
        console.warning(
            f"{name}: {console.counted(found.long_lines, 'line', 'lines')} of more than "
            f"{scorer.max_tokens} tokens, or with such a source, the first is line "
            f"{found.first_long_line:,}; scored whole, and the model has seen none so long"
        )
    if found.failed_lines:
        raise NMTError(
            f"{name}: {console.counted(found.failed_lines, 'line has', 'lines have')} no "
            "probability, the first is line "
            f"{found.first_failed_line:,}: {found.first_error}"
        )

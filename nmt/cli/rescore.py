"""`nmt rescore`: what a model says of given translations: perplexity, scores, a new order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nmt import console
from nmt.cli.options import Quiet, argument
from nmt.config.fields import check, like, value
from nmt.errors import DataError, NMTError, UsageError
from nmt.jobs.options import JobOptions
from nmt.models.device import PRECISIONS
from nmt.scoring.options import ScoringOptions, problems_of_quoting
from nmt.search.options import SearchOptions
from nmt.translate.options import TranslationConfig

if TYPE_CHECKING:
    from nmt.translate.language_pair import LanguagePair
    from nmt.translate.output import Translation
    from nmt.translate.rescoring import Likelihood

EXAMPLES = (
    "nmt rescore run output.de --source test.en",
    "nmt rescore run output.de --source test.en --scores",
    "nmt rescore big --n-best n-best.txt --source test.en > best.de",
)


@dataclass(frozen=True, kw_only=True)
class RescoreOptions:
    source: Path = value(
        ...,
        "The source text, one sentence a line. It may be compressed (.gz, .xz, .bz2), WMT's SGML "
        "(.sgm), a column of a table, for example test.tsv:1 or test.jsonl:source, or a document "
        "such as .po, .xlf, .srt or .html.",
        metavar="FILE",
    )
    n_best: Path | None = value(
        None,
        "Rerank an n-best list, `LINE ||| TEXT ||| SCORE`: print it with the model's scores, best "
        "first for each line. - is stdin.",
        metavar="FILE",
    )
    encoding: str = like(ScoringOptions, "encoding", "utf-8")
    quoting: tuple[str, ...] = like(ScoringOptions, "quoting", ())
    ensemble: tuple[Path, ...] = like(TranslationConfig, "ensemble", (), panel=None)
    scores: bool = value(
        False, "Print `SCORE<TAB>TEXT` for each line instead, as `nmt translate --scores` does."
    )
    tokens: bool = value(
        False,
        "Print a JSON object for each line instead, with tokens and their log-probabilities, as "
        "`nmt translate --format jsonl` does.",
    )
    json: bool = value(False, "Print perplexity as JSON.")
    weight: float | None = value(
        None,
        "With --n-best: weight W of the model's scores. The list's own get 1 - W.",
        minimum=0,
        maximum=1,
        shown="1.0",
    )
    length_penalty: float | None = like(
        SearchOptions, "length_penalty", panel="Scores", shown=str(SearchOptions.length_penalty)
    )
    length_penalty_form: str | None = like(
        SearchOptions, "length_penalty_form", panel="Scores", shown="wu"
    )
    src_lang: str | None = like(TranslationConfig, "src_lang")
    tgt_lang: str | None = like(TranslationConfig, "tgt_lang")
    device: str = like(JobOptions, "device", "auto")
    precision: str = like(
        TranslationConfig, "precision", "fp32", choices=("auto", *PRECISIONS["cuda"])
    )

    def __post_init__(self) -> None:
        check(self)

    def problems(self) -> Iterator[str]:
        yield from problems_of_quoting(self.quoting)
        forms = {"n-best": self.n_best, "scores": self.scores}
        forms |= {"tokens": self.tokens, "json": self.json}
        if len(chosen := [name for name, value in forms.items() if value]) > 1:
            yield f"--{chosen[0]} and --{chosen[1]} print different things; choose one"
        if self.weight is not None and self.n_best is None:
            yield "--weight is for --n-best"
        if self.in_total and (self.length_penalty, self.length_penalty_form) != (None, None):
            name = "" if self.length_penalty is not None else "-form"
            yield (
                f"--length-penalty{name} is for --scores, --tokens, --n-best; perplexity has none"
            )

    @property
    def in_total(self) -> bool:
        """Whether to print only the perplexity of the whole text."""
        return not (self.n_best or self.scores or self.tokens)

    @property
    def search(self) -> SearchOptions:
        """The options of search that scores depend on."""
        alpha = self.length_penalty
        return SearchOptions(
            length_penalty=SearchOptions.length_penalty if alpha is None else alpha,
            length_penalty_form=self.length_penalty_form,
        )


def rescore(
    model: Annotated[
        Path, argument("MODEL", "A model file, or a run folder (its best model is used).")
    ],
    target: Annotated[
        Path | None,
        argument(
            "TARGET",
            "The translation to score. It may be of any form that --source may have.",
            show_default="stdin, also -",
        ),
    ] = None,
    *,
    options: RescoreOptions,
    quiet: Quiet = False,
) -> None:
    """Score given translations by a model: perplexity, log-probabilities, reranking.

    Perplexity is exp of the mean negative log-probability of a subword. The end of a sentence
    counts as a subword. Lower is better. Compare only models with the same subwords.
    """
    from nmt.data.corpus import Encoding
    from nmt.interchange.importers.imported_once import model_of
    from nmt.models.device import choose_device, keep_freed_memory, use_tf32
    from nmt.models.model_file import find_model
    from nmt.scoring.inputs import name_of, plain_lines, stream_together
    from nmt.system.machine import default_threads
    from nmt.translate import output

    if options.n_best is not None and target is not None:
        raise UsageError("TARGET and --n-best FILE are both translations; give one of them")
    text = options.n_best or target or Path("-")
    name, src_name = name_of(text), name_of(options.source)
    encoding = Encoding.find(options.encoding)
    src_lines, lines = stream_together((options.source, text), encoding, options.quoting)
    if options.n_best is None:
        lines = plain_lines(name, lines)
    device = choose_device(options.device)
    if device.type == "cpu":
        keep_freed_memory()
    # Here, since they load torch.
    import torch

    from nmt.translate.load_model import load
    from nmt.translate.rescoring import Likelihood, score_pairs
    from nmt.translate.translator import Translator

    torch.set_num_threads(default_threads())  # torch ignores the CPU quota
    use_tf32(device, "fp32")
    models = (model, *options.ensemble)
    config = TranslationConfig(
        models=tuple(find_model(model_of(path)) for path in models),
        search=options.search,
        src_lang=options.src_lang,
        tgt_lang=options.tgt_lang,
        precision=options.precision,
    ).opened()
    translator = Translator(*load(config, device=device), config)
    likelihood = Likelihood()

    def score(pairs: Iterable[tuple[str, str]]) -> Iterator[Translation]:
        with console.progress("scoring", total=None, unit="lines") as bar:
            yield from score_pairs(translator, pairs, likelihood, on_progress=bar.update)

    rows: Iterable[str]
    if options.n_best is not None:
        weight = 1.0 if options.weight is None else options.weight
        entries = output.with_sources(output.read_n_best(lines, name), src_lines, src_name)
        rows = map(str, output.rerank(entries, score, weight))
    else:
        render = output.render_json if options.tokens else output.render_scored
        scored = enumerate(score(_pairs(src_lines, lines, src_name, name)))
        rows = (
            row
            for number, translation in scored
            for row in ([] if options.in_total else render(number, translation))
        )
    for row in rows:
        console.stdout().buffer.write(f"{row}\n".encode())
    if likelihood.failed.lines:
        raise NMTError(likelihood.failed.told(name, ("could", "could"), "not be scored"))
    if options.in_total:
        if not likelihood.tokens:
            raise DataError(f"{name} has no line with text; there is nothing to score")
        signature = _signature(models, translator.language_pair, options.precision)
        _print_perplexity(likelihood, signature, as_json=options.json)


def _pairs(
    src_lines: Iterable[str], lines: Iterable[str], src_name: str, name: str
) -> Iterator[tuple[str, str]]:
    """Yield each source with its translation.

    DataError at the end, if there are more of one than of the other.
    """
    num_sources = num_lines = 0
    for source, line in zip_longest(src_lines, lines):
        num_sources += source is not None
        num_lines += line is not None
        if source is not None and line is not None:
            yield source, line
    if num_sources != num_lines:
        raise DataError(
            f"the numbers of lines differ: {name} has {num_lines:,}, {src_name} has "
            f"{num_sources:,}; line N of one is the translation of line N of the other"
        )


def _print_perplexity(likelihood: Likelihood, signature: str, *, as_json: bool) -> None:
    answer = {"score": likelihood.perplexity, "signature": signature}
    answer |= {name: getattr(likelihood, name) for name in ("nll", "log_prob", "tokens", "lines")}
    if as_json:
        console.print_json({"perplexity": answer})
        return
    columns = ("perplexity", "signature", "nll", "log-probability", "tokens", "lines")
    cells = [f"{v:,.3f}" if isinstance(v, float) else str(v) for v in answer.values()]
    console.print_table(columns, [cells])


def _signature(models: Sequence[Path], language_pair: LanguagePair, precision: str) -> str:
    from nmt import __version__
    from nmt.models.model_file import model_checksum

    choices = {
        "model": "+".join(model_checksum(model)[:12] for model in models),
        "subwords": len(language_pair.tgt_vocabulary),
        "eos": "yes",
        "precision": precision,
        "version": f"nmt-{__version__}",
    }
    if language_pair.tgt_vocabulary.first or language_pair.src_vocabulary.first:
        choices["languages"] = "-".join(language_pair.languages)
    return "|".join(f"{key}:{value}" for key, value in choices.items())

"""`nmt rescore`: what a model says of given translations: perplexity, scores, a new order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt import console
from nmt.cli.options import Quiet
from nmt.cli.search_options import Ensemble
from nmt.errors import DataError, NMTError, UsageError

if TYPE_CHECKING:
    from nmt.translate.output import Translation
    from nmt.translate.rescoring import Likelihood
    from nmt.translate.translator import Translator

EXAMPLES = (
    "nmt rescore run output.de --source test.en",
    "nmt rescore run output.de --source test.en --scores",
    "nmt rescore big --n-best n-best.txt --source test.en > best.de",
)

_TEXT, _OUTPUT, _SCORES, _MACHINE = "Text", "Output", "Scores", "Machine"


def rescore(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="A model file, or a run folder (its best model is used)."
        ),
    ],
    source: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The source text, one sentence a line. It may be compressed (.gz, .xz, .bz2), "
            "WMT's SGML (.sgm), or a column of a .tsv file, for example test.tsv:1.",
            rich_help_panel=_TEXT,
        ),
    ],
    target: Annotated[
        Path | None,
        typer.Argument(
            metavar="TARGET",
            help="Its translation, in one of the same forms.",
            show_default="stdin, as for -",
        ),
    ] = None,
    n_best: Annotated[
        Path | None,
        typer.Option(
            "--n-best",
            metavar="FILE",
            help="Rerank an n-best list, `LINE ||| TEXT ||| SCORE`: print it with the model's "
            "scores, best first for each line. - is stdin.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    encoding: Annotated[
        str,
        typer.Option(
            help="Character encoding of the files. Stdin is UTF-8.", rich_help_panel=_TEXT
        ),
    ] = "utf-8",
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            help="Print `SCORE<TAB>TEXT` for each line instead, as `nmt translate --scores` does.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    tokens: Annotated[
        bool,
        typer.Option(
            "--tokens",
            help="Print a JSON object for each line instead, with tokens and their "
            "log-probabilities, as `nmt translate --format jsonl` does.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print perplexity as JSON.", rich_help_panel=_OUTPUT),
    ] = False,
    ensemble: Ensemble = None,
    weight: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="With --n-best: weight W of the model's scores. The list's own get 1 - W.",
            show_default="1.0",
            rich_help_panel=_SCORES,
        ),
    ] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Length penalty alpha. With 0, scores are log-probabilities.",
            show_default="0.6",
            rich_help_panel=_SCORES,
        ),
    ] = None,
    length_penalty_form: Annotated[
        str | None,
        typer.Option(
            help="wu is ((5 + len) / 6)^alpha, power is len^alpha.",
            show_default="wu",
            rich_help_panel=_SCORES,
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto, cpu or cuda.", rich_help_panel=_MACHINE)
    ] = "auto",
    precision: Annotated[
        str,
        typer.Option(
            help="Precision of matrix products. On a CPU: fp32, bf16 or int8. On a GPU: fp32, "
            "bf16 or fp16.",
            rich_help_panel=_MACHINE,
        ),
    ] = "fp32",
    quiet: Quiet = False,
) -> None:
    """Score given translations by a model: perplexity, log-probabilities, reranking.

    Perplexity is exp of the mean negative log-probability of a subword. The end of a sentence
    counts as one. Lower is better. You can compare it only between models with the same subwords.
    """
    from nmt.data.corpus import Encoding
    from nmt.models.device import choose_device, keep_freed_memory
    from nmt.scoring.inputs import name_of, stream_together
    from nmt.search.options import SearchOptions
    from nmt.translate import output

    if n_best is not None and target is not None:
        raise UsageError("TARGET and --n-best FILE are both translations; give one of them")
    forms = {"--n-best": n_best, "--scores": scores, "--tokens": tokens, "--json": as_json}
    chosen = [name for name, value in forms.items() if value]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} print different things; choose one")
    if weight is not None and n_best is None:
        raise UsageError("--weight is for --n-best")
    in_total = chosen in ([], ["--json"])
    penalty = {"--length-penalty": length_penalty, "--length-penalty-form": length_penalty_form}
    given = [name for name, value in penalty.items() if value is not None]
    if in_total and given:
        raise UsageError(f"{given[0]} is for --scores, --tokens, --n-best; perplexity has none")
    options = SearchOptions(
        length_penalty=0.6 if length_penalty is None else length_penalty,
        length_penalty_form=length_penalty_form or "wu",
    )
    text = n_best or target or Path("-")
    name, src_name = name_of(text), name_of(source)
    src_lines, lines = stream_together((source, text), Encoding.find(encoding))
    torch_device = choose_device(device)
    if torch_device.type == "cpu":
        keep_freed_memory()
    # Here, since it loads torch.
    from nmt.translate.rescoring import Likelihood, Scorer
    from nmt.translate.translator import Translator

    models = [model, *(ensemble or [])]
    translator = Translator.load(models, options, device=torch_device, precision=precision)
    scorer = Scorer(translator)
    likelihood = Likelihood()

    def score(pairs: Iterable[tuple[str, str]]) -> Iterator[Translation]:
        with console.Progress("scoring", total=None, unit="lines") as bar:
            yield from scorer.stream(pairs, likelihood, on_progress=bar.update)

    rows: Iterable[str]
    if n_best is not None:
        entries = output.with_sources(output.read_n_best(lines, name), src_lines, src_name)
        rows = map(str, output.rerank(entries, score, 1.0 if weight is None else weight))
    else:
        render = output.render_json if tokens else output.render_scored
        scored = enumerate(score(_pairs(src_lines, lines, src_name, name)))
        rows = (row for n, found in scored for row in ([] if in_total else render(n, found)))
    for row in rows:
        sys.stdout.buffer.write(f"{row}\n".encode())
    _check(likelihood, name, translator.max_src_tokens)
    if in_total:
        if not likelihood.tokens:
            raise DataError(f"{name} has no line with text; there is nothing to score")
        _print_perplexity(likelihood, _signature(models, translator, precision), as_json=as_json)


def _pairs(
    src_lines: Iterable[str], lines: Iterable[str], src_name: str, name: str
) -> Iterator[tuple[str, str]]:
    """Yield each source with its translation.

    Raises:
        DataError: at the end, if there are more of one than of the other.
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


def _check(likelihood: Likelihood, name: str, max_tokens: int) -> None:
    """Warn about lines that are too long; NMTError if some could not be scored."""
    if likelihood.long_lines:
        console.warning(
            f"{name}: {console.counted(likelihood.long_lines, 'line', 'lines')} of more than "
            f"{max_tokens} tokens, or with such a source, the first is line "
            f"{likelihood.first_long_line:,}; scored whole, but the model has seen none so long"
        )
    if likelihood.failed_lines:
        raise NMTError(
            f"{name}: {console.counted(likelihood.failed_lines, 'line', 'lines')} could not be "
            f"scored, the first is line {likelihood.first_failed_line:,}: {likelihood.first_error}"
        )


def _print_perplexity(likelihood: Likelihood, signature: str, *, as_json: bool) -> None:
    answer = {
        "score": likelihood.perplexity,
        "signature": signature,
        "nll": likelihood.nll,
        "log_prob": likelihood.log_prob,
        "tokens": likelihood.tokens,
        "lines": likelihood.lines,
    }
    if as_json:
        print(json.dumps({"perplexity": answer}, indent=2))
        return
    columns = ("perplexity", "signature", "nll", "log-probability", "tokens", "lines")
    cells = [f"{v:,.3f}" if isinstance(v, float) else str(v) for v in answer.values()]
    console.print_table(columns, [cells])


def _signature(models: Sequence[Path], translator: Translator, precision: str) -> str:
    from nmt import __version__
    from nmt.models.model_file import model_checksum

    choices = {
        "model": "+".join(model_checksum(model)[:12] for model in models),
        "subwords": len(translator.tgt_vocabulary),
        "eos": "yes",
        "precision": precision,
        "version": f"nmt-{__version__}",
    }
    return "|".join(f"{key}:{value}" for key, value in choices.items())

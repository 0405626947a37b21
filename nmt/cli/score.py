"""`nmt score`: how close a translation comes to its reference, with the figures' signatures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt import console
from nmt.cli.options import Quiet
from nmt.data.corpus import Encoding, read_lines, split_lines
from nmt.errors import DataError, UsageError

if TYPE_CHECKING:
    from nmt.scoring.metrics import Score

EXAMPLE = "nmt score test.de output.de --metric bleu --metric chrf++"

_DEFAULT_METRICS = ("bleu", "chrf", "ter")
_TOKENISED_LINES = 100  # sacreBLEU's own threshold
_CHUNK_BYTES = 1 << 20


def score(
    reference: Annotated[
        Path,
        typer.Argument(
            metavar="REFERENCE",
            help="The human translation, one sentence a line; .gz, .xz and .bz2 too.",
        ),
    ],
    hypothesis: Annotated[
        Path | None,
        typer.Argument(metavar="HYPOTHESIS", help="The machine translation; stdin without it."),
    ] = None,
    more_references: Annotated[
        list[Path] | None,
        typer.Option("--reference", help="A further human translation; may be repeated."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="bleu|chrf|chrf++|ter",
            help="What to measure; may be repeated.",
            show_default=", ".join(_DEFAULT_METRICS),
        ),
    ] = None,
    tokenize: Annotated[
        str | None,
        typer.Option(
            "--tokenize",
            metavar="13a|intl|zh|char|none",
            help="BLEU's tokenizer: zh for Chinese, char for Japanese.",
            show_default="13a",
        ),
    ] = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="BLEU and chrF ignore case, as TER always does.")
    ] = False,
    encoding: Annotated[
        str, typer.Option("--encoding", help="Character encoding of the files; stdin is UTF-8.")
    ] = "utf-8",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object: metric to score and signature.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Compare a translation with its reference, line by line: BLEU, chrF, chrF++, TER.

    The figures are sacreBLEU's, in percent, on text as it reads: detokenised.
    Higher is better; only for TER, the edits still to be made, lower is.

    Figures can be compared where their signatures are equal: report both.
    """
    from nmt.scoring import metrics

    names = metric or list(_DEFAULT_METRICS)
    metrics.check_metrics(names)
    if tokenize is not None:
        metrics.check_tokenizer(tokenize)
        if "bleu" not in names:
            raise UsageError("--tokenize is BLEU's, which --metric leaves out")
    known = Encoding.find(encoding)
    reference_paths = [reference, *(more_references or ())]
    references = [_read_file(path, known) for path in reference_paths]
    if hypothesis is None or hypothesis == Path("-"):
        name, hypotheses = "stdin", _read_stdin()
    else:
        name, hypotheses = str(hypothesis), _read_file(hypothesis, known)
    counted = zip(reference_paths, references, strict=True)
    metrics.check_line_counts(
        [*((str(path), len(lines)) for path, lines in counted), (name, len(hypotheses))]
    )

    if "bleu" in names and tokenize != "none":
        _warn_of_tokenised(name, metrics.tokenised_lines(hypotheses))
    results = metrics.score(
        hypotheses, references, names, tokenize=tokenize or "13a", lowercase=lowercase
    )
    if as_json:
        print(json.dumps({name: _as_object(result) for name, result in results.items()}, indent=2))
    else:
        console.print_table(
            ("metric", "score", "signature", "detail"), [_as_row(r) for r in results.values()]
        )


def _read_file(path: Path, encoding: Encoding) -> list[str]:
    hint = "save it as UTF-8, or pass --encoding"
    return _decode(read_lines(path, encoding), encoding, str(path), hint)


def _read_stdin() -> list[str]:
    if sys.stdin.isatty():
        console.notice("reading the translation from the keyboard; Ctrl-D ends it")
    chunks = iter(lambda: sys.stdin.buffer.read(_CHUNK_BYTES), b"")
    return _decode(split_lines(chunks), Encoding.find("utf-8"), "stdin", "expected UTF-8")


def _decode(lines: Iterable[bytes], encoding: Encoding, name: str, hint: str) -> list[str]:
    texts = []
    for number, line in enumerate(lines, start=1):
        text = encoding.decode(line, number=number)
        if text is None:
            raise DataError(f"{name}: line {number:,} is not valid {encoding.name}; {hint}")
        texts.append(text)
    return texts


def _warn_of_tokenised(name: str, lines: int) -> None:
    if lines >= _TOKENISED_LINES:
        console.warning(
            f"{name} looks tokenised: {lines:,} lines end in ' .'; BLEU is defined on detokenised "
            "text, or --tokenize none takes the text as it is"
        )


def _as_object(result: Score) -> dict[str, object]:
    return {
        "score": result.score,
        "signature": result.signature,
        "name": result.name,
        **result.detail,
    }


def _as_row(result: Score) -> tuple[str, str, str, str]:
    detail = (f"{key.replace('_', ' ')} {_short(value)}" for key, value in result.detail.items())
    return result.name, f"{result.score:.2f}", result.signature, ", ".join(detail)


def _short(value: object) -> str:
    if isinstance(value, list):
        return "/".join(f"{one:.1f}" for one in value)
    return f"{round(value, 3) if isinstance(value, float) else value:,}"

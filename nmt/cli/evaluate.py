"""`nmt evaluate`: runs compared on the test sets of their data folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt import console
from nmt.cli.options import Quiet, check_picture
from nmt.cli.score import choose_tokenizer
from nmt.config.fields import like, value
from nmt.errors import DataError
from nmt.jobs.options import JobOptions
from nmt.search.options import SearchOptions
from nmt.system.files import write_text
from nmt.translate.options import TranslationConfig

if TYPE_CHECKING:
    from nmt.data.folder import HeldOut
    from nmt.jobs.parallel import Translators
    from nmt.scoring.results import Result

EXAMPLES = (
    "nmt evaluate run",
    "nmt evaluate small big --svg curves.svg",
    "nmt evaluate run --json > scores.json",
    "nmt evaluate tuned tuned-int8 --data data",
)


def evaluate(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, whose best models count.")
    ],
    *,
    data: Path | None = value(
        None,
        "Data folder whose test sets to take. With it, you may also name model files and exports.",
        metavar="DATA",
        shown="each run's own",
    ),
    svg: str | None = value(
        None, "Draw the learning curves of all runs in one picture.", metavar="FILE.svg"
    ),
    as_json: bool = value(False, "Print the scores as JSON.", option="--json"),
    beam_size: int = like(SearchOptions, "beam_size", SearchOptions.beam_size),
    length_penalty: float = like(
        SearchOptions, "length_penalty", SearchOptions.length_penalty, panel=None
    ),
    device: str = like(JobOptions, "device", "auto"),
    threads: int | None = like(JobOptions, "threads", None, panel=None),
    quiet: Quiet = False,
) -> None:
    """Translate the test sets of the data folder, and score them: BLEU and chrF.

    The test sets are those of `nmt prepare --test`, of which the data folder holds the text. The
    scores are those that `nmt translate RUN` and `nmt score` give, except that letters and marks
    are composed on both sides, if the model composes. Several runs make one table. Report the
    signatures with the scores.
    """
    from nmt.runs.run_folder import RunFolder, curves_of_runs
    from nmt.scoring.results import as_object, print_signed

    if data is None or svg is not None:
        for run in runs:
            RunFolder(run).check_run()
    picture = None if svg is None else check_picture(svg)
    search = SearchOptions(beam_size=beam_size, length_penalty=length_penalty)
    job = JobOptions(device=device, threads=threads, workers="1")
    results = [
        (str(run), name, text, scores)
        for run in runs
        for name, text, scores in _results(run, data or RunFolder(run).data_path, search, job)
    ]
    if picture is not None:
        write_text(picture, curves_of_runs({str(run): RunFolder(run).metrics() for run in runs}))
    if as_json:
        objects: list[dict[str, Any]] = [
            {"run": run, "test": name, "src": text.langs[0], "tgt": text.langs[1]}
            | {metric: as_object(result, ()) for metric, result in scores.items()}
            for run, name, text, scores in results
        ]
        console.print_text(json.dumps(objects, indent=2))
        return
    print_signed(
        ("run", "test set", "languages"),
        [((run, name, "-".join(text.langs)), scores) for run, name, text, scores in results],
    )


def _results(
    run: Path, folder: Path, search: SearchOptions, job: JobOptions
) -> Iterator[tuple[str, HeldOut, dict[str, Result]]]:
    """Yield the name, text and scores of each test set, translated by a run's best model."""
    from nmt.data.folder import DataFolder
    from nmt.jobs.parallel import Translators

    data = DataFolder.open(folder)
    if not data.info.tests:
        raise DataError(
            f"{data.path} has no test sets; give some to `nmt prepare --test`, or "
            "name a folder that has some with --data"
        )
    texts = [
        (split.name.removeprefix("test-"), text)
        for split in data.info.tests
        for text in data.texts(split)
    ]
    is_of_pairs = data.info.languages is not None
    # The model is loaded once for texts of the same languages that follow each other.
    for langs, of_pair in groupby(texts, lambda named: named[1].langs if is_of_pairs else None):
        src, tgt = langs or (None, None)
        config = TranslationConfig(models=(run,), search=search, src_lang=src, tgt_lang=tgt)
        config = config.opened()
        with Translators.start(config, job) as translators:
            for name, text in of_pair:
                yield name, text, _scores(translators, f"{run}: {name}", text)


def _scores(translators: Translators, what: str, text: HeldOut) -> dict[str, Result]:
    from nmt.data.composition import compose_lines, is_composed
    from nmt.scoring.inputs import Text
    from nmt.scoring.metrics import make_metrics
    from nmt.scoring.options import DEFAULT_METRICS
    from nmt.scoring.pitfalls import equal_only_in_nfc
    from nmt.scoring.results import evaluate as score
    from nmt.scoring.tokenizers import has_han

    sources, references = text.lines()
    with console.progress(f"translating {what}", total=len(sources), unit="lines") as bar:
        translations = translators.translator.translate(sources, on_progress=bar.update)
    for number, translation in enumerate(translations, start=1):
        if translation.error:
            console.warning(f"{what}: line {number:,} is left empty: {translation.error}")
    outputs = [translation.text for translation in translations]
    if translators.translator.language_pair.tgt_vocabulary.composes:
        if others := sum(not is_composed(reference) for reference in references):
            console.notice(
                f"{what}: {others:,} of {len(references):,} references are not in Unicode's form "
                "NFC, which the model writes; scoring NFC on both sides, as validation does"
            )
        outputs, references = list(compose_lines(outputs)), list(compose_lines(references))
    for warning in equal_only_in_nfc(Text(what, outputs), Text("its reference", references)):
        console.warning(warning)
    tgt = text.langs[1]
    metrics = make_metrics(
        DEFAULT_METRICS,
        [references],
        tokenize=choose_tokenizer(tgt, says=True),
        han_words=has_han(tgt),
    )
    return {name: score(name, metric, [outputs]) for name, metric in metrics.items()}

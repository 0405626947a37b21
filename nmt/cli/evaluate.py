"""`nmt evaluate`: runs compared on the test sets of their data folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from nmt import console
from nmt.cli.options import Quiet, argument
from nmt.cli.score import choose_tokenizer
from nmt.config.fields import like, value
from nmt.data.language_tokens import spell_pair
from nmt.data.languages import primary_language
from nmt.errors import EXIT_FAILED, DataError, UsageError
from nmt.jobs.options import JobOptions
from nmt.scoring.options import DEFAULT_METRICS, Resampling, ScoringOptions
from nmt.search.options import SearchOptions
from nmt.system.files import write_text
from nmt.translate.options import TranslationConfig

if TYPE_CHECKING:
    from nmt.data.folder import HeldOut
    from nmt.jobs.parallel import Translators
    from nmt.scoring.results import Result

EXAMPLES = (
    "nmt evaluate run",
    "nmt evaluate small big",
    "nmt evaluate run --json > scores.json",
    "nmt evaluate tuned --data data --baseline run --out translations",
)


class _TestSet(NamedTuple):
    """A test set as a run translates it."""

    run: str
    name: str
    text: HeldOut
    translations: list[str]
    composes: bool
    """Whether the model composes letters and marks."""

    @property
    def what(self) -> str:
        return f"{self.run}: {self.name}"


def evaluate(
    runs: Annotated[list[Path], argument("RUN...", "Run folders, whose best models count.")],
    *,
    data: Path | None = value(
        None,
        "Data folder whose test sets to take. With it, you may also name model files and exports.",
        metavar="DATA",
        shown="each run's own",
    ),
    out: Path | None = value(
        None,
        "Keep the translations in this folder: in a folder for each run, a file for each test set.",
        metavar="FOLDER",
    ),
    baseline: Path | None = value(
        None,
        "Another run. Tests tell you whether a run differs from it by more than chance.",
        metavar="RUN",
    ),
    metrics: tuple[str, ...] = like(ScoringOptions, "metrics", ()),
    at_least: float | None = value(
        None,
        "Exit with status 1 if a test set scores below this by BLEU, or by the first --metric if "
        "BLEU is not among them.",
        metavar="SCORE",
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

    The far half is the half of the lines that is farther from train. Scores on it flatter less. The
    file evaluation.json in a run folder keeps the last scores, and exports show them.
    """
    from nmt.runs.run_folder import RunFolder
    from nmt.scoring.results import as_object, print_comparisons, print_signed

    for run in runs if data is None else ():
        RunFolder(run).check_run()
        if not (folder := RunFolder(run).data_path).is_dir():
            raise UsageError(f"{run}: its data folder {folder} is not there; name it with --data")
    if at_least is not None and set(metrics) == {"ter"}:
        raise UsageError("--at-least: a lower TER is better; add another --metric, such as bleu")
    if out is not None:
        _check_folder(out, [*runs, *([baseline] if baseline else [])])
    search = SearchOptions(beam_size=beam_size, length_penalty=length_penalty)
    job = JobOptions(device=device, threads=threads, workers="1")
    of_baseline: dict[Path, list[_TestSet]] = {}
    results: list[tuple[_TestSet, dict[str, Result]]] = []
    for run in runs:
        folder = data or RunFolder(run).data_path
        if baseline is not None and folder not in of_baseline:
            of_baseline[folder] = list(_translated(baseline, folder, search, job, out))
        for number, test in enumerate(_translated(run, folder, search, job, out)):
            others = [of_baseline[folder][number]] if baseline is not None else []
            results.append((test, _scores([test, *others], metrics or DEFAULT_METRICS)))
    baselines = [str(baseline)] if baseline is not None else []
    objects: list[dict[str, Any]] = [
        {"run": test.run, "test": test.name}
        | dict(zip(("src", "tgt"), test.text.langs, strict=True))
        | {metric: as_object(result, baselines) for metric, result in scores.items()}
        | _far_half(test, scores)
        for test, scores in results
    ]
    for evaluated in filter(lambda run: run.exists, map(RunFolder, runs)):
        evaluated.write_evaluation([one for one in objects if one["run"] == str(evaluated.path)])
    if as_json:
        console.print_json(objects)
    else:
        columns = ("run", "test set", "languages")
        rows = [
            ((test.run, test.name, "-".join(test.text.langs)), scores) for test, scores in results
        ]
        print_signed(columns, rows)
        if baselines:
            console.print_row()
            print_comparisons(columns, rows, baselines)
    if at_least is not None:
        _check_least(results, at_least)


def _far_half(test: _TestSet, scores: Mapping[str, Result]) -> dict[str, Any]:
    """Return the scores of the half of the lines that is farther from train, if it is known."""
    halves = {metric: result.far_half.score for metric, result in scores.items() if result.far_half}
    return {"far_half": {"lines": len(test.text.far_half()), **halves}} if halves else {}


def _check_least(results: Sequence[tuple[_TestSet, dict[str, Result]]], least: float) -> None:
    """Say whether each test set has the score that it should have; exit with 1 if one has not."""
    has_failed = False
    for test, scores in results:
        score = next(result.score for metric, result in scores.items() if metric != "ter")
        is_low = round(score.score, 2) < least
        told = f"{test.what}: {score.name} {score.score:.2f} is {'not ' * is_low}at least {least:g}"
        (console.warning if is_low else console.notice)(told)
        has_failed |= is_low
    if has_failed:
        raise typer.Exit(code=EXIT_FAILED)


def _check_folder(out: Path, runs: Sequence[Path]) -> None:
    """Make the folder of the translations, with one for each run.

    UsageError if two runs have one name, or the folder cannot be made.
    """
    names = [_folder_name(run) for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--out {out}: two runs are called {name}; evaluate them apart")
    try:
        for name in names:
            (out / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}; name a folder") from error


def _folder_name(run: Path) -> str:
    return run.resolve().name.removesuffix(".safetensors")


def _translated(
    run: Path, folder: Path, search: SearchOptions, job: JobOptions, out: Path | None
) -> Iterator[_TestSet]:
    """Yield each test set, translated by a run's best model, after writing it to `out`."""
    from nmt.data.folder import DataFolder
    from nmt.jobs.parallel import Translators

    data = DataFolder.open(folder)
    if not data.info.tests:
        raise DataError(
            f"{data.path} has no test sets; give some to `nmt prepare --test`, or "
            "name a folder that has some with --data"
        )
    texts = [(split.title, text) for split in data.info.tests for text in data.texts(split)]
    is_of_pairs = data.info.languages is not None
    # The model is loaded once for texts of the same languages that follow each other.
    for langs, of_pair in groupby(texts, lambda named: named[1].langs if is_of_pairs else None):
        src, tgt = langs or (None, None)
        config = TranslationConfig(models=(run,), search=search, src_lang=src, tgt_lang=tgt)
        with Translators.start(config.opened(), job) as translators:
            pair = translators.translator.language_pair
            for name, text in of_pair:
                _check_languages(run, pair.languages, data.path, text.langs)
                lines = _translations(translators, f"{run}: {name}", text)
                if out is not None:
                    path = out / _folder_name(run) / text.tgt.name.removeprefix("test-")
                    write_text(path, "".join(f"{line}\n" for line in lines))
                yield _TestSet(str(run), name, text, lines, pair.tgt_vocabulary.composes)


def _check_languages(run: Path, own: tuple[str, str], data: Path, langs: tuple[str, str]) -> None:
    """Check that a test set is of the languages of the run, as far as they are known."""
    for translated, given in zip(own, langs, strict=True):
        if translated and primary_language(translated) != primary_language(given):
            raise UsageError(
                f"{run} translates {spell_pair(own)}, but {data} has {spell_pair(langs)}; name "
                "another folder with --data"
            )


def _translations(translators: Translators, what: str, text: HeldOut) -> list[str]:
    sources, _ = text.lines()
    with console.progress(f"translating {what}", total=len(sources), unit="lines") as bar:
        translations = translators.translator.translate(sources, on_progress=bar.update)
    for number, translation in enumerate(translations, start=1):
        if translation.error:
            console.warning(f"{what}: line {number:,} is left empty: {translation.error}")
    return [translation.text for translation in translations]


def _scores(tests: Sequence[_TestSet], metrics: Sequence[str]) -> dict[str, Result]:
    """Return the scores of a test set, compared with other translations of it if there are any."""
    from nmt.data.composition import compose_lines, is_composed
    from nmt.scoring.inputs import Text
    from nmt.scoring.metrics import make_metrics
    from nmt.scoring.results import evaluate as score
    from nmt.scoring.text_warnings import equal_only_in_nfc, other_quotes
    from nmt.scoring.tokenizers import has_han

    test, *others = tests
    _, references = test.text.lines()
    outputs = [one.translations for one in tests]
    if any(one.composes for one in tests):
        if apart := sum(not is_composed(reference) for reference in references):
            console.notice(
                f"{test.what}: {apart:,} of {len(references):,} references are not in Unicode's "
                "form NFC, which the model writes; scoring NFC on both sides, as validation does"
            )
        outputs = [list(compose_lines(lines)) for lines in outputs]
        references = list(compose_lines(references))
    sides = Text(test.what, outputs[0]), Text("its reference", references)
    for warning in (*equal_only_in_nfc(*sides), *other_quotes(*sides)):
        console.warning(warning)
    tgt = test.text.langs[1]
    tokenize = choose_tokenizer(tgt, says="bleu" in metrics)
    made = make_metrics(metrics, [references], tokenize=tokenize, han_words=has_han(tgt))
    resampling = Resampling() if others else None
    far_half = test.text.far_half()
    return {
        name: score(name, metric, outputs, resampling, far_half=far_half)
        for name, metric in made.items()
    }

"""`nmt calibrate`: what the quality of a model's translations is told by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from nmt import console
from nmt.cli.options import Quiet, argument, check_new_file
from nmt.cli.score import read_texts
from nmt.config.fields import like, value
from nmt.errors import DataError
from nmt.jobs.options import JobOptions
from nmt.scoring.options import ScoringOptions
from nmt.search.options import SearchOptions
from nmt.translate.options import TranslationConfig

EXAMPLES = (
    "nmt calibrate run --source valid.en --reference valid.de",
    "nmt calibrate fast --source news.en --reference news.de --beam-size 1",
)

_FEWEST = 100
# Times the chrF of a line with the reference of the next one. Text in a wrong language had 1.20,
# captions in Chinese 8.9, and news translated by a model of captions 1.30.
_MORE_THAN_CHANCE = 1.25


def calibrate(
    model: Annotated[
        Path, argument("MODEL", "A model file, a run folder, or a CTranslate2 export.")
    ],
    *,
    source: Path = value(
        ...,
        "At least 100 lines that the model has not learnt, of the kind that you will translate. "
        "1,000 are better. It may be of any form that `nmt score` reads.",
        metavar="FILE",
    ),
    reference: Path = value(..., "Their human translation.", metavar="FILE"),
    encoding: str = like(ScoringOptions, "encoding", "utf-8"),
    quoting: tuple[str, ...] = like(ScoringOptions, "quoting", ()),
    src_lang: str | None = like(TranslationConfig, "src_lang"),
    tgt_lang: str | None = like(TranslationConfig, "tgt_lang"),
    split: bool = like(TranslationConfig, "split", False),
    no_split: bool = like(TranslationConfig, "no_split", False),
    search: SearchOptions,
    precision: str = like(TranslationConfig, "precision", "auto"),
    device: str = like(JobOptions, "device", "auto"),
    workers: str = like(JobOptions, "workers", "auto"),
    threads: int | None = like(JobOptions, "threads"),
    quiet: Quiet = False,
) -> None:
    """Learn to tell how good a model's translations may be, for `nmt translate --quality`.

    The model translates lines that have references. What it knows of each line is compared with the
    sentence chrF that the line gets. The result is quality.json in a run folder or an export, and
    NAME.quality.json beside another model NAME.safetensors. Exports take it along. It holds for
    this pair of languages and these options of search. The file keeps those for others.

    The tables show how well it tells lines that it has not learnt from: one half of the text is
    told by the other. The first has five groups of lines, from those with the lowest estimates
    on: the means of what was estimated and what was true. The second has Pearson's r of both, and
    by how much the mean estimate of 100 lines is usually wrong.
    """
    from nmt.data.composition import compose_lines
    from nmt.jobs.counts import translate_whole
    from nmt.jobs.lines import Line
    from nmt.jobs.parallel import Translators, check_unchanged
    from nmt.scoring.inputs import Text
    from nmt.scoring.metrics import make_metrics
    from nmt.scoring.quality import LINES_TOGETHER, Curve, try_halves
    from nmt.scoring.text_warnings import text_warnings
    from nmt.translate.calibration import Calibration, calibration_file, checksum, known_of

    texts = read_texts([("source", source), ("reference", reference)], encoding, quoting)
    sources, references = (text.lines for text in texts)
    _check_count(source, sum(map(bool, map(str.strip, references))))
    config = TranslationConfig(
        models=(model,),
        search=search,
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        split=split,
        no_split=no_split,
        scores=True,
        precision=precision,
    ).opened()
    path = check_new_file(str(calibration_file(config.models[0])))
    job = JobOptions(device=device, workers=workers, threads=threads)
    mark, identity = checksum(config.models[0]), config.identity()
    with Translators.start(config, job) as translators:
        check_unchanged(config, identity)
        translations, counts, pair = translate_whole(
            list(map(Line, sources)), job.pool_lines, lambda: translators, "lines"
        )
    counts.warn(str(source), too_long="too many tokens")
    outputs = [translation.text for translation in translations]
    for warning in text_warnings([Text("the translation", outputs)], texts[1:], texts[0]):
        console.warning(warning)
    if pair.tgt_vocabulary.composes:
        outputs, references = (list(compose_lines(lines)) for lines in (outputs, references))
    known = {
        number: row
        for number, row in enumerate(map(known_of, sources, translations))
        if row and references[number].strip()
    }
    _check_count(source, len(known))
    import numpy as np

    rows = np.array(list(known.values()))
    metric, shifted = (
        make_metrics(["chrf"], [lines])["chrf"] for lines in (references, [*references[1:], ""])
    )
    counted = metric.count(outputs)
    chrf = np.array([metric.value(counted[number]) for number in known])
    by_chance = np.mean([shifted.value(line) for line in shifted.count(outputs)])
    if chrf.mean() < _MORE_THAN_CHANCE * by_chance:
        console.warning(
            f"translations are hardly more like their reference (chrF {chrf.mean():.0f}) than like "
            f"that of the next line ({by_chance:.0f}); is {source} in {pair.languages[0]}, and "
            f"{reference} in {pair.languages[1]}?"
        )
    learnt = metric.score(counted).signature, len(known), Curve.fit(rows, chrf)
    calibration = Calibration(pair.languages, config.calibrated, *learnt)
    trial = try_halves(rows, chrf)
    fifths = [
        (str(n), f"{told:.1f}", f"{true:.1f}") for n, (told, true) in enumerate(trial.fifths, 1)
    ]
    console.print_table(("group", "estimated", "true"), fifths)
    console.print_row()
    columns = ("lines", "r", f"error of {LINES_TOGETHER} lines", "signature")
    cells = f"{len(known)}", f"{trial.correlation:.2f}", f"{trial.error:.1f}", calibration.chrf
    console.print_table(columns, [cells])
    calibration.write(path, mark)
    same = " with the same options" * bool(config.calibrated or src_lang or tgt_lang)
    console.notice(f"{path}: now `nmt translate {model} --quality`{same} tells the chrF of lines")


def _check_count(source: Path, count: int) -> None:
    if count < _FEWEST:
        raise DataError(
            f"{source}: {count:,} lines have text and a reference; give at least {_FEWEST}"
        )

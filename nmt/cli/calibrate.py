"""`nmt calibrate`: what the quality of a model's translations is told by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from nmt import console
from nmt.cli.options import Quiet, argument
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
    """Learn to tell how good a model's translations are: `nmt translate --quality`.

    The model translates lines that have references. What it knew of each line is compared with the
    sentence chrF that the line got. The result is quality.json in a run folder or an export, and
    NAME.quality.json beside another model NAME.safetensors. Exports take it along.

    The first table shows how well lines are told that the curve has not seen: two halves are told
    by each other. Of each fifth of the lines, it has the means of what was told and what was true.
    """
    from nmt.data.composition import compose_lines
    from nmt.jobs.counts import translate_whole
    from nmt.jobs.lines import Line
    from nmt.jobs.parallel import Translators
    from nmt.scoring.inputs import Text
    from nmt.scoring.metrics import make_metrics
    from nmt.scoring.quality import LINES_TOGETHER, Curve, try_halves
    from nmt.scoring.text_warnings import text_warnings
    from nmt.translate.calibration import FEWEST_LINES, Calibration, checksum, known_of

    texts = read_texts([("source", source), ("reference", reference)], encoding, quoting)
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
    job = JobOptions(device=device, workers=workers, threads=threads)
    sources, references = (text.lines for text in texts)
    with Translators.start(config, job) as translators:
        lines = list(map(Line, sources))
        translations, counts, pair = translate_whole(
            lines, job.pool_lines, lambda: translators, "lines"
        )
    counts.warn(texts[0].name, too_long="too many tokens")
    outputs = [translation.text for translation in translations]
    for warning in text_warnings([Text("the translation", outputs)], texts[1:], texts[0]):
        console.warning(warning)
    if pair.tgt_vocabulary.composes:
        outputs, references = (list(compose_lines(lines)) for lines in (outputs, references))
    known = [
        (row, number)
        for number, row in enumerate(map(known_of, sources, translations))
        if row and references[number].strip()
    ]
    if len(known) < FEWEST_LINES:
        raise DataError(
            f"{texts[0].name}: {len(known):,} lines were translated and have a reference; give at "
            f"least {FEWEST_LINES}"
        )
    import numpy as np

    (metric,) = make_metrics(["chrf"], [references]).values()
    counted = metric.count(outputs)
    rows = np.array([row for row, _ in known])
    chrf = np.array([metric.value(counted[number]) for _, number in known])
    calibration = Calibration(
        checksum(config.models[0]),
        pair.languages,
        config.calibrated,
        metric.score(counted).signature,
        len(known),
        Curve.fit(rows, chrf),
    )
    trial = try_halves(rows, chrf)
    fifths = [
        (str(n), f"{told:.1f}", f"{true:.1f}") for n, (told, true) in enumerate(trial.fifths, 1)
    ]
    console.print_table(("fifth", "told", "true"), fifths)
    console.print_row()
    columns = ("lines", "r", f"error of {LINES_TOGETHER} lines", "signature")
    cells = f"{len(known)}", f"{trial.correlation:.2f}", f"{trial.error:.1f}", calibration.chrf
    console.print_table(columns, [cells])
    path = calibration.write(config.models[0])
    console.notice(f"{path}: now `nmt translate {model} --quality` tells the chrF of lines")

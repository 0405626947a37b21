"""The result of a metric: score, interval, comparisons with baselines; printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from nmt import console
from nmt.scoring.metrics import LineCounts, Metric, Score

if TYPE_CHECKING:
    from nmt.scoring.options import Resampling
    from nmt.scoring.significance import Comparison, Interval


class Result(NamedTuple):
    """What a metric says about an output and its baselines."""

    score: Score  # its signature names the resampling
    far_half: Score | None  # of the half of the lines that is farther from train, if it is known
    interval: Interval | None = None  # of the score
    comparisons: Sequence[Comparison] = ()  # with each baseline


def evaluate(
    name: str,
    metric: Metric,
    outputs: Sequence[Sequence[str]],
    resampling: Resampling | None = None,
    *,
    with_interval: bool = False,
    far_half: Sequence[int] = (),
) -> Result:
    """Score the lines of an output, and those of each baseline after it in `outputs`.

    name: of the metric, to show progress; metric: with its references; outputs: N lines each;
    resampling: compare the output with the baselines in this way; with_interval: whether resampling
    also gives an interval of the score; far_half: lines, from 0, that also have their own score.
    """
    counts, *baselines = _count(name, metric, outputs)
    if name == "bleu" and not any(line[-1] for line in counts):
        console.warning("no line of the translation has four tokens, so BLEU is 0; report chrF")
    of_half = metric.score([counts[line] for line in far_half]) if far_half else None
    if resampling is None:
        return Result(metric.score(counts), of_half)
    from nmt.scoring.significance import compare, confidence  # loads NumPy

    choices = {"bs": resampling.samples, "seed": resampling.seed}
    if baselines:
        choices["ar"] = resampling.trials
    interval = confidence(metric.value, counts, resampling) if with_interval else None
    comparisons = [compare(metric.value, counts, baseline, resampling) for baseline in baselines]
    return Result(metric.score(counts, choices), of_half, interval, comparisons)


def _count(name: str, metric: Metric, outputs: Sequence[Sequence[str]]) -> list[LineCounts]:
    with console.progress(name, total=sum(map(len, outputs)), unit="lines") as bar:

        def watched(lines: Sequence[str]) -> Iterator[str]:
            for line in lines:
                yield line
                bar.update()

        return [metric.count(watched(lines)) for lines in outputs]


def as_object(result: Result, baselines: Sequence[str]) -> dict[str, object]:
    """Return a result as JSON has it; `baselines` are the names of their files."""
    score = result.score
    answer: dict[str, object] = {
        "score": score.score,
        "signature": score.signature,
        "name": score.name,
        **score.detail,
    }
    if score.comparable_with:
        answer["comparable_with"] = score.comparable_with
    if result.interval is not None:
        answer["confidence"] = asdict(result.interval)
    if result.comparisons:
        compared = zip(baselines, result.comparisons, strict=True)
        answer["baselines"] = [{"file": name, **asdict(each)} for name, each in compared]
    return answer


def print_tables(results: Mapping[str, Result], baselines: Sequence[str]) -> None:
    """Print a row for each metric, then a row for each metric and baseline, and say who wins."""
    rows = [
        {
            "metric": result.score.name,
            "score": f"{result.score.score:.2f}",
            **({_heading(result.interval): _range(result.interval)} if result.interval else {}),
            "comparable with": result.score.comparable_with,
            "signature": result.score.signature,
            "detail": _detail(result.score),
        }
        for result in results.values()
    ]
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    if console.stdout().isatty():  # whose width no signature should exceed
        names.remove("signature")
    _print_rows([{name: row[name] for name in names} for row in rows])
    if "signature" not in names:
        _print_signatures(results.values())
    if baselines:
        console.print_row()
        print_comparisons((), [((), results)], baselines)


def print_comparisons(
    columns: Sequence[str],
    rows: Sequence[tuple[Sequence[str], Mapping[str, Result]]],
    baselines: Sequence[str],
) -> None:
    """Print a row for each text, metric and baseline, and say in words who is better.

    columns: what names a text, if there are several.
    """
    compared = [
        (names, key, result, baseline, comparison)
        for names, results in rows
        for key, result in results.items()
        for baseline, comparison in zip(baselines, result.comparisons, strict=True)
    ]
    _print_rows(
        [
            {
                **dict(zip(columns, names, strict=True)),
                "metric": result.score.name,
                "baseline": baseline,
                "its score": f"{comparison.score:.2f}",
                "difference": f"{comparison.difference:+.2f}",
                _heading(comparison.confidence): _range(comparison.confidence, sign="+"),
                "p, paired bootstrap": f"{comparison.p_bootstrap:.4f}",
                "p, approximate randomisation": f"{comparison.p_randomisation:.4f}",
            }
            for names, _, result, baseline, comparison in compared
        ]
    )
    for names, key, result, baseline, comparison in compared:
        what = ", ".join((*names, result.score.name))
        console.notice(_verdict(what, baseline, comparison, lower_is_better=key == "ter"))


_SIGNIFICANT = 0.05  # p-values below it are small enough for most papers


def _verdict(what: str, baseline: str, comparison: Comparison, *, lower_is_better: bool) -> str:
    """Say in words who is better, by approximate randomisation, which is the sharper test."""
    p, difference = comparison.p_randomisation, comparison.difference
    chance = f"p = {p:.4f}, approximate randomisation"
    if p >= _SIGNIFICANT:
        return (
            f"{what}: the difference of {difference:+.2f} from {baseline} may be chance ({chance})"
        )
    better = "better" if (difference > 0) != lower_is_better else "worse"
    return (
        f"{what}: {better} than {baseline} by {abs(difference):.2f}, which is unlikely to be "
        f"chance ({chance})"
    )


def print_signed(
    columns: Sequence[str], rows: Sequence[tuple[Sequence[str], Mapping[str, Result]]]
) -> None:
    """Print a row for each text, named by `columns`, then each signature on a line of its own."""
    metrics = [result.score.name for result in rows[0][1].values()]
    table = [
        (
            *names,
            *(f"{result.score.score:.2f}" for result in results.values()),
            *(f"{r.far_half.score:.2f}" if r.far_half else "" for r in results.values()),
        )
        for names, results in rows
    ]
    halves = [f"{metric}, far half" for metric in metrics]
    if not any(result.far_half for _, results in rows for result in results.values()):
        halves, table = [], [row[: -len(metrics)] for row in table]
    console.print_table((*columns, *metrics, *halves), table)
    _print_signatures(result for _, results in rows for result in results.values())


def _print_signatures(results: Iterable[Result]) -> None:
    """Print each signature whole on a line of its own, once."""
    for name, signature in dict.fromkeys((r.score.name, r.score.signature) for r in results):
        console.print_row(f"{name}: {signature}")


def _print_rows(rows: Sequence[Mapping[str, str]]) -> None:
    console.print_table(tuple(rows[0]), [tuple(row.values()) for row in rows])


def _heading(interval: Interval) -> str:
    return f"{interval.percent:g} % interval"


def _range(interval: Interval, sign: str = "") -> str:
    return f"{interval.lower:{sign}.2f} to {interval.upper:{sign}.2f}"


def _detail(score: Score) -> str:
    if score.comparable_with:  # variants of BLEU are read side by side
        return ""
    return ", ".join(f"{key.replace('_', ' ')} {_short(v)}" for key, v in score.detail.items())


def _short(value: object) -> str:
    if isinstance(value, list):
        return "/".join(f"{number:.1f}" for number in value)
    return f"{round(value, 3) if isinstance(value, float) else value:,}"

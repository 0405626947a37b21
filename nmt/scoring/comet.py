"""COMET, as another program computes it: `comet-score` in an environment of its own.

COMET pins old versions of NumPy and transformers, so it cannot be installed beside `nmt`. The
program is called once for an output and all its baselines, because loading its model takes long.
`Comet` then has the scores of lines, and is tested for chance like any other metric.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nmt.errors import DataError, UsageError
from nmt.scoring.metrics import LineCounts, Score

_SEGMENT = re.compile(r"(.*)\tSegment (\d+)\tscore: (\S+)")
"""A line that comet-score prints, for example `out.de	Segment 0	score: 0.8512`."""


class Comet:
    """The COMET scores of some outputs, with the methods of `Metric`. A score is their mean."""

    def __init__(
        self,
        command: str,
        model: str,
        source: Sequence[str],
        reference: Sequence[str],
        outputs: Sequence[Sequence[str]],
    ) -> None:
        """Run the program on outputs of N lines each.

        Args:
            command: the program, with options of its own if wanted.
            model: what it calls `--model`: a name or a checkpoint.
            source, reference: N lines.
            outputs: those that `count` will be asked for.

        Raises:
            UsageError: if there is no such program.
            DataError: if it fails, or does not print a score for each line.
        """
        self._model = model
        by_output = _run(command, model, source, reference, outputs)
        self._scores = {
            tuple(lines): scores for lines, scores in zip(outputs, by_output, strict=True)
        }

    def count(self, hypotheses: Iterable[str]) -> LineCounts:
        """Return the score of each line, and 1."""
        return [[score, 1.0] for score in self._scores[tuple(hypotheses)]]

    def value(self, sums: Sequence[float]) -> float:
        """Return the mean score of some lines, in percent, given the sums of their counts."""
        return 100 * sums[0] / sums[1]

    def score(self, counts: LineCounts, resampling: Mapping[str, int] | None = None) -> Score:
        """Return the mean score of all lines; `resampling` is added to the signature."""
        choices = {"model": Path(self._model).name, "nrefs": 1, **(resampling or {})}
        signature = "|".join(f"{key}:{choice}" for key, choice in choices.items())
        sums = [math.fsum(column) for column in zip(*counts, strict=True)]
        return Score("COMET", self.value(sums), signature)

    def sentence_level(self) -> Comet:
        """Return the metric, which scores single lines as well."""
        return self


def _run(
    command: str,
    model: str,
    source: Sequence[str],
    reference: Sequence[str],
    outputs: Sequence[Sequence[str]],
) -> list[list[float]]:
    """Return the scores of each output's lines."""
    try:
        program = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--comet-command {command}: {error}; quote it as for a shell") from None
    if not program:
        raise UsageError("--comet-command is blank; give the path of comet-score")
    with tempfile.TemporaryDirectory(prefix="nmt-comet-") as folder:
        paths = [Path(folder) / f"output-{number}" for number in range(len(outputs))]
        src, ref = Path(folder) / "source", Path(folder) / "reference"
        for path, lines in zip([src, ref, *paths], [source, reference, *outputs], strict=True):
            # To Python's text files, a carriage return ends a line, too.
            text = "".join(f"{line.replace(chr(13), ' ')}\n" for line in lines)
            path.write_text(text, encoding="utf-8")
        words: list[str | Path] = [*program, "-s", src, "-t", *paths, "-r", ref]
        words += ["--model", model]
        try:
            done = subprocess.run(
                words,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                env=os.environ | {"PYTHONUTF8": "1"},
            )
        except OSError as error:
            raise UsageError(
                f"--comet-command {command}: {error.strerror or error}; give the path of "
                "comet-score, for example comet/bin/comet-score"
            ) from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1][:300]
        raise DataError(f"{command} failed with status {done.returncode}; it said: {said}")
    return [_scores(command, done.stdout, path.name, len(source)) for path in paths]


def _scores(command: str, printed: str, name: str, lines: int) -> list[float]:
    """Return the scores of a file's lines, given all that the program has printed."""
    scores: dict[int, float] = {}
    for match in map(_SEGMENT.match, printed.splitlines()):
        if match is not None and Path(match[1]).name == name:
            try:
                scores[int(match[2])] = float(match[3])
            except ValueError:
                continue
    if not all(map(math.isfinite, scores.values())):
        raise DataError(f"{command} printed a score that is not a finite number")
    if sorted(scores) != list(range(lines)):
        raise DataError(
            f"{command} printed scores of {len(scores):,} of {lines:,} lines; each is expected as "
            "`FILE<TAB>Segment N<TAB>score: X`, as comet-score prints it without --quiet"
        )
    return [scores[line] for line in range(lines)]

"""`nmt average`: several checkpoints to one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from nmt import console
from nmt.cli.options import Quiet, argument, check_new_file
from nmt.config.fields import value
from nmt.errors import UsageError

EXAMPLES = (
    "nmt average run --last 5 --out averaged.safetensors",
    "nmt average run --best 3 --out averaged.safetensors",
)


def average(
    paths: Annotated[
        list[Path],
        argument("PATH...", "One run folder (with --last or --best), or two or more model files."),
    ],
    *,
    out: str = value(..., "The model file to write.", short="-o", metavar="MODEL"),
    last: int | None = value(None, "Average the run's newest N checkpoints.", minimum=1),
    best: int | None = value(None, "Average the run's best N checkpoints.", minimum=1),
    quiet: Quiet = False,
) -> None:
    """Average the weights of checkpoints into one model file.

    The mean of the last few checkpoints nearly always translates better than the last one. The
    paper takes 5 for base models and 20 for big ones. All must have the same configuration and
    vocabulary. If the run has fewer checkpoints than you ask for, that is an error.
    """
    from nmt.models.model_file import model_checksum
    from nmt.runs.run_folder import RunFolder

    if last is not None and best is not None:
        raise UsageError("--last and --best exclude each other")
    count = best if last is None else last
    if count is not None:
        if len(paths) != 1:
            raise UsageError("--last and --best take one run folder")
        RunFolder(paths[0]).check_run()
    elif len(paths) < 2 or any(path.is_dir() for path in paths):
        raise UsageError("give one run folder with --last or --best, or two or more model files")
    target = check_new_file(out)
    if count is None:
        for path in paths:
            model_checksum(path)  # reports a missing file before torch is loaded
    from nmt.runs.averaging import average_models, check_replaceable, select_checkpoints

    if count is not None:
        paths = select_checkpoints(paths[0], count, best=last is None)
    check_replaceable(target, paths)
    average_models(paths, target)
    console.notice(f"{out}: the mean of {', '.join(path.name for path in paths)}")
    console.next_step("nmt translate", out, "< text > translation")

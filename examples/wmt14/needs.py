#!/usr/bin/env python3
"""Say what a recipe will need, and check that it is there, before anything is begun.

Disk, memory and estimated hours come first, each with how it is known. Then, on stderr, a line for
each thing that is missing, with what to do, and exit status 1; or, where all is there, the hours
that come out of a trial of some seconds on the GPU. Sizes of the text are published ones.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from machine import Machine
    from trial import Trial

    from nmt.config import Recipe

PACKAGES = {
    "torch": "pip install torch==2.13.0",
    "nmt": f"pip install --editable {Path(__file__).resolve().parents[2]}",
}
"""What this script needs itself, and how it is installed."""
GPU_COUNTS = (1, 2, 4, 8)
PEAKS = {"A100 SXM": 312e12, "H100 SXM": 989e12}
"""FLOP/s of dense matrix products in bf16, by NVIDIA's data sheets of the two (the H100's gives
1,979 TFLOP/s with sparsity, which is twice as much)."""
UTILISATION = 0.3
"""Share of the peak that training is taken to reach. The paper's runs come to 0.29 (base) and 0.42
(big) of what it says that its GPUs sustain: counted operations over its Table 2."""
SENTENCE = 25
"""Tokens of a sentence on either side; only the small share of attention depends on it."""

PREPARE_BYTES, PREPARE_BYTES_A_PAIR = 1.4e9, 10.7
"""Memory of `nmt prepare`, as measured on ten million pairs, and of its hashes for duplicates."""
VOCABULARY_BYTES = 1_000_000  # about, of a SentencePiece model


@dataclass(frozen=True)
class Text:
    """Training text and what it comes from, with published sizes."""

    pairs: int
    size: int  # bytes of both sides
    download: int  # bytes of all archives


TEXTS = {
    "en-de": Text(pairs=4_508_785, size=1_358_410_408, download=1_696_003_559),
    "en-fr": Text(pairs=40_836_715, size=14_752_554_924, download=6_658_118_909),
}
"""By the card of Hugging Face's data set wmt/wmt14 (examples, bytes of train, download size). Its
archives are those of these recipes packed as .zip, without test-full.tgz: for en-de the catalogue's
sizes come to 1 MB less. Pairs with an empty side are left out there."""

RECIPES = {
    "en-de-base": ("transformer_base", "en-de", 37_000),
    "en-de-big": ("transformer_big", "en-de", 37_000),
    "en-fr-base": ("transformer_base", "en-fr", 32_000),
    "en-fr-big": ("transformer_big_en_fr", "en-fr", 32_000),
}
"""Preset, text and vocabulary of each."""


@dataclass(frozen=True)
class Needs:
    """What a recipe takes."""

    name: str
    recipe: Recipe
    vocab_size: int
    text: Text
    disk: dict[str, int]  # bytes, by what they are of
    gpu_memory: int  # bytes that each GPU holds beside its micro-batch
    memory: int  # bytes of main memory
    update_flops: int  # operations of an update

    def hours(self, seconds_an_update: float) -> float:
        """Return how long all updates take."""
        return self.recipe.training.max_updates * seconds_an_update / 3600


def needs_of(name: str, precision: str) -> Needs:
    """Compute what one of `RECIPES` needs."""
    from nmt.config import resolve_recipe
    from nmt.data.batches import LengthSums
    from nmt.models.flops import training_flops
    from nmt.models.presets import preset_values
    from nmt.prepare.prepare import BYTES_A_BYTE, BYTES_A_PAIR
    from nmt.training.memory import optimizer_without_values
    from nmt.training.saving import Need

    preset, languages, vocab_size = RECIPES[name]
    text = TEXTS[languages]
    values = preset_values(preset) | {"precision": precision}
    recipe = resolve_recipe(preset, "transformer", [(name, values)])
    optimizer = optimizer_without_values(recipe, (vocab_size, vocab_size))
    run = Need.of(recipe.training, optimizer, vocabulary_bytes=VOCABULARY_BYTES)
    tokens = recipe.training.batch_tokens
    squares = tokens * SENTENCE
    return Needs(
        name=name,
        recipe=recipe,
        vocab_size=vocab_size,
        text=text,
        disk={
            "archives": text.download,
            "text": text.size,
            "data folder": round(BYTES_A_BYTE * text.size + BYTES_A_PAIR * text.pairs),
            "checkpoints and training states": run.bytes + run.model_bytes,  # and their mean
        },
        gpu_memory=sum(optimizer.held_bytes().values()),
        memory=max(round(PREPARE_BYTES + PREPARE_BYTES_A_PAIR * text.pairs), run.state_bytes),
        update_flops=training_flops(
            recipe.architecture,
            recipe.model,
            vocab_size,
            LengthSums(tokens, tokens, squares, squares, squares),
        ),
    )


def statement(needs: Needs) -> str:
    """Say what is needed, for people."""
    recipe, training, text = needs.recipe.preset, needs.recipe.training, needs.text
    disk = ", ".join(f"{part} {_gigabytes(size)}" for part, size in needs.disk.items())
    flops = needs.update_flops * training.max_updates
    lines = [
        f"{needs.name}: {recipe}, {training.max_updates:,} updates of {training.batch_tokens:,} "
        f"tokens a side, {training.precision}, vocabulary of {needs.vocab_size:,}, "
        f"{text.pairs:,} pairs",
        f"disk        {_gigabytes(sum(needs.disk.values()))}: {disk}",
        "            (archives and text as Hugging Face's card of wmt/wmt14 has them, the rest "
        "computed)",
        f"memory      {_gigabytes(needs.memory)} of main memory at least; on each GPU "
        f"{_gigabytes(needs.gpu_memory)} and what a",
        "            micro-batch takes, whose size is found by trying",
        f"training    {flops:.1e} operations, counted on sentences of {SENTENCE} tokens",
        _row("estimated", "hours on so many GPUs:", GPU_COUNTS),
    ]
    lines += [
        _row("", kind, _hours(needs, needs.update_flops / (UTILISATION * peak)))
        for kind, peak in PEAKS.items()
    ]
    lines.append(
        f"            nobody has measured them; {UTILISATION:.0%} of the published peak in bf16; "
        "preparing,"
    )
    lines.append("            validating, saving and translating come on top")
    return "\n".join(lines)


def measured(needs: Needs, trial: Trial) -> str:
    """Say how long training takes on this machine's GPU, for people."""
    return "\n".join(
        [
            _row("measured", "hours on so many GPUs:", GPU_COUNTS),
            _row("", trial.device, _hours(needs, trial.seconds_an_update)),
            f"            {trial.seconds_an_update:.3g} s an update on one GPU, with "
            f"{trial.memory}; for more of them, divided",
        ]
    )


def _hours(needs: Needs, seconds_an_update: float) -> list[str]:
    return [f"{needs.hours(seconds_an_update) / count:.1f}" for count in GPU_COUNTS]


def _row(head: str, label: str, cells: Iterable[object]) -> str:
    return f"{head:<12}{label:<22}" + "".join(f"{cell:>8}" for cell in cells)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, say what is needed, and return the exit status."""
    parser = argparse.ArgumentParser(description="Say what a recipe needs, and check it.")
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument(
        "--work", type=Path, default=Path("work"), help="folder that all is to be written to (work)"
    )
    parser.add_argument(
        "--gpus", type=int, default=1, help="GPUs that there must be at least (1)", metavar="N"
    )
    parser.add_argument(
        "--precision", choices=("bf16", "fp16", "fp32"), default="bf16", help="to train in (bf16)"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="measure nothing, say what is missing, and go on all the same: for a rehearsal, whose "
        "text and model are tiny, and for training on CPUs",
    )
    given = parser.parse_args(arguments)
    from machine import Machine
    from trial import measure

    from nmt.errors import NMTError

    needs, machine = needs_of(given.recipe, given.precision), Machine.here(given.work)
    print(statement(needs))
    print(f"here        {machine.summary()}", flush=True)
    problems = missing(needs, machine, given.work, given.gpus)
    if machine.gpus and not problems and not given.force:
        try:
            print(measured(needs, measure(needs.recipe, needs.vocab_size)))
        except NMTError as error:
            problems = [f"a trial of some seconds does not train here: {error}"]
    return _end(problems, force=given.force)


def missing(needs: Needs, machine: Machine, work: Path, gpus: int) -> list[str]:
    """Return a line for each thing that is not there, which says what to do."""
    from disk import left_to_write
    from machine import OPEN_FILES, SHARED_MEMORY

    found = []
    if machine.cuda is None:
        found.append(
            f"torch {machine.torch} has no CUDA: install the build for your CUDA, see pytorch.org"
        )
    elif len(machine.gpus) < gpus:
        found.append(
            f"torch sees {len(machine.gpus)} GPUs, and {gpus} must be there: look at nvidia-smi "
            "and CUDA_VISIBLE_DEVICES"
        )
    in_bf16 = needs.recipe.training.precision == "bf16"
    if without := [gpu for gpu in machine.gpus if in_bf16 and gpu.capability < (8, 0)]:
        found.append(f"{without[0].name} does not compute in bf16: set PRECISION=fp16")
    if small := [gpu for gpu in machine.gpus if gpu.memory < needs.gpu_memory]:
        found.append(
            f"{small[0].name} has {_gigabytes(small[0].memory)}, and what is kept for each weight "
            f"takes {_gigabytes(needs.gpu_memory)}: take a larger one"
        )
    lacking = left_to_write(needs.name, needs.disk, work) - machine.free_disk
    if lacking > 0:
        found.append(
            f"{work}: the disk has {_gigabytes(machine.free_disk)} free, {_gigabytes(lacking)} too "
            "little: make room, or set WORK to a folder on a larger one"
        )
    if machine.memory < needs.memory:
        found.append(
            f"{_gigabytes(machine.memory)} of memory are free, and {_gigabytes(needs.memory)} are "
            "needed: end other programs"
        )
    if machine.open_files < OPEN_FILES:
        found.append(
            f"a process may open {machine.open_files:,} files, and {OPEN_FILES:,} may be needed: "
            f"ulimit -n {OPEN_FILES}"
        )
    if len(machine.gpus) > 1 and machine.shared_memory < SHARED_MEMORY:
        found.append(
            f"/dev/shm has {_gigabytes(machine.shared_memory)}, and NCCL wants "
            f"{_gigabytes(SHARED_MEMORY)} between GPUs: in Docker, --shm-size=1g"
        )
    return found


def not_installed() -> list[str]:
    """Return a line for each package that is not there, without which this script says nothing."""
    return [
        f"{name} is not installed for {sys.executable}: {how}, or set PYTHON to an interpreter "
        "that has it"
        for name, how in PACKAGES.items()
        if importlib.util.find_spec(name) is None
    ]


def _end(problems: Sequence[str], *, force: bool) -> int:
    for problem in problems:
        print(f"needs.py: {'warning: ' if force else 'missing: '}{problem}", file=sys.stderr)
    return 1 if problems and not force else 0


if __name__ == "__main__":
    if problems := not_installed():
        sys.exit(_end(problems, force=False))
    from nmt.cli.command import run

    run(lambda: sys.exit(main()))

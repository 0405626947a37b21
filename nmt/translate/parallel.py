"""Parallel translation: one translator for each group of cores or each GPU.

On CPUs the workers are forked from this process, so that all share one copy of the weights. Each
has its own threads: independent searches use the cores better than one search on all of them. On
GPUs each worker is a new process with its own GPU. `Setup` holds the models and options.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, Self

from nmt import console
from nmt.cpu import cores, default_threads, give_way, most_workers
from nmt.errors import DataError, MissingKernel, UsageError, did_you_mean
from nmt.files import sha256_file
from nmt.interchange.ctranslate2_manifest import MANIFEST, is_export
from nmt.models.device import PRECISIONS, choose_device, gpus_of, keep_freed_memory
from nmt.models.model_file import model_checksum
from nmt.search.options import SearchOptions
from nmt.translate.ctranslate2_engine import count_gpus
from nmt.translate.ctranslate2_engine import load as load_export
from nmt.translate.output import BLANK, Translation
from nmt.translate.translator import Translator
from nmt.workers import PAUSE, Pause, Workers


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Models and options: everything that translations depend on besides their text."""

    models: tuple[Path, ...]  # model files or run folders (several: an ensemble), or an export
    options: SearchOptions
    precision: str | None = None  # see `Translator.load`; an export has its own
    shortlist: Path | None = None  # file of the tokens that each translation may use
    alignment: bool = False
    split: bool = False  # whether to split lines into sentences

    def __post_init__(self) -> None:
        known = {one for of_device in PRECISIONS.values() for one in of_device}
        if self.precision is not None and self.precision not in known:
            raise UsageError(
                f"unknown precision {self.precision!r}{did_you_mean(self.precision, known)}"
            )
        if len(self.models) > 1:
            self.refuse_export("cannot join an ensemble")
        if self.precision is not None:
            self.refuse_export("has the precision it was exported with; leave out --precision", "")
        if self.shortlist is not None:
            self.refuse_export("takes no shortlist")
        if self.alignment:
            self.refuse_export("has no alignments")
        # Report missing files before torch is loaded, which takes seconds.
        for model in self.models:
            _checksum(model)
        if self.shortlist is not None and not self.shortlist.is_file():
            raise DataError(f"{self.shortlist}: no such file")

    @cached_property
    def is_export(self) -> bool:
        """Whether a model is a CTranslate2 export."""
        return any(map(is_export, self.models))

    def refuse_export(self, why: str, instead: str = "; give the model file instead") -> None:
        """Refuse an option that an export does not support.

        Raises:
            UsageError: if one of the models is an export.
        """
        if self.is_export:
            model = next(filter(is_export, self.models))
            raise UsageError(f"{model} is a CTranslate2 export, which {why}{instead}")

    def identity(self) -> dict[str, Any]:
        """Return, as JSON, what identifies translations with this setup."""
        return {
            "models": [_checksum(model) for model in self.models],
            "options": asdict(self.options),
            "precision": self.precision or (None if self.is_export else "fp32"),
            "shortlist": None if self.shortlist is None else sha256_file(self.shortlist),
            "alignment": self.alignment,
            "split": self.split,
        }


def _checksum(model: Path) -> str:
    """Return a model's recorded checksum.

    Raises:
        NMTError: if the model is missing.
    """
    return sha256_file(model / MANIFEST) if is_export(model) else model_checksum(model)


Pool = Sequence[tuple[str, str]]
"""Lines, each with the prefix of its translation."""
Translations = list[Translation]

_GPU_KERNEL = "gpu"  # as journals record it

_MOST_GPUS = 64  # in any machine

# The fewest lines that are worth sending to another process.
_FEWEST_LINES = 16


class Translators:
    """Translators of one model, in this process or in worker processes. A context manager."""

    def __init__(
        self,
        translator: Translator,
        workers: Workers[Pool, Translations] | None,
        count: int,
        kernel: str | None = None,
    ):
        """Take this process's translator, and workers if there are several."""
        self.kernel = kernel  # for matrix products; None for an export
        self.max_src_tokens = translator.max_src_tokens
        self.count = count
        self.translator = translator  # of this process
        self._workers = workers

    @classmethod
    def start(
        cls,
        setup: Setup,
        *,
        device: str = "auto",
        workers: str = "auto",
        threads: int | None = None,
        batch_tokens: int | None = None,
        kernel: str | None = None,
    ) -> Translators:
        """Load the model and start the processes.

        Args:
            setup: models and options.
            device: auto, cpu or cuda.
            workers: their number, or auto: all GPUs, or cores divided by threads.
            threads: of each worker on CPUs; if None, see `default_threads`.
            batch_tokens: see `Engine`.
            kernel: the `kernel` of earlier translators; the fastest if None.

        Raises:
            MissingKernel: if this device does not have the kernel.
            UsageError: if `workers` is not a number or too large.
        """
        _check_workers(workers, device, threads)
        if setup.is_export:
            gpus = gpus_of(device, count_gpus)
            count = _number_of(workers, gpus, threads)
            translator = load_export(
                setup.models[0],
                setup.options,
                device="cuda" if gpus else "cpu",
                workers=count,
                threads=threads or default_threads(count),
                batch_tokens=batch_tokens,
                split=setup.split,
            )
            return cls(translator, None, count)  # it has workers of its own
        chosen = choose_device(device)
        import torch  # takes seconds, and an export needs none

        from nmt.translate.torch_engine import check_precision

        gpus = torch.cuda.device_count() if chosen.type == "cuda" else 0
        count = _number_of(workers, gpus, threads)
        precision = setup.precision or "fp32"
        check_precision(precision, chosen)
        load = partial(
            Translator.load,
            setup.models,
            setup.options,
            precision=precision,
            batch_tokens=batch_tokens,
            shortlist=setup.shortlist,
            alignment=setup.alignment,
            split=setup.split,
        )
        if chosen.type == "cuda":
            if kernel not in (None, _GPU_KERNEL):
                raise MissingKernel(f"a GPU has no kernel {kernel!r}")
            if count == 1:
                return cls(load(device=chosen), None, 1, _GPU_KERNEL)
            taken: Synchronized[int] = multiprocessing.get_context("spawn").Value("i", 0)
            on_gpu = _OnGpu(load, taken)
            processes = Workers(on_gpu, count, on_death=on_gpu.halve_batch)
            # One on the CPU in this process, for alignment pictures and the like.
            return cls(load(precision="fp32"), processes, count, _GPU_KERNEL)
        keep_freed_memory()
        threads = threads or default_threads(count)
        # Threads started in this process would be missing in its forks.
        torch.set_num_threads(1)
        translator = load(kernel=kernel)
        on_cpu = _OnCpu(translator, threads)
        if count == 1:
            on_cpu.set_threads()
            return cls(translator, None, 1, translator.kernel)
        copies = Workers(on_cpu, count, method="fork", on_death=on_cpu.halve_batch)
        return cls(translator, copies, count, translator.kernel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._workers is not None:
            self._workers.__exit__(*failure)

    def translate(
        self, pools: Iterable[Pool | Pause], on_progress: Callable[[int], object]
    ) -> Iterator[Translations]:
        """Translate pools of lines; workers start a pool while others finish the one before.

        Args:
            pools: lines to translate together, and a pause if the next pool may take long.
            on_progress: called with the number of lines or segments just done.

        Yields:
            The translations of each pool, in order.
        """
        if self._workers is None:
            for pool in pools:
                if not isinstance(pool, Pause):
                    yield _translate(self.translator, pool, on_progress)
            return
        open_pools: deque[_OpenPool] = deque()
        for lines, found in self._workers.map(self._shares(pools, open_pools)):
            on_progress(len(lines))
            open_pools[0].take(found)
            if open_pools[0].is_done:
                yield open_pools.popleft().found

    def _shares(
        self, pools: Iterable[Pool | Pause], open_pools: deque[_OpenPool]
    ) -> Iterator[Pool | Pause]:
        for pool in pools:
            if isinstance(pool, Pause):
                yield PAUSE
                continue
            opened = _OpenPool.of(pool, self.count)
            open_pools.append(opened)
            for share in opened.shares:
                yield [pool[line] for line in share]


@dataclass
class _OpenPool:
    """A pool whose shares are being translated."""

    shares: list[list[int]]  # indices of lines
    found: Translations
    done: int = 0  # shares

    @classmethod
    def of(cls, pool: Pool, workers: int) -> _OpenPool:
        """Deal out the lines by length, so that all shares take equally long."""
        order = sorted(range(len(pool)), key=lambda line: (-len(pool[line][0]), line))
        count = max(1, min(workers, len(pool) // _FEWEST_LINES))
        return cls([order[first::count] for first in range(count)], [BLANK] * len(pool))

    @property
    def is_done(self) -> bool:
        return self.done == len(self.shares)

    def take(self, found: Translations) -> None:
        """Store the translations of the next share."""
        for line, translation in zip(self.shares[self.done], found, strict=True):
            self.found[line] = translation
        self.done += 1


@dataclass
class _OnCpu:
    """Translates lines in this process or a fork of it."""

    translator: Translator
    threads: int

    def __call__(self, lines: Pool) -> Translations:
        self.set_threads()
        return _translate(self.translator, lines)

    def set_threads(self) -> None:
        """Set the number of torch's threads in this process."""
        import torch

        torch.set_num_threads(self.threads)
        if self.threads > 1:
            give_way()

    def halve_batch(self) -> None:
        """Halve the batch of future forks after one has died."""
        _halve(self.translator)
        _warn_of_death()


@dataclass
class _OnGpu:
    """Translates lines in a process with its own GPU."""

    load: Callable[..., Translator]
    taken: Synchronized[int]  # GPUs
    deaths: int = 0  # of processes
    translator: list[Translator] = field(default_factory=list)  # of this process, once loaded

    def __call__(self, lines: Pool) -> Translations:
        if not self.translator:
            import torch

            with self.taken.get_lock():
                number, self.taken.value = self.taken.value, self.taken.value + 1
            device = torch.device("cuda", number)
            torch.cuda.set_device(device)
            self.translator.append(self.load(device=device))
            for _ in range(self.deaths):
                _halve(self.translator[0])
        return _translate(self.translator[0], lines)

    def halve_batch(self) -> None:
        """Halve the batch of future processes after one has died."""
        self.deaths += 1
        self.taken.value = 0  # all processes are started again
        _warn_of_death()


def _halve(translator: Translator) -> None:
    translator.engine.batch_tokens = max(1, translator.engine.batch_tokens // 2)


def _warn_of_death() -> None:
    console.warning(
        "a worker process has died, most likely out of memory; its lines are translated again "
        "with half the batch"
    )


def _translate(
    translator: Translator, pool: Pool, on_progress: Callable[[int], object] | None = None
) -> Translations:
    lines, prefixes = zip(*pool, strict=True)
    return translator.translate(lines, prefixes, on_progress=on_progress)


def _check_workers(workers: str, device: str, threads: int | None) -> None:
    """Check `workers` as far as possible before torch is loaded, which takes seconds."""
    if workers == "auto":
        return
    if not (workers.isdecimal() and int(workers) >= 1):
        raise UsageError(f"--workers {workers!r} must be auto or a number from 1")
    if device == "cpu":
        _number_of(workers, 0, threads)
    elif int(workers) > max(_MOST_GPUS, most_workers()):
        raise UsageError(
            f"--workers {workers}: must be at most {most_workers()}, or as many as GPUs"
        )


def _number_of(workers: str, gpus: int, threads: int | None) -> int:
    if workers == "auto":
        return gpus or max(1, cores() // (threads or 1))
    most = gpus or most_workers()
    if int(workers) > most:
        has = f"{gpus} GPUs, and each has one" if gpus else f"{cores()} cores for this process"
        raise UsageError(f"--workers {workers}: must be at most {most}; this machine has {has}")
    return int(workers)

"""Parallel translation: one translator for each group of cores or each GPU.

On CPUs the workers are forked from this process, so that all share one copy of the weights. Each
has its own threads: independent searches use the cores better than one search on all of them. On
GPUs each worker is a new process with its own GPU. The workers of a Ray cluster get the model's
files from this process, which also chooses the kernel for all of them.
"""

from __future__ import annotations

import platform
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from nmt import console
from nmt.errors import DataError, MissingKernel, UsageError
from nmt.jobs.lines import Line
from nmt.jobs.options import JobOptions
from nmt.models.device import (
    choose_device,
    gpus_of,
    keep_freed_memory,
    return_freed_memory,
    use_tf32,
)
from nmt.system.machine import RAY, cores, default_threads, let_go_of_code, most_workers
from nmt.system.prefetch import Pause
from nmt.system.ray_workers import RayWorkers, connect, has_gpu, temporary_folder
from nmt.system.workers import Workers, number_of_this_worker
from nmt.translate.load_export import count_gpus
from nmt.translate.load_export import load as load_export
from nmt.translate.options import TranslationConfig
from nmt.translate.output import BLANK, Translation
from nmt.translate.translator import Translator

if TYPE_CHECKING:
    import torch

Pool = Sequence[Line]
Translations = list[Translation]

_OpenPool = tuple[deque[list[int]], Translations]
"""The shares of a pool that are not yet translated, as indices of its lines, and what is."""

_GPU_KERNEL = "gpu"  # as journals record it

_MOST_GPUS = 64  # in any machine

# The fewest lines that are worth sending to another process.
_FEWEST_LINES = 16


@dataclass
class Translators:
    """Translators of one model, in this process or in worker processes. A context manager."""

    loaded: Translator | Callable[[], Translator]
    """This process's translator, or what loads it."""
    count: int
    workers: Workers[Pool, Translations] | RayWorkers[Pool, Translations] | None = None
    kernel: str | None = None  # for matrix products; None for an export

    @classmethod
    def start(
        cls, config: TranslationConfig, job: JobOptions, kernel: str | None = None
    ) -> Translators:
        """Load the model and start the processes, with this kernel or the fastest.

        MissingKernel if this device does not have the kernel. UsageError if `workers` is not a
        number or too large. NMTError if the Ray cluster cannot be reached.
        """
        if job.workers == RAY:
            return cls._on_ray(config, job, kernel)
        device, threads, batch_tokens = job.device, job.threads, job.batch_tokens
        _check_workers(job)
        if config.is_export:
            gpus = gpus_of(device, count_gpus)
            count = _number_of(job, gpus)
            threads = threads or default_threads(count)
            machine = _Machine("cuda" if gpus else "cpu", batch_tokens, threads=threads)
            return cls(_load(config, machine, workers=count), count)  # it has workers of its own
        chosen = choose_device(device)
        import torch  # takes seconds, and an export needs none

        gpus = torch.cuda.device_count() if chosen.type == "cuda" else 0
        count = _number_of(job, gpus)
        if chosen.type == "cuda":
            _check_kernel_of_gpu(kernel)
            if count == 1:
                translator = _load(config, _Machine(chosen, batch_tokens))
                return cls(translator, 1, kernel=_GPU_KERNEL)
            on_gpu = _OnGpu(partial(_load_same, config, config.identity(), batch_tokens))
            processes = Workers(on_gpu, count, on_death=on_gpu.halve_batch)
            # This process needs one only for pictures of attention and the like: then on the CPU.
            load_here = partial(_load, replace(config, precision="fp32"), _Machine())
            return cls(load_here, count, processes, _GPU_KERNEL)
        keep_freed_memory()
        # Threads started in this process would be missing in its forks.
        torch.set_num_threads(1)
        threads = threads or default_threads(count)
        machine = _Machine("cpu", batch_tokens, kernel, threads if count == 1 else 1)
        translator = _load(config, machine)
        if count == 1:
            return cls(translator, 1, kernel=translator.engine.kernel)
        return_freed_memory()  # or the forks would fill it, each for itself
        let_go_of_code()
        on_cpu = partial(_translate_in_fork, translator, threads)
        on_death = partial(_halve_after_death, translator)
        copies = Workers(on_cpu, count, method="fork", on_death=on_death)
        return cls(translator, count, copies, translator.engine.kernel)

    @classmethod
    def _on_ray(cls, config: TranslationConfig, job: JobOptions, kernel: str | None) -> Translators:
        """Load the model here, and send it to the processes of a Ray cluster."""
        connect()  # before the model is loaded, which takes seconds
        if job.device == "cuda":
            if config.is_export:
                raise UsageError(
                    f"device cuda: {config.models[0]} is a CTranslate2 export, which runs only on "
                    "the CPUs of a Ray cluster"
                )
            if not has_gpu():
                raise UsageError("device cuda: no node of the Ray cluster has a GPU")
        batch_tokens, threads = job.batch_tokens, job.threads or 1
        is_on_gpu = job.device != "cpu" and not config.is_export and has_gpu()
        here: Translator | Callable[[], Translator]
        if is_on_gpu:
            _check_kernel_of_gpu(kernel)
            kernel = _GPU_KERNEL
            here = partial(_load, replace(config, precision="fp32"), _Machine())
            machine = _Machine("cuda", batch_tokens, threads=threads)
        else:
            here = _load(config, _Machine("cpu", batch_tokens, kernel))
            kernel = here.engine.kernel
            machine = _Machine("cpu", batch_tokens, kernel, threads)
        load_there = partial(_loaded, machine=machine)
        workers = RayWorkers(_OnRay(config, load_there), threads=threads, gpus=int(is_on_gpu))
        return cls(here, workers.count, workers, kernel)

    @property
    def translator(self) -> Translator:
        if not isinstance(self.loaded, Translator):
            self.loaded = self.loaded()
        return self.loaded

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self.workers is not None:
            self.workers.__exit__(*failure)

    def translate(
        self, pools: Iterable[Pool | Pause], on_progress: Callable[[int], object]
    ) -> Iterator[Translations]:
        """Yield the translations of each pool, in order. A pause is where the next may take long.

        Workers start a pool while others finish the one before. `on_progress` is called with the
        number of lines or segments just done.
        """
        if self.workers is None:
            for pool in pools:
                if not isinstance(pool, Pause):
                    yield _translate(self.translator, pool, on_progress)
            return
        open_pools = deque[_OpenPool]()
        for lines, translations in self.workers.map(self._shares(pools, open_pools)):
            on_progress(len(lines))
            shares, of_pool = open_pools[0]
            for line, translation in zip(shares.popleft(), translations, strict=True):
                of_pool[line] = translation
            if not shares:
                open_pools.popleft()
                yield of_pool

    def _shares(
        self, pools: Iterable[Pool | Pause], open_pools: deque[_OpenPool]
    ) -> Iterator[Pool | Pause]:
        """Deal out the lines of each pool by length, so that all shares take equally long."""
        for pool in pools:
            if isinstance(pool, Pause):
                yield pool
                continue
            lengths = [len(line.text) + sum(map(len, line.context)) for line in pool]
            order = sorted(range(len(pool)), key=lambda line: (-lengths[line], line))
            count = max(1, min(self.count, len(pool) // _FEWEST_LINES))
            shares = [order[first::count] for first in range(count)]
            open_pools.append((deque(shares), [BLANK] * len(pool)))
            for share in shares:
                yield [pool[line] for line in share]


def _translate_in_fork(translator: Translator, threads: int, lines: Pool) -> Translations:
    """Translate lines with so many threads, which a fork of a process of one thread may start."""
    translator.engine.threads = threads
    return _translate(translator, lines)


def _halve_after_death(translator: Translator) -> None:
    _halve(translator, 1)
    _warn_of_death()


@dataclass
class _OnGpu:
    load: Callable[[torch.device], Translator]
    deaths: int = 0  # of processes
    translator: Translator | None = None  # of this process, once loaded

    def __call__(self, lines: Pool) -> Translations:
        if self.translator is None:
            import torch

            device = torch.device("cuda", number_of_this_worker())
            torch.cuda.set_device(device)
            self.translator = self.load(device)
            _halve(self.translator, self.deaths)
        return _translate(self.translator, lines)

    def halve_batch(self) -> None:
        """Halve the batch of future processes after one has died."""
        self.deaths += 1
        _warn_of_death()


class _OnRay:
    """Translates lines in a process of a Ray cluster, whose node may lack the model's files."""

    def __init__(
        self,
        config: TranslationConfig,
        load: Callable[[TranslationConfig], Callable[[Pool], Translations]],
    ) -> None:
        """Read the model's files, whose paths are those of this machine."""
        self.config = config
        self.load = load
        self.translate: Callable[[Pool], Translations] | None = None  # once loaded in a process
        import numpy as np

        # Of the files at each path, by name in that folder; `.` is the path itself.
        self.content = {
            path: {file.relative_to(path): np.fromfile(file, np.uint8) for file in files}
            for path, files in config.files().items()
        }

    def __call__(self, lines: Pool) -> Translations:
        if self.translate is None:
            with temporary_folder() as folder:
                try:
                    self.translate = self.load(self._copied(folder))
                except MissingKernel as error:
                    raise MissingKernel(
                        f"node {platform.node()} of the Ray cluster: {error}; take nodes with the "
                        "same kind of CPU as the machine where you start the job"
                    ) from None
            self.content.clear()
        return self.translate(lines)

    def _copied(self, folder: Path) -> TranslationConfig:
        """Write the files to a folder, and return the configuration with their new paths."""
        copies = {path: folder / f"{index}-{path.name}" for index, path in enumerate(self.content)}
        for path, files in self.content.items():
            for name, content in files.items():
                (copies[path] / name).parent.mkdir(exist_ok=True)
                content.tofile(copies[path] / name)
        return self.config.moved(copies)


class _Machine(NamedTuple):
    """On what a process translates, and how."""

    device: torch.device | str = "cpu"
    batch_tokens: int | None = None
    kernel: str | None = None  # for matrix products; None: the fastest
    threads: int = 1


def _loaded(config: TranslationConfig, machine: _Machine) -> Callable[[Pool], Translations]:
    """Load a model or an export for this process only, and return what translates lines."""
    if not config.is_export:
        keep_freed_memory()
    return partial(_translate, _load(config, machine))


def _load(config: TranslationConfig, machine: _Machine, *, workers: int = 1) -> Translator:
    """Load a model, or an export, which has workers and threads of its own."""
    device, batch_tokens, kernel, threads = machine
    if config.is_export:
        engine, language_pair = load_export(
            config,
            device=str(device),
            workers=workers,
            threads=threads,
            batch_tokens=batch_tokens,
            with_scores=config.form != "text",
        )
    else:
        from nmt.translate.load_model import load

        engine, language_pair = load(
            config, device=device, batch_tokens=batch_tokens, kernel=kernel, threads=threads
        )
        use_tf32(engine.device, "fp32")  # which cuDNN's default is not
    return Translator(engine, language_pair, config)


def _load_same(
    config: TranslationConfig,
    identity: Mapping[str, Any],
    batch_tokens: int | None,
    device: torch.device,
) -> Translator:
    """Load the model that other processes have loaded, or will load."""
    translator = _load(config, _Machine(device, batch_tokens))
    check_unchanged(config, identity)
    return translator


def _check_kernel_of_gpu(kernel: str | None) -> None:
    if kernel not in (None, _GPU_KERNEL):
        raise MissingKernel(f"a GPU has no kernel {kernel!r}")


def check_unchanged(config: TranslationConfig, identity: Mapping[str, Any]) -> None:
    """Check that a job's files are still those that its `identity` names (DataError)."""
    if not config.identity().items() <= identity.items():
        names = ", ".join(map(str, config.models))
        raise DataError(
            f"{names}: the model or a list was replaced while the job loaded it; run the same "
            "command again"
        )


def _halve(translator: Translator, times: int) -> None:
    translator.engine.batch_tokens = max(1, translator.engine.batch_tokens >> times)


def _warn_of_death() -> None:
    console.warning(
        "a worker process has died, most likely out of memory; its lines are translated again "
        "with half the batch"
    )


def _translate(
    translator: Translator, pool: Pool, on_progress: Callable[[int], object] | None = None
) -> Translations:
    return translator.translate(
        [line.text for line in pool],
        [line.prefix for line in pool],
        contexts=[line.context for line in pool],
        on_progress=on_progress,
        units=[line.unit for line in pool if line.unit is not None],
    )


def _check_workers(job: JobOptions) -> None:
    """Check `workers` as far as possible before torch is loaded, which takes seconds."""
    workers = job.workers
    if workers == "auto":
        return
    if not re.fullmatch("0*[1-9][0-9]{0,99}", workers):
        raise UsageError(f"--workers {workers!r} must be auto, ray or a number from 1")
    if job.device == "cpu":
        _number_of(job, 0)
    elif int(workers) > max(_MOST_GPUS, most_workers()):
        raise UsageError(
            f"--workers {workers}: must be at most {most_workers()}, or as many as GPUs"
        )


def _number_of(job: JobOptions, gpus: int) -> int:
    """Return the number of workers with so many GPUs, or with 0 on CPUs."""
    if job.workers == "auto":
        return gpus or max(1, cores() // (job.threads or 1))
    workers, most = int(job.workers), gpus or most_workers()
    if workers > most:
        has = f"{gpus} GPUs, and each has one" if gpus else f"{cores()} cores for this process"
        raise UsageError(f"--workers {workers}: must be at most {most}; this machine has {has}")
    return workers

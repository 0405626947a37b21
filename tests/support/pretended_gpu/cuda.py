"""What `torch.cuda` lacks in torch's CPU build; site/sitecustomize.py imports it after torch."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from pretended_gpu import build, kernels

_DEVICE = ctypes.CDLL(str(build.build()))
_DEVICE.wait.argtypes = _DEVICE.set_limit.argtypes = [ctypes.c_int64]
_DEVICE.wait.restype = ctypes.c_char_p
_DEVICE.record.restype = ctypes.c_int64
_DEVICE.bytes_held.restype = _DEVICE.most_bytes_held.restype = ctypes.c_int64

_TOTAL = 80 << 30
_PROPERTIES = SimpleNamespace(
    name="pretended GPU", major=9, minor=0, total_memory=_TOTAL, multi_processor_count=132
)


def counts() -> dict[str, int]:
    """Return how often the host has waited, and how many operators and copies it began."""
    found = (ctypes.c_int64 * 4)()
    _DEVICE.counts(found)
    return dict(zip(("waits", "operators", "copies in", "copies out"), found, strict=True))


class Event:
    """Is reached when the copies are done that were begun before `record`."""

    def __init__(self, *_: object, **__: object) -> None:
        self._after = 0
        self._time = 0.0

    def record(self, *_: object) -> None:
        """Note what was begun until now."""
        self._after = _DEVICE.record()
        self._time = time.perf_counter()

    def synchronize(self) -> None:
        """Wait until it is reached."""
        _wait(self._after)

    def query(self) -> bool:
        """Say that it is reached, after waiting."""
        self.synchronize()
        return True

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds until another event, by the host's clock."""
        return 1e3 * (end._time - self._time)


class Stream:
    """The one stream."""

    def synchronize(self) -> None:
        """Wait for all that was begun."""
        _wait(_DEVICE.record())


def _wait(event: int) -> None:
    problem = _DEVICE.wait(event)
    if problem is not None:
        raise RuntimeError(problem.decode())


def _synchronize(_: object = None) -> None:
    _wait(_DEVICE.record())


def _set_sync_debug_mode(mode: str | int) -> None:
    _DEVICE.forbid_waits(mode in ("error", 2))


def _set_per_process_memory_fraction(share: float, _: object = None) -> None:
    _DEVICE.set_limit(int(share * _TOTAL))


def _constant(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


_FUNCTIONS: dict[str, Any] = {
    "is_available": _constant(True),
    "is_initialized": _constant(True),
    "device_count": _constant(1),
    "current_device": _constant(0),
    "current_stream": _constant(Stream()),
    "get_device_capability": _constant((_PROPERTIES.major, _PROPERTIES.minor)),
    "get_device_name": _constant(_PROPERTIES.name),
    "get_device_properties": _constant(_PROPERTIES),
    "mem_get_info": lambda *_: (_TOTAL - _DEVICE.bytes_held(), _TOTAL),
    "memory_allocated": lambda *_: _DEVICE.bytes_held(),
    "memory_reserved": lambda *_: _DEVICE.bytes_held(),
    "max_memory_allocated": lambda *_: _DEVICE.most_bytes_held(),
    "reset_peak_memory_stats": lambda *_: _DEVICE.forget_most_bytes(),
    "set_per_process_memory_fraction": _set_per_process_memory_fraction,
    "set_sync_debug_mode": _set_sync_debug_mode,
    "synchronize": _synchronize,
    "Event": Event,
    "Stream": Stream,
}
# torch.compile wants each of them to be another function.
for _name in ("_lazy_init", "empty_cache", "manual_seed", "manual_seed_all", "set_device"):
    _FUNCTIONS[_name] = _constant(None)

for _name, _value in _FUNCTIONS.items():
    setattr(torch.cuda, _name, _value)

_REGISTERED = kernels.register()

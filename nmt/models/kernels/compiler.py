"""torch.compile: whether it works here, what it needs, and its errors."""

from __future__ import annotations

import contextlib
import re
import subprocess
import traceback
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils._triton import has_triton

from nmt.errors import NMTError

_NEEDS = (
    "it needs gcc and g++, Python's headers (Debian: python3-dev), a TORCHINDUCTOR_CACHE_DIR to "
    "write to and to run programs from, and on a GPU the triton and the driver for it"
)
"""Few images for training have all of that, and torch often does not say what is missing."""

_MODULES = "torch._dynamo", "torch._inductor", "triton"  # whose errors are the compiler's
_LONGEST = 200  # characters of a message


class CompilerError(NMTError):
    """torch.compile has failed."""


def problem_of_compiling(device: torch.device) -> str:
    """Return why torch.compile does not work on a device, and what to do; empty if it works.

    It compiles the forward and backward pass of a small function, which takes some seconds.
    """
    try:
        if device.type == "cuda" and not has_triton():
            return f"there is no triton for this GPU; {_NEEDS}"
        x = torch.ones(64, device=device, requires_grad=True)
        torch.compile(_small)(x).backward()  # type: ignore[no-untyped-call]
    except Exception as error:  # a missing user, a full disk: there is no end of kinds
        return _describe(error)
    return ""


def _small(x: Tensor) -> Tensor:
    return torch.nn.functional.gelu(x).sum()


@contextlib.contextmanager
def compiler_errors() -> Iterator[None]:
    """Raise CompilerError if torch.compile fails in a block that computes and opens no files."""
    try:
        yield
    except Exception as error:
        # By name, because importing the compiler takes seconds. Its cache fails as files do, and
        # its assertions are Python's.
        modules = [kind.__module__ for kind in type(error).__mro__] + [_origin(error)]
        is_own = any(name.startswith(_MODULES) for name in modules) or "Triton Error" in str(error)
        if not (is_own or isinstance(error, OSError | subprocess.SubprocessError)):
            raise
        raise CompilerError(
            f"torch.compile failed: {_describe(error)}, or give --set compile=false"
        ) from error


def _origin(error: Exception) -> str:
    """Return the name of the module that raised an error."""
    *_, (innermost, _) = traceback.walk_tb(error.__traceback__)
    return str(innermost.f_globals.get("__name__", ""))


def _describe(error: Exception) -> str:
    """Return a message of the compiler in one line, and what it needs."""
    text = str(error)
    if text.lstrip().startswith("from user code:"):  # it has nothing to say itself
        return f"{type(error).__name__} in {_origin(error)}; another release of torch may help"
    lines = [line.strip() for line in text.splitlines() if not line.endswith("raised:")]
    telling = [line for line in lines if re.search(r"\berror: ", line)] + [*filter(None, lines)]
    said = telling[0][:_LONGEST] if telling else type(error).__name__
    return f"{said}; {_NEEDS}"

"""What torch.compile raises where something is missing, and what users are told."""

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor.exc import InductorError

from nmt.errors import NMTError
from nmt.models.kernels import compiler
from nmt.models.kernels.compiler import CompilerError, compiler_errors, problem_of_compiling

CPU = torch.device("cpu")
# Messages of torch 2.6 to 2.13 and triton 3, shortened, and what of each is said.
KINDS = {
    "no C compiler": (
        RuntimeError("Failed to find C compiler. Please specify via CC environment variable."),
        "Failed to find C compiler",
    ),
    "no headers": (
        RuntimeError(
            "CppCompileError: C++ compile error\n\nCommand:\ng++ -O3\n\nOutput:\n"
            "/tmp/a/main.cpp:1:10: fatal error: Python.h: No such file or directory\n"
        ),
        "Python.h: No",
    ),
    "unwritable": (
        PermissionError(13, "Permission denied", "/tmp/torchinductor_root"),
        "Permission denied: '/tmp/torchinductor_root'",
    ),
    "unknown": (ValueError(""), "ValueError; it needs"),
}


@pytest.mark.parametrize(("error", "told"), KINDS.values(), ids=KINDS)
def test_what_fails_is_said_in_one_line_with_what_compiling_needs(
    monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(torch, "compile", fail)
    problem = problem_of_compiling(CPU)
    assert told in problem and "TORCHINDUCTOR_CACHE_DIR" in problem
    assert "\n" not in problem


def test_a_gpu_without_triton_has_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "has_triton", lambda: False)
    monkeypatch.setattr(torch, "compile", lambda _: pytest.fail("it cannot work"))
    assert "no triton" in problem_of_compiling(torch.device("cuda"))


def test_a_real_compiler_that_is_missing_is_named() -> None:
    torch.compiler.reset()
    with inductor_config.patch({"cpp.cxx": (None, "/nonexistent/g++")}):
        problem = problem_of_compiling(CPU)
    assert "C++ compiler" in problem


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (InductorError(RuntimeError("Failed to find C compiler"), None), CompilerError),
        (RuntimeError("Triton Error [CUDA]: device kernel image is invalid"), CompilerError),
        (FileNotFoundError(2, "No such file", "/tmp/torchinductor_root/a.py"), CompilerError),
        (RuntimeError("CUDA error: device-side assert triggered"), RuntimeError),
        (ValueError("a fault of the program"), ValueError),
    ],
    ids=lambda value: str(value)[:30],
)
def test_errors_of_compilers_are_told_apart(error: Exception, raised: type[Exception]) -> None:
    with pytest.raises(raised) as found, compiler_errors():
        raise error
    assert isinstance(found.value, NMTError) is (raised is CompilerError)
    assert ("--set compile=false" in str(found.value)) is (raised is CompilerError)

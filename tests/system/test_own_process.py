"""A call in a process of its own: its result, and one line about whatever goes wrong in it."""

import importlib
import json
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt.errors import NMTError
from nmt.system import own_process
from nmt.system.own_process import in_a_copy, in_own_process


def test_a_function_is_called_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_own_process("it failed", math.hypot, 3, 4) == 5
    assert in_own_process("it failed", os.getpid) != os.getpid()
    assert in_own_process("it failed", os.getenv, "COLOUR", COLOUR="blau") == "blau"
    assert "COLOUR" not in os.environ
    (tmp_path / "somewhere.py").write_text("def total(*values): return sum(values)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")  # the current folder, as in an interactive Python
    assert in_own_process("it failed", importlib.import_module("somewhere").total, 1, 2) == 3


@pytest.mark.parametrize(
    ("function", "value", "why"),
    [
        (json.loads, "{", "JSONDecodeError"),
        (signal.raise_signal, signal.SIGKILL, "-9"),  # as the kernel does when memory is short
        (time.sleep, 600, "seconds"),
    ],
)
def test_whatever_ends_it_is_one_line(
    function: Callable[..., Any], value: object, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_process, "_LONGEST", 600 if function is not time.sleep else 1)
    with pytest.raises(NMTError) as caught:
        in_own_process("it failed", function, value)
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_python_may_make_errors_of_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    assert in_own_process("it failed", warnings.warn, "the Glyph is missing") is None


def test_a_copy_of_this_process_answers_and_changes_nothing_here() -> None:
    here = [os.getpid()]

    def change() -> list[int]:
        here.append(os.getpid())
        return here

    first, second = in_a_copy(change)
    assert first == os.getpid() != second
    assert here == [first]


@pytest.mark.parametrize("number", [0, signal.SIGKILL])
def test_what_a_copy_cannot_do_this_process_does(number: int) -> None:
    this = os.getpid()

    def only_here() -> int:
        if os.getpid() == this:
            return this
        os.kill(os.getpid(), number)
        raise ValueError("in the copy")

    assert in_a_copy(only_here) == this


@pytest.mark.skipif(sys.platform != "linux", reason="there this process calls the function")
def test_a_copy_that_hangs_at_its_start_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_process, "_STARTS_WITHIN", 0.2)
    to_hang = [True]
    os.register_at_fork(
        after_in_child=lambda: time.sleep(600) if to_hang else None, after_in_parent=to_hang.clear
    )
    assert in_a_copy(os.getpid) != os.getpid()
    assert not to_hang

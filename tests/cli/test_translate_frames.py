"""A plain line passes only what it needs on its way to the model."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from command_line import Nmt

import nmt as package
from nmt.models.model_file import ModelCard, load_model

FOLDER = Path(package.__file__).parent


def frames_of_nmt(frame: FrameType | None, until: str) -> list[str]:
    """Return the files of nmt's frames from this one up to one of a file."""
    files = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(FOLDER):
            files.append(path.relative_to(FOLDER).as_posix())
            if files[-1] == until:
                return files
        frame = frame.f_back
    raise AssertionError(f"no frame of {until}: {files}")


def test_a_plain_line_passes_few_frames_and_files(
    nmt: Nmt, model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks: list[list[str]] = []

    def load_stub(path: Path) -> tuple[Any, ModelCard]:
        model, card = load_model(path)
        step = model.step

        def noting_step(*args: Any) -> Any:
            stacks.append(frames_of_nmt(sys._getframe(1), "cli/translate.py"))
            return step(*args)

        monkeypatch.setattr(model, "step", noting_step)
        return model, card

    monkeypatch.setattr("nmt.translate.torch_engine.load_model", load_stub)
    words = ("--workers", "1", "--threads", "1", "--max-extra-tokens", "0")
    assert nmt("translate", model_file, *words, stdin=b"the cat\n").status == 0
    stack = stacks[0]  # of the first search
    assert len(stack) <= 12, stack
    assert len(set(stack)) <= 9, stack

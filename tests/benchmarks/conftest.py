"""Fixtures of all benchmarks."""

from __future__ import annotations

import os

import pytest

from nmt.cpu import WAITING


@pytest.fixture(scope="session", autouse=True)
def _others_wait_as_they_would() -> None:
    # Importing nmt sets in the environment how threads wait. Other systems must not inherit that.
    # Each new nmt sets it again.
    if all(os.environ.get(name) == value for name, value in WAITING.items()):
        for name in WAITING:
            del os.environ[name]

"""What a function of nmt or torch is called with, while it works as before."""

from typing import Any

import pytest


def calls_of(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[tuple[Any, ...]]:
    """Return a list to which each later call of `owner.name` adds its positional arguments."""
    function, calls = getattr(owner, name), list[tuple[Any, ...]]()

    def note(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, note)
    return calls

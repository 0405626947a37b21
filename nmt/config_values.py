"""What a single value of a recipe may be: how it is declared, read and checked."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import field
from typing import Any

from nmt.errors import did_you_mean

Value = bool | int | float | str


def value(
    default: Value,
    help: str,
    *,
    minimum: float | None = None,
    below: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    resumable: bool = False,
) -> Any:
    """Declare a configuration field; `resumable` ones may change when a run goes on."""
    metadata = {
        "help": help,
        "minimum": minimum,
        "below": below,
        "maximum": maximum,
        "choices": choices,
        "resumable": resumable,
    }
    return field(default=default, metadata=metadata)


def checked(spec: dataclasses.Field[Any], raw: object) -> Value:
    """Return `raw` as the field's type; a string, as the command line gives it, is parsed."""
    kind = type(spec.default)
    value = _parse(spec.name, raw, kind) if isinstance(raw, str) and kind is not str else raw
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        raise ValueError(f"{spec.name} is {raw!r}, not {_KIND_NAMES[kind]}")
    assert isinstance(value, (bool, int, float, str))
    rules = spec.metadata
    if rules["choices"] and value not in rules["choices"]:
        suggestion = did_you_mean(str(value), rules["choices"])
        raise ValueError(f"{spec.name} cannot be {value!r}{suggestion}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{spec.name} is {value}, not a finite number")
    if isinstance(value, int) and value > _LARGEST:
        raise ValueError(f"{spec.name} is {value}, above the largest number {_LARGEST}")
    if rules["minimum"] is not None and value < rules["minimum"]:
        raise ValueError(f"{spec.name} is {value}, below its minimum {rules['minimum']:g}")
    if rules["below"] is not None and value >= rules["below"]:
        raise ValueError(f"{spec.name} is {value}; it must be below {rules['below']:g}")
    if rules["maximum"] is not None and value > rules["maximum"]:
        raise ValueError(f"{spec.name} is {value}, above its maximum {rules['maximum']:g}")
    return value


_LARGEST = 2**31 - 1
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")
_KIND_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


def _parse(name: str, text: str, kind: type) -> object:
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        # A comma only ever parts thousands: elsewhere 0,5 is one half, and must not become 5.
        return kind(text.replace(",", "") if kind is int and _THOUSANDS.fullmatch(text) else text)
    except (KeyError, ValueError):
        raise ValueError(f"{name} is {text!r}, not {_KIND_NAMES[kind]}") from None

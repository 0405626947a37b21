"""How an option, or a value of a recipe, is declared, parsed and checked.

A field of a dataclass, declared by `value`, holds its default, help and check. Options of a command
come from such a dataclass or are parameters with such a default (`nmt/cli/options.py`). So do the
keys of a recipe.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nmt.errors import UsageError, did_you_mean

Value = bool | int | float | str  # a value of a recipe

_LARGEST = 2**31 - 1  # of a recipe's whole numbers
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")
_SHORTENED = re.compile(r"(\d+(?:\.\d+)?)([kK]|e[1-9])")
_KIND_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
_BOUNDS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (operator.ge, "{} or more"),
    "above": (operator.gt, "above {}"),
    "maximum": (operator.le, "at most {}"),
    "below": (operator.lt, "below {}"),
}
"""How a value stands to a bound, and the bound in words."""


def value(
    default: object,
    help: str,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
    resumable: bool = False,
    option: str = "",
    short: str = "",
    panel: str | None = None,
    metavar: str | None = None,
    shown: str | None = None,
    completion: Callable[[str], list[str]] | None = None,
) -> Any:
    """Declare a field of a dataclass of options, or of a recipe.

    A field of type `tuple[...]` is an option that can be repeated. A `bool` is a switch, and one
    that may be None is unset until it is given.

    default: `...` if it must be given.
    help: a sentence.
    minimum: the lowest allowed number.
    above: the number that it must be above.
    maximum: the highest allowed number.
    below: the number that it must be below.
    choices: all allowed strings.
    resumable: whether it may change when a run is resumed.
    option: its name on the command line, if not that of the field.
    short: its short name, such as `-i`.
    panel: the part of `--help-all` that lists it; without one, `--help` does, too.
    metavar: what help calls its value.
    shown: what help says of the default, if not its value.
    completion: completes what has been typed of a value, if there are no choices.
    """
    rules = {name: rule for name, rule in locals().items() if name != "default"}
    if default is ...:
        return dataclasses.field(metadata=rules)
    return dataclasses.field(default=default, metadata=rules)


fraction = partial(value, minimum=0.0, below=1.0)
"""Declare a number from 0 to below 1."""


def part(kind: Any) -> Any:
    """Declare a field that holds another dataclass of options, which a command has as well."""
    return dataclasses.field(default_factory=kind, metadata={"part": kind})


def like(kind: Any, name: str, default: object = None, **rules: object) -> Any:
    """Declare a field as another dataclass does, but with another default and some other rules."""
    spec = kind.__dataclass_fields__[name]
    return dataclasses.field(default=default, metadata={**spec.metadata, **rules})


def declared(kind: Any) -> list[dataclasses.Field[Any]]:
    """Return the fields of a dataclass that `value` declares."""
    return [spec for spec in dataclasses.fields(kind) if "help" in spec.metadata]


def parts(kind: Any) -> dict[str, Any]:
    """Return the dataclasses that `part` declares, by field."""
    specs = dataclasses.fields(kind)
    return {spec.name: spec.metadata["part"] for spec in specs if "part" in spec.metadata}


def all_declared(kind: Any) -> list[dataclasses.Field[Any]]:
    """Return the fields that `value` declares in a dataclass and in its parts."""
    of_parts = (spec for inner in parts(kind).values() for spec in all_declared(inner))
    return [*declared(kind), *of_parts]


def option_name(spec: dataclasses.Field[Any]) -> str:
    return str(spec.metadata["option"]) or f"--{spec.name.replace('_', '-')}"


def check(options: Any) -> None:
    """Check each value of some options, and how they combine; UsageError tells all problems.

    Values are of the types of their fields, or None if they are unset.
    """
    problems = [
        f"{option_name(spec)} {_spelt(item)}: {fault}"
        for spec in declared(options)
        for given in [getattr(options, spec.name)]
        for item in (given if isinstance(given, tuple) else [given])
        if item is not None and (fault := _fault(spec.metadata, item))
    ]
    if hasattr(options, "problems"):
        problems += options.problems()
    if problems:
        raise UsageError("; ".join(problems))


def checked(spec: dataclasses.Field[Any], raw: object) -> Value:
    """Return a recipe's value, or a string's, as the field's type; ValueError if it is none."""
    kind = type(spec.default)
    if isinstance(raw, bool) and "true" in spec.metadata["choices"]:
        raw = str(raw).lower()  # TOML's true, where auto is a choice too
    value = _parsed(raw, kind) if isinstance(raw, str) and kind is not str else raw
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):  # then it is no float
            value = float(value)
    if type(value) is not kind:
        fault = f"must be {_KIND_NAMES[kind]}{in_digits(raw) if kind is int else ''}"
    elif isinstance(value, int) and value > _LARGEST:
        fault = f"must be at most {_LARGEST}"
    else:
        fault = _fault(spec.metadata, value)
    if fault:
        raise ValueError(f"{spec.name} = {json.dumps(value, default=str)}: {fault}")
    assert isinstance(value, (bool, int, float, str))
    return value


def _parsed(text: str, kind: type) -> object:
    """Return the value that a text stands for; the text if it is none."""
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        # Accept commas only between thousands: 0,5 is one half in some languages, not 5.
        return kind(text.replace(",", "") if kind is int and _THOUSANDS.fullmatch(text) else text)
    except ValueError:
        return text


def in_digits(given: object) -> str:
    """Return how to write a whole number such as 1.5e5 or 10k; empty if it is no such number."""
    short = _SHORTENED.fullmatch(str(given))
    return f"; write {float(short[1] + short[2].lower().replace('k', 'e3')):.0f}" if short else ""


def _fault(rules: Mapping[str, Any], value: Any) -> str:
    """Return what is wrong with a value; empty if it is allowed."""
    if rules["choices"] and value not in rules["choices"]:
        return f"unknown{did_you_mean(str(value), rules['choices'])}"
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    bounds = {name: rules[name] for name in _BOUNDS if rules[name] is not None}
    if all(_BOUNDS[name][0](value, bound) for name, bound in bounds.items()):
        return ""
    if {"minimum", "maximum"} <= bounds.keys():
        return f"must be from {_spelt(bounds['minimum'])} to {_spelt(bounds['maximum'])}"
    parts = (_BOUNDS[name][1].format(_spelt(bound)) for name, bound in bounds.items())
    return f"must be {' and '.join(parts)}"


def _spelt(value: object) -> str:
    """Return a value as people write it: 50 for 50.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def as_toml(value: object) -> str:
    """Return a value as TOML, which knows JSON's escapes but not those of two halves (emoji)."""
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return text.encode(errors="replace").decode()  # a file's name need not be UTF-8

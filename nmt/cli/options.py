"""Options: of a command's dataclasses, and those that several commands share."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from nmt import console
from nmt.config.fields import all_declared, check, declared, option_name, parts
from nmt.errors import UsageError
from nmt.system.files import resolved

_BY_NAME = inspect.Parameter.KEYWORD_ONLY
# What help calls the values of options that have no name of their own.
_METAVARS = {bool: "", int: "N", float: "X", str: "TEXT", Path: "PATH"}


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command as typer takes it, with an option for each declared value.

    A parameter that is annotated with a dataclass becomes one option for each field that
    `value` declares, there or in a part. The command gets the dataclass. A parameter
    whose default `value` declares is one option. If values are wrong, all problems are reported
    together. `--help` leaves out the options that have a panel, unless all have one.
    """
    hints = get_type_hints(command, include_extras=True)
    kinds: dict[str, Any] = {
        name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)
    }
    given_parameters = inspect.signature(command).parameters.values()
    own: Any = dataclasses.make_dataclass(
        command.__name__,
        [
            (parameter.name, hints[parameter.name], parameter.default)
            for parameter in given_parameters
            if isinstance(parameter.default, dataclasses.Field)
        ],
        kw_only=True,
        namespace={"__post_init__": check},
    )
    options = {option.name: [option] for option in _options(own)}
    options |= {name: [*_options(kind)] for name, kind in kinds.items()}
    parameters: list[inspect.Parameter] = []
    for parameter in given_parameters:
        plain = parameter.replace(annotation=hints[parameter.name], kind=_BY_NAME)
        parameters += options.get(parameter.name, [plain])

    @functools.wraps(command)
    def run(**given: Any) -> None:
        problems: list[str] = []
        values = _built(own, given, problems)
        given |= {name: _built(kind, given, problems) for name, kind in kinds.items()}
        if problems:
            raise UsageError("; ".join(problems))
        given |= vars(values)
        command(**{name: given[name] for name in hints if name in given})

    specs = [spec for kind in (own, *kinds.values()) for spec in all_declared(kind)]
    rare = {spec.name for spec in specs if spec.metadata["panel"] is not None}
    rare = rare if len(rare) < len(specs) else set()
    parameters += _help_options(rare)
    for parameter in parameters:
        _name_value(parameter.annotation)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _built(kind: Any, given: Mapping[str, Any], problems: list[str]) -> Any:
    """Build a dataclass of the values that are given; None, and its problems, if that fails."""
    known = len(problems)
    values = {
        spec.name: tuple(one) if isinstance(one := given[spec.name], list) else one
        for spec in declared(kind)
    }
    values |= {name: _built(part, given, problems) for name, part in parts(kind).items()}
    if len(problems) == known:
        try:
            return kind(**values)
        except UsageError as error:
            problems.append(str(error))
    return None


def _options(kind: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind)
    for spec in dataclasses.fields(kind):
        if spec.name in parts(kind):
            yield from _options(parts(kind)[spec.name])
        if "help" not in spec.metadata:
            continue
        hint, default, rules = hints[spec.name], spec.default, spec.metadata
        choices = rules["choices"]
        if get_origin(hint) is tuple:  # which typer takes for a value of several words
            hint = GenericAlias(list, get_args(hint)[:1])
        if isinstance(default, tuple):
            default = list(default)
        option = typer.Option(
            *filter(None, (option_name(spec), rules["short"])),
            help=rules["help"],
            metavar=rules["metavar"] or "|".join(choices) or None,
            show_default=rules["shown"] or True,
            rich_help_panel=rules["panel"],
            autocompletion=completion(choices) if choices else rules["completion"],
        )
        yield inspect.Parameter(
            spec.name,
            _BY_NAME,
            default=inspect.Parameter.empty if default is dataclasses.MISSING else default,
            annotation=Annotated[hint, option],
        )


def _help_options(rare: Collection[str]) -> Iterator[inspect.Parameter]:
    """Yield `--help`, which leaves out the rare options, and `--help-all`."""

    def print_help(context: typer.Context, option: typer.CallbackParam, asked: bool) -> None:
        if not asked:
            return
        if rare and option.name == "help":
            context.command.epilog = (
                f"{len(rare)} more options: `{context.command_path} --help-all` lists them all."
            )
            parameters: list[Any] = context.command.params
            for parameter in parameters:
                parameter.hidden = parameter.name in rare
        print(context.get_help())  # noqa: T201 - it is all ours
        raise typer.Exit

    for name, words, shown in (
        ("help", ("--help", "-h"), "Show this message and exit."),
        ("help_all", ("--help-all",), "Show all options and exit."),
    ):
        option = typer.Option(*words, help=shown, callback=print_help, is_eager=True)
        yield inspect.Parameter(name, _BY_NAME, default=False, annotation=Annotated[bool, option])


def _name_value(hint: Any) -> None:
    """Give an option a short name of its value: typer's leave no room in narrow terminals."""
    kind, *infos = get_args(hint) or (hint,)
    kinds = [kind, *get_args(kind)]  # list[Path] | None
    kinds += [inner for outer in get_args(kind) for inner in get_args(outer)]
    for info in infos:
        if isinstance(info, OptionInfo) and info.metavar is None:
            info.metavar = next((name for kind, name in _METAVARS.items() if kind in kinds), None)


_HIDES = "Hide progress and notices, but not warnings and errors."
Quiet = Annotated[bool, typer.Option("--quiet", callback=console.set_quiet, help=_HIDES)]
_SHOWS = "Show details, too, such as what takes the time."
Verbose = Annotated[bool, typer.Option("--verbose", callback=console.set_verbose, help=_SHOWS)]


def argument(name: str, help: str, **rules: Any) -> Any:
    """Declare an argument of a command that is no option; rules: further ones of typer's."""
    return typer.Argument(metavar=name, help=help, **rules)


def completion(choices: Collection[str]) -> Callable[[str], list[str]]:
    """Return what completes a choice for the shell, given what has been typed of it."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def preset_names(incomplete: str) -> list[str]:
    """Return the presets that begin with what has been typed, for the shell's completion."""
    from nmt.config.presets import PRESETS

    return completion(PRESETS)(incomplete)


def check_new_file(name: str) -> Path:
    """Return the path of a file to be written, as it was typed.

    UsageError if it is a folder, or has a slash at its end, or is in no folder that can be written.
    """
    path = Path(name)
    if name.endswith("/") or path.is_dir():
        raise UsageError(f"{name}: is a folder; name a file")
    if not resolved(path).parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder; make it, or choose another")
    if not os.access(resolved(path).parent, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: you may not write there; change that, or choose another folder")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is not a regular file; choose another name")
    return path


def check_picture(name: str) -> Path:
    """Return the path of a picture to be drawn, as it was typed.

    UsageError if it cannot be written, is no name of an SVG file, or matplotlib is missing.
    """
    if not name.lower().endswith(".svg"):
        raise UsageError(f"{name}: pictures are SVG; give a name that ends in .svg")
    from nmt.system.plot import require_matplotlib

    require_matplotlib()
    return check_new_file(name)

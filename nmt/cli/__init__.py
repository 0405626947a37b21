"""The command line: one file a command, with heavy imports inside the commands' bodies.

`main` is the console script. It turns every expected failure into one line on stderr and the exit
status that `nmt.errors` gives it, so that a shell or cron can tell what happened.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import typer

from nmt import console
from nmt.command import begin, exit_status
from nmt.errors import EXIT_DONE, EXIT_USAGE, UsageError

_ANSWER_ON_STDOUT = ("score", "models", "data")


def _guarded(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """Answer every expected failure of a command, before typer sees it."""

    @functools.wraps(command)
    def run(*args: object, **kwargs: object) -> None:
        def answer() -> None:
            if name in _ANSWER_ON_STDOUT and sys.stdout is None:
                raise UsageError("stdout is closed, where the answer would go")
            command(*args, **kwargs)

        raise typer.Exit(exit_status(answer))

    return run


def _reflow(docstring: str | None) -> str:
    """Join the lines of each paragraph, which rich would keep apart."""
    joined = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(docstring or ""))
    return joined.replace("[", "\\[")  # which is no markup


COMMANDS = ("prepare", "train", "average", "translate", "score", "export", "models", "data")


def application(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    """Return the command line; of a few commands it is ready sooner."""
    app = typer.Typer(
        name="nmt",
        help="Machine translation: text to shards, shards to a model, a model and text to text.",
        epilog="Run `nmt COMMAND --help` for what a command does, its options and an example.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in commands:
        module = importlib.import_module(f"nmt.cli.{name}")  # which holds a function of its name
        function = getattr(module, name)
        describe = app.command(
            name, help=_reflow(function.__doc__), epilog=f"Example:\n\n{module.EXAMPLE}"
        )
        describe(_guarded(name, function))
    app.callback(invoke_without_command=True)(_top)
    return app


def _top(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        from nmt import __version__

        print(f"nmt {__version__}")
        raise typer.Exit


# What typer raises for a wrong option or value; its module is private and has moved between
# releases, but BadParameter has always been the grandchild of this one.
_ClickException: type[Exception] = typer.BadParameter.__mro__[2]


def main() -> NoReturn:
    """Run the command line and exit."""
    begin()
    sys.exit(_run())


def _run() -> int:
    for argument in sys.argv[1:]:
        option, equals, value = argument.partition("=")
        if not argument or (option.startswith("--") and equals and not value):
            given = option or "an argument"
            console.error(f"{given} is empty; give a value (has a variable of the shell none?)")
            return EXIT_USAGE
    named = [word for word in sys.argv[1:2] if word in COMMANDS]
    try:
        status = application(named or COMMANDS)(standalone_mode=False, prog_name="nmt")
    except _ClickException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if message:  # without one, typer has printed the help
            context = getattr(error, "ctx", None)
            command = context.command_path if context is not None else "nmt"
            console.error(f"{' '.join(message.split())} (see `{command} --help`)")
        return EXIT_USAGE
    return status if isinstance(status, int) else EXIT_DONE

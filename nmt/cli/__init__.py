"""The command line: one file a command, with heavy imports inside the commands' bodies.

`main` is the console script. It turns every expected failure into one line on stderr and the exit
status that `nmt.errors` gives it, so that a shell or cron can tell what happened.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import functools
import gc
import importlib
import inspect
import io
import keyword
import re
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

import typer

from nmt import console
from nmt.cli.command import exit_status, finish
from nmt.cli.options import with_options
from nmt.cli.other_toolkits import instead_of
from nmt.config.fields import in_digits
from nmt.errors import EXIT_DONE, EXIT_USAGE, UsageError, synonym
from nmt.system.files import naming

_INTERRUPTED = 130
"""What typer makes of a KeyboardInterrupt that it sees, between a program's start and a command."""
_ANSWER_ON_STDOUT = ("score", "rescore", "evaluate", "calibrate", "models", "data")


def _guarded(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """Answer every expected failure of a command, before typer sees it."""

    @functools.wraps(command)
    def run(*args: object, **kwargs: object) -> None:
        def answer() -> int:
            if name in _ANSWER_ON_STDOUT and sys.stdout is None:
                raise UsageError("stdout is closed, where the answer would go")
            if sys.stdout is not None and not sys.stdout.isatty():
                console.take_stdout()
            with naming("stdout") if name in _ANSWER_ON_STDOUT else contextlib.nullcontext():
                try:
                    command(*args, **kwargs)
                except typer.Exit as leaving:
                    return leaving.exit_code
            return EXIT_DONE

        raise typer.Exit(exit_status(answer))

    return run


def _plain_help() -> None:
    """Let help leave out types of Python."""
    from typer import core

    argument, option = vars(core)["TyperArgument"], vars(core)["TyperOption"]

    def usage_of_argument(self: Any, _: object) -> list[str]:
        name = self.metavar or self.name.upper()
        return [name if self.required else f"[{name}]"]

    argument.get_usage_pieces = usage_of_argument
    argument.display_type_rich = lambda *_, **__: None
    option.display_type_rich = lambda self, **_: self.metavar


def _help(docstring: str | None, examples: Sequence[str]) -> str:
    """Return a command's help: what it does, some examples, then the rest of its docstring."""
    # The lines of a paragraph are joined: rich would keep them apart.
    joined = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(docstring or ""))
    first, *others = joined.split("\n\n")
    shown = "\n".join(("Examples:", *(f"  {example}" for example in examples)))
    return "\n\n".join([first, shown, *others]).replace("[", "\\[")  # which is no markup


COMMANDS = tuple(
    "prepare train average distill translate score rescore evaluate calibrate "
    "import export models data".split()
)


def application(commands: Sequence[str] = COMMANDS, *, only_names: bool = False) -> typer.Typer:
    """Return the command line; of a few commands it is ready sooner.

    only_names: whether commands need no options, as in the list of them.
    """
    app = typer.Typer(
        name="nmt",
        help="Machine translation: text to shards, shards to a model, a model and text to text.",
        epilog="Run `nmt COMMAND --help` for what a command does, its options and examples.",
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in commands:
        module = _module(name)  # which holds a function of its name
        function = getattr(module, module.__name__.rpartition(".")[2])
        describe = app.command(name, help=_help(function.__doc__, module.EXAMPLES))
        describe((lambda: None) if only_names else _guarded(name, with_options(function)))
    app.callback(invoke_without_command=True)(_top)
    return app


def _module(name: str) -> Any:
    return importlib.import_module(
        f"nmt.cli.{name}_" if keyword.iskeyword(name) else f"nmt.cli.{name}"
    )


def _top(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        from nmt import __version__

        console.print_row(f"nmt {__version__}")
        raise typer.Exit


def main() -> NoReturn:
    """Run the command line and exit. The process is prepared: see `nmt.__main__`."""
    # Or Python looks for garbage in all that is loaded before it ends: 0.4 s with torch.
    atexit.register(gc.freeze)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # where it is not UTF-8, nothing is to fail by it
            stream.reconfigure(errors="backslashreplace")
    # Commands have answered their own failures; here help may find a full disk, or nobody reading.
    finish(exit_status(_run))


def _run() -> int:
    words = sys.argv[1:]
    for argument in words:
        option, equals, value = argument.partition("=")
        if not argument or (option.startswith("--") and equals and not value):
            given = option or "an argument"
            console.error(f"{given} is empty; give a value (has a variable of the shell none?)")
            return EXIT_USAGE
    if not words or not {"-h", "--help", "--help-all"}.isdisjoint(words):
        _plain_help()
    named = [word for word in words[:1] if word in COMMANDS]
    try:
        with naming("stdout"):
            app = application(named or COMMANDS, only_names=words in (["--help"], ["-h"]))
            status = app(words or ["--help"], standalone_mode=False, prog_name="nmt")
    except SystemExit as leaving:
        # So rich and typer end where a reader of help has seen enough; commands end otherwise.
        if not isinstance(leaving.__context__, BrokenPipeError):
            raise
        return EXIT_DONE
    except typer.TyperException as error:  # a wrong option or value
        message = error.format_message()
        if message:  # without one, typer has printed the help
            context = getattr(error, "ctx", None)
            command = context.command_path if context is not None else "nmt"
            said = _NO_NUMBER.sub(_plainly, " ".join(message.split()))
            said = said.partition(" (Possible options:")[0]
            parameters = context.command.params if context is not None else ()
            if hint := _hint(said, [name for each in parameters for name in each.opts]):
                said = said.partition(". Did you mean")[0].rstrip(".")  # like it only in letters
            console.error(f"{said}{hint} (see `{command} --help`)")
        return EXIT_USAGE
    if status == _INTERRUPTED:
        raise KeyboardInterrupt
    if not words:
        return EXIT_USAGE
    return status if isinstance(status, int) else EXIT_DONE


_NO_NUMBER = re.compile(r"Input should be a valid (\w+), unable to parse string as an? \w+")


def _plainly(no_number: re.Match[str]) -> str:
    return f"must be a {'whole ' * (no_number[1] == 'integer')}number"


def _hint(message: str, options: Collection[str]) -> str:
    """Return what to write instead of a command or option of other toolkits, or of a value.

    options: those that the command has.
    """
    words = " ".join(sys.argv)
    if command := re.match(r"No such command '([^']+)'", message):
        instead = instead_of(command[1].lower().replace("_", "-"), "nmt")
        return f"; {instead}" if instead else ""
    if unknown := re.match(r"No such option: --?([\w-]+)", message):
        name = unknown[1].replace("_", "-")
        is_recipe = sys.argv[1] in ("train", "distill")
        instead = instead_of(name, sys.argv[1]) or (_assignment(name, options) if is_recipe else "")
        # Typer's own guesses count the dashes as letters in common.
        nearest = difflib.get_close_matches(name, [option[2:] for option in options], n=1)
        if nearest and not instead:
            instead = f"did you mean --{nearest[0]}?"
        return f"; {instead}" if instead else ""
    if message.startswith("Got unexpected extra arg") and sys.argv[1] == "translate":
        return "; write --input FILE, or < FILE"
    two = re.search(r" (--(?:train|valid|test) [^-\s]\S*) ([^-\s]\S*)", words)
    if message.startswith("Got unexpected extra arg") and sys.argv[1] == "prepare" and two:
        return f"; write {two[1]},{two[2]}"
    if message.startswith(("Option '--dry-run'", "Invalid value for '--dry-run'")):
        return "; give a number of pairs, for example --dry-run 10000"
    if message.startswith("Missing") and sys.argv[1] in COMMANDS:  # not after `nmt --`
        return f"; for example: {_module(sys.argv[1]).EXAMPLES[0]}"
    option = re.match(r"Invalid value for '(--[\w-]+)'", message)
    given = option and re.search(rf"{option[1]}[ =](\S+)", words)
    return in_digits(given[1]) if given else ""


def _assignment(name: str, options: Collection[str]) -> str:
    """Return how to set a value of a recipe, by our name or that of another toolkit."""
    from nmt.config.recipes import recipe_fields

    key, meant = synonym(name.replace("-", "_"))
    option = f"--{key.replace('_', '-')}"
    write = option if option in options else f"--set {key}=VALUE" if key in recipe_fields() else ""
    return write and f"write {write}{meant.removeprefix(key)}"

"""What does not go with what: one table, for the command line, for Python, and for the manual.

A row names two options, or an option and a circumstance such as a document. Options are named as on
the command line. `--format jsonl` is an option with this value only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

from nmt.config.fields import all_declared, declared, option_name, parts
from nmt.errors import UsageError

EXPORT = "a CTranslate2 export"
DOCUMENT = "a document"
COLUMNS = "a column of a table"
READER = "a model that reads terms"
N_BEST_LIST = "an n-best list"
TERMINAL = "lines that are typed"
FILES = "--input and --output with files"

Given = Mapping[str, object]
"""The options that are given, with their values, and circumstances, with what to call them."""


class Contradiction(NamedTuple):
    """An option that does not go with another one, or does not go without it."""

    option: str
    other: str
    why: str
    unless: tuple[str, ...] = ()  # with one of these, it does
    is_needed: bool = False  # whether it does not go without

    @property
    def relation(self) -> str:
        """What stands between the two."""
        return "needs" if self.is_needed else "does not go with"

    def problem(self, given: Given) -> str:
        """Return what to tell if that is wrong here, or nothing."""
        if not _is_in(self.option, given) or _is_in(self.other, given) == self.is_needed:
            return ""
        if any(_is_in(name, given) for name in self.unless):
            return ""
        option, other = _called(self.option, given), _called(self.other, given)
        return f"{option} {self.relation} {other}: {self.why}"

    def __str__(self) -> str:
        """Return the row of the manual."""
        unless = "".join(f"; not with {_code(name)}" for name in self.unless)
        relation = f"{self.relation} {_code(self.other)}"
        return f"| {_code(self.option)} | {relation} | {self.why}{unless} |"


_NO_ALIGNMENTS = "it has no alignments to place tags by"
_OWN_FORM = "each has a form of its own; --format jsonl has both"

TABLE = (
    Contradiction("--prefixes", "--markup", "a prefix has no place among the tags"),
    Contradiction("--prefixes", "--context", "a prefix begins one line only"),
    Contradiction("--split", "--no-split", "one or the other"),
    *(
        Contradiction(option, "--context", "it would count for the lines before, too")
        for option in (
            "--split --terms --n-best --max-tokens --min-tokens --no-repeat-ngram "
            "--repetition-penalty"
        ).split()
    ),
    Contradiction(
        "--terms", "--sample", "search forces terms, and samples are not searched", (READER,)
    ),
    *(
        Contradiction(option, "--sample", "nothing else is drawn", is_needed=True)
        for option in ("--temperature", "--top-k", "--top-p", "--seed")
    ),
    Contradiction("--scores", "--format jsonl", "that has them anyway"),
    *(
        Contradiction(option, other, _OWN_FORM, ("--format jsonl",))
        for option, other in combinations((N_BEST_LIST, "--scores", "--alignment", "--quality"), 2)
    ),
    *(
        Contradiction(option, "--quality", "it was calibrated without")
        for option in ("--prefixes", "--terms", "--context", "--sample", "--ensemble")
    ),
    *(
        Contradiction(option, EXPORT, f"{why}; give the model file instead", unless)
        for option, why, unless in (
            ("--ensemble", "it cannot be joined with others", ()),
            ("--terms", "it takes no terms", (READER,)),
            ("--alignment", "it has no alignments", ()),
            ("--attention", "it has no attention", ()),
            ("--markup", _NO_ALIGNMENTS, ()),
            (DOCUMENT, _NO_ALIGNMENTS, ()),
            ("--context", "it translates line by line", ()),
            ("--prefixes", "it cannot score translations with a prefix", ()),
            ("--format jsonl", "it has no log-probabilities of tokens", ()),
            ("--sample", "it cannot draw repeatable samples", ()),
        )
    ),
    Contradiction("--precision", EXPORT, "it keeps the precision that it was exported with"),
    Contradiction("--max-tokens 0", EXPORT, "it takes 1 or more"),
    Contradiction(
        "--length-penalty-form wu",
        EXPORT,
        "it has only the form power",
        ("--beam-size 1", "--length-penalty 0"),
    ),
    *(
        Contradiction(option, whole, "it is for lines of text")
        for whole in (DOCUMENT, COLUMNS)
        for option in (
            "--format jsonl",
            N_BEST_LIST,
            *"--scores --alignment --attention --prefixes --context".split(),
        )
    ),
    Contradiction("--all-heads", "--attention", "it says what is drawn", is_needed=True),
    Contradiction("--attention", "--output", "it is drawn beside output to stdout"),
    Contradiction("--attention", TERMINAL, "it is for text that is piped, or in a file"),
    *(
        Contradiction(option, FILES, "what comes through a pipe cannot go on later", is_needed=True)
        for option in ("--deadline", "--time-limit")
    ),
)


def options_given(options: Any) -> dict[str, object]:
    """Return the options of a dataclass and its parts that have not their defaults."""
    given: dict[str, object] = {}
    for spec in declared(options):
        if (value := getattr(options, spec.name)) != spec.default:
            given[option_name(spec)] = value
    for name in parts(options):
        given |= options_given(getattr(options, name))
    return given


def refuse_contradictions(given: Given) -> None:
    """Refuse options that do not go together in some circumstances (UsageError that tells all)."""
    if problems := [problem for row in TABLE if (problem := row.problem(given))]:
        raise UsageError("; ".join(problems))


def in_python(message: str, kind: Any) -> str:
    """Return a message with options named as Python does, by the fields of a dataclass."""
    fields = {option_name(spec): spec.name for spec in all_declared(kind)}
    fields["--sample"] = "sampling"
    return re.sub(r"--[a-z][a-z-]*", lambda option: fields.get(option[0], option[0]), message)


def _is_in(name: str, given: Given) -> bool:
    option, _, value = name.partition(" ")
    return name in given or (bool(value) and str(given.get(option)) == value)


def _called(name: str, given: Given) -> str:
    return name if name.startswith("--") else str(given.get(name, name))


def _code(name: str) -> str:
    return f"`{name}`" if name.startswith("--") else name

"""The options of text that is in documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nmt.errors import UsageError
from nmt.prepare.options import PrepareOptions
from nmt.values import check, value

_PANEL = "Documents"
_WINDOW = 4


@dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """Whether the lines of the texts are in documents, and how many are read together."""

    documents: bool = value(
        False,
        "The lines of all texts are in the order of their documents, and a line that is blank on "
        "both sides ends one. Train on windows of neighbouring lines, so that the model can use "
        "the lines before: see `nmt translate --context`.",
    )
    window: int = value(
        _WINDOW,
        "The most lines of a window. A window ends with each line, and begins up to N - 1 lines "
        "before, at random.",
        minimum=2,
        maximum=100,
        panel=_PANEL,
    )

    def __post_init__(self) -> None:
        check(self)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the combination of values."""
        if self.window != _WINDOW and not self.documents:
            yield "--window is for --documents; add it"

    def check_with(self, options: PrepareOptions) -> None:
        """Check that the other options suit documents.

        Raises:
            UsageError: naming one that does not.
        """
        if not self.documents:
            return
        if options.keep_text:
            raise UsageError(
                "--keep-text does not go with --documents: changing single lines in training "
                "would undo the windows"
            )
        if options.terms is not None:
            raise UsageError("--terms does not go with --documents; leave one of them out")
        from nmt.data.vocabulary import SEPARATOR  # which loads SentencePiece

        for option, words in (("--tag", options.tags.values()), ("--symbol", options.symbol)):
            if SEPARATOR in words:
                raise UsageError(
                    f"{option} {SEPARATOR}: --documents has this piece between the lines of a "
                    "window; choose another word"
                )

"""Moses punctuation normalisation, tokenisation and abbreviations: uses sacremoses.

Preprocessing before the split into subwords belongs to the vocabulary, so data folders and model
files record it. `translate` repeats it by itself, and undoes the tokenisation in its output. Moses
guesses where spaces were, and does not take combining marks for parts of words, so text may come
back changed. `prepare` tries it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from nmt.data.languages import primary_language

# A tag such as <2de> must stay one word.
_PROTECTED = [r"<[^\s<>]+>"]
_MOST_PROTECTED = 1_000  # in a line; sacremoses refuses more

STEPS = ("normalize", "tokenize", "escape", "aggressive", "lowercase")
"""What Moses' scripts may do to a line, in the order of the fields of `Moses`."""


class Moses(NamedTuple):
    """The rules for one language."""

    lang: str
    normalize: bool  # normalise quotes, dashes and spaces; not undone
    tokenize: bool  # separate punctuation from words; undone in translations
    escape: bool = False  # & < > ' " [ ] | as entities; undone, as is the next
    aggressive: bool = False  # a hyphen between letters becomes a word, `@-@`
    lowercase: bool = False  # not undone

    @property
    def steps(self) -> list[str]:
        """What these rules do, by the names of `STEPS`."""
        return [step for step in STEPS if getattr(self, step)]

    def apply(self, line: str) -> str:
        """Return a line as the vocabulary sees it."""
        if self.normalize:
            line = _tool("MosesPunctNormalizer", self.lang).normalize(line)
        if self.tokenize:
            protected = _PROTECTED if line.count("<") < _MOST_PROTECTED else None
            line = _tool("MosesTokenizer", self.lang).tokenize(
                line,
                aggressive_dash_splits=self.aggressive,
                return_str=True,
                escape=self.escape,
                protected_patterns=protected,
            )
        return line.lower() if self.lowercase else line

    def undo(self, line: str) -> str:
        """Return a line as people write it."""
        if self.tokenize:
            detokenizer = _tool("MosesDetokenizer", self.lang)
            line = detokenizer.detokenize(line.split(" "), unescape=self.escape)
        return line

    def round_trip(self, line: str) -> tuple[str, str]:
        """Return a line as it should come back from these rules, and as it does.

        Both are without runs of spaces and spaces at the edges, which subwords do not have.
        """
        due = self._replace(tokenize=False).apply(line)
        return " ".join(due.split()), " ".join(self.undo(self.apply(line)).split())


MosesRules = tuple[Moses | None, Moses | None]
"""The rules of the source and of the target, if they have some."""


@cache
def _tool(name: str, lang: str) -> Any:
    """Return an object of a class of sacremoses for a language."""
    import sacremoses

    return getattr(sacremoses, name)(lang=primary_language(lang))


def tokenized(line: str, lang: str) -> str:
    """Return the tokens, not escaped, of Moses' `tokenizer.perl -l LANG`, as papers score them."""
    return str(_tool("MosesTokenizer", lang).tokenize(line, return_str=True, escape=False))


def tokenizer_name(lang: str) -> str:
    """Return the tokeniser, its version and the language, which decide the tokens."""
    from importlib.metadata import version  # which reads mail, too

    return f"sacremoses-{version('sacremoses')}-{lang}"


def has_moses_rules(lang: str) -> bool:
    from sacremoses import NonbreakingPrefixes

    return primary_language(lang) in NonbreakingPrefixes().available_langs.values()


def moses_rules(langs: tuple[str, str], steps: Container[str]) -> MosesRules:
    """Return the Moses rules for source and target lines, None for no step."""
    done = [step in steps for step in STEPS]
    if not any(done):
        return None, None
    src, tgt = (Moses(lang, *done) for lang in langs)
    return src, tgt


@cache
def abbreviations(lang: str, *, before_digit: bool) -> frozenset[str]:
    """Return the words after which a dot does not end a sentence.

    They are Moses' non-breaking prefixes of the language and the English ones, since English titles
    and names occur in every language.

    before_digit: whether a digit follows, as in No. 5.
    """
    words = set()
    for language in {primary_language(lang), "en"}:
        for line in _nonbreaking_prefixes(language):
            word, is_numeric, _ = line.partition("#NUMERIC_ONLY#")
            if before_digit or not is_numeric:
                words.add(word.strip())
    return frozenset(words)


def _nonbreaking_prefixes(language: str) -> Iterable[str]:
    """Return the lines of Moses' list for a language, the English one if it has none.

    sacremoses takes a quarter of a second to load, for tables that lists do not need. So the module
    of the lists is loaded by itself, which sacremoses has from 0.2 on.
    """
    package = find_spec("sacremoses")
    assert package and package.submodule_search_locations
    file = Path(package.submodule_search_locations[0], "_data_nonbreaking_prefixes.py")
    if not file.is_file():
        from sacremoses import NonbreakingPrefixes

        yield from NonbreakingPrefixes().words(language)
        return
    spec = spec_from_file_location("sacremoses_lists", file)
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    lists = module.NONBREAKING_PREFIXES
    text = lists.get(f"nonbreaking_prefix.{language}", lists["nonbreaking_prefix.en"])
    yield from (line for line in map(str.strip, text.splitlines()) if line and line[0] != "#")

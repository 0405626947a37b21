"""The models and options of a translation: everything that it depends on besides its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from nmt.errors import DataError, UsageError
from nmt.files import sha256_file
from nmt.interchange.ctranslate2_manifest import CARD, MANIFEST, is_export
from nmt.models.model_file import (
    check_context,
    check_languages,
    find_model,
    model_checksum,
    read_card,
    reads_terms,
)
from nmt.search.options import SearchOptions


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Models and options, checked before torch is loaded, which takes seconds."""

    models: tuple[Path, ...]  # model files or run folders (several: an ensemble), or an export
    options: SearchOptions
    src_lang: str | None = None  # of a model of several languages; None: the model's own
    tgt_lang: str | None = None  # likewise
    precision: str = "auto"  # fp32, bf16 on GPUs that have it, or an export's own
    shortlist: Path | None = None  # file of the tokens that each translation may use
    terms: Path | None = None  # file of terms and how they must be translated
    forbid: Path | None = None  # file of words that no translation may contain
    alignment: bool = False  # whether translations have alignments; an ensemble's first model's
    split: bool = False  # whether to split lines into sentences
    markup: str | None = None  # whether lines have tags, and of which form: html or xml
    context: int = 0  # lines before a line that are translated together with it

    def __post_init__(self) -> None:
        if not self.models:
            raise UsageError("no model given; give at least one")
        if len(self.models) > 1:
            self.refuse_export("cannot join an ensemble")
        if self.precision != "auto":
            self.refuse_export("has the precision it was exported with; leave out --precision", "")
        if self.shortlist is not None:
            self.refuse_export("takes no shortlist")
        if self.terms is not None and not self.reads_terms:
            self.refuse_export("takes no terms")
            if self.options.sampling is not None:
                raise UsageError("--terms needs beam search; leave out --sample")
        if self.forbid is not None:
            self.refuse_export("cannot forbid words")
        if self.alignment:
            self.refuse_export("has no alignments")
        if self.markup is not None:
            self.refuse_export("has no alignments, which --markup needs")
        for model in self.models:
            _checksum(model)
            card = model / CARD if is_export(model) else find_model(model)
            if card.is_file():  # else loading says what is missing
                check_languages(card, self.src_lang, self.tgt_lang)
                if not self.is_export:
                    check_context(card, self.context)
        if self.precision == "int8":
            self._refuse_int8()
        if self.context:
            self._check_for_context()
        for path in self._lists.values():
            if not path.exists():
                raise DataError(f"{path}: no such file")
            if path.is_dir():
                raise DataError(f"{path}: is a folder; name a file")
            if not path.is_file():
                raise DataError(f"{path}: not a regular file; it must be readable more than once")

    @cached_property
    def reads_terms(self) -> bool:
        """Whether the models were trained to read terms, so that search need not force them."""
        cards = [path / CARD if is_export(path) else find_model(path) for path in self.models]
        return all(card.is_file() and reads_terms(card) for card in cards)

    @property
    def _lists(self) -> dict[str, Path]:
        """The files besides the models, by field."""
        given = {"shortlist": self.shortlist, "terms": self.terms, "forbid": self.forbid}
        return {field: path for field, path in given.items() if path is not None}

    def _check_for_context(self) -> None:
        """Refuse what does not go with context: what would count the lines before, too."""
        self.refuse_export("translates line by line, without --context")
        options = self.options
        conflicts = {
            "--split": self.split,
            "--shortlist": self.shortlist is not None,
            "--terms": self.terms is not None,
            "--forbid": self.forbid is not None,
            "--n-best": options.n_best > 1,
            "--max-tokens": options.max_tokens is not None,
            "--min-tokens": options.min_tokens > 0,
            "--no-repeat-ngram": options.no_repeat_ngram > 0,
            "--repetition-penalty": options.repetition_penalty > 1,
        }
        for option, is_given in conflicts.items():
            if is_given:
                raise UsageError(f"{option} does not go with --context; leave one of them out")

    @cached_property
    def is_export(self) -> bool:
        """Whether a model is a CTranslate2 export."""
        return any(map(is_export, self.models))

    def refuse_export(self, why: str, instead: str = "; give the model file instead") -> None:
        """Refuse an option that an export does not support.

        Raises:
            UsageError: if one of the models is an export.
        """
        if self.is_export:
            model = next(filter(is_export, self.models))
            raise UsageError(f"{model} is a CTranslate2 export, which {why}{instead}")

    def _refuse_int8(self) -> None:
        """Say how to get int8, which only CTranslate2 computes.

        Raises:
            UsageError: always.
        """
        from nmt.interchange.ctranslate2 import unsupported  # loads torch, which takes seconds

        model = self.models[0]
        is_ensemble = len(self.models) > 1
        problem = "ensembles" if is_ensemble else unsupported(read_card(find_model(model)))
        if problem is not None:
            raise UsageError(f"{model}: int8 is by CTranslate2, which does not support {problem}")
        raise UsageError(
            f"int8 is by CTranslate2: nmt export ctranslate2 {model} OUT --quantization int8, "
            "then nmt translate OUT"
        )

    def files(self) -> dict[Path, list[Path]]:
        """Return the files that are read of each path, which is a file or the folder of some."""
        files = {
            path: [one for one in sorted(path.iterdir()) if one.is_file()]
            if is_export(path)
            else [find_model(path)]
            for path in self.models
        }
        return files | {path: [path] for path in self._lists.values()}

    def moved(self, copies: Mapping[Path, Path]) -> Setup:
        """Return the setup with copies of its files."""
        lists: dict[str, Any] = {field: copies[path] for field, path in self._lists.items()}
        return replace(self, models=tuple(copies[path] for path in self.models), **lists)

    def identity(self) -> dict[str, Any]:
        """Return, as JSON, what identifies translations with this setup."""
        return {
            "models": [_checksum(model) for model in self.models],
            "options": asdict(self.options),
            "languages": [self.src_lang, self.tgt_lang],
            "precision": self.precision,
            "lists": {field: sha256_file(path) for field, path in self._lists.items()},
            "alignment": self.alignment,
            "split": self.split,
            "markup": self.markup,
            "context": self.context,
        }


def _checksum(model: Path) -> str:
    """Return a model's recorded checksum.

    Raises:
        NMTError: if the model is missing.
    """
    if not is_export(model):
        return model_checksum(model)
    if not (model / MANIFEST).is_file():
        raise DataError(f"{model}: has no {MANIFEST}; copy the whole folder, or export again")
    return sha256_file(model / MANIFEST)

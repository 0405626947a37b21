"""The configuration of a translation: all that decides it besides the text.

The command line, Python and the journal take it whole. How a job runs is in `nmt.jobs.options`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

from nmt.config.fields import check, part, value
from nmt.data.corpus import Encoding
from nmt.errors import DataError, UsageError, did_you_mean
from nmt.interchange.ctranslate2_manifest import MANIFEST, is_export
from nmt.interchange.importers.imported_once import model_of
from nmt.markup.file_types import AS_LINES, FORMS
from nmt.models.device import PRECISIONS
from nmt.search.options import Sampling, SearchOptions
from nmt.system.files import is_there, sha256_file
from nmt.tables.formats import file_and_columns
from nmt.translate.calibration import Calibration, card_file, find_calibration
from nmt.translate.contradictions import (
    EXPORT,
    N_BEST_LIST,
    READER,
    in_python,
    options_given,
    refuse_contradictions,
)

_LISTS = ("terms", "memory")
_text_value = partial(value, panel="Text")


@dataclass(frozen=True, kw_only=True)
class TranslationConfig:
    """What decides a translation. It is checked before torch is loaded, which takes seconds."""

    models: tuple[Path, ...] = ()
    """Model files, run folders or folders of Hugging Face (several: an ensemble), or an export;
    none if not yet known. `opened` checks them."""
    src_lang: str | None = value(
        None,
        "Language of the input, for a model that knows several.",
        option="--from",
        metavar="LANG",
        shown="the model's",
    )
    tgt_lang: str | None = value(
        None,
        "Language of the translations, for a model that knows several.",
        option="--to",
        metavar="LANG",
        shown="the model's",
    )
    search: SearchOptions = part(SearchOptions)
    n_best: int | None = value(
        None,
        "Write N translations of each line, best first, as `LINE ||| TEXT ||| SCORE`. Lines count "
        "from 0. Samples come as they are drawn. In jsonl they are under `others`. The usual beam "
        "widens to N.",
        minimum=1,
    )
    format: str = value(
        "text",
        "jsonl writes a JSON object for each line, with tokens and log-probabilities.",
        choices=("text", "jsonl"),
    )
    terms: Path | None = value(
        None,
        "Translate terms as a file says: `SOURCE<TAB>TARGET` on each line, .csv or .xlsx, such as "
        "terms.csv:en,de, or TBX. Search forces one of a term's targets. But a model of `nmt "
        "prepare --terms` reads the first one, and inflects it.",
        metavar="FILE",
    )
    memory: Path | None = value(
        None,
        "A line or unit whose source stands in this file word for word gets the translation there. "
        "It is TMX, PO, XLIFF or a table, such as old.csv:en,de. Of several, the first counts.",
        metavar="FILE",
    )
    markup: str | None = value(
        None,
        "Lines have tags, such as `Click <b>here</b>`. They come back around the translation of "
        "their words. Code, placeholders, addresses and numbers stay. Documents keep their own "
        "form. none translates any file as lines.",
        choices=(*FORMS, AS_LINES),
        shown="by the type of --input",
    )
    context: int = value(
        0,
        "Translate each line together with up to N lines before it, by a model of `nmt prepare "
        "--documents`. A blank line ends a document, and so does the end of a file.",
        minimum=0,
        maximum=99,
        metavar="N",
        shown="each line by itself",
    )
    split: bool = value(
        False,
        "Split each line into sentences, translate them one by one, and join them. Documents are "
        "split anyway, and so are lines if the model has learnt single sentences.",
    )
    no_split: bool = _text_value(False, "Never split lines into sentences.")
    sample: bool = value(
        False,
        "Sample instead of searching for the best translation. With --n-best N, sample N for each "
        "line.",
    )
    sampling: Sampling = part(Sampling)
    ensemble: tuple[Path, ...] = value(
        (),
        "Average the probabilities with those of this model, which has the same vocabularies. You "
        "can repeat it.",
        metavar="MODEL_OR_RUN",
        panel="Search",
    )
    scores: bool = _text_value(False, "Write `SCORE<TAB>TEXT`.")
    quality: bool = _text_value(
        False,
        "Write `CHRF<TAB>TEXT`, with the sentence chrF that such lines had when `nmt calibrate` "
        "saw the model. Of documents and columns, only tell it of the whole.",
    )
    alignment: bool = _text_value(
        False,
        "Write word alignments after the text, for example ` ||| 0-0 1-2`. They come from "
        "attention, and words count from 0. jsonl adds the attention.",
    )
    prefixes: bool = _text_value(
        False, "Read `SOURCE<TAB>PREFIX`. The translation begins with PREFIX."
    )
    encoding: str = _text_value(
        "utf-8", "Encoding of the input, unless it begins with a byte-order mark. Output is UTF-8."
    )
    strict: bool = _text_value(False, "Fail at the first line that is not in the encoding.")
    calibration: Calibration | None = None
    """Of the model; `opened` reads it for `quality`."""
    precision: str = value(
        "auto",
        "Precision of matrix products. fp16 needs a GPU. auto takes bf16 on GPUs since Ampere and "
        "fp32 elsewhere, and an export keeps its own. For int8, use `nmt export ctranslate2`.",
        choices=("auto", *PRECISIONS["cuda"]),
        panel="Machine",
    )

    def __post_init__(self) -> None:
        check(self)
        Encoding.find(self.encoding)
        # The command line names these apart from `search`.
        n_best = self.search.n_best if self.n_best is None else self.n_best
        sampling = self.sampling if self.sample else self.search.sampling
        beam_size = self.search.beam_size
        if beam_size == SearchOptions.beam_size and not sampling:
            beam_size = max(beam_size, n_best)  # the usual beam may widen
        search = replace(self.search, beam_size=beam_size, n_best=n_best, sampling=sampling)
        object.__setattr__(self, "search", search)
        refuse_contradictions(self._options | {READER: READER})  # as the models may be

    def opened(self) -> Self:
        """Return the configuration with files as models, after a check that all files fit it.

        A folder of Hugging Face becomes the file that it is imported to, which takes a minute the
        first time. UsageError if a model cannot do what is asked for. DataError if a file is
        missing or damaged.
        """
        opened = replace(self, models=tuple(map(model_of, self.models)))
        refuse_contradictions(opened.given)
        opened._check_models()
        if self.quality:
            wanted, n_best = (self.src_lang, self.tgt_lang), self.search.n_best
            found = find_calibration(opened.models[0], wanted, self.calibrated, n_best)
            opened = replace(opened, calibration=found)
        return opened

    @property
    def calibrated(self) -> dict[str, object]:
        """The options of search that a calibration holds for. Scores have no part in it."""
        given = options_given(self.search) | {"--split": self.split, "--no-split": self.no_split}
        given.pop("--length-penalty-form", None)
        return {name: value for name, value in given.items() if value is not False}

    @classmethod
    def from_call(
        cls,
        path: Path | str | Sequence[Path | str],
        options: SearchOptions | TranslationConfig | None,
        **values: Any,
    ) -> TranslationConfig:
        """Return what Python's caller means by one or more paths and by options (UsageError)."""
        from nmt.models.model_file import find_model

        paths = [path] if isinstance(path, Path | str) else path
        if not paths:
            raise UsageError("no model given; give at least one")
        if isinstance(options, SearchOptions):
            values["search"], options = options, None
        names = {spec.name for spec in fields(cls)} - {"models", "ensemble", "calibration"}
        for name in values:
            if name not in names:
                raise UsageError(f"{name}: no such option{did_you_mean(name, names)}")
        values |= {name: Path(values[name]) for name in _LISTS if values.get(name) is not None}
        values["models"] = tuple(find_model(model_of(Path(model))) for model in paths)
        try:
            return replace(options or cls(), **values).opened()
        except UsageError as error:
            raise UsageError(in_python(str(error), cls)) from None

    @property
    def given(self) -> dict[str, object]:
        """The options that are given, for the table of contradictions, and the circumstances."""
        given = self._options
        if self.is_export:
            given[EXPORT] = f"{self.models[0]}, a CTranslate2 export"
        if self.terms is not None and self.reads_annotations:
            given[READER] = READER
        return given

    @property
    def _options(self) -> dict[str, object]:
        given = options_given(self)
        given.pop("--n-best", None)
        if self.tags is None:
            given.pop("--markup", None)
        if self.search.n_best > 1:
            given["--n-best"] = self.search.n_best
        if self.search.sampling is not None:
            given["--sample"] = self.search.sampling
        if self.n_best is not None:
            given[N_BEST_LIST] = "--n-best"
        if len(self.models) > 1:
            given["--ensemble"] = self.models[1:]
        return given

    def check_prefixes(self) -> None:
        """Check that translations may begin with prefixes; UsageError in Python's words."""
        try:
            refuse_contradictions(self.given | {"--prefixes": True})
        except UsageError as error:
            raise UsageError(in_python(str(error), type(self))) from None

    @property
    def tags(self) -> str | None:
        """The form of tags in lines; None if they have none."""
        return None if self.markup == AS_LINES else self.markup

    @property
    def form(self) -> str:
        """The form of the output, a key of `nmt.translate.output.RENDERS`."""
        if self.format == "jsonl":
            return "jsonl"
        chosen = {"n-best": self.n_best, "scores": self.scores, "alignment": self.alignment}
        chosen["quality"] = self.quality
        return next((form for form, is_chosen in chosen.items() if is_chosen), "text")

    def _check_models(self) -> None:
        from nmt.models.model_file import check_context, choose_languages

        for model in self.models:
            _checksum(model)
            card = card_file(model)
            if card.is_file():  # else loading says what is missing
                choose_languages(card, self.src_lang, self.tgt_lang)
                if not self.is_export:
                    check_context(card, self.context)
        for file in self.lists.values():
            if not is_there(file):
                raise DataError(f"{file}: no such file")
            if not file.is_file():
                raise DataError(f"{file}: is no regular file; it is read more than once")

    @property
    def lists(self) -> dict[str, Path]:
        """The files of `terms` and `memory`, without the columns that they may name."""
        return {
            name: Path(file_and_columns(str(path))[0])
            for name in _LISTS
            if (path := getattr(self, name)) is not None
        }

    @cached_property
    def reads_annotations(self) -> bool:
        """Whether the models were trained to read terms, so that search need not force them."""
        from nmt.models.model_file import reads_annotations

        cards = list(map(card_file, self.models))
        return bool(cards) and all(card.is_file() and reads_annotations(card) for card in cards)

    @cached_property
    def is_export(self) -> bool:
        return any(map(is_export, self.models))

    def files(self) -> dict[Path, list[Path]]:
        """Return the files that are read of each path, which is a file or the folder of some."""
        from nmt.models.model_file import find_model

        files = {
            path: [file for file in sorted(path.iterdir()) if file.is_file()]
            if is_export(path)
            else [find_model(path)]
            for path in self.models
        }
        return files | {file: [file] for file in self.lists.values()}

    def moved(self, copies: Mapping[Path, Path]) -> TranslationConfig:
        lists: dict[str, Any] = {
            name: Path(f"{copies[file]}{self._columns(name, file)}")
            for name, file in self.lists.items()
        }
        return replace(self, models=tuple(copies[path] for path in self.models), **lists)

    def _columns(self, name: str, file: Path) -> str:
        """Return the columns of a list, as they are written after its file."""
        return str(getattr(self, name)).removeprefix(str(file))

    def identity(self) -> dict[str, Any]:
        """Return, as JSON, what identifies translations with this configuration."""
        models = [_checksum(model) for model in self.models]
        lists = {
            name: sha256_file(file) + self._columns(name, file) for name, file in self.lists.items()
        }
        encoding = Encoding.find(self.encoding).name
        identity = asdict(self) | lists | {"models": models, "encoding": encoding}
        return dict(json.loads(json.dumps(identity)))


def _checksum(model: Path) -> str:
    """Return a model's recorded checksum; NMTError if the model is missing."""
    if not is_export(model):
        from nmt.models.model_file import model_checksum

        return model_checksum(model)
    if not (model / MANIFEST).is_file():
        raise DataError(
            f"{model}: has no {MANIFEST}, as exports of nmt do; copy all of it or export it again, "
            "or run nmt import ctranslate2 if it is from elsewhere"
        )
    return sha256_file(model / MANIFEST)

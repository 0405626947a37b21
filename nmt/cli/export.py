"""`nmt export`: a model for another engine."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from nmt import console
from nmt.cli.options import Quiet, check_new_file, completion
from nmt.errors import DataError, UsageError, did_you_mean
from nmt.files import is_there, resolved, sha256_file
from nmt.models.device import QUANTIZATIONS

EXAMPLES = (
    "nmt export averaged.safetensors",
    "nmt export ctranslate2 averaged.safetensors fast --quantization int8",
    "nmt export huggingface averaged.safetensors wmt14-en-de",
    "nmt export bergamot student firefox --data data/distilled",
    "nmt export argos averaged.safetensors en_de.argosmodel",
    "nmt export shortlist data/wmt14 lex.bin",
)

_CTRANSLATE2, _SHORTLIST = "ctranslate2", "shortlist"
_HUGGINGFACE, _MARIAN, _BERGAMOT, _ARGOS = "huggingface", "marian", "bergamot", "argos"


class Format(NamedTuple):
    """A format of exports."""

    opened_by: str
    module: str = ""
    """Of `nmt.interchange`: its `fault_of` says why a model does not fit. "": it is no model's."""
    options: tuple[str, ...] = ()


FORMATS = {
    _CTRANSLATE2: Format(
        "nmt translate, and programs with CTranslate2, on CPUs and GPUs",
        "ctranslate2",
        ("--quantization",),
    ),
    _HUGGINGFACE: Format(
        "transformers, as MarianMTModel or M2M100, and what reads its folders",
        "huggingface_export",
        ("--data",),
    ),
    _MARIAN: Format("Marian", "marian_export"),
    _BERGAMOT: Format("Bergamot: Firefox, web pages and Node", "bergamot", ("--data", "--sample")),
    _ARGOS: Format(
        "Argos Translate and LibreTranslate",
        "argos",
        ("--quantization", "--package-version", "--src-name", "--tgt-name"),
    ),
    _SHORTLIST: Format(
        "marian-decoder --shortlist; is made from a data folder", options=("--frequent", "--best")
    ),
}


def export(
    form: Annotated[
        str | None,
        typer.Argument(
            metavar="[FORMAT]",
            autocompletion=completion(tuple(FORMATS)),
            help=f"{', '.join(FORMATS)}. Without one, you see what they are.",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MODEL_OR_DATA]",
            help="A model file or a run folder, whose best model is used. For shortlist, the data "
            "folder that the model was trained on. Without FORMAT and OUT, you see which formats "
            "fit the model.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Argument(metavar="[OUT]", help="The folder or (argos, shortlist) file to write."),
    ] = None,
    quantization: Annotated[
        str | None,
        typer.Option(
            help="Type of the weights: float32, float16, bfloat16, int8, int16 or int8_float16. "
            "On a CPU, take float32 or int8.",
            autocompletion=completion(QUANTIZATIONS),
            show_default="float32; int8 for argos",
            rich_help_panel=f"{_CTRANSLATE2}, {_ARGOS}",
        ),
    ] = None,
    package_version: Annotated[
        str | None,
        typer.Option(
            help="Version of the package. Programs may replace it by a newer one of their index.",
            show_default="1.0",
            rich_help_panel=_ARGOS,
        ),
    ] = None,
    src_name: Annotated[
        str | None,
        typer.Option(
            help="Name of the source language in the package. Codes that no registry has need one.",
            show_default="the usual English one",
            rich_help_panel=_ARGOS,
        ),
    ] = None,
    tgt_name: Annotated[
        str | None,
        typer.Option(
            help="Name of the target language in the package.",
            show_default="the usual English one",
            rich_help_panel=_ARGOS,
        ),
    ] = None,
    frequent: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Put this many of the most frequent target tokens on every list.",
            show_default="100",
            rich_help_panel=_SHORTLIST,
        ),
    ] = None,
    best: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Put this many of the most probable translations of each source token on the "
            "list.",
            show_default="100",
            rich_help_panel=_SHORTLIST,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="The data folder that the model was trained on. Its training pairs teach the "
            "shortlist, and its valid text shows the size of inputs. A model card lists its texts.",
            show_default="the run's",
            rich_help_panel=f"{_BERGAMOT}, {_HUGGINGFACE}",
        ),
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(
            help="Measure the size of inputs on this source text instead.",
            rich_help_panel=_BERGAMOT,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a model for another engine, or a shortlist for Marian.

    CTranslate2 (the extra `ctranslate2`) is an engine in C++ for CPUs and GPUs. You can use
    the export with its own programs, or with `nmt translate OUT`. The folder appears when it is
    complete. An earlier export of that name is replaced.

    A folder of huggingface opens in transformers as a `MarianMTModel`, which can be any post-norm
    Transformer with sinusoidal positions. Models that came from M2M100 or NLLB open as such. The
    model card, README.md, has what the run knows: languages, data and scores. Marian
    takes models with its formulas, such as `transformer_student_tiny` and those that `nmt import
    marian` has made. Bergamot, which translates in Firefox and on web pages, takes them in int8.

    A package for argos is what LibreTranslate and Argos Translate install.

    A shortlist limits the tokens of a translation to the most frequent ones, and to probable
    translations of the source's tokens, learnt from the training pairs. `marian-decoder
    --shortlist OUT` then computes only that part of the output layer. Bergamot gets its own.
    """
    given: dict[str, object] = {
        "--quantization": quantization,
        "--package-version": package_version,
        "--src-name": src_name,
        "--tgt-name": tgt_name,
        "--frequent": frequent,
        "--best": best,
        "--data": data,
        "--sample": sample,
    }
    options = [option for option, value in given.items() if value is not None]
    if source is None:
        if options:
            raise UsageError(f"{options[0]} is for an export: nmt export FORMAT MODEL OUT")
        _list_formats(form)
        return
    if form not in FORMATS:
        raise UsageError(f"unknown format {form!r}{did_you_mean(str(form), FORMATS)}")
    if out is None:
        raise UsageError(f"name what to write: nmt export {form} {source} OUT")
    target = Path(out)
    if form in (_ARGOS, _SHORTLIST):
        check_new_file(out)
    if not resolved(target).parent.is_dir():
        raise UsageError(f"{target.parent}: no such folder; make it, or choose another")
    for option in options:
        if option not in FORMATS[form].options:
            raise UsageError(f"{option} has no meaning for {form}; leave it out")
    if form == _SHORTLIST:
        sizes = (100 if frequent is None else frequent, 100 if best is None else best)
        _export_shortlist(source, target, *sizes)
    elif form == _CTRANSLATE2:
        from nmt.interchange.ctranslate2 import export_ctranslate2

        export_ctranslate2(source, target, quantization or "float32")
        console.notice(f"{out}: {source} for CTranslate2, in {quantization or 'float32'}")
    elif form == _ARGOS:
        from nmt.interchange.argos import export_argos

        names = (src_name, tgt_name)
        export_argos(source, target, quantization or "int8", package_version or "1.0", names)
        console.notice(f"{out}: {source} for Argos Translate, in {quantization or 'int8'}")
    elif form == _HUGGINGFACE:
        _export_huggingface(source, target, data)
    elif form == _BERGAMOT:
        _export_bergamot(source, target, data, sample)
    else:
        from nmt.interchange.marian_export import export_marian

        export_marian(source, target)
        console.notice(f"{out}: {source} for Marian, with decoder.yml")


def _list_formats(model: str | None) -> None:
    """Print the formats, and which of them fit a model."""
    if model is None:
        rows = [(name, each.opened_by) for name, each in FORMATS.items()]
        console.print_table(("format", "opened by"), rows)
        console.notice("`nmt export FORMAT MODEL OUT` writes one")
        console.notice("`nmt export MODEL` says which formats fit a model, and why others do not")
        return
    if model in FORMATS:
        raise UsageError(f"name what to export, and what to write: nmt export {model} MODEL OUT")
    from nmt.models.model_file import find_model, read_card

    if not is_there(Path(model)):
        raise UsageError(f"{model}: no such model or format{did_you_mean(model, FORMATS)}")
    card = read_card(find_model(Path(model)))
    fitting = []
    for name, each in FORMATS.items():
        if each.module:
            module = importlib.import_module(f"nmt.interchange.{each.module}")
            fitting.append((name, "no" if (fault := module.fault_of(card)) else "yes", fault or ""))
    console.print_table(("format", "fits", "why not"), fitting)


def _export_huggingface(source: Path, out: Path, data: Path | None) -> None:
    from nmt.data import manifest
    from nmt.interchange.huggingface_export import export_huggingface
    from nmt.models.model_file import find_model, read_card
    from nmt.runs.run_folder import run_of

    file = find_model(source)
    card, run = read_card(file), run_of(resolved(file))
    folder = run.data_path if data is None and run is not None else data
    listing = None if folder is None else folder / manifest.FILE_NAME
    is_known = listing is not None and listing.is_file() and sha256_file(listing) == card.data
    if data is not None and not is_known:
        raise UsageError(f"--data {data}: is not the data folder that {source} was trained on")
    export_huggingface(
        source,
        out,
        data=manifest.read_info(folder) if folder is not None and is_known else None,
        signatures={} if run is None else run.signatures(card.update),
    )
    console.notice(f"{out}: {source} for transformers")


def _export_shortlist(data: Path, out: Path, frequent: int, best: int) -> None:
    from nmt.data.folder import DataFolder
    from nmt.interchange.marian_shortlist import export_shortlist

    folder = DataFolder.open(data)
    length, covered = export_shortlist(folder, out, frequent=frequent, best=best)
    console.notice(
        f"{out}: lists of {length:,.0f} of {len(folder.tgt_vocabulary):,} tokens on average, which "
        f"have {covered:.1%} of the valid targets' tokens"
    )


def _export_bergamot(source: Path, out: Path, data: Path | None, sample: Path | None) -> None:
    from nmt.data.folder import DataFolder
    from nmt.interchange.bergamot import export_bergamot
    from nmt.runs.run_folder import RunFolder

    run = RunFolder(source)
    if data is None and run.exists:
        data = run.data_path
    if data is None and sample is None:
        raise UsageError(
            f"{source}: is not a run, so give --data, the data folder that it was trained on, or "
            "--sample, source text"
        )
    lines = None if sample is None else list(_text_of(sample))
    folder = None if data is None else DataFolder.open(data)
    export_bergamot(source, out, data=folder, sample=lines)
    shortlist = "no shortlist, which makes it slower" if folder is None else "a shortlist"
    console.notice(f"{out}: {source} for Bergamot, with {shortlist}")


def _text_of(path: Path) -> Iterator[str]:
    from nmt.data.corpus import Encoding, read_lines

    encoding = Encoding.find("utf-8")
    for number, line in enumerate(read_lines(path, encoding), 1):
        text = encoding.decode(line, number=number)
        if text is None:
            raise DataError(f"{path}: line {number:,} is not UTF-8")
        yield text

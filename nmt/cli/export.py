"""`nmt export`: a model for another engine."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from nmt import console
from nmt.cli.options import Quiet, check_new_file, completion
from nmt.config.fields import value
from nmt.errors import UsageError, did_you_mean
from nmt.models.device import QUANTIZATIONS
from nmt.system.files import is_there, resolved

EXAMPLES = (
    "nmt export averaged.safetensors",
    "nmt export ctranslate2 averaged.safetensors fast --quantization int8",
    "nmt export huggingface averaged.safetensors wmt14-en-de",
    "nmt export bergamot student firefox",
    "nmt export argos averaged.safetensors en_de.argosmodel",
)


def _ctranslate2(
    source: Path,
    out: Path,
    *,
    quantization: str = "float32",
    src_name: str | None = None,
    tgt_name: str | None = None,
) -> str:
    from nmt.interchange.ctranslate2 import export_ctranslate2

    export_ctranslate2(source, out, quantization, (src_name, tgt_name))
    return f"{source} for CTranslate2, in {quantization}"


def _huggingface(
    source: Path, out: Path, *, src_name: str | None = None, tgt_name: str | None = None
) -> str:
    from nmt.interchange.huggingface_export import export_huggingface

    export_huggingface(source, out, (src_name, tgt_name))
    return f"{source} for transformers"


def _marian(source: Path, out: Path) -> str:
    from nmt.interchange.marian_export import export_marian

    export_marian(source, out)
    return f"{source} for Marian, with decoder.yml"


def _bergamot(
    source: Path,
    out: Path,
    *,
    data: Path | None = None,
    sample: Path | None = None,
    src_name: str | None = None,
    tgt_name: str | None = None,
) -> str:
    from nmt.data.corpus import Encoding, decode_lines, read_lines
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
    lines, utf8 = None, Encoding.find("utf-8")
    if sample is not None:
        raw = read_lines(sample, utf8)
        lines = list(decode_lines(raw, utf8, name=str(sample), remedy="convert it"))
    folder = None if data is None else DataFolder.open(data)
    export_bergamot(source, out, data=folder, sample=lines, names=(src_name, tgt_name))
    shortlist = "no shortlist, which makes it slower" if folder is None else "a shortlist"
    return f"{source} for Bergamot, with {shortlist}"


def _argos(
    source: Path,
    out: Path,
    *,
    quantization: str = "int8",
    package_version: str = "1.0",
    src_name: str | None = None,
    tgt_name: str | None = None,
) -> str:
    from nmt.interchange.argos import export_argos

    export_argos(source, out, quantization, package_version, (src_name, tgt_name))
    return f"{source} for Argos Translate, in {quantization}"


class Exporter(NamedTuple):
    opened_by: str
    write: Callable[..., str]
    """Exports a model to a path, and returns what to say of it. Its keywords are the options."""
    module: str
    """Of `nmt.interchange`: its `fault_of` says why a model does not fit."""
    is_file: bool = False

    @property
    def options(self) -> list[str]:
        return inspect.getfullargspec(self.write).kwonlyargs


EXPORTERS = {
    "ctranslate2": Exporter(
        "nmt translate, and programs with CTranslate2, on CPUs and GPUs",
        _ctranslate2,
        "ctranslate2",
    ),
    "huggingface": Exporter(
        "transformers, as MarianMTModel or M2M100, and what reads its folders",
        _huggingface,
        "huggingface_export",
    ),
    "marian": Exporter("Marian", _marian, "marian_export"),
    "bergamot": Exporter("Bergamot: Firefox, web pages and Node", _bergamot, "bergamot"),
    "argos": Exporter("Argos Translate and LibreTranslate", _argos, "argos", is_file=True),
}
"""The only list of formats: the command takes its options, and says what they are, by it."""


_USUAL_NAME = "the usual English one"


_TAKERS = {
    option: ", ".join(name for name, each in EXPORTERS.items() if option in each.options)
    for exporter in EXPORTERS.values()
    for option in exporter.options
}
"""The formats that take each option: the part of the help that lists it."""


def export(
    form: Annotated[
        str | None,
        typer.Argument(
            metavar="FORMAT",
            autocompletion=completion(tuple(EXPORTERS)),
            help=f"{', '.join(EXPORTERS)}. Without one, you see what they are.",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="MODEL",
            help="A model file or a run folder, whose best model is used. Without FORMAT and OUT, "
            "you see which formats fit the model.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Argument(metavar="OUT", help="The folder or (argos) file to write."),
    ] = None,
    *,
    quantization: str | None = value(
        None,
        "Type of the weights: float32, float16, bfloat16, int8, int16 or int8_float16. On a CPU, "
        "take float32 or int8.",
        completion=completion(QUANTIZATIONS),
        shown="float32; int8 for argos",
        panel=_TAKERS["quantization"],
    ),
    package_version: str | None = value(
        None,
        "Version of the package. Programs may replace it by a newer one of their index.",
        shown="1.0",
        panel=_TAKERS["package_version"],
    ),
    src_name: str | None = value(
        None,
        "Name of the source language, for people. For argos, codes that no registry has need one.",
        shown=_USUAL_NAME,
        panel=_TAKERS["src_name"],
    ),
    tgt_name: str | None = value(
        None, "Name of the target language.", shown=_USUAL_NAME, panel=_TAKERS["tgt_name"]
    ),
    data: Path | None = value(
        None,
        "The data folder that the model was trained on. Its training pairs teach the shortlist, "
        "and its valid text shows the size of inputs.",
        shown="the run's",
        panel=_TAKERS["data"],
    ),
    sample: Path | None = value(
        None, "Measure the size of inputs on this source text instead.", panel=_TAKERS["sample"]
    ),
    quiet: Quiet = False,
) -> None:
    """Write a model for another engine.

    CTranslate2 (the extra `ctranslate2`) is an engine in C++ for CPUs and GPUs. You can use
    the export with its own programs, or with `nmt translate OUT`. The folder appears when it is
    complete. An earlier export of that name is replaced.

    A folder of huggingface opens in transformers as a `MarianMTModel`, which can be any post-norm
    Transformer with sinusoidal positions. Models that came from M2M100 or NLLB open as such. Marian
    takes models with its formulas, such as `transformer_portable` and those that `nmt import
    marian` has made. Bergamot, which translates in Firefox and on web pages, takes them in int8.
    If a model does not fit, you are told which preset or which values would.

    A package for argos is what LibreTranslate and Argos Translate install.
    """
    given = {name: one for name, one in locals().items() if name in _TAKERS and one is not None}
    flags = {name: f"--{name.replace('_', '-')}" for name in given}
    if source is None:
        for flag in flags.values():
            raise UsageError(f"{flag} is for an export: nmt export FORMAT MODEL OUT")
        _list_formats(form)
        return
    if form not in EXPORTERS:
        raise UsageError(f"unknown format {form!r}{did_you_mean(str(form), EXPORTERS)}")
    if out is None:
        raise UsageError(f"name what to write: nmt export {form} {source} OUT")
    exporter, target = EXPORTERS[form], Path(out)
    if exporter.is_file:
        check_new_file(out)
    if not resolved(target).parent.is_dir():
        raise UsageError(f"{target.parent}: no such folder; make it, or choose another")
    for name, flag in flags.items():
        if name not in exporter.options:
            raise UsageError(f"{flag} has no meaning for {form}; leave it out")
    for name in given.keys() & {"src_name", "tgt_name"}:
        if not (given[name].strip() and given[name].isprintable()):
            raise UsageError(f"{flags[name]} {given[name]!r}: is not a name")
        given[name] = given[name].strip()
    if fault := _fault_of(exporter, source):
        raise UsageError(f"{source}: {fault}")
    console.notice(f"{out}: {exporter.write(source, target, **given)}")


def _fault_of(exporter: Exporter, model: Path) -> str | None:
    """Return why a model does not fit a format, by its card; None if it does."""
    from nmt.models.model_file import find_model, read_card

    module = importlib.import_module(f"nmt.interchange.{exporter.module}")
    fault: str | None = module.fault_of(read_card(find_model(model)))
    return fault


def _list_formats(model: str | None) -> None:
    """Print the formats, and which of them fit a model."""
    if model is None:
        rows = [(name, each.opened_by) for name, each in EXPORTERS.items()]
        console.print_table(("format", "opened by"), rows)
        console.notice("`nmt export FORMAT MODEL OUT` writes one")
        console.notice("`nmt export MODEL` says which formats fit a model, and why others do not")
        return
    if model in EXPORTERS:
        raise UsageError(f"name what to export, and what to write: nmt export {model} MODEL OUT")
    if not is_there(Path(model)):
        raise UsageError(f"{model}: no such model or format{did_you_mean(model, EXPORTERS)}")
    fitting = []
    for name, each in EXPORTERS.items():
        fault = _fault_of(each, Path(model))
        fitting.append((name, "no" if fault else "yes", fault or ""))
    console.print_table(("format", "fits", "why not"), fitting)

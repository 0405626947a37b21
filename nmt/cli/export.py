"""`nmt export`: a model for another engine."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from nmt import console
from nmt.cli.options import Quiet, argument, check_new_file, completion
from nmt.config.fields import value
from nmt.errors import UsageError, did_you_mean
from nmt.interchange.ctranslate2_manifest import CALIBRATION
from nmt.models.device import QUANTIZATIONS
from nmt.system.files import is_there, resolved
from nmt.translate.calibration import for_export

EXAMPLES = (
    "nmt export averaged.safetensors",
    "nmt export ctranslate2 averaged.safetensors fast --quantization int8",
    "nmt export huggingface averaged.safetensors wmt14-en-de",
    "nmt export bergamot student firefox",
    "nmt export argos averaged.safetensors en_de.argosmodel",
)


class Exporter(NamedTuple):
    opened_by: str
    module: str
    """Of `nmt.interchange`. Its `fault_of` says why a model does not fit. Its `export_FORMAT` takes
    a model, a path and the options, and returns in words what it has written."""
    options: tuple[str, ...] = ()


_NAMES = ("src_name", "tgt_name")
EXPORTERS = {
    "ctranslate2": Exporter(
        "nmt translate, and programs with CTranslate2, on CPUs and GPUs",
        "ctranslate2",
        ("quantization", *_NAMES),
    ),
    "huggingface": Exporter(
        "transformers, as MarianMTModel or M2M100, and what reads its folders",
        "huggingface_export",
        _NAMES,
    ),
    "marian": Exporter("Marian", "marian_export"),
    "bergamot": Exporter(
        "Bergamot: Firefox, web pages and Node", "bergamot", ("data", "sample", *_NAMES)
    ),
    "argos": Exporter(
        "Argos Translate and LibreTranslate", "argos", ("quantization", "package_version", *_NAMES)
    ),
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
        argument(
            "FORMAT",
            f"{', '.join(EXPORTERS)}. Without one, you see what they are.",
            autocompletion=completion(tuple(EXPORTERS)),
        ),
    ] = None,
    source: Annotated[
        Path | None,
        argument(
            "MODEL",
            "A model file or a run folder, whose best model is used. Without FORMAT and OUT, "
            "you see which formats fit the model.",
        ),
    ] = None,
    out: Annotated[str | None, argument("OUT", "The folder or (argos) file to write.")] = None,
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
    if form == "argos":  # whose export is a file
        check_new_file(out)
    if not resolved(target).parent.is_dir():
        raise UsageError(f"{target.parent}: no such folder; make it, or choose another")
    for name, flag in flags.items():
        if name not in exporter.options:
            raise UsageError(f"{flag} has no meaning for {form}; leave it out")
    for name in given.keys() & {*_NAMES}:
        if not (given[name].strip() and given[name].isprintable()):
            raise UsageError(f"{flags[name]} {given[name]!r}: is not a name")
        given[name] = given[name].strip()
    if fault := fault_of(exporter, source):
        raise UsageError(f"{source}: {fault}")
    if form == "bergamot":
        _open_text(source, given)
    write = getattr(_module(exporter), f"export_{form}")
    calibration = for_export(source, target) if form == "ctranslate2" else None
    written = write(source, target, **given)
    if calibration is not None:
        (target / CALIBRATION).write_bytes(calibration)
    console.notice(f"{out}: {source} for {written}")


def _module(exporter: Exporter) -> Any:
    return importlib.import_module(f"nmt.interchange.{exporter.module}")


def fault_of(exporter: Exporter, model: Path) -> str | None:
    """Return why a model does not fit a format, by its card; None if it does."""
    from nmt.models.model_file import find_model, read_card

    fault: str | None = _module(exporter).fault_of(read_card(find_model(model)))
    return fault


def _open_text(model: Path, given: dict[str, Any]) -> None:
    """Open the data folder, and read the sample, in place of their paths (UsageError)."""
    from nmt.data.corpus import Encoding, decode_lines, read_lines
    from nmt.data.folder import DataFolder
    from nmt.runs.run_folder import RunFolder

    run = RunFolder(model)
    if "data" not in given and run.exists:
        given["data"] = run.data_path
    if given.keys().isdisjoint(("data", "sample")):
        raise UsageError(
            f"{model}: is not a run, so give --data, the data folder that it was trained on, or "
            "--sample, source text"
        )
    if sample := given.get("sample"):
        utf8 = Encoding.find("utf-8")
        lines = decode_lines(read_lines(sample, utf8), utf8, name=str(sample), remedy="convert it")
        given["sample"] = list(lines)
    if "data" in given:
        given["data"] = DataFolder.open(given["data"])


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
    faults = {name: fault_of(each, Path(model)) for name, each in EXPORTERS.items()}
    fitting = [(name, "no" if fault else "yes", fault or "") for name, fault in faults.items()]
    console.print_table(("format", "fits", "why not"), fitting)

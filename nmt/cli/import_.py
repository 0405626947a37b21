"""`nmt import`: a model of another toolkit to a model file."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

from nmt import console
from nmt.cli.options import Quiet, argument, check_new_file, completion
from nmt.config.fields import like, value
from nmt.data.moses import STEPS
from nmt.errors import DataError, UsageError, did_you_mean
from nmt.prepare.options import PrepareOptions
from nmt.system.files import naming, read_file

EXAMPLES = (
    "nmt import huggingface opus-mt-en-de en-de.safetensors",
    "nmt import huggingface nllb-200-distilled-600M nllb.safetensors",
    "nmt import marian model.npz en-de.safetensors --src en --tgt de",
    "nmt import fairseq checkpoint_best.pt en-de.safetensors --vocab codes.bpe",
)

_SEGMENTED_ELSEWHERE = ("fairseq", "opennmt-py", "eole", "ctranslate2", "joeynmt", "sockeye")
"""Whose models may not say what has segmented their text."""
_FORMATS = ("huggingface", "marian", *_SEGMENTED_ELSEWHERE)
_MODULES = {"ctranslate2": "ctranslate2_folder"}
"""Of `nmt.interchange.importers`, if it is not called as its format."""
_MOST_SHOWN = 3  # lines that differ
_LONGEST = 250  # tokens


def import_(
    form: Annotated[
        str, argument("FORMAT", f"{', '.join(_FORMATS)}.", autocompletion=completion(_FORMATS))
    ],
    source: Annotated[
        Path,
        argument(
            "MODEL",
            "For huggingface, a folder with config.json, model.safetensors (or "
            "pytorch_model.bin), source.spm, target.spm and vocab.json, such as those of OPUS-MT; "
            "or with sentencepiece.bpe.model, such as those of M2M100 and NLLB. "
            "For marian, model.npz or model.bin, beside which a decoder.yml of its name names the "
            "vocabularies; or that decoder.yml, or its folder, such as a package of OPUS-MT. "
            "For fairseq, a checkpoint or its folder, with dict.en.txt and dict.de.txt beside it. "
            "For opennmt-py, a checkpoint of version 3 or its folder. "
            "For eole, a folder with config.json, vocab.json and model.00.safetensors. "
            "For ctranslate2, a folder with model.bin, or that of a package of Argos, unpacked. "
            "For joeynmt and sockeye, the folder of a model.",
        ),
    ],
    out: Annotated[str, argument("OUT", "The model file to write.")],
    *,
    src: str | None = value(None, "Language of sources.", shown="as the model says"),
    tgt: str | None = value(None, "Language of targets.", shown="as the model says"),
    positions: str | None = value(
        None,
        "For huggingface, the formula of the position encoding: marian, by which the models of "
        "OPUS-MT were trained, or huggingface, which transformers computes. They differ a little.",
        choices=("marian", "huggingface"),
        shown="marian, unless nmt exported the model",
    ),
    vocab: tuple[Path, ...] = value(
        (),
        "For marian, a SentencePiece model of both languages, or a list of pieces beside "
        "source.spm and target.spm. For others, the BPE codes or the SentencePiece model that "
        "segmented its text; without them, lines are its subwords, parted by spaces. Give it twice "
        "if source and target have their own.",
        metavar="FILE",
        shown="as decoder.yml says",
    ),
    moses_normalize: bool = like(PrepareOptions, "moses_normalize", False, panel=None),
    moses_tokenize: bool = like(PrepareOptions, "moses_tokenize", False, panel=None),
    moses_escape: bool = like(PrepareOptions, "moses_escape", False, panel=None),
    moses_aggressive: bool = like(PrepareOptions, "moses_aggressive", False, panel=None),
    moses_lowercase: bool = like(PrepareOptions, "moses_lowercase", False, panel=None),
    check: str | None = value(
        None,
        "Translate the lines of SOURCE greedily, and tell how many are equal to OUTPUT, which the "
        "other toolkit wrote, also greedily.",
        metavar="SOURCE,OUTPUT",
    ),
    quiet: Quiet = False,
) -> None:
    """Write a model of another toolkit as a model file.

    You can then translate with it, average, score and export it like your own models. Neither the
    other toolkit nor its libraries are needed, and no code in its files is executed.
    """
    if form not in _FORMATS:
        raise UsageError(f"unknown format {form!r}{did_you_mean(form, _FORMATS)}")
    asked = (moses_normalize, moses_tokenize, moses_escape, moses_aggressive, moses_lowercase)
    moses = [step for step, is_asked in zip(STEPS, asked, strict=True) if is_asked]
    if moses and form not in _SEGMENTED_ELSEWHERE:
        raise UsageError(f"--moses-{moses[0]} has no meaning for {form}; leave it out")
    if positions is not None and form != "huggingface":
        raise UsageError(f"--positions has no meaning for {form}; leave it out")
    if len(vocab) > 2:
        raise UsageError("--vocab was given more than twice; give it once, or once for each side")
    compared = _read_compared(check) if check is not None else None
    target = check_new_file(out)
    if form == "huggingface":
        from nmt.interchange.importers.huggingface import import_huggingface

        if vocab:
            raise UsageError("--vocab has no meaning for huggingface; leave it out")
        import_huggingface(source, target, src_lang=src, tgt_lang=tgt, positions=positions)
    else:
        from nmt.interchange.importers.segmenters import ImportOptions

        name = form.replace("-", "_")
        module = importlib.import_module(f"nmt.interchange.importers.{_MODULES.get(name, name)}")
        import_other = getattr(module, f"import_{name}")
        import_other(source, target, ImportOptions((src or "", tgt or ""), vocab, moses))
    if compared:
        _compare(target, *compared)


def _read_compared(check: str) -> tuple[list[str], list[str]]:
    """Return the lines of a source and of its output; UsageError if these are no two files."""
    names = check.split(",")
    if len(names) != 2:
        raise UsageError(f"--check {check}: name two files, such as source.txt,output.txt")
    with naming(f"--check {check}"):
        sources, outputs = (
            read_file(Path(name)).decode(errors="replace").removesuffix("\n").split("\n")
            for name in names
        )
    if len(sources) != len(outputs):
        raise DataError(
            f"--check {check}: {len(sources):,} lines of source, but {len(outputs):,} of output"
        )
    return sources, outputs


def _compare(model: Path, sources: list[str], outputs: list[str]) -> None:
    """Tell how many lines are equal to those that another toolkit wrote, and the first others."""
    from nmt.search.options import SearchOptions
    from nmt.translate.translator import Translator

    # The limit of other toolkits, which lines of words that repeat themselves run to.
    options = SearchOptions(
        beam_size=1, no_guard=True, no_copy=True, max_extra_tokens=_LONGEST, max_tokens=_LONGEST
    )
    found = Translator.load(model, options).translate(sources)
    lines = [(one.text, other.rstrip("\r")) for one, other in zip(found, outputs, strict=True)]
    differ = [number for number, (ours, theirs) in enumerate(lines) if ours != theirs]
    console.print_row(f"{len(lines) - len(differ):,} of {len(lines):,} lines equal")
    for number in differ[:_MOST_SHOWN]:
        ours, theirs = lines[number]
        for name, text in (("source", sources[number]), ("output", theirs), ("nmt", ours)):
            console.print_row(f"line {number + 1}, {name}: {text}")

"""`nmt import`: a model of another toolkit to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from nmt import console
from nmt.cli.options import Quiet, argument, check_new_file, completion
from nmt.config.fields import value
from nmt.errors import UsageError, did_you_mean

EXAMPLES = (
    "nmt import huggingface opus-mt-en-de en-de.safetensors",
    "nmt import huggingface nllb-200-distilled-600M nllb.safetensors",
    "nmt import marian model.npz en-de.safetensors --src en --tgt de",
)

_FORMATS = ("huggingface", "marian")


def import_(
    form: Annotated[
        str, argument("FORMAT", "huggingface or marian.", autocompletion=completion(_FORMATS))
    ],
    source: Annotated[
        Path,
        argument(
            "MODEL",
            "For huggingface, a folder with config.json, model.safetensors (or "
            "pytorch_model.bin), source.spm, target.spm and vocab.json, such as those of OPUS-MT; "
            "or with sentencepiece.bpe.model, such as those of M2M100 and NLLB. "
            "For marian, model.npz or model.bin, beside which a decoder.yml of its name names the "
            "vocabularies; or that decoder.yml, or its folder, such as a package of OPUS-MT.",
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
        "source.spm and target.spm. Give it twice if source and target have their own.",
        metavar="FILE.spm",
        shown="as decoder.yml says",
    ),
    quiet: Quiet = False,
) -> None:
    """Write a model of another toolkit as a model file.

    You can then translate with it, average, score and export it like your own models. Neither the
    other toolkit nor its libraries are needed, and no code in its files is executed.
    """
    if form not in _FORMATS:
        raise UsageError(f"unknown format {form!r}{did_you_mean(form, _FORMATS)}")
    target = check_new_file(out)
    if form == "huggingface":
        from nmt.interchange.importers.huggingface import import_huggingface

        if vocab:
            raise UsageError("--vocab is for marian; a folder of huggingface has its vocabularies")
        card = import_huggingface(source, target, src_lang=src, tgt_lang=tgt, positions=positions)
    else:
        from nmt.interchange.importers.marian import import_marian

        if positions is not None:
            raise UsageError("--positions has no meaning for marian; leave it out")
        card = import_marian(source, target, src_lang=src, tgt_lang=tgt, vocabularies=vocab)
    pair = " to ".join(lang or "any language" for lang in (card.src_lang, card.tgt_lang))
    count = len(card.languages.pieces) if card.languages is not None else 0
    known = f", with a choice of {count} languages" if count else ""
    console.notice(f"{out}: {source}, {pair}{known}, {len(card.tgt_vocabulary):,} pieces")

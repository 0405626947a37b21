"""Models of Hugging Face: a folder of `MarianMTModel` or M2M100 to a model file.

Neither transformers nor its tokenizers are needed, and no code from the folder is executed.
"""

from __future__ import annotations

from pathlib import Path

from nmt.errors import UsageError
from nmt.interchange.importers import huggingface_settings as settings
from nmt.interchange.importers.huggingface_files import Config, open_weights
from nmt.interchange.importers.m2m100 import choose_languages, read_m2m100
from nmt.interchange.importers.marian_mt import languages_of, read_marian_mt
from nmt.interchange.importers.model_import import write_imported


def import_huggingface(
    folder: Path, out: Path, *, src_lang: str | None, tgt_lang: str | None, positions: str | None
) -> None:
    """Write a folder's model as a model file.

    positions: the formula of sinusoids of a `MarianMTModel`, `marian` or `huggingface`; None:
        Hugging Face's if `nmt export` has written the folder with it. Else Marian's, because Marian
        has trained the models of OPUS-MT.
    DataError if a file is missing or damaged. UsageError if our Transformer cannot be this model,
    or a language is not known.
    """
    (path, values), *_ = settings.settings_of(folder)
    hf_config, model_type = Config(path, values), settings.model_type_of(path, values)
    if model_type != settings.MARIAN and positions is not None:
        raise UsageError("--positions is for MarianMT; leave it out")
    weights = open_weights(folder)
    if model_type == settings.MARIAN:
        model = read_marian_mt(folder, hf_config, weights, positions)
        langs = languages_of(folder, src_lang, tgt_lang)
    else:
        model = read_m2m100(folder, hf_config, weights)
        langs = choose_languages(folder, model, src_lang, tgt_lang)
    settings.check_search(folder, model.tgt.produced())
    model = model._replace(langs=langs, max_src_tokens=_max_src_tokens(folder, hf_config))
    write_imported(out, folder, model, weights.of, weights.unread)


def _max_src_tokens(folder: Path, hf_config: Config) -> int:
    """Return the longest source without eos, by the tokenizer or else by the positions."""
    limit = hf_config.number("max_position_embeddings")
    length = settings.read_if_there(folder / settings.TOKENIZER).get("model_max_length")
    return max(1, (min(length, limit) if type(length) is int else limit) - 1)

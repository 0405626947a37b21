"""The model file: weights, configuration and vocabularies in one file, enough to translate.

Checkpoints, averaged models and the models of a run folder have this format. A model file needs
neither its data folder nor its recipe. Its card is read without torch.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from nmt.config.model_config import AttentionHead, ModelConfig, TransformerConfig
from nmt.config.recipes import model_config_from
from nmt.data.language_tokens import OPTIONS, Langs, LanguageTokens, Wanted, check_only
from nmt.data.manifest import FILE_NAME, build_value, read_info
from nmt.data.moses import STEPS, Moses
from nmt.data.pieces import PieceModel
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError, NMTError, UsageError
from nmt.models.tensor_file import TensorFile, write_tensors
from nmt.system.files import IMPORTED, refuse_pointer

if TYPE_CHECKING:
    from torch import Tensor

    from nmt.models.base import TranslationModel

KIND = "a model file"
CARD = "card.safetensors"  # the name of one without weights, in an export
RUN_MODELS = "best.safetensors", "last.safetensors"  # in a run folder, the first that is there
FORMAT_VERSION = 3
_WEIGHT = "weights/"
_SRC_VOCABULARY, _TGT_VOCABULARY = "vocabulary/src", "vocabulary/tgt"


@dataclass(frozen=True)
class ModelCard:
    architecture: str
    config: ModelConfig
    src_lang: str
    tgt_lang: str
    src_vocabulary: Vocabulary
    tgt_vocabulary: Vocabulary
    max_src_tokens: int  # longest training source, without eos
    data: str  # fingerprint of the data folder
    update: int  # of the weights; of an average, that of the newest one
    valid: dict[str, float]  # validation scores of these weights, if any
    languages: LanguageTokens | None = None  # of a model of several languages
    window: int = 1  # the most lines of a document that it was trained to read together
    alignment_head: AttentionHead | None = None  # trained to show alignments, if one is
    reads_annotations: bool = False  # whether training sources had some
    whole_src_tokens: int = 0
    """Lines of several sentences are split if they have more tokens; 0: not known."""

    def for_pair(self, src_lang: str | None = None, tgt_lang: str | None = None) -> ModelCard:
        """Return the card for a pair of languages, whose tokens begin lines; None: the card's own.

        UsageError if the model does not know a language, or needs one that is not given.
        """
        own, given = (self.src_lang, self.tgt_lang), (src_lang, tgt_lang)
        langs = _choose(self.languages, own, given)
        if self.languages is None:
            return self
        src, tgt = self.languages.begin((self.src_vocabulary, self.tgt_vocabulary), langs)
        pair = dataclasses.replace(self, src_lang=langs[0], tgt_lang=langs[1])
        return dataclasses.replace(pair, src_vocabulary=src, tgt_vocabulary=tgt)

    def build(self) -> TranslationModel:
        from nmt.models.registry import build_model

        sizes = len(self.src_vocabulary), len(self.tgt_vocabulary)
        return build_model(self.architecture, self.config, *sizes)

    @property
    def vocabulary_bytes(self) -> int:
        """Bytes of the SentencePiece models in the file; a shared one counts once."""
        return sum(map(len, {self.src_vocabulary.model, self.tgt_vocabulary.model}))

    def differences(self, other: ModelCard) -> list[str]:
        """Return the differences that prevent averaging the two models."""
        differences = []
        names = ["architecture", "window", "reads_annotations"]
        if self.languages != other.languages:
            differences.append("other languages")
        elif self.languages is None:  # else both translate any pair of theirs
            names += ["src_lang", "tgt_lang"]
        for name in names:
            if getattr(self, name) != getattr(other, name):
                differences.append(f"{name} {getattr(self, name)} and {getattr(other, name)}")
        if type(self.config) is type(other.config):
            for spec in dataclasses.fields(self.config):
                mine, theirs = getattr(self.config, spec.name), getattr(other.config, spec.name)
                if mine != theirs:
                    differences.append(f"{spec.name} {mine} and {theirs}")
        for side in ("src_vocabulary", "tgt_vocabulary"):
            mine, theirs = getattr(self, side), getattr(other, side)
            if (mine.model, mine.moses) != (theirs.model, theirs.moses):
                differences.append(f"another {side.replace('_', ' ')}")
        return differences


_HEADER = {
    name: kind
    for name, kind in get_type_hints(ModelCard).items()
    if name not in ("src_vocabulary", "tgt_vocabulary")
} | {"config": dict[str, Any], "moses": dict[str, bool]}
"""The values of the header. Their types are checked, because the file may be from a stranger."""
_LEAST = {"max_src_tokens": 1, "window": 1, "whole_src_tokens": 0}


def write_model(path: Path, card: ModelCard, weights: dict[str, Tensor]) -> None:
    """Write a model file whole or not at all; tied weights are in `weights` once."""
    tensors = {_WEIGHT + name: weight for name, weight in weights.items()}
    tensors[_SRC_VOCABULARY] = _bytes_tensor(card.src_vocabulary.model)
    if card.tgt_vocabulary.model != card.src_vocabulary.model:
        tensors[_TGT_VOCABULARY] = _bytes_tensor(card.tgt_vocabulary.model)
    header = {name: getattr(card, name) for name in _HEADER if name != "moses"}
    for name in ("config", "languages", "alignment_head"):
        header[name] = header[name] and dataclasses.asdict(header[name])
    rules = card.src_vocabulary.moses
    # Earlier releases read the first two only.
    first = {"normalize": rules.normalize, "tokenize": rules.tokenize} if rules else {}
    header["moses"] = first | dict.fromkeys(rules.steps if rules else (), True)
    write_tensors(path, tensors, header, kind=KIND, version=FORMAT_VERSION)


class ModelReader:
    """An open model file: its card, and weights read one at a time."""

    def __init__(self, path: Path) -> None:
        """Open a model file and check all of it (DataError)."""
        self._file = _open(path, verify=True)
        self.path = path
        self.card = _read_card(self._file)
        self.weight_names = [
            name.removeprefix(_WEIGHT) for name in self._file.names if name.startswith(_WEIGHT)
        ]

    def weight(self, name: str) -> Tensor:
        return self._file.read(_WEIGHT + name)


def _read_header(file: TensorFile) -> dict[str, Any]:
    """Return the values of a model file's header; DataError if one does not fit."""
    header = {}
    for name in sorted(_HEADER.keys() | file.header.keys()):
        try:
            header[name] = build_value(_HEADER[name], file.header[name], name)
            is_wrong = name in _LEAST and header[name] < _LEAST[name]
        except (ValueError, KeyError):
            is_wrong = True
        if is_wrong:
            raise _damaged(file.path, name)
    return header


def _read_card(file: TensorFile) -> ModelCard:
    header = _read_header(file)
    src_vocabulary, tgt_vocabulary = _read_vocabularies(file, header)
    config = model_config_from(header["architecture"], header["config"], str(file.path))
    head: AttentionHead | None = header["alignment_head"]
    heads = config.num_heads if isinstance(config, TransformerConfig) else 0
    if head is not None and not (0 <= head.head < heads and head.from_top >= 0):
        raise _damaged(file.path, "alignment_head")
    del header["moses"]
    return ModelCard(
        **header | {"config": config}, src_vocabulary=src_vocabulary, tgt_vocabulary=tgt_vocabulary
    )


def _choose(tokens: LanguageTokens | None, own: Langs, given: Wanted) -> Langs:
    if tokens is not None:
        return tokens.choose(own, given)
    for known, lang, option in zip(own, given, OPTIONS, strict=True):
        check_only(known, lang, option)
    return own


def choose_languages(path: Path, src_lang: str | None, tgt_lang: str | None) -> Langs:
    """Return the languages that --from and --to mean for a model file, by its header (UsageError).

    That takes no time.
    """
    header = _read_header(_open(path))
    own = header["src_lang"], header["tgt_lang"]
    return _choose(header["languages"], own, (src_lang, tgt_lang))


def reads_annotations(path: Path) -> bool:
    """Whether a model was trained to read annotations in sources, by its file's header."""
    return bool(_read_header(_open(path))["reads_annotations"])


def check_context(path: Path, context: int) -> None:
    """Check that a model was trained to read so many lines before a line (UsageError)."""
    if type(context) is not int or context < 0:
        raise UsageError(f"context {context!r}: must be a whole number, 0 or more")
    window = _read_header(_open(path))["window"]
    if context and window == 1:
        raise UsageError(
            f"--context {context}: {path} was trained on single lines; train on data that was "
            "prepared with --documents"
        )
    if context >= window > 1:
        raise UsageError(
            f"--context {context}: {path} was trained with at most {window - 1} lines before a "
            f"line; give --context {window - 1} or less"
        )


def _damaged(path: Path, name: str) -> DataError:
    return DataError(f"{path}: damaged: its header is not a model's, such as {name!r}")


def _read_vocabularies(file: TensorFile, header: dict[str, Any]) -> tuple[Vocabulary, Vocabulary]:
    rules = header["moses"]
    if rules and not {"normalize", "tokenize"} <= rules.keys() <= {*STEPS}:
        raise _damaged(file.path, "moses")

    def read(name: str, lang: str) -> Vocabulary:
        model = file.read_bytes(name)
        try:
            return Vocabulary(model, Moses(header[lang], **rules) if rules else None)
        except DataError as error:
            raise DataError(f"{file.path}: damaged: {name}: {error}") from None

    src, shared = read(_SRC_VOCABULARY, "src_lang"), _TGT_VOCABULARY not in file.names
    if shared and not rules:
        return src, src
    return src, read(_SRC_VOCABULARY if shared else _TGT_VOCABULARY, "tgt_lang")


def find_model(path: Path) -> Path:
    """Return the model file of a path: itself, or a run folder's best, else its last (NMTError)."""
    if not path.is_dir():
        try:
            path.lstat()
        except FileNotFoundError:
            is_of_hub = len(path.parts) == 2 and not path.parent.exists()
            hint = f"; if Hugging Face has it, hf download {path} --local-dir {path.name}"
            raise DataError(f"{path}: no such file or folder{hint * is_of_hub}") from None
        return path
    for name in RUN_MODELS:
        if (path / name).is_file():
            return path / name
    if (path / "dataset.json").is_file():
        raise UsageError(
            f"{path}: is a data folder; give the run folder of `nmt train`, or a model"
        )
    if (path / "config.toml").is_file():
        raise NMTError(f"{path}: no model yet; `nmt train` writes one at its first validation")
    raise NMTError(
        f"{path}: no model in this folder; it should hold best.safetensors. `nmt import` reads "
        "folders of Hugging Face and of Marian"
    )


def model_checksum(path: Path) -> str:
    """Return the recorded checksum of a model file, or of a run folder's (NMTError)."""
    return _open(find_model(path)).checksum


def read_card(path: Path) -> ModelCard:
    """Read the card of a model file (DataError), without torch."""
    return _read_card(_open(path, verify=True))


def read_vocabularies(path: Path) -> tuple[tuple[Vocabulary, ...], LanguageTokens | None]:
    """Read the vocabularies of a model file, a run or data folder, or a SentencePiece model.

    Returns one that both sides share, or the source's and the target's; and the tokens of a model
    of several languages. A SentencePiece model gets our special ids. DataError if it is none of
    them, or damaged.
    """
    if path.is_dir() or path.suffix == ".safetensors":
        if (path / FILE_NAME).is_file():
            from nmt.data.folder import load_vocabularies  # loads NumPy

            info = read_info(path)
            (src, tgt), languages = load_vocabularies(path, info), info.languages
        else:
            card = read_card(find_model(path))
            src, tgt, languages = card.src_vocabulary, card.tgt_vocabulary, card.languages
        return ((src,) if src.model == tgt.model else (src, tgt)), languages
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    refuse_pointer(path, content)
    try:
        return (Vocabulary(PieceModel.read(content).renumbered().write()),), None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _open(path: Path, *, verify: bool = False) -> TensorFile:
    try:
        file = TensorFile(path, kind=KIND, version=FORMAT_VERSION)
        if verify:
            file.verify()
    except DataError as error:
        if path.name.startswith(IMPORTED):
            raise DataError(f"{error}; delete this file, and it is made again") from None
        raise
    return file


def load_model(path: Path) -> tuple[TranslationModel, ModelCard]:
    """Load a model file, or a run folder's, in fp32 on the CPU; DataError if it is damaged."""
    from nmt.models.registry import shapes_only

    reader = ModelReader(find_model(path))
    with shapes_only():  # the initial weights would be replaced anyway
        model = reader.card.build()
    expected = {name: (tuple(w.shape), w.dtype) for name, w in model.named_parameters()}
    weights = {name: reader.weight(name) for name in reader.weight_names}
    shapes = {name: (tuple(weight.shape), weight.dtype) for name, weight in weights.items()}
    if shapes != expected:
        different = min(name for name, _ in shapes.items() ^ expected.items())
        raise DataError(
            f"{reader.path}: damaged: its weights do not fit its configuration, such as "
            f"{different!r}"
        )
    _assign(model, weights)
    return model, reader.card


def _assign(model: TranslationModel, weights: dict[str, Tensor]) -> None:
    """Replace a model's parameters by weights; tied ones stay tied."""
    from torch.nn import Parameter

    replaced = {id(p): Parameter(weights[n]) for n, p in model.named_parameters()}
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, replaced[id(parameter)])


def _bytes_tensor(data: bytes) -> Tensor:
    import torch

    return torch.frombuffer(bytearray(data), dtype=torch.uint8)

"""What cuts text into the subwords of a dictionary: codes, a SentencePiece model, or spaces.

fairseq, OpenNMT-py, JoeyNMT and Sockeye keep a list of subwords with a model, but not the program
that made them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt.config.model_config import TransformerConfig
from nmt.data.moses import moses_rules
from nmt.data.pieces import SPECIAL, Kind, PieceModel
from nmt.data.vocabulary import UNK_ID, Vocabulary, read_parsed
from nmt.errors import UsageError
from nmt.interchange.importers import model_import
from nmt.interchange.importers.bpe_codes import SPACE, basis, is_bpe_codes, model_of_codes
from nmt.system.files import read_file

_MANY = 0.1  # of the subwords
_FEWEST = 0.65
"""Of the subwords of a dictionary, which its own segmenter makes.

Of models with 1,000 and 8,000 pieces of English, German, French, Chinese and Japanese, the right
one makes 93 to 100 %: others are characters that it has not learnt. That of another language makes
48 % at most, unigrams instead of BPE 41 to 60 % (79 % in Chinese), and codes of spaces marked
otherwise 17 %. A larger model of the same language and kind makes over 90 %, so it is not noticed.
"""


class ImportOptions(NamedTuple):
    """What the user says of a model."""

    langs: tuple[str, str]
    """Source and target; "" if its files name it."""
    segmenters: Sequence[Path] = ()
    """Codes or SentencePiece models, one for both sides or one for each."""
    moses: Sequence[str] = ()
    """The steps of Moses' scripts that come before."""

    def with_langs(self, path: Path, *named: object) -> ImportOptions:
        """Return them with the languages that files name, if the user has not.

        path: of the model, for messages.
        named: source and target, if the files say so.
        UsageError if nobody names them, or if the model translates the other way.
        """
        src, tgt = (one or other for one, other in zip(self.langs, named or ("", ""), strict=True))
        if not (src and tgt and isinstance(src, str) and isinstance(tgt, str)):
            raise UsageError(f"{path}: does not name its languages; give --src and --tgt")
        if named and named[0] != named[1] and (src == named[1] or tgt == named[0]):
            raise UsageError(
                f"{path}: translates {named[0]} to {named[1]}; leave out --src and --tgt"
            )
        return self._replace(langs=(src, tgt))


class Dictionary(NamedTuple):
    """The subwords of a side."""

    path: Path
    """For messages."""
    texts: Mapping[int, str]
    """The subword of each foreign id that has one."""
    special: Mapping[int, int]
    """The foreign id for each of our special ids."""


def with_sides(
    config: TransformerConfig,
    sides: Sequence[Dictionary],
    options: ImportOptions,
    *,
    is_joint: bool,
    takes_apart: bool = False,
    controls: Collection[str] = (),
) -> model_import.ForeignModel:
    """Return a model with our ids for those of the dictionaries of source and target.

    config: it gets a bias of the output if some of our ids have no row.
    options: with languages; without segmenters, lines are subwords, parted by spaces.
    is_joint: whether the sides share their embeddings.
    takes_apart: whether subwords that a dictionary lacks are taken apart. Otherwise they are
        unknown.
    controls: the pieces that are never text, such as tags.
    DataError if a segmenter is none. UsageError if there are too few, if one is not that of
    the dictionary, or if steps of Moses lack what they are a part of.
    """
    for step in ("escape", "aggressive"):
        if step in options.moses and "tokenize" not in options.moses:
            raise UsageError(f"--moses-{step} is a part of --moses-tokenize; add it")
    (src, tgt), segmenters = sides, options.segmenters
    given = [segmenters[0], segmenters[-1]] if segmenters else [None, None]
    are_pieces = [one is not None and not is_bpe_codes(read_file(one)) for one in given]
    if is_joint and given[0] != given[1] and not all(are_pieces):
        raise UsageError(f"{src.path}: the model shares its embeddings; give --vocab once")
    if is_joint and src.texts != tgt.texts:
        raise UsageError(
            f"{src.path}: differs from {tgt.path.name}, but the model shares its embeddings; do "
            "--src and --tgt name its languages?"
        )
    if is_joint and all(are_pieces):
        models = [model_import.read_pieces(path) for path in dict.fromkeys(segmenters)]
        both = model_import.map_vocabulary(models, src.texts, src.special, controls=controls)
        mappings = [both, both]
    else:
        mappings = [
            _map_subwords(side, segmenter, controls, takes_apart=takes_apart)
            for side, segmenter in zip(sides, given, strict=True)
        ]
    for side, mapping, segmenter in zip(sides, mappings, given, strict=True):
        if segmenter is not None:
            _check_segmenter(side.path, mapping, segmenter)
    with_rules = [
        one._replace(vocabularies=tuple(Vocabulary(each.model, rules) for each in one.vocabularies))
        for one, rules in zip(mappings, moses_rules(options.langs, options.moses), strict=True)
    ]
    config = replace(config, output_bias=config.output_bias or bool(mappings[1].barred))
    return model_import.ForeignModel(config, with_rules[0], with_rules[1], options.langs)


def _check_segmenter(path: Path, mapping: model_import.VocabularyMapping, segmenter: Path) -> None:
    """Check that a segmenter makes the subwords of a dictionary (UsageError)."""
    start, end = len(SPECIAL), mapping.vocabularies[0].known
    pieces = (PieceModel.read(one.model).pieces[start:end] for one in mapping.vocabularies)
    by_id = zip(*pieces, strict=True)
    kinds = [{piece.kind for piece in of_id} - {Kind.CONTROL} for of_id in by_id]
    count, made = len(kinds) - kinds.count(set()), sum(not kind <= {Kind.UNUSED} for kind in kinds)
    if made < _FEWEST * count:
        raise UsageError(
            f"{segmenter}: makes only {made:,} of the {count:,} subwords of {path}; is it that of "
            "the other side, or of another model?"
        )


def _map_subwords(
    side: Dictionary, segmenter: Path | None, controls: Collection[str], *, takes_apart: bool
) -> model_import.VocabularyMapping:
    path, texts, special = side
    if segmenter is not None and not is_bpe_codes(read_file(segmenter)):
        models = [model_import.read_pieces(segmenter)]
        mapping = model_import.map_vocabulary(models, texts, special, controls=controls)
        return _taking_apart(mapping) if takes_apart else mapping
    rows = [row for row in range(max(texts) + 1) if row not in special.values()]
    listed = [texts.get(row, f"<row {row}>") for row in rows]
    if segmenter is not None:
        as_listed = partial(model_of_codes, listed=listed, takes_apart=takes_apart)
        model = read_parsed(segmenter, as_listed)
    elif sum(text.startswith(SPACE) for text in listed) > _MANY * len(listed):
        raise UsageError(
            f"{path}: has pieces of SentencePiece; give the model that made them: --vocab spm.model"
        )
    else:
        model = basis().of_words(listed).write()
    vocabulary = Vocabulary(model)
    unknown = range(vocabulary.known, len(vocabulary))
    all_rows = [*(special[id_] for id_ in SPECIAL), *rows, *(special[UNK_ID] for _ in unknown)]
    return model_import.VocabularyMapping((vocabulary,), np.array(all_rows), tuple(unknown))


def _taking_apart(mapping: model_import.VocabularyMapping) -> model_import.VocabularyMapping:
    """Return ids of a SentencePiece model that takes apart what the dictionary lacks.

    As by its `SetVocabulary`, only single letters are not.
    """
    (vocabulary,) = mapping.vocabularies
    model = PieceModel.read(vocabulary.model)
    pieces = [
        piece._replace(kind=Kind.UNUSED)
        if id_ > vocabulary.known and piece.kind is Kind.NORMAL and len(piece.text) > 1
        else piece
        for id_, piece in enumerate(model.pieces)
    ]
    return mapping._replace(vocabularies=(Vocabulary(model.with_only(pieces).write()),))

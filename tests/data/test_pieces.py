"""SentencePiece models keep their segmentation when their pieces are put in another order."""

from typing import Any

import pytest
import sentencepiece
from foreign_models import learn_pieces, text

from nmt.data.pieces import Kind, Piece, PieceModel
from nmt.data.vocabulary import READ_AS_UNK, STRANGE, UNK_ID, Vocabulary

LINES = [*text("source", 20), "", "  a b", "ß?? c", "ABC\u00a0d"]


def segmented(model: bytes, lines: list[str]) -> list[list[str]]:
    """The pieces of lines, by SentencePiece itself; unknown ones as they stand in the line."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.encode(line, out_type=str) for line in lines]


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_what_is_read_and_written_is_the_same_model(model_type: str) -> None:
    model = learn_pieces("source", model_type)
    read = PieceModel.read(model)
    assert (read.write(), read.is_bpe) == (model, model_type == "bpe")
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert [piece.text for piece in read.pieces] == [
        processor.id_to_piece(id_) for id_ in range(len(processor))
    ]
    scores = [processor.get_score(id_) for id_ in range(len(processor))]
    assert [piece.score for piece in read.pieces] == pytest.approx(scores)


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
@pytest.mark.parametrize(
    "settings", [{}, {"byte_fallback": True, "vocab_size": 350}, {"unk_id": 7}]
)
def test_a_renumbered_model_segments_alike(model_type: str, settings: dict[str, Any]) -> None:
    model = learn_pieces("source", model_type, **settings)
    renumbered = PieceModel.read(model).renumbered().write()
    assert segmented(renumbered, LINES) == segmented(model, LINES)
    vocabulary = Vocabulary(renumbered)  # which needs our special ids
    assert vocabulary.tokens(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
    # With our ids, nothing is left to do.
    assert PieceModel.read(renumbered).renumbered().write() == renumbered


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_pieces_of_the_other_side_do_not_change_the_segmentation(model_type: str) -> None:
    src, tgt = (PieceModel.read(learn_pieces(side, model_type)) for side in ("source", "target"))
    texts = [*dict.fromkeys([*src.own, *tgt.own])]
    joint = src.reordered(texts, {READ_AS_UNK}).write()
    assert segmented(joint, LINES) == segmented(src.write(), LINES)
    vocabulary = Vocabulary(joint)
    assert vocabulary.tokens(range(4, len(vocabulary))) == [
        piece if piece in src.own or model_type == "unigram" else STRANGE + piece for piece in texts
    ]
    # A character that only the other side has is its piece, as in a joint list of pieces.
    (ids,) = vocabulary.encode(["aßb"])
    assert "ß" in "".join(vocabulary.tokens(ids)) and UNK_ID not in ids


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_added_pieces_leave_the_others_as_they_are(model_type: str) -> None:
    model = PieceModel.read(learn_pieces("source", model_type)).renumbered()
    longer = model.with_pieces(
        [Piece("<BT>", kind=Kind.USER_DEFINED), Piece(">>bar<<", kind=Kind.CONTROL)]
    )
    assert longer.extends(model) and model.extends(model)
    assert not model.extends(longer)
    vocabulary, before = Vocabulary(longer.write()), Vocabulary(model.write())
    assert len(vocabulary) == len(before) + 2
    assert vocabulary.encode(LINES) == before.encode(LINES)
    assert vocabulary.encode([">>bar<<ab"]) == [[len(before) + 1, *before.encode(["ab"])[0]]]
    assert len(before) in vocabulary.encode(["<BT> ab"])[0]


def test_a_model_with_other_rules_or_another_score_is_another_model() -> None:
    models = [
        PieceModel.read(learn_pieces("source", "bpe", normalization_rule_name=rule))
        for rule in ("identity", "nmt_nfkc_cf")
    ]
    assert models[0].pieces == models[1].pieces
    assert not models[0].extends(models[1])
    *first, last = models[0].pieces
    pieces = (*first, Piece(last.text, last.score - 1))
    assert not PieceModel(pieces, models[0].trainer, models[0].rest).extends(models[0])

#!/usr/bin/env bash
# tokenizers 0.23.3 and sentencepiece 0.2.3: a unigram model of SentencePiece, opened by
# SentencePieceUnigramTokenizer.from_spm.
#
# Expected: the same tokens from both. SentencePiece drops spaces at both ends of a line and doubled
# ones within, by default, and says so in the model.
#
# Seen: tokenizers drops them at the start and within, but not at the end. A line that ends in a space
# has one token more, a space by itself, which the model hardly saw in training.
#
# What it means for translation: strip lines before you give them to a model that was trained with
# SentencePiece and is served with tokenizers.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tokenizers==0.23.3 sentencepiece==0.2.3 protobuf==7.36.2
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

# from_spm looks for it under this name.
sys.modules["sentencepiece_model_pb2"] = sentencepiece_model_pb2
from tokenizers import SentencePieceUnigramTokenizer  # noqa: E402

sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(["the house", "a house", "the old river", "by the old house"] * 20),
    model_prefix="model",
    vocab_size=18,
    minloglevel=2,
)
ours = sentencepiece.SentencePieceProcessor(model_file="model.model")
theirs = SentencePieceUnigramTokenizer.from_spm("model.model")
assert ours.encode("the house ", out_type=str)[-1] != "▁", "changed"
for text, extra in (("the house", []), (" the house", []), ("the  house", []), ("the house ", ["▁"])):
    expected, found = ours.encode(text, out_type=str), theirs.encode(text).tokens
    print(f"{text!r}: sentencepiece {expected}, tokenizers {found}")
    assert found == expected + extra, "changed"
PYTHON

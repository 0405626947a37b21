#!/usr/bin/env bash
# SentencePiece 0.2.1: models that mark the space behind a word, by `--treat_whitespace_as_suffix`.
#
# Expected: encoding adds a mark that the text does not have, and decoding takes it away again, as it
# does in models that mark the space before a word.
#
# Seen: decoding gives `the dog ` for `the dog`, with a space at the end. Models with marks before
# words give `the dog`. It is so for BPE and for unigram, from ids and from pieces.
#
# What it means: whoever turns codes of subword-nmt, whose marks stand behind words, into such a model
# gets lines with a space at their end, which no longer equal their references.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sentencepiece==0.2.1

"$folder/venv/bin/python" - <<'PYTHON'
import io

import sentencepiece

TEXT = ["the dog sees the cat", "the cats see a dog", "a dog and a cat"] * 30
for kind in ("bpe", "unigram"):
    for is_suffix, expected in ((False, "the dog"), (True, "the dog ")):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXT),
            model_writer=model,
            vocab_size=30,
            model_type=kind,
            treat_whitespace_as_suffix=is_suffix,
            hard_vocab_limit=False,
            minloglevel=9,
        )
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        pieces = processor.encode("the dog", out_type=str)
        decoded = processor.decode(processor.encode("the dog")), processor.decode_pieces(pieces)
        print(kind, pieces, decoded)
        assert decoded == (expected, expected), "changed"
PYTHON

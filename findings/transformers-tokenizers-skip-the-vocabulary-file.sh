#!/usr/bin/env bash
# transformers 5.24.0: tokenizers of T5 and Llama from a SentencePiece model of your own.
#
# Expected: LlamaTokenizer(vocab_file=MODEL) and T5Tokenizer(vocab_file=MODEL) read the model, as
# they did in version 4, and as from_pretrained does with a folder that holds the same file. Or an
# error says that they no longer do.
#
# Seen: the argument is taken, and the file is not read. No line warns you. Llama's has 3 tokens and
# makes nothing of any text. T5's has 104, and each word is unknown.
#
# What it means for a model with a SentencePiece vocabulary: put the file into a folder under the name
# that the class looks for, and load that. A script for version 4 runs on, and trains on nothing.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 sentencepiece==0.2.3 protobuf==7.36.2
cd "$folder"

venv/bin/python - <<'PYTHON'
import shutil
from pathlib import Path

import sentencepiece
from transformers import LlamaTokenizer, T5Tokenizer

TEXT = "the house by the river"
for kind, Tokenizer, name, size, tokens in (
    ("bpe", LlamaTokenizer, "tokenizer.model", 3, []),
    ("unigram", T5Tokenizer, "spiece.model", 104, ["▁", "the", "▁", "house", "▁", "by", "▁"]),
):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([TEXT, "a house", "the old river", "by the old house"] * 20),
        model_prefix=kind,
        model_type=kind,
        vocab_size=18,
        minloglevel=2,
    )
    expected = sentencepiece.SentencePieceProcessor(model_file=f"{kind}.model").encode(
        TEXT, out_type=str
    )
    Path(kind).mkdir()
    shutil.copy(f"{kind}.model", Path(kind, name))
    from_folder = Tokenizer.from_pretrained(kind)
    from_file = Tokenizer(vocab_file=f"{kind}.model")
    print(f"{Tokenizer.__name__}: SentencePiece {expected}")
    print(f"  from the folder: {from_folder.tokenize(TEXT)}")
    print(f"  from the file, {from_file.vocab_size} tokens: {from_file.tokenize(TEXT)}")
    assert from_folder.tokenize(TEXT) == expected, "changed"
    assert from_file.vocab_size == size, "changed"
    assert from_file.tokenize(TEXT)[:7] == tokens, "changed"
PYTHON

"""Segment the toy's text for both models: see make.sh."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import sentencepiece
from sacremoses import MosesTokenizer
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

SPLITS = {"train": 16_000, "valid": 500, "test": 250}
LINES = 200  # that are recorded


def lines_of(split: str, lang: str) -> list[str]:
    return Path(f"text/{split}.{lang}").read_text(encoding="utf-8").splitlines()[: SPLITS[split]]


def write(name: str, lines: Sequence[str]) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main() -> None:
    tokens = {
        (split, lang): [
            MosesTokenizer(lang).tokenize(line, return_str=True, escape=False)
            for line in lines_of(split, lang)
        ]
        for split in SPLITS
        for lang in ("en", "de")
    }
    both = "\n".join(tokens["train", "en"] + tokens["train", "de"])
    with Path("codes.bpe").open("w+", encoding="utf-8") as codes:
        learn_bpe(io.StringIO(both), codes, 500)
        codes.seek(0)
        bpe = BPE(codes)
    for (split, lang), lines in tokens.items():
        write(f"post.{split}.{lang}", [bpe.process_line(line) for line in lines])
    for lang in ("en", "de"):
        sentencepiece.SentencePieceTrainer.train(
            input=f"text/train.{lang}", model_prefix=f"spm.{lang}", vocab_size=300
        )
        pieces = sentencepiece.SentencePieceProcessor(model_file=f"spm.{lang}.model")
        for split in SPLITS:
            cut = pieces.encode(lines_of(split, lang), out_type=str)
            write(f"pre.{split}.{lang}", [" ".join(line) for line in cut])


if __name__ == "__main__":
    main()

"""Segment the toy's text for both models: see make.sh."""

from pathlib import Path

import sentencepiece
from sacremoses import MosesTokenizer
from subword_nmt.apply_bpe import BPE

LINES = {"train": 16_000, "valid": 100, "test": 200}


def main() -> None:
    with Path("codes.bpe").open(encoding="utf-8") as codes:
        bpe = BPE(codes)
    for lang in ("en", "de"):
        moses = MosesTokenizer(lang)
        pieces = sentencepiece.SentencePieceProcessor(model_file=f"spm.{lang}.model")
        for split, count in LINES.items():
            text = Path(f"text/{split}.{lang}").read_text(encoding="utf-8").splitlines()[:count]
            tokens = [moses.tokenize(line, return_str=True, escape=False) for line in text]
            for model, lines in (
                ("post", [bpe.process_line(line) for line in tokens]),
                ("pre", [" ".join(pieces.encode(line, out_type=str)) for line in text]),
            ):
                path = Path(f"{model}.{split}.{lang}")
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


main()

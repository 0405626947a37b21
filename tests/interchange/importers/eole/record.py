"""Write what the tests need of both models: see make.sh."""

import shutil
import sys
from pathlib import Path

from sacremoses import MosesTokenizer
from safetensors.torch import load_file, save_file
from sentencepiece import SentencePieceProcessor
from subword_nmt.apply_bpe import BPE

sys.path.insert(0, str(Path(__file__).parents[1] / "fairseq"))

from record import as_text
from segment import LINES, write

KINDS = {"shared": "post", "apart": "pre"}
LONGEST = 250


def pieces_of(kind: str, line: str, text: str) -> list[str]:
    """Return the pieces that a line of output has if it is segmented again."""
    if kind == "pre":
        return list(SentencePieceProcessor(model_file="spm.de.model").encode(line, out_type=str))
    tokens = MosesTokenizer("de").tokenize(line, return_str=True, escape=False)
    with Path(text, "codes.bpe").open(encoding="utf-8") as codes:
        return str(BPE(codes).process_line(tokens)).split()


def main(text: str) -> None:
    lines = Path(text, "text", "test.en").read_text(encoding="utf-8").splitlines()
    for model, kind in KINDS.items():
        folder, run = Path(model), Path(f"run-{model}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("config.json", "vocab.json"):
            shutil.copy(run / name, folder)
        # Sines are most of a file, and nothing reads them.
        weights = {
            name: tensor[:2].clone() if name.endswith(".pe.pe") else tensor
            for name, tensor in load_file(run / "model.00.safetensors").items()
        }
        save_file(weights, folder / "model.00.safetensors")
        output = Path(f"{model}.output").read_text(encoding="utf-8").splitlines()
        ended = []
        for line, translated in zip(lines, output, strict=False):
            pieces, score, _ = translated.split("\t")
            ours = as_text(kind, pieces)
            # Some run on until the limit, and have no end that was scored. Others are in pieces
            # that their text does not have, so that there is no score of the text.
            if len(pieces.split()) < LONGEST and pieces_of(kind, ours, text) == pieces.split():
                ended.append((line, ours, f"{float(score):.6f}"))
        for column, name in enumerate(("source", "output", "scores")):
            write(f"{model}/{name}.txt", [row[column] for row in ended[:LINES]])


main(sys.argv[1])

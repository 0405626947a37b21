"""Write what the tests need of both models: see make.sh."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

import sentencepiece
import torch
from sacremoses import MosesDetokenizer
from segment import LINES, lines_of, write


def as_text(model: str, pieces: str) -> str:
    """Return the text of a line of subwords."""
    if model == "post":
        words = pieces.replace("@@ ", "").split()
        return str(MosesDetokenizer("de").detokenize(words, unescape=False))
    processor = sentencepiece.SentencePieceProcessor(model_file="spm.de.model")
    return str(processor.decode(pieces.split()))


def generated(model: str, beam: int) -> tuple[list[str], list[float]]:
    """Return the lines of subwords, and the sum of the natural logs of their probabilities."""
    lines, means, counts = {}, {}, {}
    for line in Path(f"generated-{model}-{beam}").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"H-(\d+)\t(\S+)\t(.*)", line):  # the mean, to base 2
            lines[int(found[1])], means[int(found[1])] = found[3], float(found[2])
        elif found := re.match(r"P-(\d+)\t(.*)", line):  # of each subword, with eos
            counts[int(found[1])] = len(found[2].split())
    numbers = range(LINES)
    return [lines[n] for n in numbers], [math.log(2) * means[n] * counts[n] for n in numbers]


def main() -> None:
    for model in ("post", "pre"):
        folder = model
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir()
        for lang in ("en", "de"):
            shutil.copy(f"bin-{model}/dict.{lang}.txt", folder)
        for name in ["codes.bpe"] if model == "post" else ["spm.en.model", "spm.de.model"]:
            shutil.copy(name, folder)
        content = torch.load(f"run-{model}/checkpoint_last.pt")
        content["last_optimizer_state"] = None
        torch.save(content, f"{folder}/checkpoint_last.pt")
        write(f"{folder}/source.txt", lines_of("test", "en")[:LINES])
        lines, sums = generated(model, 1)
        write(f"{folder}/output.txt", [as_text(model, line) for line in lines])
        write(f"{folder}/scores.txt", [f"{value:.6f}" for value in sums])
        write(f"{folder}/beam5.txt", [as_text(model, line) for line in generated(model, 5)[0]])


if __name__ == "__main__":
    main()

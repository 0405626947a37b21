"""Write what the tests need of both models: see make.sh.

record.py FAIRSEQ      the folder of ../fairseq/make.sh
"""

import shutil
import sys
from pathlib import Path

import torch

KINDS = {"shared": "post", "apart": "pre"}
LONGEST = 250


def main(fairseq: str) -> None:
    sys.path.append(fairseq)
    from record import as_text
    from segment import LINES, lines_of, write

    for model, kind in KINDS.items():
        folder = Path(model)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        content = torch.load(f"run-{model}/model_step_1200.pt")
        del content["optim"]
        # Two thirds of the file are sines, which nothing reads.
        for name in [name for name in content["model"] if name.endswith(".pe.pe")]:
            content["model"][name] = content["model"][name][:2].clone()
        torch.save(content, folder / "model_step_1200.pt")
        output = Path(f"{model}.output").read_text(encoding="utf-8").splitlines()
        both = zip(lines_of("test", "en"), (line.split("\t") for line in output), strict=True)
        # A few run on until the limit, and have no end that was scored.
        ended = [(line, *cells) for line, cells in both if len(cells[0].split()) < LONGEST][:LINES]
        sources, pieces, scores = zip(*ended, strict=True)
        write(f"{model}/source.txt", sources)
        write(f"{model}/output.txt", [as_text(kind, line) for line in pieces])
        write(f"{model}/scores.txt", [f"{float(score):.6f}" for score in scores])


main(sys.argv[1])

"""Write what the tests need of both models: see make.sh.

record.py FAIRSEQ      the folder of ../fairseq/make.sh
"""

import shutil
import sys
from pathlib import Path

import torch

KINDS = {"shared": "post", "apart": "pre"}


def main(fairseq: str) -> None:
    sys.path.append(fairseq)
    from record import as_text
    from segment import SPLITS, write

    for model, kind in KINDS.items():
        folder = Path(model)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(Path(fairseq, kind, "source.txt"), folder)
        content = torch.load(f"run-{model}/model_step_1200.pt")
        del content["optim"]
        # Two thirds of the file are sines, which nothing reads.
        for name in [name for name in content["model"] if name.endswith(".pe.pe")]:
            content["model"][name] = content["model"][name][:2].clone()
        torch.save(content, folder / "model_step_1200.pt")
        lines = Path(f"{model}.output").read_text(encoding="utf-8").splitlines()
        cells = [line.split("\t") for line in lines[: SPLITS["test"]]]
        write(f"{model}/output.txt", [as_text(kind, pieces) for pieces, _ in cells])
        write(f"{model}/scores.txt", [f"{float(score):.6f}" for _, score in cells])


main(sys.argv[1])

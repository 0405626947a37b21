"""Write what the tests need of both models: see make.sh."""

import shutil
from pathlib import Path

import torch
from joeynmt.hub_interface import TranslatorHubInterface, _from_pretrained

LINES = 200
SEGMENTERS = {"post": ["codes.bpe"], "pre": ["spm.en.model", "spm.de.model"]}


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main() -> None:
    sources = Path("text/test.en").read_text(encoding="utf-8").splitlines()[:LINES]
    for model, segmenters in SEGMENTERS.items():
        run, folder = Path(f"run-{model}"), Path(model)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("config.yaml", "src_vocab.txt", "trg_vocab.txt", *segmenters):
            shutil.copy(run / name, folder)
        content = torch.load(run / "best.ckpt")
        content["optimizer_state"] = None
        # Two thirds of the file are sines, which nothing reads.
        for name in [name for name in content["model_state"] if name.endswith(".pe")]:
            content["model_state"][name] = content["model_state"][name][:, :2].clone()
        torch.save(content, folder / "best.ckpt")
        translator = TranslatorHubInterface(*_from_pretrained(run))
        # Of several lines, JoeyNMT would score what comes after an end.
        found = [
            translator.score([line], beam_size=1, generate_unk=False, max_output_length=200)[0]
            for line in sources
        ]
        write(folder / "source.txt", sources)
        write(folder / "output.txt", [one.translation[0] for one in found])
        write(
            folder / "scores.txt", [f"{sum(map(float, one.token_probs[0])):.6f}" for one in found]
        )


main()

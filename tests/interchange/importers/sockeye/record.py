"""Write what the tests need of both models: see make.sh."""

import shutil
from pathlib import Path

import sentencepiece
from sacremoses import MosesDetokenizer


def as_text(model: str, pieces: str) -> str:
    """Return the text of a line of subwords."""
    if model == "post":
        words = pieces.replace("@@ ", "").split()
        return str(MosesDetokenizer("de").detokenize(words, unescape=False))
    processor = sentencepiece.SentencePieceProcessor(model_file="spm.de.model")
    return str(processor.decode(pieces.split()))


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main() -> None:
    for model in ("post", "pre"):
        run, folder = Path(f"run-{model}"), Path(model)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("config", "vocab.src.0.json", "vocab.trg.0.json", "params.best"):
            shutil.copy(run / name, folder)
        output = Path(f"{model}.output").read_text(encoding="utf-8").splitlines()
        scores = Path(f"{model}.scores").read_text(encoding="utf-8").splitlines()
        sources = Path("text/test.en").read_text(encoding="utf-8").splitlines()[: len(output)]
        write(folder / "source.txt", sources)
        write(folder / "output.txt", [as_text(model, line) for line in output])
        write(folder / "scores.txt", [f"{float(score):.6f}" for score in scores])


main()

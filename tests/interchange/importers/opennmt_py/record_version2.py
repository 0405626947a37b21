"""Convert a checkpoint of version 2, and write what the tests need of it: see make_version2.sh."""

import shutil
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "fairseq"))

from record import as_text
from segment import LINES, write

RENAMED = {
    "rnn_size": "hidden_size",
    "enc_rnn_size": "enc_hid_size",
    "dec_rnn_size": "dec_hid_size",
}


def main(text: str) -> None:
    folder = Path("version2")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    # As tools/convertv2_v3.py of OpenNMT-py 3.5.1, which needs other releases of torchtext.
    content = torch.load("run/model_step_500.pt", map_location="cpu")
    fields = {side: dict(content["vocab"][side].fields)[side] for side in ("src", "tgt")}
    content["vocab"] = {side: list(field.vocab.itos) for side, field in fields.items()}
    content["vocab"].update(decoder_start_token="<s>", data_task="seq2seq")
    settings = vars(content["opt"])
    for old, new in RENAMED.items():
        settings[new] = settings.pop(old)
    settings["add_qkvbias"] = settings["add_ffnbias"] = True
    del content["optim"]
    torch.save(content, folder / "model_step_500.pt")
    sources = Path(text, "text", "test.en").read_text(encoding="utf-8").splitlines()[:LINES]
    output = Path("version2.output").read_text(encoding="utf-8").splitlines()[:LINES]
    lines = [line.split("\t") for line in output]
    write("version2/source.txt", sources)
    write("version2/output.txt", [as_text("post", pieces) for pieces, _ in lines])
    write("version2/scores.txt", [f"{float(score):.6f}" for _, score in lines])


main(sys.argv[1])

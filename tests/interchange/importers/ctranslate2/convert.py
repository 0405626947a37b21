"""Convert both models and write what the tests need of them: see make.sh."""

import math
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import ctranslate2
import sentencepiece
import torch
from ctranslate2.converters import FairseqConverter, OpenNMTPyConverter
from record import as_text
from sacremoses import MosesTokenizer
from segment import write
from subword_nmt.apply_bpe import BPE

HERE = Path(__file__).parent
FAIRSEQ, OPENNMT = HERE.parent / "fairseq", HERE.parent / "opennmt_py" / "apart"
POSITIONS = 256
load = torch.load


def load_as_it_was(path: Any, **_: object) -> Any:
    """Load a checkpoint for its converter, which knows another torch and older settings."""
    content = load(path)
    if "opt" in content:
        content["opt"].self_attn_type = "scaled-dot"  # which scaled-dot-flash computes, too
        # ../opennmt_py/record.py has left out what this formula of OpenNMT-py makes.
        for name in [name for name in content["model"] if name.endswith(".pe.pe")]:
            width = content["model"][name].shape[-1]
            steps = torch.arange(0, width, 2).float() * -(math.log(10_000.0) / width)
            angles = torch.arange(POSITIONS)[:, None] * steps.exp()
            table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
            content["model"][name] = table[:, None]
    return content


def pieces_of(model: str, lines: list[str]) -> list[list[str]]:
    """Segment lines of source text."""
    if model == "apart":
        processor = sentencepiece.SentencePieceProcessor(
            model_file=str(FAIRSEQ / "pre" / "spm.en.model")
        )
        return [processor.encode(line, out_type=str) for line in lines]
    with (FAIRSEQ / "post" / "codes.bpe").open(encoding="utf-8") as codes:
        bpe = BPE(codes)
    tokenizer = MosesTokenizer("en")
    tokens = [tokenizer.tokenize(line, return_str=True, escape=False) for line in lines]
    return [bpe.process_line(line).split() for line in tokens]


def main() -> None:
    shutil.copy(FAIRSEQ / "pre" / "spm.de.model", ".")  # which record.py takes
    of_fairseq = FairseqConverter(
        str(FAIRSEQ / "post" / "checkpoint_last.pt"), str(FAIRSEQ / "post"), "en", "de"
    )
    for model, converter, text in (
        ("post", of_fairseq, FAIRSEQ / "post"),
        ("apart", OpenNMTPyConverter(str(OPENNMT / "model_step_1200.pt")), OPENNMT),
    ):
        folder = HERE / model
        with mock.patch("torch.load", load_as_it_was):
            converter.convert(str(folder), force=True)
        shutil.copy(text / "source.txt", folder)
        sources = pieces_of(model, (text / "source.txt").read_text(encoding="utf-8").splitlines())
        translator = ctranslate2.Translator(str(folder), compute_type="float32")
        alone = {"max_batch_size": 1, "max_input_length": 0}
        results = translator.translate_batch(
            sources, beam_size=1, disable_unk=True, max_decoding_length=250, **alone
        )
        outputs = [result.hypotheses[0] for result in results]
        scores = translator.score_batch(sources, outputs, **alone)
        kind = "post" if model == "post" else "pre"
        write(f"{folder}/output.txt", [as_text(kind, " ".join(line)) for line in outputs])
        write(f"{folder}/scores.txt", [f"{sum(score.log_probs):.6f}" for score in scores])


main()

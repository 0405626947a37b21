"""A system that translates a file in its own process: load, warm up, translate, write, report.

python -m benchmarks.translation_process SYSTEM INPUT OUTPUT WARMUP SETTINGS

WARMUP is the number of lines that are translated once before, and SETTINGS are JSON. The seconds
that it prints are from text in memory to text in memory, with subword segmentation both ways. Peers
run in their own Pythons, so each function below imports what it needs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

Translate = Callable[[list[str]], list[str]]

_EXTRA_TOKENS = 50


def nmt(
    *,
    model: str,
    precision: str,
    beam_size: int,
    alpha: float,
    shortlist: str | None,
    device: str,
) -> Translate:
    """Load `nmt translate` without its command line."""
    from nmt.jobs.lines import Line
    from nmt.jobs.options import JobOptions
    from nmt.jobs.parallel import Translators
    from nmt.search.options import SearchOptions
    from nmt.translate.options import TranslationConfig

    config = TranslationConfig(
        models=(Path(model),),
        search=SearchOptions(
            beam_size=beam_size, length_penalty=alpha, length_penalty_form="power"
        ),
        shortlist=Path(shortlist) if shortlist else None,
        precision=precision,
    )
    translators = Translators.start(config, JobOptions(device=device))

    def translate(lines: list[str]) -> list[str]:
        (pool,) = translators.translate([[Line(line) for line in lines]], lambda _: None)
        return [translation.text for translation in pool]

    return translate


def marian(*, arguments: list[str], batch: int) -> Translate:
    """Load Marian's decoder."""
    import pymarian

    options = [*arguments, "--mini-batch", str(batch)]
    translate: Translate = pymarian.Translator(" ".join(options)).translate
    return translate


def ctranslate2(
    *,
    model: str,
    vocabulary: str,
    threads: int,
    beam_size: int,
    alpha: float,
    batch: int,
    device: str,
) -> Translate:
    """Load CTranslate2, whose threads each translate batches of so many tokens.

    On a GPU there is one thread. It computes in the type that the model's folder holds. A
    translation has at most 50 tokens more than the longest source: there is one limit for all
    lines.
    """
    import ctranslate2
    import sentencepiece

    translators = threads if device == "cpu" else 1
    translator = ctranslate2.Translator(
        model, device=device, inter_threads=translators, intra_threads=1
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=vocabulary)

    def translate(lines: list[str]) -> list[str]:
        tokens = processor.encode(lines, out_type=str, num_threads=threads)
        results = translator.translate_batch(
            tokens,
            beam_size=beam_size,
            length_penalty=alpha,
            max_batch_size=batch,
            batch_type="tokens",
            max_input_length=0,
            max_decoding_length=max(map(len, tokens)) + _EXTRA_TOKENS,
        )
        texts: list[str] = processor.decode([result.hypotheses[0] for result in results])
        return texts

    return translate


def transformers(
    *,
    model: str,
    vocabulary: str,
    threads: int,
    beam_size: int,
    alpha: float,
    batch: int,
    device: str,
    precision: str,
) -> Translate:
    """Load transformers' `MarianMTModel`, for batches of so many sentences of similar length.

    A translation has at most 50 tokens more than the longest source of its batch.
    """
    import sentencepiece
    import torch
    from transformers import MarianMTModel

    torch.set_num_threads(threads)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    network = MarianMTModel.from_pretrained(model).eval().to(device, dtype)
    processor = sentencepiece.SentencePieceProcessor(model_file=vocabulary)
    beams = {"early_stopping": True, "length_penalty": alpha} if beam_size > 1 else {}

    @torch.inference_mode()
    def generate(sources: list[list[int]]) -> list[str]:
        longest = max(map(len, sources))
        ids = torch.full((len(sources), longest), processor.pad_id())  # (B, S)
        for row, source in enumerate(sources):
            ids[row, : len(source)] = torch.tensor(source)
        found = network.generate(
            input_ids=ids.to(device),
            attention_mask=(ids != processor.pad_id()).long().to(device),
            num_beams=beam_size,
            do_sample=False,
            max_new_tokens=longest + _EXTRA_TOKENS,
            **beams,
        )
        texts: list[str] = processor.decode(found.tolist())  # special tokens have no text
        return texts

    def translate(lines: list[str]) -> list[str]:
        sources = processor.encode(lines, add_eos=True, num_threads=threads)
        order = sorted(range(len(lines)), key=lambda line: -len(sources[line]))
        texts = [""] * len(lines)
        for first in range(0, len(order), batch):
            chosen = order[first : first + batch]
            for line, text in zip(chosen, generate([sources[i] for i in chosen]), strict=True):
                texts[line] = text
        return texts

    return translate


SYSTEMS: dict[str, Callable[..., Translate]] = {
    system.__name__: system for system in (nmt, marian, ctranslate2, transformers)
}


def main(system: str, source: str, output: str, warmup: str, settings: str) -> None:
    """Translate the file, and print the seconds that it took."""
    lines = Path(source).read_text(encoding="utf-8").split("\n")[:-1]
    translate = SYSTEMS[system](**json.loads(settings))
    if int(warmup):
        translate(lines[: int(warmup)])
    began = time.perf_counter()
    found = translate(lines)
    seconds = time.perf_counter() - began
    # A peer may produce the subword of a line feed.
    text = "".join(line.replace("\n", " ") + "\n" for line in found)
    Path(output).write_text(text, encoding="utf-8")
    print(seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])

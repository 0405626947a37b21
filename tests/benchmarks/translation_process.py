"""A system that translates a file in its own process: load, warm up, translate, write, report.

python -m benchmarks.translation_process SYSTEM INPUT OUTPUT WARMUP SETTINGS

WARMUP is the number of lines that are translated once before, and SETTINGS are JSON. The seconds
that it prints are from text in memory to text in memory, with subword segmentation both ways. Peers
run in their own Pythons, so each function below imports what it needs.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

Translate = Callable[[list[str]], list[str]]


def nmt(*, model: str, precision: str, beam_size: int, alpha: float, device: str) -> Translate:
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
    device: str,
    batch: int,
    beam_size: int,
    alpha: float,
) -> Translate:
    """Load CTranslate2, whose threads each translate batches of so many tokens.

    On a GPU there is one thread. It computes in the type that the model's folder holds. A
    translation has at most 50 tokens more than the longest source: there is one limit for all
    lines.
    """
    import ctranslate2
    import sentencepiece

    translator = ctranslate2.Translator(
        model, device=device, inter_threads=threads if device == "cpu" else 1, intra_threads=1
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
            max_decoding_length=max(map(len, tokens), default=0) + 50,
        )
        texts: list[str] = processor.decode([result.hypotheses[0] for result in results])
        return texts

    return translate


SYSTEMS: dict[str, Callable[..., Translate]] = {
    "nmt": nmt,
    "marian": marian,
    "ctranslate2": ctranslate2,
}


def main(system: str, source: str, output: str, warmup: str, settings: str) -> None:
    """Translate the file, and print the seconds that it took."""
    lines = Path(source).read_text(encoding="utf-8").split("\n")[:-1]
    translate = SYSTEMS[system](**json.loads(settings))
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

"""CTranslate2: MODEL VOCABULARY THREADS BEAM_SIZE ALPHA BATCH_TOKENS, see `translation_process`.

MODEL is a folder of its own format, computed in the type that it holds. Each thread translates
batches of its own. A translation has at most 50 tokens more than the longest source: there is one
limit for all lines.
"""

from __future__ import annotations

import ctranslate2
import sentencepiece
from benchmarks.translation_process import Translate, serve

_EXTRA_TOKENS = 50


def load(
    model: str, vocabulary: str, threads: str, beam_size: str, alpha: str, batch_tokens: str
) -> Translate:
    translator = ctranslate2.Translator(
        model, device="cpu", inter_threads=int(threads), intra_threads=1
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=vocabulary)

    def translate(lines: list[str]) -> list[str]:
        tokens = processor.encode(lines, out_type=str, num_threads=int(threads))
        results = translator.translate_batch(
            tokens,
            beam_size=int(beam_size),
            length_penalty=float(alpha),
            max_batch_size=int(batch_tokens),
            batch_type="tokens",
            max_input_length=0,
            max_decoding_length=max(map(len, tokens)) + _EXTRA_TOKENS,
        )
        texts: list[str] = processor.decode([result.hypotheses[0] for result in results])
        return texts

    return translate


if __name__ == "__main__":
    serve(load)

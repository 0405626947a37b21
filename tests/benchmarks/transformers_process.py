"""transformers' `MarianMTModel.generate`, in batches of sentences of similar length.

FOLDER VOCABULARY THREADS BEAM_SIZE ALPHA BATCH_LINES, see `translation_process`. A translation has
at most 50 tokens more than the longest source of its batch.
"""

from __future__ import annotations

import sentencepiece
import torch
from benchmarks.translation_process import Translate, serve
from transformers import MarianMTModel

_EXTRA_TOKENS = 50


def load(
    folder: str, vocabulary: str, threads: str, beam_size: str, alpha: str, batch_lines: str
) -> Translate:
    torch.set_num_threads(int(threads))
    model = MarianMTModel.from_pretrained(folder).eval()
    processor = sentencepiece.SentencePieceProcessor(model_file=vocabulary)
    beams = {"early_stopping": True, "length_penalty": float(alpha)} if int(beam_size) > 1 else {}

    @torch.inference_mode()
    def generate(sources: list[list[int]]) -> list[str]:
        longest = max(map(len, sources))
        ids = torch.full((len(sources), longest), processor.pad_id())  # (B, S)
        for row, source in enumerate(sources):
            ids[row, : len(source)] = torch.tensor(source)
        found = model.generate(
            input_ids=ids,
            attention_mask=(ids != processor.pad_id()).long(),
            num_beams=int(beam_size),
            do_sample=False,
            max_new_tokens=longest + _EXTRA_TOKENS,
            **beams,
        )
        texts: list[str] = processor.decode(found.tolist())  # special tokens have no text
        return texts

    def translate(lines: list[str]) -> list[str]:
        sources = processor.encode(lines, add_eos=True, num_threads=int(threads))
        order = sorted(range(len(lines)), key=lambda line: -len(sources[line]))
        texts = [""] * len(lines)
        for first in range(0, len(order), int(batch_lines)):
            chosen = order[first : first + int(batch_lines)]
            for line, text in zip(chosen, generate([sources[i] for i in chosen]), strict=True):
                texts[line] = text
        return texts

    return translate


if __name__ == "__main__":
    serve(load)

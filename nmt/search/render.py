"""What is written for a line: text, text with scores, n-best lists, or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

from nmt.search.alignment import pharaoh
from nmt.search.n_best import Entry
from nmt.search.translation import Translation

Render = Callable[[int, Translation], list[str]]
"""Line number from 0 and its translation to the lines that are written for it."""


def render_text(_number: int, translation: Translation) -> list[str]:
    """Return the best translation."""
    return [translation.text]


def render_aligned(_number: int, translation: Translation) -> list[str]:
    """Return the best translation with its pairs of words; a blank line stays blank."""
    if translation.alignment is None:
        return [translation.text]
    return [f"{translation.text} ||| {pharaoh(translation.alignment.words)}"]


def render_scored(_number: int, translation: Translation) -> list[str]:
    """Return score and best translation, tab-separated."""
    return [f"{translation.score:.6f}\t{translation.text}"]


def render_n_best(number: int, translation: Translation) -> list[str]:
    """Return all translations, a line each, in the Moses form."""
    return [str(Entry(number, found.text, found.score)) for found in translation.n_best]


def render_json(number: int, translation: Translation) -> list[str]:
    """Return one line of JSON with all that is known; nmt/translate/README.md has its keys."""
    content = {"line": number} | _fields(translation)
    if translation.others:
        content["others"] = [_fields(other) for other in translation.others]
    if translation.error:
        content = {"line": number, "text": "", "error": translation.error}
    return [json.dumps(content, ensure_ascii=False, allow_nan=False)]


def _fields(translation: Translation) -> dict[str, object]:
    fields: dict[str, object] = {
        "text": translation.text,
        "score": round(translation.score, 6),
        "log_prob": round(translation.log_prob, 6),
        "tokens": translation.tokens,
        "token_log_probs": [round(log_prob, 6) for log_prob in translation.token_log_probs],
        "pieces": translation.pieces,
    }
    alignment = translation.alignment
    if alignment is not None:
        fields["src_tokens"] = alignment.src_tokens
        fields["alignment"] = alignment.positions
        fields["word_alignment"] = pharaoh(alignment.words)
        fields["attention"] = [
            [[round(weight, 4) for weight in row] for row in piece.tolist()]
            for piece in alignment.attention
        ]
    return fields


RENDERS: dict[str, Render] = {
    "text": render_text,
    "scores": render_scored,
    "n-best": render_n_best,
    "alignment": render_aligned,
    "jsonl": render_json,
}
"""By the names of the forms."""

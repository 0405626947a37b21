"""What it saves that modifier letters, such as the U+02BB of Tongan, stay in their words.

Vocabularies are learnt from NTREX-128, English and another language. To SentencePiece by itself, a
modifier letter is like a quotation mark, so the same text with U+2018 tells what it would cost.
"""

import pytest
from benchmarks.corpora import ntrex
from benchmarks.harness import publish, table

from nmt.data.vocabulary import learn_vocabulary
from nmt.data.words import MODIFIERS

pytestmark = pytest.mark.benchmark

SIZE = 4_000  # subwords
LEAST = 1_000  # modifier letters in a text of 1,997 lines
AS_SIGNS = str.maketrans(dict.fromkeys(MODIFIERS, "\u2018"))


def test_modifier_letters() -> None:
    texts = {
        code: text.decode().replace("\r\n", "\n").split("\n") for code, text in ntrex().items()
    }
    rows = []
    for code, lines in texts.items():
        letters = sum(line.count(letter) for line in lines for letter in MODIFIERS)
        if letters < LEAST:
            continue
        counts = [
            sum(map(len, learn_vocabulary([*text, *texts["eng"]], vocab_size=SIZE).encode(text)))
            for text in (lines, [line.translate(AS_SIGNS) for line in lines])
        ]
        rows.append(
            {
                "language": code,
                "modifier letters": f"{letters:,}",
                "tokens": f"{counts[0]:,}",
                "as signs": f"{counts[1]:,}",
            }
        )
        assert counts[0] < counts[1]
    publish(table(rows))

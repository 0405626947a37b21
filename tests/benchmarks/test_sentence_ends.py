"""Where `nmt translate` cuts paragraphs: the ends of sentences that it finds, in 128 languages.

The text is NTREX-128 (Federmann et al. 2022, "NTREX-128 - News Test References for MT Evaluation of
128 Languages"), one sentence a line. Two neighbouring lines are one paragraph if the English ones
part again at their boundary. Some translators left the full stops out.
"""

import pytest
from benchmarks.corpora import ntrex
from benchmarks.harness import by_share, publish, table

from nmt.data.words import INVISIBLE, ends_with_stop
from nmt.translate.segmentation import split_sentences

pytestmark = pytest.mark.benchmark

FLOOR = 0.85  # of the boundaries after a stop, if a text has stops at most of them
WITHOUT_SPACES = {"zho", "jpn", "yue"}
CLOSING = "\"'”’“»›)]」』 " + INVISIBLE


def is_found(first: str, second: str, lang: str) -> bool:
    """Whether a paragraph of two sentences is cut between them."""
    space = "" if lang in WITHOUT_SPACES else " "
    end = 0
    for text, separator in split_sentences(first + space + second, lang):
        end += len(text)
        if end == len(first):
            return True
        end += len(separator)
    return False


def test_sentence_ends() -> None:
    texts = {
        code: [line.strip() for line in text.decode().split("\n")] for code, text in ntrex().items()
    }
    english = texts.pop("eng")
    places = [
        at
        for at in range(len(english) - 1)
        if all(english[at : at + 2]) and is_found(english[at], english[at + 1], "eng")
    ]
    shares, low = dict[str, float](), {}
    for code, lines in texts.items():
        found = {at for at in places if is_found(lines[at], lines[at + 1], code.partition("-")[0])}
        shares[code] = len(found) / len(places)
        stops = {at for at in places if ends_with_stop(lines[at].rstrip(CLOSING))}
        if len(stops) > len(places) / 2 and len(found & stops) < FLOOR * len(stops):
            low[code] = len(found & stops) / len(stops)
    rows = [{"boundaries found": n, "languages": codes} for n, codes in by_share(shares, ".0%")]
    publish(f"{len(places):,} boundaries in {len(shares)} texts\n\n{table(rows)}")
    assert not low

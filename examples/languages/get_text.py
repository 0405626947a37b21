"""Fetch public text of English and another language, and write train, valid and test.

    python3 get_text.py LANG ADDRESS OUT

An address that ends with .txt or .zip is a list of Tatoeba: English, a tab, and the translation. It
is split by English sentences, so that none of valid or test stands in train, whatever its case and
marks. Any other address is a folder with the files of Multi30k for de, fr and cs, else of 3AM,
whose test lines that stand in train are left out.
"""

from __future__ import annotations

import gzip
import random
import re
import sys
import unicodedata
import urllib.request
import zipfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

HELD_OUT = {"ja": 1_000, "ar": 600}  # sentences of valid, and of test
OTHER_HELD_OUT = 500
MULTI30K = ("de", "fr", "cs")
Pair = tuple[str, str]


def fetch(address: str) -> bytes:
    if "://" not in address:
        return Path(address).read_bytes()
    with urllib.request.urlopen(address) as answer:
        content: bytes = answer.read()
    return content


def letters(line: str) -> str:
    """Return what two lines have in common that differ by case, marks and spaces only."""
    return re.sub(r"\W+", " ", unicodedata.normalize("NFKC", line).casefold()).strip()


def split_list(lines: Iterable[str], held_out: int) -> dict[str, list[Pair]]:
    """Split a list of Tatoeba: of a sentence in valid or test the first translation is taken."""
    translations: dict[str, list[Pair]] = {}
    for line in lines:
        english, translation = (cell.strip() for cell in line.split("\t")[:2])
        translations.setdefault(letters(english), []).append((english, translation))
    sentences = sorted(translations)
    random.Random(1).shuffle(sentences)
    firsts = [translations[sentence][0] for sentence in sentences[: 2 * held_out]]
    train = [pair for sentence in sentences[2 * held_out :] for pair in translations[sentence]]
    random.Random(2).shuffle(train)
    return {"train": train, "valid": firsts[:held_out], "test": firsts[held_out:]}


def read_lines(address: str, lang: str) -> list[str]:
    content = gzip.decompress(fetch(f"{address}.gz")) if lang in MULTI30K else fetch(address)
    return content.decode().split("\n")[:-1]


def read_folder(address: str, lang: str) -> dict[str, list[Pair]]:
    """Read the files of 3AM, or of Multi30k."""
    names = {"train": "train", "valid": "val", "test": "test"}
    if lang in MULTI30K:
        names["test"] = "test_2016_flickr"
    splits = dict[str, list[Pair]]()
    for split, name in names.items():
        sides = [read_lines(f"{address}/{name}.{one}", lang) for one in ("en", lang)]
        splits[split] = list(zip(*sides, strict=True))
    if lang in MULTI30K:  # whose whole test set papers score
        return splits
    known = [{pair[side] for pair in splits["train"]} for side in (0, 1)]
    splits["test"] = [
        pair for pair in splits["test"] if pair[0] not in known[0] and pair[1] not in known[1]
    ]
    return splits


def main(lang: str, address: str, out: str) -> None:
    if address.endswith((".zip", ".txt")):
        content = fetch(address)
        if address.endswith(".zip"):
            with zipfile.ZipFile(BytesIO(content)) as archive:
                (name,) = (name for name in archive.namelist() if not name.startswith("_"))
                content = archive.read(name)
        splits = split_list(content.decode().splitlines(), HELD_OUT.get(lang, OTHER_HELD_OUT))
    else:
        splits = read_folder(address, lang)
    for split, pairs in splits.items():
        for side, code in enumerate(("en", lang)):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            Path(out, f"{split}.{code}").write_text(text, encoding="utf-8")
        print(f"{split}: {len(pairs):,} pairs", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])

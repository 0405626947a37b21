"""Random corpora and options: each pair is kept or counted, whatever its bytes.

What is expected is computed from the lines that were written, without any of the readers.
"""

import gzip
import lzma
import re
from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
import pytest
from listed import listed
from prepare_job import Job, content, pairs_in

from nmt.data.folder import DataFolder
from nmt.data.vocabulary import Vocabulary
from nmt.prepare.cleaning_options import ALWAYS, RULES
from nmt.prepare.readers import line_files
from nmt.system import workers

ENGLISH = listed("the a old red house sees river 12 2024 , . ! café ½")
GERMAN = listed("das ein rot Haus sieht Fluß 12 2024 , . ! schön ½")
_ODD = """
␣ ␉ a\x00b a␍b ␍ \u2581 \ufffd e\u0301te\u0301 a\u2581b 日本語の文です это␣текст ***␣!!!␣123
\ufeffmark <b>&amp;</b> ␣␣two␣␣spaces␣
"""
ODD = [one.encode() for one in ("", "x" * 60, "word " * 300, "\x85", "one\u2028two", *listed(_ODD))]
ODD.append(b"a \xff\xfe")
OPTIONAL_RULES = [rule for rule in RULES if rule not in ALWAYS]

Pairs = list[tuple[bytes, bytes]]


class Corpus(NamedTuple):
    """What the files of a training text hold, and the options that name them."""

    pairs: Pairs
    options: dict[str, str]


def a_line(draw: Random, words: list[str], length: int) -> bytes:
    return " ".join(draw.choices(words, k=length)).encode()


def random_pairs(draw: Random, held_out: Pairs) -> Pairs:
    """Pairs, some odd; some repeat an earlier one, nearly or exactly, or one that is held out."""
    pairs: Pairs = []
    for _ in range(draw.randint(0, 40)):
        src, tgt = (
            a_line(draw, words, draw.randint(1, 9)) if draw.random() < 0.8 else draw.choice(ODD)
            for words in (ENGLISH, GERMAN)
        )
        match draw.randrange(10):
            case 0 if pairs:
                src, tgt = draw.choice(pairs)
            case 1 if pairs:
                src, tgt = src.upper(), draw.choice(pairs)[1]
            case 2:
                src = tgt
            case 3:
                src, tgt = draw.choice(held_out)
        pairs.append((src, tgt))
    return pairs


def write_side(draw: Random, path: str, lines: list[bytes]) -> list[bytes]:
    """Write lines with ends of both kinds, perhaps compressed; return the lines of the file."""
    ends = [draw.choice([b"\n", b"\r\n"]) for _ in lines]
    if lines and lines[-1] and draw.random() < 0.3:
        ends[-1] = b""
    raw = b"".join(line + end for line, end in zip(lines, ends, strict=True))
    match draw.randrange(4):
        case 0:
            Path(f"{path}.gz").write_bytes(gzip.compress(raw))
        case 1:
            Path(f"{path}.xz").write_bytes(lzma.compress(raw))
        case _:
            Path(path).write_bytes(raw)
    found = [(line + end).removesuffix(b"\n") for line, end in zip(lines, ends, strict=True)]
    found = [one.removesuffix(b"\r") if end else one for one, end in zip(found, ends, strict=True)]
    return [line.removeprefix(b"\xef\xbb\xbf") if not n else line for n, line in enumerate(found)]


def write_pairs(draw: Random, prefix: str, pairs: Pairs) -> Pairs:
    """Write PREFIX.en and PREFIX.de; return the pairs of the files."""
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    files = (f"{prefix}.en", f"{prefix}.de")
    return list(zip(*map(partial(write_side, draw), files, sides), strict=True))


def random_corpus(draw: Random, prefix: str, held_out: Pairs) -> Corpus:
    """Write a training text as two files, or as a table."""
    pairs = random_pairs(draw, held_out)
    options, name = {"train": prefix}, prefix
    if draw.random() < 0.3:
        pairs = [pair for pair in pairs if not set(b"".join(pair)) & set(b"\t\r")]
        name = f"{prefix}.tsv"
        rows = [b"\t".join([*pair, b"url"]) for pair in pairs]
        Path(name).write_bytes(b"".join(row + b"\n" for row in [b"en\tde\turl", *rows]))
        options = {"train": f"{name}:en,de", "quoting": f"{name}=none"}
    else:
        pairs = write_pairs(draw, prefix, pairs)
    if draw.random() < 0.4:
        options["weight"] = f"{name}={draw.choice(['0.5', '3'])}"
    return Corpus(pairs, options)


def random_job(
    seed: int, folder: Path, vocabulary: Path
) -> tuple[Job, list[Corpus], dict[str, Pairs]]:
    """Write random corpora; return the job that prepares them, and what valid and test hold."""
    draw = Random(seed)
    words = [(a_line(draw, ENGLISH, 8), a_line(draw, GERMAN, 8)) for _ in range(6)]
    held_out = {"valid": words[:4], "test": words[4:]}
    for name, pairs in held_out.items():
        held_out[name] = write_pairs(draw, f"{folder}/{name}", pairs)
    corpora = [random_corpus(draw, f"{folder}/c{n}", words) for n in range(draw.randint(1, 3))]
    good = write_pairs(draw, f"{folder}/good", [(b"a good old bird", b"ein alter lieber Vogel")])
    corpora.append(Corpus(good, {"train": f"{folder}/good"}))  # there is something to train on
    options: dict[str, Any] = {
        key: tuple(corpus.options[key] for corpus in corpora if key in corpus.options)
        for key in ("train", "weight", "quoting")
    }
    options |= {
        "keep": tuple(draw.sample(OPTIONAL_RULES, draw.choice([0, 0, 2, 6]))),
        "min_length": draw.choice([1, 3]),
        "max_length": draw.choice([30, 256]),
        "duplicates": draw.choice(["exact", "near"]),
        "duplicates_by": draw.choice(["pair", "source"]),
        "shard_pairs": draw.choice([7, 500]),
        "keep_text": draw.random() < 0.5,
        "fix": draw.choice([(), ("entities",)]),
    }
    if options["duplicates"] == "near" or options["duplicates_by"] == "source":
        options["keep"] = tuple(set(options["keep"]) - {"duplicate", "near_duplicate"})
    texts = {"valid": f"{folder}/valid", "test": (f"{folder}/test",)}
    job = Job.of(folder / "data", vocab=(vocabulary,), **texts, **options)
    weights = job.options.weights
    corpora.sort(key=lambda corpus: -weights.get(corpus.options["train"].partition(":")[0], 1))
    return job, corpora, held_out


def as_decoded(line: bytes) -> str:
    """What a line is after text -> ids -> text."""
    return re.sub(" +", " ", normalize("NFC", line.decode()).replace("\u2581", " ")).strip(" ")


def check_counts(folder: DataFolder, corpora: list[Corpus]) -> None:
    for record, corpus in zip(folder.info.train.corpora, corpora, strict=True):
        assert record.lines == len(corpus.pairs)
        assert record.kept + sum(record.rejected.values()) == record.lines
        assert record.rejected.keys() <= RULES.keys()


def check_kept(folder: DataFolder, job: Job, corpora: list[Corpus]) -> None:
    """Check that what is kept is what was written at its place, in order, once."""
    origins = [folder.train.origin(number) for number in range(len(folder.train))]
    assert all(one < other for one, other in pairwise(origins))
    kept = Counter(corpus for corpus, _ in origins)
    assert [kept[n] for n in range(len(corpora))] == [one.kept for one in folder.info.train.corpora]
    raw = [corpora[corpus].pairs[line - 1] for corpus, line in origins]
    if job.cleaning.fix:
        raw = [(src.replace(b"&amp;", b"&"), tgt.replace(b"&amp;", b"&")) for src, tgt in raw]
    assert pairs_in(folder) == [(as_decoded(src), as_decoded(tgt)) for src, tgt in raw]
    if folder.train_text is not None:
        sides = [side.text() for side in folder.train_text.rows(np.arange(len(folder.train)))]
        assert list(zip(*sides, strict=True)) == [(src.decode(), tgt.decode()) for src, tgt in raw]


def check_rules(folder: DataFolder, job: Job) -> None:
    """Check that no pair is kept that a simple rule should have dropped."""
    kept, cleaning = pairs_in(folder), job.cleaning
    assert all(src and tgt for src, tgt in kept)
    if "identical" not in cleaning.keep:
        assert all(src != tgt for src, tgt in kept)
    keys = [src for src, _ in kept] if cleaning.duplicates_by == "source" else kept
    if "duplicate" not in cleaning.keep:
        assert len(set(keys)) == len(keys)
    sides, numbers = (folder.train.src, folder.train.tgt), range(len(folder.train))
    lengths = [len(side(number)) for side in sides for number in numbers]
    if "too_long" not in cleaning.keep:
        assert max(lengths) <= cleaning.max_length
    if "too_short" not in cleaning.keep:
        assert min(lengths) >= cleaning.min_length


def check_held_out(folder: DataFolder, held_out: dict[str, Pairs]) -> None:
    """Check that valid and test have every line."""
    assert folder.test is not None
    for name, split in (("valid", folder.valid), ("test", folder.test)):
        for side, encoded in enumerate((split.src, split.tgt)):
            vocabulary = (folder.src_vocabulary, folder.tgt_vocabulary)[side]
            lines = vocabulary.decode([encoded(number).tolist() for number in range(len(split))])
            assert lines == [as_decoded(pair[side]) for pair in held_out[name]]


@pytest.fixture(scope="module")
def vocabulary_file(vocabulary: Vocabulary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.model"
    path.write_bytes(vocabulary.model)
    return path


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(n, marks=pytest.mark.slow) for n in range(12, 400))]
)
def test_each_pair_of_random_corpora_is_kept_or_counted(
    seed: int, tmp_path: Path, vocabulary_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_files, "MAX_BAD_SHARE", 1)  # else a text would be refused as a whole
    job, corpora, held_out = random_job(seed, tmp_path, vocabulary_file)
    folder = job.prepare()
    check_counts(folder, corpora)
    check_kept(folder, job, corpora)
    check_rules(folder, job)
    check_held_out(folder, held_out)
    # Copies of this process need not load everything anew, as new ones do.
    monkeypatch.setattr(workers, "Workers", partial(workers.Workers, method="fork"))
    several = job.but(out=tmp_path / "again", workers=2 + seed % 2)
    several.prepare()
    assert content(several.out) == content(job.out)

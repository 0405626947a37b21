"""What the main process of `nmt prepare` costs a pair, in each format of text.

With many workers this process is the bottleneck. So the workers do no work here: they return
results that an earlier round has stored. CPU seconds hardly depend on other work on the machine.
"""

from __future__ import annotations

import lzma
import pickle
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from benchmarks.corpora import real_text
from benchmarks.harness import in_turn, publish, rounds, table
from benchmarks.machine import describe

from nmt.data.compressed import compress
from nmt.data.corpus import Encoding
from nmt.data.manifest import VocabularyRecord
from nmt.data.vocabulary import learn_vocabulary
from nmt.prepare.cleaning import Cleaning
from nmt.prepare.corpora import Sources
from nmt.prepare.duplicates import Hash, OverlapKeys
from nmt.prepare.encode import BlockEncoder, Encode, EncodedBlock, Subwords
from nmt.prepare.judge import Cleaner, JudgeTokens
from nmt.prepare.options import PrepareOptions
from nmt.prepare.rejects import CorpusRejects
from nmt.prepare.resume import Progress, empty_folder
from nmt.prepare.splits import TrainSplit
from nmt.prepare.text import Block

pytestmark = pytest.mark.benchmark

ROUNDS = rounds(3)
RULES_OF_DUPLICATES = Cleaning().duplicate_rules
PREFIXES = {"plain": "plain", ".gz": "text.gz", ".xz": "text.xz", ".zst": "text.zst"}


@dataclass(frozen=True)
class Stored:
    """An encoder that encodes each block once."""

    encoder: BlockEncoder
    folder: Path

    def __call__(self, block: Block) -> EncodedBlock:
        path = self.folder / str(block.number)
        if not path.exists():
            path.write_bytes(pickle.dumps(self.encoder(block)))
        result: EncodedBlock = pickle.loads(path.read_bytes())
        return result


@dataclass(frozen=True)
class Seconds:
    """CPU seconds of the main process, and of its main thread."""

    survey: float
    encoding: float
    main_thread: float


def measure(prefix: Path, folder: Path, encoder: Any) -> Seconds:
    began = time.process_time()
    options = PrepareOptions(src_lang="en", tgt_lang="fr", train=(str(prefix),), valid_lines=1)
    texts = Sources.survey(options, Encoding.find("utf-8")).train
    surveyed, thread = time.process_time(), time.thread_time()
    folder.mkdir()
    empty_folder(folder)
    vocabulary = VocabularyRecord((), (), given=True)
    rejects = tuple(map(CorpusRejects.of, texts))
    progress = Progress("", vocabulary, (), (), rejects, corpus=0, line=1)
    split = TrainSplit(
        folder,
        texts,
        encoder,
        progress,
        token_bytes=2,
        separator=None,
        marker=None,
        duplicate_rules=RULES_OF_DUPLICATES,
        shard_pairs=500_000,
    )
    split.write(workers=2)
    shutil.rmtree(folder)
    ended = time.process_time()
    return Seconds(surveyed - began, ended - surveyed, time.thread_time() - thread)


def test_main_process(tmp_path: Path) -> None:
    corpus = real_text("europarl-en-fr")
    sides = []
    for lang in ("en", "fr"):
        packed = corpus / f"train.{lang}.xz"
        sides.append(lzma.decompress(packed.read_bytes()).decode().split("\n")[:-1])
        plain = tmp_path / f"plain.{lang}"
        plain.write_text("".join(f"{line}\n" for line in sides[-1]), newline="\n")
        (tmp_path / f"text.xz.{lang}.xz").symlink_to(packed)
        for suffix in (".gz", ".zst"):
            compress(plain, tmp_path / f"text{suffix}.{lang}{suffix}", suffix)
    pairs = len(sides[0])
    sample = (side[at] for at in range(0, pairs, 10) for side in sides)
    vocabulary = learn_vocabulary(sample, vocab_size=32_000)
    del sides
    nothing = OverlapKeys.join([])
    cleaner = Cleaner(cleaning=Cleaning(), held_out=(nothing, nothing))
    encode = Encode(Subwords((vocabulary.model,), (None, None), None))
    hash_pairs = [Hash(rule, by_source=False, has_languages=False) for rule in RULES_OF_DUPLICATES]
    encoder = BlockEncoder((cleaner, encode, JudgeTokens(Cleaning()), *hash_pairs))
    (tmp_path / "stored").mkdir()
    stored = Stored(encoder, tmp_path / "stored")
    measure(tmp_path / "plain", tmp_path / "data", stored)
    systems: dict[str, Callable[[], Seconds]] = {
        name: partial(measure, tmp_path / prefix, tmp_path / "data", stored)
        for name, prefix in PREFIXES.items()
    }
    found = in_turn(systems, ROUNDS)

    def micro(values: list[float]) -> str:
        return f"{median(values) / pairs * 1e6:.2f}"

    rows = (
        {
            "CPU microseconds a pair, main process": name,
            "first pass": micro([one.survey for one in times]),
            "last pass": micro([one.encoding for one in times]),
            "of it the main thread": micro([one.main_thread for one in times]),
        }
        for name, times in found.items()
    )
    publish(f"{describe()}. {pairs:,} pairs of Europarl en-fr.\n\n{table(rows)}")
    assert all(one.encoding > 0 for times in found.values() for one in times)

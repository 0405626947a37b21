"""What `nmt prepare` is given, as one object that tests change, and what is in its folder."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nmt.data.folder import DataFolder
from nmt.errors import NMTError
from nmt.models.model_file import read_vocabularies
from nmt.prepare import prepare as stage
from nmt.prepare import write_splits
from nmt.prepare.cleaning_options import CleaningOptions
from nmt.prepare.options import PrepareOptions

COLOURS = ["red", "blue", "green", "white", "black"]
OTHER_WORDS = (
    "ankle bridge copper dozen evening fiddle garlic harbour indigo jungle kettle lantern mustard "
    "nephew orchard pepper quarrel ribbon saddle thunder umbrella velvet walnut yoghurt zipper"
).split()
THINGS = ["house", "tree", "bird", "river", "stone", "cloud"]


@dataclass(frozen=True)
class Job:
    out: Path
    options: PrepareOptions
    cleaning: CleaningOptions

    @classmethod
    def of(cls, out: Path, **values: Any) -> Job:
        """Return a job in one process, from English to German, with these options.

        Without rules of NFC, a vocabulary is small, and learnt in no time.
        """
        options: dict[str, Any] = {"src_lang": "en", "tgt_lang": "de", "workers": "1"}
        if not values.get("vocab"):
            options["normalization"] = "identity"
        chosen, cleaning = _split(values)
        return cls(out, PrepareOptions(**options | chosen), CleaningOptions(**cleaning))

    def but(self, **values: Any) -> Job:
        """Return the job with some options changed, `out` among them."""
        out = values.pop("out", self.out)
        options, cleaning = _split(values)
        if options.get("vocab"):  # whose rules and size are its own
            own = {"normalization": PrepareOptions.normalization, "vocab_size": None}
            options = own | options
        changed = dataclasses.replace(self.options, **options)
        return Job(out, changed, dataclasses.replace(self.cleaning, **cleaning))

    def prepare(self) -> DataFolder:
        given = [one for path in self.options.vocab for one in read_vocabularies(path)[0]]
        return stage.prepare(self.out, self.options, self.cleaning, given)


def _split(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values that are options of text, and of cleaning."""
    if isinstance(values.get("valid"), str):
        values = values | {"valid": (values["valid"],)}
    if "workers" in values:
        values = values | {"workers": str(values["workers"])}
    names = {spec.name for spec in dataclasses.fields(CleaningOptions)}
    cleaning = {name: given for name, given in values.items() if name in names}
    return {name: given for name, given in values.items() if name not in names}, cleaning


def job_of(folder: Path, *train: str, **values: Any) -> Job:
    """Return a job of these texts, with one line to validate with that is in none of them."""
    valid = write(folder, "valid", [("something else", "etwas anderes")])
    options: dict[str, Any] = {"train": train, "valid": valid, "vocab_size": 330}
    return Job.of(folder / "data", **options | values)


def pairs(count: int) -> list[tuple[str, str]]:
    """Different pairs of a small language: "the red house 0" and "das 0 esuoh der"."""
    texts = [f"{COLOURS[n % 5]} {THINGS[n % 6]} {n}" for n in range(count)]
    return [(f"the {text}", f"das {text[::-1]}") for text in texts]


def unlike_pairs(count: int) -> list[tuple[str, str]]:
    """Different pairs of which none is nearly like another, of fewer than 30 letters a side."""
    words = itertools.islice(itertools.permutations(OTHER_WORDS, 3), 0, None, 97)
    lines = [" ".join(drawn) for drawn in itertools.islice(words, count)]
    return [(line[:29], line[::-1][:29]) for line in lines]


def write(folder: Path, name: str, lines: list[tuple[str, str]]) -> str:
    """Write NAME.en and NAME.de, and return their prefix."""
    for lang, side in zip(("en", "de"), zip(*lines, strict=True), strict=True):
        (folder / f"{name}.{lang}").write_bytes("".join(f"{line}\n" for line in side).encode())
    return f"{folder}/{name}"


def pairs_in(folder: DataFolder) -> list[tuple[str, str]]:
    """The training pairs, decoded."""
    count = range(len(folder.train))
    src = folder.src_vocabulary.decode([folder.train.src(n).tolist() for n in count])
    tgt = folder.tgt_vocabulary.decode([folder.train.tgt(n).tolist() for n in count])
    return list(zip(src, tgt, strict=True))


def content(folder: Path) -> dict[str, bytes]:
    """The bytes of each file."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def stop(
    job: Job, monkeypatch: pytest.MonkeyPatch, shards: int, error: BaseException | None = None
) -> None:
    """Run until so many shards are written."""
    left, write_shard = [shards], write_splits.write_shard

    def write_or_fail(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise error or KeyboardInterrupt
        return write_shard(*args, **kwargs)

    with monkeypatch.context() as patch, pytest.raises(NMTError):
        patch.setattr(write_splits, "write_shard", write_or_fail)
        job.prepare()
    assert not job.out.exists()


def prepare_in_all_ways(job: Job, monkeypatch: pytest.MonkeyPatch, *, shards: int) -> DataFolder:
    """Prepare at once, with two workers, and in two runs; check that the bytes are the same."""
    folder = job.prepare()
    assert len(folder.info.train.shards) > shards
    two, stopped = (job.but(out=job.out.with_name(name)) for name in ("two-workers", "two-runs"))
    two.but(workers=2).prepare()
    stop(stopped, monkeypatch, shards)
    stopped.prepare()
    assert content(two.out) == content(stopped.out) == content(job.out)
    return folder

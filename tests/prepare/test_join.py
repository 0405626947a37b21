"""`nmt join`: folders that were prepared apart are as one that was prepared at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prepare_job import Job, content, pairs, pairs_in, write

from nmt.data.folder import DataFolder
from nmt.errors import DataError, Stopped, UsageError
from nmt.prepare import join as stage
from nmt.prepare.join import join

Prepare = Callable[..., DataFolder]
MORE = [("the same", "dasselbe"), ("another", "anderes"), ("the same", "dasselbe")]


@pytest.fixture
def prepare(tmp_path: Path) -> Prepare:
    """Prepare some of three texts, two of which share pairs, with one vocabulary."""
    texts = pairs(90)
    write(tmp_path, "a", [*texts[:40], *MORE])
    write(tmp_path, "b", [*MORE, *texts[30:60], ("the same", "das gleiche")])
    write(tmp_path, "c", texts[60:])
    write(tmp_path, "valid", pairs(95)[-3:])
    learnt = Job.of(
        tmp_path / "learnt",
        train=tuple(f"{tmp_path}/{name}" for name in "abc"),
        valid=f"{tmp_path}/valid",
        vocab_size=330,
    ).prepare()

    def prepare(names: str, **values: Any) -> DataFolder:
        options: dict[str, Any] = {
            "train": tuple(f"{tmp_path}/{name}" for name in names),
            "valid": f"{tmp_path}/valid",
            "vocab": (learnt.path / "vocab.model",),
        }
        return Job.of(tmp_path / f"part-{names}", **options | values).prepare()

    return prepare


def origins(folder: DataFolder) -> list[tuple[int, int]]:
    return [folder.train.origin(index) for index in range(len(folder.train))]


@pytest.mark.parametrize(
    ("values", "memory"),
    [
        ({}, 2.0),  # for one range
        ({"keep_text": True}, 1e-9),  # for as little as can be
        ({"duplicates_by": "source"}, 1e-6),
        ({"keep": ("duplicate",)}, 1e-6),
    ],
)
def test_joined_parts_are_what_all_texts_at_once_are(
    prepare: Prepare, tmp_path: Path, values: dict[str, Any], memory: float
) -> None:
    parts = [prepare("a", **values).path, prepare("bc", shard_pairs=1, **values).path]
    joined, whole = join(tmp_path / "out", parts, memory=memory), prepare("abc", **values)
    assert pairs_in(joined) == pairs_in(whole)
    assert origins(joined) == origins(whole)
    if joined.train_text is not None:
        src, tgt = joined.train_text.rows(np.arange(len(joined.train)))
        assert list(zip(src.text(), tgt.text(), strict=True)) == pairs_in(joined)
    for one, other in zip(joined.info.train.corpora, whole.info.train.corpora, strict=True):
        assert one == other
    assert [one.rejected for one in whole.info.train.corpora] != [{}, {}, {}] or "keep" in values
    assert joined.info.valid == whole.info.valid
    assert (joined.path / "rejects.txt").read_text() == (whole.path / "rejects.txt").read_text()
    assert (joined.path / "rejects.json").read_text() == (whole.path / "rejects.json").read_text()
    DataFolder.open(joined.path, verify=True)


def test_the_same_folders_give_the_same_bytes_and_are_found_again(
    prepare: Prepare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [prepare(name).path for name in "abc"]
    one, two = (join(tmp_path / name, parts, memory=1) for name in ("one", "two"))
    assert content(one.path) == content(two.path)
    join(one.path, parts, memory=1)
    assert "already joined" in capsys.readouterr().err
    with pytest.raises(UsageError, match="one is"):
        join(one.path, parts[:2], memory=1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocab": (), "vocab_size": 320}, "differ in .*the vocabulary"),
        ({"valid": "VALID"}, "differ in valid"),
        ({"test": ("VALID",)}, "the test sets"),
        ({"max_ratio": 5.0}, "differ in max_ratio"),
        ({"keep_text": True}, "differ in keep_text"),
    ],
)
def test_folders_that_do_not_fit_are_refused_with_the_reason(
    prepare: Prepare, tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    other = write(tmp_path, "other", pairs(99)[-2:])
    given = {
        key: other if value == "VALID" else (other,) if value == ("VALID",) else value
        for key, value in values.items()
    }
    parts = [prepare("a").path, prepare("b", **given).path]
    with pytest.raises(UsageError, match=message):
        join(tmp_path / "out", parts, memory=1)
    assert not (tmp_path / "out").exists()


def test_a_text_in_two_folders_is_refused(prepare: Prepare, tmp_path: Path) -> None:
    parts = [prepare("ab").path, prepare("b").path]
    with pytest.raises(UsageError, match=r"part-b.*part-ab"):
        join(tmp_path / "out", parts, memory=1)


def test_lengths_may_differ_and_the_largest_counts(prepare: Prepare, tmp_path: Path) -> None:
    parts = [prepare("a", max_length=60).path, prepare("b", max_length=90).path]
    assert join(tmp_path / "out", parts, memory=1).info.max_length == 90


def test_a_join_that_is_stopped_leaves_nothing(
    prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [prepare("a").path, prepare("b").path]
    with monkeypatch.context() as patch:

        def stop(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(stage, "shard_record", stop)
        with pytest.raises(Stopped):
            join(tmp_path / "out", parts, memory=1)
    assert not list(tmp_path.glob("out*"))
    assert len(join(tmp_path / "out", parts, memory=1).train) > 40


@pytest.mark.parametrize("is_of_others", [True, False])
def test_a_report_that_is_damaged_or_of_other_corpora_is_told(
    prepare: Prepare, tmp_path: Path, is_of_others: bool
) -> None:
    parts = [prepare("a").path, prepare("bc").path]
    report = parts[1] / "rejects.json"
    content = json.loads(report.read_text())
    corpus = content["corpora"].pop()
    if not is_of_others:
        content["corpora"].append({"prefax": corpus.pop("prefix"), **corpus})
    text = json.dumps(content)
    report.write_text(text + " " * (report.stat().st_size - len(text)))  # its size is checked
    with pytest.raises(DataError, match=r"rejects\.json: damaged"):
        join(tmp_path / "out", parts, memory=1)


def test_the_same_pair_in_other_languages_is_no_duplicate(tmp_path: Path) -> None:
    texts = pairs(30)
    for name, lines in (("a", texts[:20]), ("b", texts[10:]), ("valid", pairs(33)[-2:])):
        write(tmp_path, name, lines)
        # Sources of fr-de are those of en-de, and `<2de>` begins both.
        (tmp_path / f"{name}.fr").write_text((tmp_path / f"{name}.en").read_text())

    def prepared(out: str, names: str, vocab: tuple[Path, ...] = (), **values: Any) -> DataFolder:
        languages = "en-de", "fr-de"
        return Job.of(
            tmp_path / out,
            src_lang="",
            tgt_lang="",
            pair=tuple(f"{one}={tmp_path}/{name}" for name in names for one in languages),
            valid=tuple(f"{one}={tmp_path}/valid" for one in languages),
            vocab=vocab,
            **values,
        ).prepare()

    learnt = (prepared("learnt", "ab", vocab_size=330).path / "vocab.model",)
    for by in ("pair", "source"):
        whole = prepared(f"whole-{by}", "ab", learnt, duplicates_by=by)
        parts = [prepared(f"{name}-{by}", name, learnt, duplicates_by=by).path for name in "ab"]
        joined = join(tmp_path / f"joined-{by}", parts, memory=1)
        assert len(whole.train) == 2 * 30
        assert pairs_in(joined) == pairs_in(whole)
        assert origins(joined) == origins(whole)


def test_an_unfinished_prepare_is_not_lost(prepare: Prepare, tmp_path: Path) -> None:
    parts = [prepare("a").path, prepare("b").path]
    progress = tmp_path / "out.partial" / "progress" / "progress.json"
    progress.parent.mkdir(parents=True)
    progress.write_text("what is complete")
    with pytest.raises(UsageError, match=r"out\.partial"):
        join(tmp_path / "out", parts, memory=1)
    assert progress.read_text() == "what is complete"

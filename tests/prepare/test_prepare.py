"""The stage: text in, a data folder out, whole or not at all, and the same every time."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import itertools
import json
import re
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sentencepiece
from prepare_job import Job, write

from nmt.data.folder import DataFolder
from nmt.data.moses import Moses
from nmt.data.shards import ShardBuilder
from nmt.data.stream import Cut, Position, updates_from
from nmt.data.vocabulary import learn_vocabulary
from nmt.errors import DataError, NMTError, Stopped, UsageError
from nmt.prepare import prepare as stage
from nmt.prepare import splits
from nmt.prepare import text as blocks
from nmt.prepare.cleaning import RULES

COLOURS = ["red", "blue", "green", "white", "black"]
THINGS = ["house", "tree", "bird", "river", "stone", "cloud"]


def pairs(count: int) -> list[tuple[str, str]]:
    """Different pairs of a small language: "the red house 0" and "das 0 esuoh der"."""
    texts = [f"{COLOURS[n % 5]} {THINGS[n % 6]} {n}" for n in range(count)]
    return [(f"the {text}", f"das {text[::-1]}") for text in texts]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    text = pairs(60)
    return Job.of(
        tmp_path / "out" / "data",
        train=(write(tmp_path, "train", text),),
        valid=write(tmp_path, "valid", text[:3]),
        vocab_size=330,
    )


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def text_of(folder: DataFolder, index: int) -> tuple[str, str]:
    (src,) = folder.src_vocabulary.decode([folder.train.src(index).tolist()])
    (tgt,) = folder.tgt_vocabulary.decode([folder.train.tgt(index).tolist()])
    return src, tgt


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 5 lines, so that there are many."""
    monkeypatch.setattr(blocks, "BLOCK_LINES", 5)


@pytest.mark.usefixtures("small_blocks")
def test_all_pairs_arrive_in_the_order_of_the_text(job: Job) -> None:
    folder = job.but(shard_pairs=23).prepare()
    assert [text_of(folder, n) for n in range(len(folder.train))] == pairs(60)
    assert [shard.pairs for shard in folder.info.train.shards] == [25, 25, 10]
    assert folder.test is None
    names = ["dataset.json", "rejects.json", "rejects.txt", "train-00000.bin"]
    names += [
        "train-00001.bin",
        "train-00002.bin",
        "valid.bin",
        "valid.de",
        "valid.en",
        "vocab.model",
    ]
    assert sorted(content(job.out)) == names
    assert [path.name for path in job.out.parent.iterdir()] == ["data"]
    DataFolder.open(job.out, verify=True)


def test_several_texts_follow_each_other_and_are_counted_apart(job: Job, tmp_path: Path) -> None:
    more = write(
        tmp_path, "more", [("one", "eins"), pairs(60)[7], ("same", "same"), ("two", "zwei")]
    )
    folder = job.but(train=(*job.options.train, more)).prepare()
    first, second = folder.info.train.corpora
    assert (first.lines, first.kept, dict(first.rejected)) == (60, 60, {})
    assert (second.lines, second.kept) == (4, 2)
    assert dict(second.rejected) == {"identical": 1, "duplicate": 1}
    assert [text_of(folder, n) for n in (59, 60, 61)] == [
        pairs(60)[59],
        ("one", "eins"),
        ("two", "zwei"),
    ]
    rejects = json.loads((job.out / "rejects.json").read_text())
    assert rejects["corpora"][1]["examples"]["identical"] == [
        {"line": 3, "src": "same", "tgt": "same"}
    ]
    assert "more.en line 3: same\n" in (job.out / "rejects.txt").read_text()


@pytest.mark.usefixtures("small_blocks")
def test_each_pair_can_be_traced_to_its_text_and_line(job: Job, tmp_path: Path) -> None:
    more = write(tmp_path, "more", [("one", "eins"), pairs(60)[7], ("two", "zwei")])
    folder = job.but(train=(more, *job.options.train), shard_pairs=25).prepare()
    origins = [folder.train.origin(index) for index in range(len(folder.train))]
    # Line 8 of train stood in more before, and is dropped there.
    expected = [(0, 1), (0, 2), (0, 3), *((1, line) for line in range(1, 61) if line != 8)]
    assert origins == expected
    assert [shard.corpus for shard in folder.info.train.shards] == [0, 1, 1, 1]


def test_weights_reach_the_stream_and_tags_the_text(job: Job, tmp_path: Path) -> None:
    more = write(tmp_path, "more", [("one", "eins"), ("two", "zwei")])
    job = job.but(
        train=(*job.options.train, more),
        weight=(f"{more}=2.5",),
        tag=(f"{more}=<BT>", f"{tmp_path}/valid=<2de>"),
    )
    folder = job.but(vocab_size=335).prepare()
    assert folder.train.shares == ((60, 1.0), (2, 2.5))
    assert [text_of(folder, n)[0] for n in (59, 60, 61)] == [
        pairs(60)[59][0],
        "<BT> one",
        "<BT> two",
    ]
    tokens = folder.src_vocabulary.tokens(folder.train.src(60).tolist())
    assert "<BT>" in tokens
    assert folder.valid_text[0].read_text().startswith("<2de> the red house 0\n")
    assert [(c.weight, c.tag) for c in folder.info.train.corpora] == [(1.0, ""), (2.5, "<BT>")]
    with pytest.raises(
        UsageError,
        match=r"weight of .*more was 2\.5 and is 1; the tag of .*more was <BT> and is none",
    ):
        job.but(weight=(), tag=(f"{tmp_path}/valid=<2de>",), vocab_size=335).prepare()


def test_a_tag_that_a_given_vocabulary_does_not_know_is_refused(job: Job, tmp_path: Path) -> None:
    model = tmp_path / "spm.model"
    given = job.but(vocab=(model,), vocab_size=32_000)
    tagged = given.but(tag=(f"{job.options.train[0]}=<BT>",))
    model.write_bytes(learn_vocabulary(["some other text 123"], vocab_size=275).model)
    with pytest.raises(UsageError, match=r"--tag <BT> is not in the vocabulary"):
        tagged.prepare()
    model.write_bytes(
        learn_vocabulary(["some other text 123"], vocab_size=276, symbols=["<BT>"]).model
    )
    assert text_of(tagged.prepare(), 0)[0] == "<BT> the red house 0"


def test_duplicates_can_be_told_by_the_source_alone(job: Job, tmp_path: Path) -> None:
    lines = [("a", "x"), ("a", "y"), ("b", "x"), ("a", "x")]
    for by, rejected in (("pair", 1), ("source", 2)):
        more = job.but(train=(*job.options.train, write(tmp_path, "m", lines)), out=tmp_path / by)
        corpus = more.but(duplicates_by=by).prepare().info.train.corpora[1]
        assert dict(corpus.rejected) == {"duplicate": rejected}


def test_lines_of_valid_and_test_are_kept_out_of_train(job: Job, tmp_path: Path) -> None:
    long = [
        (
            f"a sentence of more than thirty letters {c}",
            f"ein Satz mit mehr als dreißig Zeichen {c}",
        )
        for c in "abc"
    ]
    folder = job.but(
        train=(write(tmp_path, "m", [*pairs(60), *long, ("hers", long[0][1].upper() + "!")]),),
        valid=write(tmp_path, "v", long[:1]),
        test=(write(tmp_path, "t", long[1:2]),),
    ).prepare()
    (corpus,) = folder.info.train.corpora
    assert dict(corpus.rejected) == {"overlap": 3}
    assert text_of(folder, 60) == long[2]


def test_pairs_with_too_many_tokens_are_dropped_and_counted(job: Job, tmp_path: Path) -> None:
    long = write(tmp_path, "long", [("q w e r t z u i o p", "kurz"), ("short", "kurz kurz")])
    job = job.but(train=(*job.options.train, long), max_length=9)
    corpus = job.prepare().info.train.corpora[1]
    # Ten words are at least ten tokens and "short" at most six, each with a mark for its space.
    assert (corpus.kept, dict(corpus.rejected)) == (1, {"too_long": 1})
    kept = job.but(keep=("too_long",), out=tmp_path / "kept")
    assert kept.prepare().info.train.corpora[1].kept == 2


def test_valid_and_test_keep_every_line_as_it_is(job: Job, tmp_path: Path) -> None:
    odd = [("same", "same"), ("same", "same"), ("a\u2028b\u0085\tc", "x  y "), ("z" * 999, "w")]
    odd += [("\x07", "b"), ("10 20", "10.20")]
    (tmp_path / "more").mkdir()
    tests = (write(tmp_path, "t", odd), write(tmp_path / "more", "t", odd[:1]))
    job = job.but(valid=write(tmp_path, "odd", odd), test=tests)
    folder = job.but(max_length=5, keep=("too_long",)).prepare()
    assert len(folder.valid) == 6
    src, tgt = (path.read_bytes().decode().split("\n") for path in folder.valid_text)
    assert list(zip(src, tgt, strict=True)) == [*odd, ("", "")]
    assert list(folder.test_text) == ["test-t", "test-t+2"]
    assert folder.test is not None
    assert len(folder.test) == 7


@pytest.mark.parametrize(
    ("src", "tgt", "message"),
    [
        (b"a\n" * 19 + b"b\xff\n", b"x\n" * 20, r"v\.en line 20 is not valid utf-8.*fix it"),
        (b"a\nb\nc\n", b"x\ny\n \t\n", r"v\.de line 3 is blank.*remove the pair"),
        # SentencePiece's own mark of a space
        (b"a\n\xe2\x96\x81\n", b"x\ny\n", r"v\.en line 2 has no tokens.*remove the pair"),
        (b"", b"", r"v\.en and .*v\.de are empty"),
    ],
)
def test_a_line_of_valid_that_cannot_be_used_is_refused_by_its_number(
    job: Job, tmp_path: Path, src: bytes, tgt: bytes, message: str
) -> None:
    (tmp_path / "v.en").write_bytes(src)
    (tmp_path / "v.de").write_bytes(tgt)
    with pytest.raises(DataError, match=message):
        job.but(valid=f"{tmp_path}/v").prepare()
    assert not job.out.exists()


def test_raw_text_has_plain_line_ends_and_no_byte_order_mark(job: Job, tmp_path: Path) -> None:
    (tmp_path / "w.en.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfone\r\ntwo"))
    (tmp_path / "w.de").write_bytes(b"eins\nzwei\r\n")
    folder = job.but(valid=f"{tmp_path}/w").prepare()
    assert [path.read_bytes() for path in folder.valid_text] == [b"one\ntwo\n", b"eins\nzwei\n"]


def test_old_encodings_become_utf_8(job: Job, tmp_path: Path) -> None:
    (tmp_path / "w.en").write_bytes(b"caf\xe9 \x96\n")
    (tmp_path / "w.de").write_bytes(b"K\xe4se\n")
    folder = job.but(valid=f"{tmp_path}/w", encoding="cp1252").prepare()
    assert [path.read_text("utf-8") for path in folder.valid_text] == ["café –\n", "Käse\n"]


def test_separate_vocabularies_hold_their_own_language(job: Job) -> None:
    folder = job.but(separate_vocab=True, vocab_size=300).prepare()
    assert not folder.joint
    assert [text_of(folder, n) for n in range(60)] == pairs(60)
    src, tgt = (v.tokens(range(300)) for v in (folder.src_vocabulary, folder.tgt_vocabulary))
    assert "▁the" in src
    assert "▁the" not in tgt
    assert "▁das" in tgt
    assert {"src.model", "tgt.model"} < set(content(job.out))


def test_moses_rules_are_recorded_in_the_folder(job: Job, tmp_path: Path) -> None:
    lines = [(f"A {a}, {b}!", f"Ein {b}, {a}!") for a, b in pairs(40)]
    job = job.but(train=(write(tmp_path, "m", lines),), workers=2)
    folder = job.but(moses_tokenize=True, vocab_size=340).prepare()
    assert folder.joint
    # Nothing but the tokeniser takes the comma off its word in every line.
    (tokens,) = [folder.src_vocabulary.tokens(folder.train.src(3).tolist())]
    assert "".join(tokens).count("\u2581,") == 1
    assert text_of(folder, 3) == lines[3]
    again = DataFolder.open(job.out)
    assert again.tgt_vocabulary.moses == Moses("de", normalize=False, tokenize=True)
    assert again.valid_text[0].read_text() == "".join(f"{src}\n" for src, _ in pairs(3))


def test_a_given_vocabulary_is_used_as_it_is(job: Job, tmp_path: Path) -> None:
    model = tmp_path / "spm.model"
    model.write_bytes(learn_vocabulary(["some other text 123"], vocab_size=275).model)
    given = job.but(vocab=(model,), vocab_size=32_000)
    folder = given.prepare()
    assert folder.src_vocabulary.model == model.read_bytes()
    assert (folder.joint, folder.info.vocabulary.given) == (True, True)
    assert (folder.info.settings["vocab_size"], text_of(folder, 9)) == (275, pairs(60)[9])
    assert given.prepare().fingerprint == folder.fingerprint
    model.write_bytes(learn_vocabulary(["yet another text 99"], vocab_size=275).model)
    with pytest.raises(UsageError, match="the vocabulary was another one"):
        given.prepare()


def test_two_given_vocabularies_are_source_and_target(job: Job, tmp_path: Path) -> None:
    models = (tmp_path / "a.model", tmp_path / "b.model")
    for model, size in zip(models, (270, 272), strict=True):
        model.write_bytes(learn_vocabulary(["some text 123"], vocab_size=size).model)
    folder = job.but(vocab=models, vocab_size=32_000).prepare()
    assert [len(folder.src_vocabulary), len(folder.tgt_vocabulary)] == [270, 272]
    assert not folder.joint


def test_a_given_vocabulary_without_bytes_is_warned_of(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["some other text 123"]),
        model_writer=model,
        vocab_size=20,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=9,
        model_type="bpe",
    )
    path = tmp_path / "spm.model"
    path.write_bytes(model.getvalue())
    job.but(vocab=(path,), vocab_size=32_000).prepare()
    assert "spm.model has no byte fallback" in capsys.readouterr().err


def test_wide_ids_are_used_where_the_vocabulary_needs_them(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A vocabulary above 65,536 takes minutes to learn; what decides is asked for instead.
    from nmt.data import folder as folder_module
    from nmt.prepare import encode

    for module in (encode, folder_module):
        monkeypatch.setattr(module, "token_bytes_for", lambda _: 4)
    folder = job.prepare()
    assert folder.train.src(0).dtype == "u4"
    assert text_of(folder, 0) == pairs(1)[0]


@pytest.mark.usefixtures("small_blocks")
def test_preparing_twice_gives_the_same_bytes_whatever_the_workers(
    job: Job, tmp_path: Path
) -> None:
    mixed = [*pairs(90)[30:], ("same", "same"), ("10 20", "zehn"), ("", "leer")]
    job = job.but(train=(*job.options.train, write(tmp_path, "m", mixed)))
    job = job.but(shard_pairs=20, sample_size=50)
    job.prepare()
    for workers in (2, 3):
        out = tmp_path / f"again{workers}"
        job.but(out=out, workers=workers).prepare()
        assert content(job.out) == content(out)


def test_preparing_again_changes_nothing_and_says_so(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    fingerprint = job.prepare().fingerprint
    before = {path: path.stat().st_mtime_ns for path in job.out.iterdir()}
    assert job.prepare().fingerprint == fingerprint
    assert {path: path.stat().st_mtime_ns for path in job.out.iterdir()} == before
    assert "is already prepared from the same text and options" in capsys.readouterr().err


def test_order_of_rules_and_spelling_of_the_encoding_do_not_matter(
    job: Job,
) -> None:
    first = job.but(keep=("ratio", "control"), encoding="UTF8").prepare()
    again = job.but(keep=("control", "ratio", "control"), encoding="utf-8").prepare()
    assert again.fingerprint == first.fingerprint


def test_the_same_text_under_another_name_is_the_same(job: Job, tmp_path: Path) -> None:
    job.prepare()
    for lang in ("en", "de"):
        (tmp_path / f"train.{lang}").rename(tmp_path / f"moved.{lang}")
    job.but(train=(f"{tmp_path}/moved",)).prepare()


def test_other_options_and_text_are_refused_with_what_differs(job: Job, tmp_path: Path) -> None:
    job.prepare()
    before = content(job.out)
    other = job.but(
        vocab_size=331,
        keep=("ratio",),
        valid=write(tmp_path, "other", pairs(9)),
        test=(write(tmp_path, "test", pairs(4)),),
    )
    with pytest.raises(UsageError) as caught:
        other.prepare()
    message = str(caught.value)
    assert "vocab_size was 330 and is 331" in message
    assert "keep was none and is ratio" in message
    assert "test was none and is test-test" in message
    assert f"the text of valid was {tmp_path}/valid and is {tmp_path}/other" in message
    assert "the text of train" not in message
    assert content(job.out) == before


def test_an_empty_folder_is_a_good_place(job: Job) -> None:
    job.out.mkdir(parents=True)
    assert len(job.prepare().train) == 60


@pytest.mark.parametrize("name", ["notes.txt", "dataset.json"])
def test_a_folder_of_something_else_is_left_alone(job: Job, name: str) -> None:
    job.out.mkdir(parents=True)
    (job.out / name).write_text("mine")
    with pytest.raises(UsageError, match="choose another"):
        job.prepare()
    assert content(job.out) == {name: b"mine"}


def test_a_damaged_folder_is_not_taken_for_prepared(job: Job) -> None:
    job.prepare()
    (job.out / "train-00000.bin").unlink()
    with pytest.raises(UsageError, match=r"train-00000\.bin: missing"):
        job.prepare()


def broken(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("where", "left"),
    [("learn_vocabulary", []), ("report_json", ["data.partial"]), ("write_text", ["data.partial"])],
)
def test_a_failure_midway_leaves_what_can_be_gone_on_with(
    job: Job, monkeypatch: pytest.MonkeyPatch, where: str, left: list[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(stage, where, broken(MemoryError()))
        with pytest.raises(MemoryError):
            job.prepare()
    assert [path.name for path in job.out.parent.iterdir()] == left
    assert len(job.prepare().train) == 60


class _StopAt:
    """Lets a function be called so many times, and then fails."""

    def __init__(self, function: Callable[..., object], calls: int, error: BaseException) -> None:
        self._function, self._calls, self._error = function, calls, error

    def __call__(self, *args: object, **kwargs: object) -> object:
        self._calls -= 1
        if self._calls < 0:
            raise self._error
        return self._function(*args, **kwargs)


@pytest.fixture
def long_run(job: Job, tmp_path: Path, request: pytest.FixtureRequest) -> Job:
    """Two texts with rejects and duplicates of each other, in eleven shards."""
    request.getfixturevalue("small_blocks")
    mixed = [pairs(200)[n] for n in range(30, 110)] + [("same", "same"), ("10 20", "zehn")]
    train = (*job.options.train, write(tmp_path, "m", mixed))
    return job.but(train=train, shard_pairs=10)


def stop(
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    *,
    shards: int,
    error: BaseException,
    raised: type[BaseException],
) -> None:
    """Run until so many shards are written."""
    with monkeypatch.context() as patch:
        patch.setattr(splits, "write_shard", _StopAt(splits.write_shard, shards, error))
        with pytest.raises(raised):
            job.prepare()


@pytest.mark.parametrize(
    ("shards", "error", "raised"),
    [
        *((shards, KeyboardInterrupt(), Stopped) for shards in (0, 1, 6, 10, 11)),
        (4, OSError(errno.ENOSPC, "full"), NMTError),
    ],
)
def test_a_run_that_was_stopped_goes_on_and_ends_in_the_same_bytes(
    long_run: Job,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    shards: int,
    error: BaseException,
    raised: type[BaseException],
) -> None:
    whole = long_run.but(out=tmp_path / "whole").prepare()
    count = len(whole.info.train.shards)
    assert count == 11
    stop(long_run, monkeypatch, shards=shards, error=error, raised=raised)
    assert not long_run.out.exists()
    capsys.readouterr()
    written: list[str] = []
    builder_write = ShardBuilder.write

    def spy(self: ShardBuilder, path: Path, **kwargs: int) -> None:
        written.append(path.name)
        builder_write(self, path, **kwargs)

    monkeypatch.setattr(ShardBuilder, "write", spy)
    long_run.prepare()
    done = min(shards, count)
    assert f"data.partial: {done} shards with" in capsys.readouterr().err
    assert sum(name.startswith("train") for name in written) == count - done
    assert content(long_run.out) == content(tmp_path / "whole")


@pytest.mark.parametrize("change", ["option", "text", "shard", "hashes", "record"])
def test_what_was_left_is_not_used_when_it_is_of_something_else(
    long_run: Job,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: str,
) -> None:
    stop(long_run, monkeypatch, shards=4, error=KeyboardInterrupt(), raised=Stopped)
    partial = long_run.out.with_name("data.partial")
    if change == "option":
        long_run = long_run.but(max_length=99)
    elif change == "text":
        write(tmp_path, "m", pairs(120)[50:])
    else:
        name = {
            "shard": "train-00002.bin",
            "hashes": "progress/seen-00002.bin",
            "record": "progress/progress.json",
        }[change]
        damaged = bytearray((partial / name).read_bytes())
        damaged[len(damaged) // 2] ^= 1
        (partial / name).write_bytes(damaged)
    capsys.readouterr()
    long_run.prepare()
    said = capsys.readouterr().err
    assert "resuming" not in said
    reason = "from other text, options" if change in ("option", "text") else "damaged"
    assert re.search(rf"data\.partial .*{reason}.*; starting afresh", said)
    long_run.but(out=tmp_path / "whole").prepare()
    assert content(long_run.out) == content(tmp_path / "whole")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocab_size": 100}, r"en and de: a vocabulary of 100 is too small"),
        ({"vocab_size": 9999}, r"en and de: a vocabulary of 9999 is too large for this text"),
        ({"vocab_size": 9999, "separate_vocab": True}, r"^en: a vocabulary of 9999"),
    ],
)
def test_a_vocabulary_that_does_not_fit_writes_nothing(
    job: Job, values: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        job.but(**values).prepare()
    assert list(job.out.parent.iterdir()) == []


def test_empty_training_text_is_refused(job: Job, tmp_path: Path) -> None:
    for lang in ("en", "de"):
        (tmp_path / f"train.{lang}").write_text("")
    with pytest.raises(DataError, match=r"the training text is empty: .*/train$"):
        job.prepare()


def test_training_text_of_which_nothing_is_left_says_where_it_went(
    job: Job, tmp_path: Path
) -> None:
    write(tmp_path, "train", [("same", "same"), ("", "x"), ("y", "y")])
    with pytest.raises(
        DataError, match=r"all 3 training pairs were rejected: empty 1, identical 2"
    ):
        job.prepare()
    write(tmp_path, "train", pairs(60))
    with pytest.raises(DataError, match=r"all 60 training pairs were rejected: too_long 60"):
        job.but(max_length=1).prepare()
    assert not job.out.exists()


def test_multi30k_is_prepared_without_loss(
    real_text: Callable[[str], Path], tmp_path: Path
) -> None:
    corpus = real_text("multi30k")
    folder = Job.of(
        tmp_path / "data",
        train=(f"{corpus}/train",),
        valid=f"{corpus}/val",
        test=(f"{corpus}/test_2016_flickr",),
        vocab_size=8000,
        workers=2,
    ).prepare()
    (train,) = folder.info.train.corpora
    # `zcat train.en.gz | wc -l`; the README of the corpus says 29,000, 1,014 and 1,000.
    assert (train.lines, len(folder.valid)) == (29_000, 1_014)
    assert folder.test is not None
    assert len(folder.test) == 1_000
    assert train.kept == len(folder.train) == 29_000 - sum(train.rejected.values())
    assert train.kept > 28_950

    with gzip.open(corpus / "val.de.gz", "rb") as file:
        valid = file.read()
    assert folder.valid_text[1].read_bytes() == valid
    ids = [folder.valid.tgt(n).tolist() for n in range(len(folder.valid))]
    lines = valid.decode().split("\n")[:-1]
    single_spaced = [re.sub(" +", " ", line).strip(" ") for line in lines]
    assert folder.tgt_vocabulary.decode(ids) == single_spaced


@contextlib.contextmanager
def room_for_files(count: int) -> Iterator[None]:
    """Let this process open so many more files at once."""
    taken = {int(path.name) for path in Path("/dev/fd").iterdir()}
    free = (number for number in itertools.count() if number not in taken)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(free, count, None)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_folder_may_have_more_shards_than_a_process_may_have_open_files(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_LINES", 2)
    with room_for_files(20):
        folder = job.but(shard_pairs=1).prepare()
        assert len(folder.info.train.shards) == 30
        opened = DataFolder.open(job.out, verify=True)
        assert [text_of(opened, n) for n in range(60)] == pairs(60)
        updates = updates_from(Position(), opened.train, Cut(100), batch_tokens=100, seed=1)
        visited: list[int] = []
        while len(visited) < 120:
            visited += next(updates).pairs.tolist()
        assert sorted(visited) == sorted([*range(60), *range(60)])


def test_a_language_without_a_known_script_is_told_of(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    for lang in ("eng_Latn", "tlh"):
        for name in ("train", "valid"):
            text = job.out.parent.parent / f"{name}.en"
            text.with_suffix(f".{lang}").write_bytes(text.read_bytes())
        job.but(out=job.out / lang, src_lang=lang).prepare()
        said = capsys.readouterr().err
        unknown = "--src tlh: the script of this language is unknown, so the rule `script`"
        assert said.count("the script of") == said.count(unknown) == (lang == "tlh")


def test_the_vocabulary_is_learnt_by_the_weights_of_the_texts(job: Job, tmp_path: Path) -> None:
    more = write(tmp_path, "more", [("qqzz xxww", "yyvv"), ("qqzz xxww", "jjkk"), ("ff", "ff gg")])
    job = job.but(train=(*job.options.train, more))
    pieces = []
    for out, weight in (("plain", ()), ("heavy", (f"{more}=50",))):
        changed_out = job.but(out=tmp_path / out, weight=weight)
        vocabulary = changed_out.prepare().src_vocabulary
        pieces.append(vocabulary.tokens(range(len(vocabulary))))
    assert "▁qqzz" not in pieces[0]
    assert "▁qqzz" in pieces[1]
    with pytest.raises(UsageError, match="--weight: the weights are so small that an epoch has no"):
        job.but(weight=tuple(f"{name}=1e-9" for name in job.options.train)).prepare()


def test_a_text_that_lost_most_of_its_pairs_is_warned_of_by_the_rule(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = [(f"{src} and some more words to be long", tgt) for src, tgt in pairs(60)]
    train = write(tmp_path, "m", text)
    job.but(train=(train, *job.options.train), valid=train).prepare()
    warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert [line.replace(f"{tmp_path}/", "") for line in warnings] == [
        "nmt: warning: --train m is the same text as m; do not train on valid or test",
        "nmt: warning: m: more than half of the pairs were rejected, 60 of 60 by the rule "
        f"`overlap`: {RULES['overlap'].reason}",
    ]


def test_texts_that_are_shifted_are_warned_of_where_that_begins(
    job: Job,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_LINES", 300)
    text = [("a" + " b" * (n * 37 % 31), f"z {n}" + " y" * (n * 37 % 31)) for n in range(1200)]
    src, tgt = zip(*text, strict=True)
    late = list(zip(src, (*tgt[:400], *tgt[401:], "z"), strict=True))
    for name, lines, said in (
        ("good", text, []),
        (
            "late",
            late,
            [
                (
                    "late",
                    "lines 301 to 600: judging by line lengths, the targets come 1 line earlier",
                )
            ],
        ),
        ("all", list(zip(src, (*tgt[1:], "z"), strict=True)), [("all", "come 1 line earlier")]),
    ):
        train = write(tmp_path, name, lines)
        changed_text = job.but(out=tmp_path / f"o-{name}", train=(train,))
        changed_text.but(vocab_size=280).prepare()
        warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
        assert len(warnings) == len(said)
        for line, (prefix, words) in zip(warnings, said, strict=True):
            assert f"/{prefix}.en and " in line
            assert words in line


@pytest.mark.usefixtures("small_blocks")
def test_valid_can_be_drawn_from_the_training_text(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = [("same", "same"), *pairs(70)[40:], pairs(1)[0], ("", "leer"), ("kept out", "heraus")]
    test = write(tmp_path, "t", [("a sentence of more than thirty letters", "ein Satz")])
    more += [("A sentence of more than thirty letters!", "noch einer")] * 3
    job = job.but(
        train=(*job.options.train, write(tmp_path, "m", more)),
        valid=None,
        test=(test,),
        tag=(f"{tmp_path}/m=<BT>",),
        valid_lines=12,
        shard_pairs=10,
        vocab_size=335,
    )
    folder = job.prepare()
    lines = [path.read_text().splitlines() for path in folder.valid_text]
    drawn = [(src.removeprefix("<BT> "), tgt) for src, tgt in zip(*lines, strict=True)]
    clean = {*pairs(70), ("kept out", "heraus")}
    assert len(set(drawn)) == len(folder.valid) == 12
    assert set(drawn) < clean
    train = [text_of(folder, n) for n in range(len(folder.train))]
    kept = [(src.removeprefix("<BT> "), tgt) for src, tgt in train]
    # A pair that stands in both texts may be drawn from one; short ones stay in the other.
    assert set(kept) | set(drawn) == clean
    assert sum(corpus.rejected["valid"] for corpus in folder.info.train.corpora) == 12
    again = {(corpus, line) for corpus, line in map(folder.train.origin, range(len(kept)))}
    assert len(again) == len(kept)
    assert (folder.info.settings["valid_lines"], folder.info.valid.corpora[0].lines) == (12, 12)

    others: list[tuple[str, int, dict[str, int]]] = [
        ("w", 3, {}),
        ("s", 1, {"seed": 2}),
        ("n", 1, {"valid_lines": 11}),
    ]
    for name, workers, settings in others:
        other = job.but(out=tmp_path / name, workers=workers)
        other.but(**settings).prepare()
        same = content(job.out) == content(tmp_path / name)
        assert same == (name == "w")
    stopped = job.but(out=tmp_path / "stopped")
    stop(stopped, monkeypatch, shards=3, error=KeyboardInterrupt(), raised=Stopped)
    stopped.prepare()
    assert content(job.out) == content(tmp_path / "stopped")
    assert job.prepare().fingerprint == folder.fingerprint
    given = job.but(valid=f"{tmp_path}/valid", valid_lines=0)
    with pytest.raises(UsageError, match="valid_lines was 12 and is 0; the text of valid was"):
        given.prepare()


def test_drawn_pairs_are_in_the_encoding_of_the_text(job: Job, tmp_path: Path) -> None:
    for lang, word in (("en", "café"), ("de", "Käse")):
        text = "".join(f"{word} {'x' * n}\n" for n in range(40))
        (tmp_path / f"m.{lang}").write_bytes(text.encode("cp1252"))
    values = {"train": (f"{tmp_path}/m",), "valid": None, "valid_lines": 5, "vocab_size": 280}
    folder = job.but(encoding="cp1252", **values).prepare()
    assert folder.valid_text[0].read_text("utf-8").count("café") == 5
    assert len(folder.train) == 35


def test_the_source_of_a_drawn_pair_is_kept_out_of_train_whatever_its_tag(
    job: Job, tmp_path: Path
) -> None:
    sources = [f"the old red house under the green tree, {'i' * n}" for n in range(1, 21)]
    twice = [(src, f"{word} {src[::-1]}") for word in ("eins", "zwei") for src in sources]
    train = write(tmp_path, "m", twice)
    job = job.but(train=(train,), valid=None, valid_lines=5, vocab_size=310)
    # The tag is none of the text's encoding.
    folder = job.but(encoding="cp1252", tag=(f"{train}=<日>",)).prepare()
    lines = folder.valid_text[0].read_text("utf-8").splitlines()
    assert all(line.startswith("<日> the old red house") for line in lines)
    assert not set(lines) & {text_of(folder, n)[0] for n in range(len(folder.train))}


def test_more_valid_lines_than_can_be_drawn_are_refused(job: Job) -> None:
    drawn = job.but(valid=None, valid_lines=61)
    with pytest.raises(DataError, match="--valid-lines 61: only 60 of 60 training pairs are"):
        drawn.prepare()
    with pytest.raises(DataError, match="all 60 training pairs were rejected: valid 60"):
        drawn.but(valid_lines=60).prepare()
    assert not job.out.exists()


def test_a_setting_that_an_old_folder_does_not_have_counts_as_its_default(job: Job) -> None:
    job.prepare()
    file = job.out / "dataset.json"
    content = json.loads(file.read_text())
    for name in ("valid_lines", "max_symbols"):
        del content["settings"][name]
    file.write_text(json.dumps(content))
    assert "max_symbols" not in job.prepare().info.settings
    with pytest.raises(UsageError, match=r"options or text: max_symbols was 0\.5 and is 0\.4;"):
        job.but(max_symbols=0.4).prepare()

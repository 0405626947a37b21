"""The stage: text in, a data folder out, each pair in it or counted, the same every time."""

import contextlib
import itertools
import random
import re
import resource
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from foreign_models import learn_pieces
from prepare_job import Job, content, pairs, pairs_in, unlike_pairs, write

from nmt.data import line_blocks
from nmt.data.folder import DataFolder
from nmt.data.manifest import OverlapRecord
from nmt.data.moses import Moses
from nmt.data.vocabulary import learn_vocabulary
from nmt.errors import DataError, NMTError, UsageError
from nmt.prepare.cleaning_options import RULES
from nmt.system import workers

Lines = list[tuple[str, str]]
Warnings = Callable[[], list[str]]


@pytest.fixture
def warnings(capsys: pytest.CaptureFixture[str]) -> Warnings:
    """Return the warnings since the last call."""
    return lambda: [line for line in capsys.readouterr().err.splitlines() if "warning" in line]


@pytest.mark.usefixtures("small_blocks")
def test_all_pairs_arrive_in_the_order_of_the_text(job: Job) -> None:
    job.out.mkdir(parents=True)  # an empty folder is a good place
    folder = job.but(shard_pairs=23).prepare()
    assert pairs_in(folder) == pairs(60)
    assert [shard.pairs for shard in folder.info.train.shards] == [25, 25, 10]
    assert folder.test is None
    names = ["dataset.json", "rejects.json", "rejects.txt"]
    names += ["train-00000.bin", "train-00001.bin", "train-00002.bin"]
    names += ["valid.bin", "valid.de", "valid.en", "valid.overlap"]
    assert [*content(job.out)] == [*names, "vocab.model"]
    assert [path.name for path in job.out.parent.iterdir()] == ["data"]
    DataFolder.open(job.out, verify=True)


# ------------------------------------------------------------- what is dropped, what is refused


REPEATED = [("a", "x"), ("a", "y"), ("b", "x"), ("x", "a"), ("a", "x")]
# The fourth repeats the second, and the third the first but for its number and its case.
NEAR = [("page 1", "Blatt 1"), ("book", "Buch"), ("Page 23!", "blatt 23"), ("book", "Buch"),
        ("page 4", "Seite 4")]  # fmt: skip
BY_SOURCE = {"duplicates": "near", "duplicates_by": "source"}
EN, DE = "a sentence of more than thirty letters", "ein Satz mit mehr als dreißig Zeichen"
HELD_OUT = [(f"{EN} a", f"{DE} a"), (f"{EN} b", f"{DE} b")]
# Ten words are at least ten tokens and "short" at most six, each with a mark for its space.
LONG = [("q w e r t z u i o p", "kurz"), ("short", "kurz kurz")]


@pytest.mark.parametrize(
    ("lines", "values", "rejected"),
    [
        (REPEATED, {}, {"duplicate": 1}),
        (REPEATED, {"duplicates_by": "source"}, {"duplicate": 2}),
        (REPEATED, {"keep": ("duplicate",)}, {}),
        (NEAR, {}, {"duplicate": 1}),
        (NEAR, {"duplicates": "near"}, {"duplicate": 1, "near_duplicate": 1}),
        (NEAR, BY_SOURCE, {"duplicate": 1, "near_duplicate": 2}),
        ([*HELD_OUT, ("hers", f"{DE.upper()} A!"), (f"{EN} c", f"{DE} c")], {}, {"overlap": 3}),
        (LONG, {"max_length": 9}, {"too_long": 1}),
        (LONG, {"max_length": 9, "keep": ("too_long",)}, {}),
        ([("q", "w"), ("short words", "kurze Worte")], {"min_length": 3}, {"too_short": 1}),
    ],
)
def test_what_the_rules_take_of_a_text_is_counted(
    job: Job, tmp_path: Path, lines: Lines, values: dict[str, object], rejected: dict[str, int]
) -> None:
    train = (*job.options.train, write(tmp_path, "m", lines))
    valid, test = write(tmp_path, "v", HELD_OUT[:1]), write(tmp_path, "t", HELD_OUT[1:])
    job = job.but(train=train, valid=valid, test=(test,))
    corpus = job.but(**values).prepare().info.train.corpora[1]
    assert dict(corpus.rejected) == rejected
    assert corpus.kept == len(lines) - sum(rejected.values())


@pytest.mark.parametrize(
    ("error", "message", "values", "texts"),
    [
        (DataError, r"valid\.en line 3 .*utf-8", {}, {"valid": (b"a\nb\nc\xff\n", b"x\ny\nz\n")}),
        (DataError, r"valid\.de line 3 .*blank", {}, {"valid": (b"a\nb\nc\n", b"x\ny\n \t\n")}),
        # SentencePiece's own mark of a space
        (DataError, r"valid\.en line 2 .*tokens", {}, {"valid": (b"a\n\xe2\x96\x81\n", b"x\ny\n")}),
        (DataError, r"valid\.en and .*valid\.de are empty", {}, {"valid": (b"", b"")}),
        (DataError, "empty: .*/train$", {}, {"train": (b"", b"")}),
        (DataError, "3 .*: empty 1, identical 2", {}, {"train": (b"a\n\ny\n", b"a\nx\ny\n")}),
        (DataError, "60 .*: too_long 60", {"max_length": 1}, {}),
        (DataError, "--valid-lines 61: .*60 of 60", {"valid": (), "valid_lines": 61}, {}),
        (DataError, "60 .*: valid 60", {"valid": (), "valid_lines": 60}, {}),
        (UsageError, "^en: .*9999", {"vocab_size": 9999, "separate_vocab": True}, {}),
    ],
)
def test_what_cannot_be_prepared_is_refused_and_nothing_written(
    job: Job,
    tmp_path: Path,
    error: type[NMTError],
    message: str,
    values: dict[str, object],
    texts: dict[str, tuple[bytes, bytes]],
) -> None:
    for name, sides in texts.items():
        for lang, side in zip(("en", "de"), sides, strict=True):
            (tmp_path / f"{name}.{lang}").write_bytes(side)
    with pytest.raises(error, match=message):
        job.but(**values).prepare()
    assert not list(tmp_path.glob("out/*"))


# --------------------------------------------------------------------------------- valid and test


def test_valid_and_test_keep_every_line_as_it_is(job: Job, tmp_path: Path) -> None:
    odd = [("same", "same"), ("same", "same"), ("a\u2028b\u0085\tc", "x  y "), ("z" * 999, "w")]
    odd += [("\x07", "b"), ("10 20", "10.20")]
    job = job.but(valid=write(tmp_path, "odd", odd), test=(write(tmp_path, "t", odd),))
    folder = job.but(max_length=5, keep=("too_long",)).prepare()
    assert len(folder.valid) == 6
    src, tgt = folder.valid_texts[0].lines()
    assert list(zip(src, tgt, strict=True)) == odd
    assert folder.test is not None
    assert len(folder.test) == 6


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (("one/t+2", "two/t", "one/t", "two/t"), ["t+2", "t", "t+3", "t+4"]),
        (("one/t", "two/t", "one/t+2"), ["t", "t+2", "t+2+2"]),
    ],
)
def test_every_test_set_has_a_name_of_its_own(
    job: Job, tmp_path: Path, given: tuple[str, ...], names: list[str]
) -> None:
    for text in set(given):
        (tmp_path / text).parent.mkdir(exist_ok=True)
        write(tmp_path, text, [("held out", "zurück")])
    folder = job.but(test=tuple(f"{tmp_path}/{text}" for text in given)).prepare()
    assert [split.name for split in folder.info.tests] == [f"test-{name}" for name in names]


@pytest.mark.usefixtures("small_blocks")
def test_valid_can_be_drawn_from_the_training_text(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = unlike_pairs(70)
    more = [("same", "same"), *text[40:], text[0], ("", "leer"), ("kept out", "heraus")]
    test = write(tmp_path, "t", [("a sentence of more than thirty letters", "ein Satz")])
    more += [("A sentence of more than thirty letters!", "noch einer")] * 3
    train = (write(tmp_path, "first", text[:60]), write(tmp_path, "m", more))
    job = job.but(train=train, valid=(), valid_lines=12, test=(test,))
    job = job.but(tag=(f"{tmp_path}/m=<BT>",), shard_pairs=10, vocab_size=335)
    folder = job.prepare()
    lines = zip(*folder.valid_texts[0].lines(), strict=True)
    drawn = [(src.removeprefix("<BT> "), tgt) for src, tgt in lines]
    clean = {*text, ("kept out", "heraus")}
    assert len(set(drawn)) == len(folder.valid) == 12
    assert set(drawn) < clean
    kept = [(src.removeprefix("<BT> "), tgt) for src, tgt in pairs_in(folder)]
    # A pair that stands in both texts is drawn from one, and then kept out of both.
    assert set(kept) | set(drawn) == clean
    assert not set(kept) & set(drawn)
    twice = len(set(drawn) & {*text[40:60], text[0]})
    assert sum(corpus.rejected["valid"] for corpus in folder.info.train.corpora) == 12 + twice > 12
    assert len({folder.train.origin(index) for index in range(len(kept))}) == len(kept)
    assert (folder.info.settings["valid_lines"], folder.info.valid.corpora[0].lines) == (12, 12)

    monkeypatch.setattr(workers, "Workers", partial(workers.Workers, method="fork"))
    assert content(job.but(out=tmp_path / "many", workers=2).prepare().path) == content(job.out)
    other = job.but(out=tmp_path / "other", seed=2).prepare()
    assert other.valid_texts[0].lines() != folder.valid_texts[0].lines()
    given = job.but(valid=f"{tmp_path}/valid", valid_lines=0)
    with pytest.raises(UsageError, match=r"valid_lines .*12 .*0; .*text of valid"):
        given.prepare()


def test_a_drawn_source_is_kept_out_of_train_whatever_its_tag(job: Job, tmp_path: Path) -> None:
    sources = [f"the old café {line} under the {line[::-1]}" for line, _ in unlike_pairs(20)]
    for lang, words in (("en", ("", "")), ("de", ("eins ", "zwei "))):
        text = "".join(f"{word}{source}\n" for word in words for source in sources)
        (tmp_path / f"m.{lang}").write_bytes(text.encode("cp1252"))
    job = job.but(train=(f"{tmp_path}/m",), valid=(), valid_lines=5, vocab_size=310)
    # The tag is not in the text's encoding.
    folder = job.but(encoding="cp1252", tag=(f"{tmp_path}/m=<日>",)).prepare()
    lines = folder.valid_texts[0].src.read_text("utf-8").splitlines()
    assert len(lines) == 5
    assert all(line.startswith("<日> the old café") for line in lines)
    assert len(folder.train) == 40 - 2 * 5
    assert not set(lines) & {src for src, _ in pairs_in(folder)}


# ------------------------------------------------------------------ vocabularies, tags and weights


def learnt(path: Path, size: int, **options: Any) -> Path:
    """Learn a vocabulary of other text."""
    vocabulary = learn_vocabulary(["some other text 123"], vocab_size=size, **options)
    path.write_bytes(vocabulary.model)
    return path


def test_separate_vocabularies_hold_their_own_language(job: Job) -> None:
    folder = job.but(separate_vocab=True, vocab_size=300).prepare()
    assert not folder.joint
    assert pairs_in(folder) == pairs(60)
    src, tgt = (v.tokens(range(300)) for v in (folder.src_vocabulary, folder.tgt_vocabulary))
    assert "▁the" in src
    assert "▁the" not in tgt
    assert "▁das" in tgt
    assert {"src.model", "tgt.model"} < set(content(job.out))


def test_a_given_vocabulary_is_used_as_it_is(job: Job, tmp_path: Path) -> None:
    model = learnt(tmp_path / "spm.model", 275)
    given = job.but(vocab=(model,))
    folder = given.prepare()
    assert folder.src_vocabulary.model == model.read_bytes()
    assert (folder.joint, folder.info.vocabulary.given) == (True, True)
    assert (folder.info.settings["vocab_size"], pairs_in(folder)) == (275, pairs(60))
    assert given.prepare().fingerprint == folder.fingerprint
    learnt(model, 276)
    with pytest.raises(UsageError, match="vocabulary"):
        given.prepare()


def test_a_vocabulary_with_other_special_ids_is_renumbered_and_one_without_bytes_warned_of(
    job: Job, tmp_path: Path, warnings: Warnings
) -> None:
    (tmp_path / "their.spm").write_bytes(learn_pieces("source", "unigram"))
    valid = write(tmp_path, "held", [("held out", "zurück")])
    folder = job.but(vocab=(tmp_path / "their.spm",), valid=valid).prepare()
    assert folder.src_vocabulary.tokens(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert folder.joint and len(folder.train) > 0
    assert "their.spm has no byte fallback" in warnings()[0]


def test_a_given_vocabulary_that_does_not_suit_the_text_is_warned_of(
    job: Job, tmp_path: Path, warnings: Warnings
) -> None:
    folder = job.but(separate_vocab=True, vocab_size=300).prepare()
    src, tgt = (path.rename(tmp_path / path.name) for path in sorted(folder.path.glob("*.model")))
    job.but(out=tmp_path / "right", vocab=(src, tgt)).prepare()
    assert not any("--vocab" in warning for warning in warnings())
    job.but(out=tmp_path / "exchanged", vocab=(tgt, src)).prepare()
    (warning,) = (warning for warning in warnings() if "--vocab" in warning)
    assert "60 pairs" in warning and "--src first" in warning
    greek = write(
        tmp_path, "greek", [(f"the red house {n}", "το κόκκινο σπίτι") for n in range(30)]
    )
    other = job.but(out=tmp_path / "other", train=(greek,), keep=("script", "ratio"))
    other.but(vocab=(src,)).prepare()
    assert any("greek.de: --vocab has no pieces for" in warning for warning in warnings())


def test_a_tag_that_a_given_vocabulary_does_not_know_is_added(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = learnt(tmp_path / "spm.model", 275)
    tagged = job.but(vocab=(model,), tag=(f"{job.options.train[0]}=<BT>",))
    folder = tagged.prepare()
    assert "<BT>: new" in capsys.readouterr().err
    assert pairs_in(folder)[0][0] == "<BT> the red house 0"
    vocabulary = folder.src_vocabulary
    assert len(vocabulary) == 276 and vocabulary.tokens([275]) == ["<BT>"]
    assert vocabulary.tokens(vocabulary.encode(["<BT> a"])[0])[:2] == ["\u2581", "<BT>"]


def test_weights_reach_the_stream_and_tags_the_text(job: Job, tmp_path: Path) -> None:
    more = write(tmp_path, "more", [("one", "eins"), ("two", "zwei")])
    tags = (f"{more}=<BT>", f"{tmp_path}/valid=<2de>")
    job = job.but(train=(*job.options.train, more), vocab_size=335)
    folder = job.but(weight=(f"{more}=2.5",), tag=tags).prepare()
    assert folder.train.shares == ((2, 2.5), (60, 1.0))
    assert pairs_in(folder)[:3] == [("<BT> one", "eins"), ("<BT> two", "zwei"), pairs(60)[0]]
    assert "<BT>" in folder.src_vocabulary.tokens(folder.train.src(0).tolist())
    assert folder.valid_texts[0].src.read_text().startswith("<2de> the red house 0\n")
    assert [(c.weight, c.tag) for c in folder.info.train.corpora] == [(2.5, "<BT>"), (1.0, "")]
    with pytest.raises(UsageError, match=r"weight of .*more .*2\.5 .*1; .*tag of .*more .*<BT> "):
        job.but(tag=tags[1:]).prepare()


@pytest.mark.parametrize("weights", [(2.0, 1.0), (1.0, 2.0), (1.0, 1.0)])
def test_of_equal_pairs_the_one_with_the_larger_weight_stays(
    job: Job, tmp_path: Path, weights: tuple[float, float]
) -> None:
    texts = [write(tmp_path, name, pairs(60)) for name in ("one", "two")]
    given = tuple(f"{text}={weight}" for text, weight in zip(texts, weights, strict=True))
    folder = job.but(train=tuple(texts), weight=given).prepare()
    kept = {corpus.prefix: corpus.kept for corpus in folder.info.train.corpora}
    heavier = weights[1] > weights[0]
    assert kept == {texts[heavier]: 60, texts[not heavier]: 0}


def test_the_vocabulary_is_learnt_by_the_weights_of_the_texts(job: Job, tmp_path: Path) -> None:
    more = write(tmp_path, "more", [("qqzz xxww", "yyvv"), ("qqzz xxww", "jjkk"), ("ff", "ff gg")])
    job = job.but(train=(*job.options.train, more))
    for out, weight in (("plain", ()), ("heavy", (f"{more}=50",))):
        vocabulary = job.but(out=tmp_path / out, weight=weight).prepare().src_vocabulary
        assert ("▁qqzz" in vocabulary.tokens(range(len(vocabulary)))) == bool(weight)
    with pytest.raises(UsageError, match="--weight"):
        job.but(weight=tuple(f"{name}=1e-9" for name in job.options.train)).prepare()


def test_moses_rules_are_recorded_in_the_folder(job: Job, tmp_path: Path) -> None:
    lines = [(f"A {a}, {b}!", f"Ein {b}, {a}!") for a, b in pairs(40)]
    job = job.but(train=(write(tmp_path, "m", lines),))
    steps = dict.fromkeys(("moses_tokenize", "moses_lowercase"), True)
    folder = job.but(**steps, vocab_size=340).prepare()
    assert folder.joint
    # Nothing but the tokeniser takes the comma off its word in every line.
    assert "".join(folder.src_vocabulary.tokens(folder.train.src(3).tolist())).count("\u2581,") == 1
    assert pairs_in(folder) == [(src.lower(), tgt.lower()) for src, tgt in lines]
    again = DataFolder.open(job.out)
    assert again.tgt_vocabulary.moses == Moses("de", normalize=False, tokenize=True, lowercase=True)
    assert again.valid_texts[0].src.read_text() == "".join(f"{src}\n" for src, _ in pairs(3))


# --------------------------------------------------------------------------------------- warnings


def test_a_language_without_a_known_script_is_told_of(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for lang in ("eng_Latn", "tlh", "jp"):
        for name in ("train", "valid"):
            text = tmp_path / f"{name}.en"
            text.with_suffix(f".{lang}").write_bytes(text.read_bytes())
        job.but(out=job.out / lang, src_lang=lang).prepare()
        said = capsys.readouterr().err
        assert said.count("know the script") == said.count(f"nmt: {lang}: ") == (len(lang) < 4)
        assert ("if you mean Japanese, its code is ja" in said) == (lang == "jp")


def test_a_text_that_lost_most_of_its_pairs_is_warned_of_by_the_rule(
    job: Job, tmp_path: Path, warnings: Warnings
) -> None:
    text = [(f"{src} and some more words to be long", tgt) for src, tgt in pairs(60)]
    train = write(tmp_path, "m", text)
    job.but(train=(train, *job.options.train), valid=train).prepare()
    same_text, lost, flattering = warnings()
    assert f"--train {train} is" in same_text
    assert f"{train}: 60 of 60" in flattering
    assert re.search(f"{train}: .*60 of 60 .*`overlap`: ", lost)
    assert lost.endswith(RULES["overlap"])


@pytest.mark.parametrize(
    ("lost", "number", "option"),
    [(1, 401, "train"), (5, 590, "train"), (20, 610, "test"), (100, 450, "train")],
)
def test_texts_that_are_out_of_step_are_warned_of_where_that_begins(
    job: Job,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    warnings: Warnings,
    lost: int,
    number: int,
    option: str,
) -> None:
    monkeypatch.setattr(line_blocks, "BLOCK_LINES", 300)
    lengths = random.Random(1).choices(range(40), k=1300)
    src = [f"a {n}" + " b" * length for n, length in enumerate(lengths)]
    tgt = [f"z {n}" + " y" * length for n, length in enumerate(lengths)]
    tgt = [*tgt[: number - 1], *tgt[number - 1 + lost :], *tgt[:lost]]
    text = write(tmp_path, "m", list(zip(src, tgt, strict=True)))
    job.but(**{option: (text,)}, vocab_size=None).prepare()
    told = "\n".join(warnings())
    ((first, shift),) = re.findall(r"m\.de: from line (\d+) on, .* (\d+) lines? earlier", told)
    assert int(shift) == lost
    assert abs(int(first) - number) <= 20


# ----------------------------------------------------------------------------------------- sizes


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
    monkeypatch.setattr(line_blocks, "BLOCK_LINES", 2)
    with room_for_files(20):
        assert len(job.but(shard_pairs=1).prepare().info.train.shards) == 30
        assert pairs_in(DataFolder.open(job.out, verify=True)) == pairs(60)


def test_pairs_drawn_for_valid_are_kept_out_in_every_form(job: Job, tmp_path: Path) -> None:
    lines = [(f"café {n}", f"grün {n}") for n in range(30)]
    forms = [[normalize(form, side) for side in pair] for form in ("NFC", "NFD") for pair in lines]
    train = write(tmp_path, "forms", [(src, tgt) for src, tgt in forms])
    folder = job.but(
        train=(train,), valid=(), valid_lines=10, vocab_size=300, out=tmp_path / "drawn"
    ).prepare()
    drawn = {normalize("NFC", line) for line in (folder.path / "valid.en").read_text().splitlines()}
    assert not drawn & {src for src, _ in pairs_in(folder)}


@pytest.mark.usefixtures("small_blocks")
def test_near_copies_of_what_was_drawn_leave_train(job: Job, tmp_path: Path) -> None:
    lines = unlike_pairs(40)
    copies = [(f"{src.upper()}!", f"ja {n}") for n, (src, _) in enumerate(lines)]  # the same source
    copies += [(f"no {n}", f"{tgt} und") for n, (_, tgt) in enumerate(lines)]  # nearly the target
    train = write(tmp_path, "m", [*lines, *copies])
    folder = job.but(train=(train,), valid=(), valid_lines=8).prepare()
    (corpus,), (record,) = folder.info.train.corpora, folder.info.valid.corpora
    assert corpus.rejected["valid"] >= 2 * 8 and corpus.kept > 60
    assert record.overlap is not None
    assert (record.overlap.same, record.overlap.near) == (0, 0)
    left = {side for pair in pairs_in(folder) for side in pair}
    for line in zip(*folder.valid_texts[0].lines(), strict=True):
        assert not left & {line[0], f"{line[0].upper()}!", line[1], f"{line[1]} und"}


SOME, MORE = unlike_pairs(40)[:20], unlike_pairs(40)[20:]
COPIED = [(src, src if n % 2 else tgt) for n, (src, tgt) in enumerate(MORE[10:])]


@pytest.mark.parametrize(
    ("valid", "test", "warned"),
    [
        (MORE[:10], MORE[10:], []),
        (MORE[:10], COPIED, ["t: 5 of 10 .*source"]),
        (MORE[:10], [*MORE[10:], *MORE[10:15]], ["t: 5 of 15 .*repeat"]),
        (MORE[:10], MORE[:12], ["t: 10 of 12 .*/v, too"]),
        (MORE[:10], [*SOME[:3], *MORE[10:]], ["t: 3 of 13 .*in train"]),
        (SOME[::-1], MORE[:1], ["v: 20 of 20 .*in train"]),
    ],
)
def test_held_out_text_that_flatters_is_warned_of(
    job: Job, tmp_path: Path, warnings: Warnings, valid: Lines, test: Lines, warned: list[str]
) -> None:
    texts = {"m": SOME, "v": valid, "t": test}
    train, valid_text, test_text = (write(tmp_path, name, text) for name, text in texts.items())
    job.but(train=(train,), valid=valid_text, test=(test_text,), vocab_size=300).prepare()
    found = warnings()
    assert len(found) == len(warned)
    for line, expected in zip(found, warned, strict=True):
        assert re.search(expected, line)


@pytest.mark.usefixtures("small_blocks")
def test_a_data_folder_tells_how_near_its_test_set_is_to_train(job: Job, tmp_path: Path) -> None:
    train = [*SOME, ("kept out of all", "bleibt"), ("bad \x07 line", "zurück")]
    long = "Kept out of all, if it is what we want today"  # 30 4-grams, 9 of a line in train
    test = [SOME[0], ("Kept out of all, it is", "x"), (long, "y"), ("bad line", "zurueck")]
    test += [("", ""), ("q", "w")]
    texts = {"train": (write(tmp_path, "m", train),), "test": (write(tmp_path, "t", test),)}
    folder = job.but(**texts, documents=True, vocab_size=310).prepare()
    (split,) = folder.info.tests
    shares = (folder.path / split.overlaps[0].name).read_text().split()
    # The line with a control character is in no shard: "badl", "adli", "dlin", "line" is new.
    assert shares == ["1.0000", "1.0000", "0.6000", "0.0000", "0.0000", "0.0000"]
    assert split.corpora[0].overlap == OverlapRecord(same=1, near=1, median=0.6)
    (text,) = folder.texts(split)
    assert text.far_half() == [3, 5]  # 4 ends a document

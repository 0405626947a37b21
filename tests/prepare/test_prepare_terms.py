"""`--terms`: training lines say how some of their words are translated."""

from pathlib import Path
from unicodedata import normalize

import pytest
from prepare_job import Job, content, job_of, stop, write

from nmt.data import line_blocks
from nmt.data.folder import DataFolder
from nmt.data.vocabulary import ANNOTATION
from nmt.errors import UsageError
from nmt.lexical import word_lexicon
from nmt.prepare import prepare as stage

pytest.importorskip("simplemma", reason="needs the extra terms")

ANIMALS = [("dog", "dogs", "Hund", "Hunde"), ("cat", "cats", "Katze", "Katzen")]
ANIMALS += [("mouse", "mice", "Maus", "Mäuse"), ("horse", "horses", "Pferd", "Pferde")]


def animals(count: int) -> list[tuple[str, str]]:
    """Different pairs: "the dogs number 7 sleep" and "die Hunde Nummer 7 schlafen"."""
    pairs = []
    for n in range(count):
        one, many, eins, viele = ANIMALS[n % len(ANIMALS)]
        if n % 3:
            pairs.append((f"the {many} number {n} sleep", f"die {viele} Nummer {n} schlafen"))
        else:
            pairs.append((f"the {one} number {n} sleeps", f"das {eins} Nummer {n} schläft"))
    return pairs


@pytest.fixture(autouse=True)
def few_frequent_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what is in most lines: "the number sleep" and "die Nummer schlafen"."""
    monkeypatch.setattr(word_lexicon, "_FREQUENT", 3)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return job_of(tmp_path, write(tmp_path, "train", animals(120)), terms="auto")


def terms_file(folder: Path, text: str) -> str:
    path = folder / "terms.tsv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def sources(folder: DataFolder) -> list[str]:
    """The training sources, with their annotations."""
    vocabulary = folder.src_vocabulary
    found = []
    for number in range(len(folder.train)):
        tokens = vocabulary.tokens(folder.train.src(number).tolist())
        spelt = "".join(f" {one} " if one in ANNOTATION else one for one in tokens)
        found.append(" ".join(spelt.replace("\u2581", " ").split()))
    return found


def noted(line: str) -> list[tuple[str, str]]:
    """The terms of a line and their translations."""
    parts = [part.split("</term>")[0] for part in line.split("<term>")[1:]]
    return [(src.strip(), tgt.strip()) for src, tgt in (part.split("<as>") for part in parts)]


def test_words_that_translate_each_other_are_annotated_with_the_lemma(job: Job) -> None:
    folder = job.prepare()
    found = [noted(line) for line in sources(folder)]
    pairs = {pair for line in found for pair in line}
    expected = {(word, eins) for one, many, eins, _ in ANIMALS for word in (one, many)}
    assert pairs == expected
    # The chance of a word is drawn for its line, and is one half on average.
    annotated = [line for line in found if line]
    assert 0.35 * len(found) < len(annotated) < 0.65 * len(found)
    train = folder.info.train
    assert (train.annotations, train.annotated) == (sum(map(len, found)), len(annotated))
    assert folder.info.reads_annotations
    assert folder.info.settings["annotations"].startswith("auto, simplemma ")


def test_without_annotations_lines_are_those_of_a_folder_without(job: Job, tmp_path: Path) -> None:
    with_terms = job.prepare()
    plain = job.but(out=tmp_path / "plain", terms=None, vocab=(job.out / "vocab.model",)).prepare()
    assert not plain.info.reads_annotations
    assert plain.info.train.annotations == 0
    markers = with_terms.src_vocabulary.control_ids(ANNOTATION)
    for number in range(len(plain.train)):
        ids = with_terms.train.src(number).tolist()
        while markers[1] in ids:
            start, end = ids.index(markers[1]), ids.index(markers[2])
            ids = ids[:start] + ids[end + 1 :]
        assert [one for one in ids if one != markers[0]] == plain.train.src(number).tolist()
        assert with_terms.train.tgt(number).tolist() == plain.train.tgt(number).tolist()
    for name in ("valid.bin", "valid.en", "valid.de"):
        assert (job.out / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_what_is_annotated_depends_on_the_seed_but_not_on_how_the_text_is_read(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = job.prepare()
    other = job.but(out=tmp_path / "other", seed=2).prepare()
    chosen = [[bool(noted(line)) for line in sources(one)] for one in (folder, other)]
    assert chosen[0] != chosen[1]
    monkeypatch.setattr(line_blocks, "BLOCK_LINES", 7)
    job.but(out=tmp_path / "blocks").prepare()
    assert content(job.out) == content(tmp_path / "blocks")


@pytest.mark.usefixtures("small_blocks")
def test_a_stopped_run_goes_on_with_the_same_lexicon_and_bytes(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job.but(shard_pairs=20)
    whole = job.but(out=tmp_path / "whole")
    whole.prepare()
    stop(job, monkeypatch, shards=2)
    with monkeypatch.context() as patch:  # it is not learnt again
        patch.setattr(stage, "learn_lexicon", None)
        job.prepare()
    assert content(job.out) == content(whole.out)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        # As it is, by its lemma, or in a form that is listed.
        ("source\ttarget\tform\nmice\tNager\tMäuse\n", {("mice", "Mäuse")}),
        # Other translations are not annotated; of several, the one that is there is.
        ("dog\tKöter\n", set()),
        ("dog\tKöter\ndog\tHund\n", {("dog", "Hund")}),
        # Several words.
        ("dogs number\tHund Nummer\n", {("dogs number", "Hund Nummer")}),
    ],
)
def test_terms_of_a_file_are_annotated_if_the_target_has_them(
    job: Job, tmp_path: Path, terms: str, expected: set[tuple[str, str]]
) -> None:
    folder = job.but(terms=terms_file(tmp_path, terms)).prepare()
    assert {pair for line in sources(folder) for pair in noted(line)} == expected
    assert folder.info.settings["annotations"].startswith("terms.tsv ")


def test_a_given_vocabulary_gets_the_markers(job: Job, tmp_path: Path) -> None:
    plain = job.but(out=tmp_path / "plain", terms=None).prepare()
    folder = job.but(vocab=(plain.path / "vocab.model",)).prepare()
    assert len(folder.src_vocabulary) == len(plain.src_vocabulary) + 3
    assert folder.info.train.annotations
    again = job.but(out=tmp_path / "again", vocab=(folder.path / "vocab.model",)).prepare()
    assert len(again.src_vocabulary) == len(folder.src_vocabulary)


def test_an_annotation_never_makes_a_line_longer_than_the_limit(job: Job, tmp_path: Path) -> None:
    longest = job.but(out=tmp_path / "plain", terms=None).prepare().info.train.src.longest
    folder = job.but(max_length=longest + 5).prepare()
    assert folder.info.train.pairs == 120
    assert folder.info.train.src.longest <= longest + 5


def test_a_folder_with_other_terms_is_another_folder(job: Job, tmp_path: Path) -> None:
    job.prepare()
    job.prepare()  # the same again
    with pytest.raises(UsageError, match=r"annotations .*auto, simplemma"):
        job.but(terms=terms_file(tmp_path, "dog\tHund\n")).prepare()


@pytest.mark.parametrize("terms", ["auto", "mouse\tMaus\nmice\tMäuse\n"])
def test_decomposed_text_is_annotated_as_composed(job: Job, tmp_path: Path, terms: str) -> None:
    chosen = terms if terms == "auto" else terms_file(tmp_path, normalize("NFC", terms))
    train = [(f"{src} café", f"{tgt} grün") for src, tgt in animals(60)]
    shards = []
    for form in ("NFC", "NFD"):
        text = [(normalize(form, src), normalize(form, tgt)) for src, tgt in train]
        given = {"train": (write(tmp_path, form, text),), "terms": chosen, "vocab_size": 310}
        folder = job.but(out=tmp_path / f"{form}-data", normalization="nfc", **given).prepare()
        assert folder.info.train.annotations
        shards.append(content(folder.path)["train-00000.bin"])
    assert shards[0] == shards[1]

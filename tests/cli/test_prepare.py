"""`nmt prepare` as a shell sees it: exit status, stdout, stderr, a folder here or at a URL."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Answer, Nmt
from prepare_job import content
from storage import Storage
from toy_training import pairs, write_text

from nmt import console
from nmt.errors import NMTError
from nmt.models.model_file import read_vocabularies

Prepare = Callable[..., Answer]
PAIR = ("--src", "en", "--tgt", "de")
URL = "memory://bucket/data"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder of 50 pairs to train on and 3 to validate with."""
    text = pairs(53, seed=1)
    for name, part in (("train", text[:50]), ("valid", text[50:])):
        write_text(tmp_path, name, part)
    return tmp_path


@pytest.fixture
def words(corpus: Path) -> list[str]:
    """The words that name the texts."""
    return [*PAIR, "--train", f"{corpus}/train", "--valid", f"{corpus}/valid", "--workers", "1"]


@pytest.fixture
def prepare(nmt: Nmt, corpus: Path, words: list[str]) -> Prepare:
    """Prepare the corpus with a vocabulary of 300, as `data` if it is not said where."""

    def run(*more: str, out: str = "") -> Answer:
        return nmt("prepare", out or corpus / "data", *words, "--vocab-size", "300", *more)

    return run


def add(corpus: Path, src: str, tgt: str) -> None:
    """Add lines to the training text."""
    for lang, lines in (("en", src), ("de", tgt)):
        with (corpus / f"train.{lang}").open("a") as file:
            file.write(lines)


def test_prepare_tells_what_it_did_and_then_that_it_is_done(prepare: Prepare, corpus: Path) -> None:
    add(corpus, "same\n\n", "same\nleer\n")
    done = prepare()
    assert (done.status, done.stdout) == (0, "")
    assert "50 of 52 pairs kept; rejected: empty 1, identical 1" in done.stderr
    assert "train: 50 pairs" in done.stderr
    assert re.search(f"{corpus}/data is ready, .*300", done.stderr)

    again = prepare()
    assert (again.status, again.stdout) == (0, "")
    assert "already prepared" in again.stderr
    assert "vocab_size" in prepare("--vocab-size", "301").refusal(2)


def test_pairs_drawn_for_valid_are_not_called_rejected(nmt: Nmt, corpus: Path) -> None:
    text = ("--train", corpus / "train", "--valid-lines", "5", "--vocab-size", "300")
    said = nmt("prepare", corpus / "data", *PAIR, *text, "--workers", "1").stderr
    told = r"(\d+) of 50 pairs kept, (\d+) drawn for valid or near copies of those; rejected: none"
    found = re.search(told, said)
    assert found and int(found[1]) + int(found[2]) == 50 and int(found[2]) >= 5


def test_a_data_folder_gives_its_vocabulary(
    nmt: Nmt, prepare: Prepare, corpus: Path, words: list[str]
) -> None:
    assert prepare().status == 0
    add(corpus, "other\n", "anders\n")
    nmt("prepare", corpus / "more", *words, "--vocab", corpus / "data").succeeded()
    given, taken = (read_vocabularies(corpus / name) for name in ("data", "more"))
    assert [one.model for one in taken[0]] == [one.model for one in given[0]]


def test_the_vocabulary_of_a_model_is_for_tuning_it(
    nmt: Nmt, corpus: Path, words: list[str], model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "is_terminal", lambda: True)
    done = nmt("prepare", corpus / "more", *words, "--vocab", model_file)
    assert f"nmt train {corpus}/more --out tuned --init-from {model_file}" in done.stderr


def test_quiet_says_nothing(prepare: Prepare) -> None:
    assert prepare("--quiet") == (0, "", "")


def test_a_dry_run_shows_what_rules_take_and_writes_nothing(prepare: Prepare, corpus: Path) -> None:
    add(corpus, "same\n", "same\n")
    before = sorted(corpus.iterdir())
    tried = prepare("--dry-run", "100", "--quiet")
    assert (tried.status, tried.stderr) == (0, "")
    assert f"{corpus}/train: 50 of 51 pairs kept\n" in tried.stdout
    assert "    train.en line 51: same\n    train.de line 51: same\n" in tried.stdout
    assert sorted(corpus.iterdir()) == before


# --------------------------------------------------------------------------------- at a URL


@pytest.fixture
def expected(prepare: Prepare, corpus: Path) -> dict[str, bytes]:
    assert prepare().status == 0
    return content(corpus / "data")


def at_url(storage: Storage) -> dict[str, bytes]:
    return {name.removeprefix("bucket/data/"): data for name, data in storage.files.items()}


@pytest.mark.parametrize("out", [URL, f"{URL}/"])
def test_a_folder_at_a_url_has_the_same_files(
    prepare: Prepare, storage: Storage, expected: dict[str, bytes], out: str
) -> None:
    assert f"{out} is ready" in prepare(out=out).succeeded().stderr
    assert at_url(storage) == expected
    assert storage.left_over() == []


def test_a_finished_folder_is_compared_and_not_made_again(
    prepare: Prepare, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepare(out=URL).status == 0
    before = storage.files

    def fail(_: Path, url: str) -> None:
        raise NMTError(f"{url}: written again")

    monkeypatch.setattr("nmt.system.remote.upload", fail)
    again = prepare(out=URL)
    assert (again.status, "already prepared" in again.stderr) == (0, True)
    other = prepare("--max-ratio", "2", "--quiet", out=URL).refusal(2)
    assert re.search("memory:/bucket/data .*: max_ratio", other)
    assert (storage.files, storage.left_over()) == (before, [])


def test_an_upload_that_fails_goes_on_the_next_time_and_describes_the_folder_last(
    prepare: Prepare, storage: Storage, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_in_the_end(path: Path, url: str) -> None:
        if path.name == "dataset.json":
            raise NMTError(f"{url}: no network")
        storage.write(url.removeprefix("memory://"), path.read_bytes())

    with monkeypatch.context() as patch:
        patch.setattr("nmt.system.remote.upload", fail_in_the_end)
        refused = prepare("--quiet", out=URL).refusal(1)
    assert refused == f"nmt: error: {URL}/dataset.json: no network"
    assert at_url(storage).keys() == expected.keys() - {"dataset.json"}
    assert "already prepared" in prepare(out=URL).stderr  # in the cache
    assert at_url(storage) == expected
    assert storage.left_over() == []


def test_other_files_at_a_url_are_left_alone(prepare: Prepare, storage: Storage) -> None:
    storage.write("bucket/data/thesis.tex", "years of work")
    assert f"{URL} is" in prepare("--quiet", out=URL).refusal(2)
    assert storage.files == {"bucket/data/thesis.tex": b"years of work"}


def test_passwords_and_queries_of_urls_are_neither_said_nor_written(
    nmt: Nmt, storage: Storage, tmp_path: Path
) -> None:
    for name, part in (("train", pairs(53, seed=1)), ("test", pairs(3, seed=2))):
        for at, lang in enumerate(("en", "de")):
            text = "".join(f"{pair[at]}\n" for pair in part)
            storage.write(f"me:s3cret@bucket/{name}?sig=t0ken.{lang}", text)
    train, test = (f"memory://me:s3cret@bucket/{name}?sig=t0ken" for name in ("train", "test"))
    words = [*PAIR, "--train", train, "--test", test]
    words += ["--weight", f"{train}=2"]
    words += ["--valid-lines", "3", "--vocab-size", "300", "--workers", "1"]
    done = nmt("prepare", tmp_path / "data", *words).succeeded()
    again = nmt("prepare", tmp_path / "data", *words)
    other = nmt("prepare", tmp_path / "data", *words, "--seed", "5")
    assert "memory://me@bucket/train" in done.stderr and other.status == 2
    missing = nmt("prepare", tmp_path / "new", *words, "--train", train.replace("train", "nowhere"))
    assert missing.status == 1
    said = "".join(answer.stdout + answer.stderr for answer in (done, again, other, missing))
    written = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir())
    names = " ".join(map(str, tmp_path.rglob("*")))
    for secret in ("s3cret", "t0ken"):
        assert secret not in said and secret.encode() not in written and secret not in names


def test_terms_that_no_pair_has_are_named(prepare: Prepare, corpus: Path) -> None:
    pytest.importorskip("simplemma", reason="needs the extra terms")
    (corpus / "terms.csv").write_text("n;German;English\n1;neun;nine\n2;drei;three\n")
    assert "--terms" not in prepare("--terms", f"{corpus}/terms.csv").stderr
    told = prepare("--terms", f"{corpus}/terms.csv:2,3", out=f"{corpus}/swapped").stderr
    assert f"warning: --terms {corpus}/terms.csv:2,3: " in told

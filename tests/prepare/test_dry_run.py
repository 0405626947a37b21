"""The rules tried on a sample: what they take, by line, and nothing written."""

from pathlib import Path

import pytest
from prepare_job import Job, write

from nmt.data.vocabulary import learn_vocabulary
from nmt.models.model_file import read_vocabularies
from nmt.prepare.prepare import dry_run

LINES = [
    (f"line {n} is good", f"Zeile {n} ist gut") if n % 10 else (f"same {n}", f"same {n}")
    for n in range(1, 201)
]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    train, valid = write(tmp_path, "train", LINES), write(tmp_path, "valid", LINES[:3])
    return Job.of(tmp_path / "data", train=(train,), valid=valid, max_length=3)


def test_a_sample_has_its_size_and_examples_have_their_lines(job: Job, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    (whole,) = dry_run(job.options, job.cleaning, pairs=1000)
    assert (whole.lines, whole.counts) == (200, {"identical": 20})
    assert [example.line for example in whole.examples["identical"]] == list(range(10, 201, 10))
    (half,) = dry_run(job.options, job.cleaning, pairs=100)
    assert half.lines == 100
    # 100 of 200 lines, 20 of which are bad: 10, with a standard deviation of 2.1.
    assert 0 < half.counts["identical"] < 20
    for example in half.examples["identical"]:
        assert LINES[example.line - 1] == (example.src, example.tgt)
    assert sorted(tmp_path.iterdir()) == before


def test_tokens_are_counted_if_a_vocabulary_is_given(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dry_run(job.options, job.cleaning, pairs=1000)
    assert "without --vocab" in capsys.readouterr().err
    model = tmp_path / "spm.model"
    model.write_bytes(learn_vocabulary(["some text"], vocab_size=268).model)
    given, _ = read_vocabularies(model)
    (corpus,) = dry_run(job.but(vocab=(model,)).options, job.cleaning, given, pairs=1000)
    assert corpus.counts == {"identical": 20, "too_long": 180}
    assert "without --vocab" not in capsys.readouterr().err

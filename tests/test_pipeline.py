"""A language learnt from text alone, through all commands of the real command line.

It is that of `toy_training`, and test sentences are not among those trained on.
"""

import json
from pathlib import Path
from random import Random

import pytest
from toy_training import metrics, nmt, pairs, settings_of, write_text

from nmt.config.fields import Value

BOUND = 90.0  # BLEU on sentences never seen; one wrong word in twenty costs about ten


class Pipeline:
    """The commands, run from a working directory that is nobody's."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.elsewhere = folder, folder / "elsewhere"
        self.elsewhere.mkdir()

    def nmt(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run a command; return what it wrote to stdout."""
        done = nmt(*arguments, input=stdin, cwd=self.elsewhere)
        assert done.returncode == 0, done.stderr
        assert not list(self.elsewhere.iterdir())
        return done.stdout

    def bleu(self, reference: Path, hypothesis: str) -> float:
        answer = self.nmt("score", reference, "--json", "--metric", "bleu", stdin=hypothesis)
        return float(json.loads(answer)["bleu"]["score"])


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Text and a run; the data is gone from its place."""
    made = Pipeline(tmp_path_factory.mktemp("pipeline"))
    folder, sentences = made.folder, pairs(2150, seed=1)
    Random(1).shuffle(sentences)
    train, valid = (
        write_text(folder, name, part)
        for name, part in (("train", sentences[:2000]), ("valid", sentences[2000:2050]))
    )
    write_text(folder, "test", sentences[2050:])
    texts = ("--src", "en", "--tgt", "de", "--train", train, "--valid", valid)
    made.nmt("prepare", folder / "data", *texts, "--vocab-size", "345", "--quiet")
    sizes: dict[str, Value] = {"d_model": 64, "d_ff": 128, "num_heads": 4, "batch_tokens": 600}
    sizes |= {"micro_batch_tokens": 2000, "learning_rate": 4e-3, "validate_metric": "bleu"}
    lengths = {"warmup_updates": 60, "max_updates": 300, "validate_every": 100, "save_every": 100}
    settings = settings_of(**sizes, **lengths)
    made.nmt("train", folder / "data", "--out", folder / "run", "--quiet", *settings)
    (folder / "data").rename(folder / "moved away")
    return made


def test_a_language_is_learnt(pipeline: Pipeline) -> None:
    folder = pipeline.folder
    averaged, output = folder / "averaged.safetensors", folder / "test.out"
    pipeline.nmt("average", folder / "run", "--last", "3", "--out", averaged)
    pipeline.nmt("translate", averaged, "--input", folder / "test.en", "--output", output)
    assert pipeline.bleu(folder / "test.de", output.read_text()) > BOUND


def test_training_logged_what_translate_and_score_give(pipeline: Pipeline) -> None:
    run, folder = pipeline.folder / "run", pipeline.folder
    first, *_, last = metrics(run, "valid")
    for record in (first, last):
        checkpoint = run / f"checkpoints/update-{record['update']:08d}.safetensors"
        translated = pipeline.nmt("translate", checkpoint, stdin=(folder / "valid.en").read_text())
        assert pipeline.bleu(folder / "valid.de", translated) == pytest.approx(record["bleu"])
    assert 0 < first["bleu"] < last["bleu"]  # so that they could differ

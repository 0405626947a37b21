"""The recurrent model learns and translates the toy language; its stops: `test_stop_request.py`."""

from pathlib import Path

import pytest
from toy_training import metrics, train

import nmt
from nmt.config.fields import Value

LINE, TRANSLATION = "one two three four", "vier drei zwei eins"


@pytest.fixture(scope="module")
def learnt(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    values: dict[str, Value] = {"preset": "rnn_attention_small", "micro_batch_tokens": 400}
    values |= {"d_model": 64, "d_hidden": 64, "learning_rate": 1e-2, "dropout": 0.1}
    values |= {"max_updates": 160, "validate_every": 80}
    return train(data, tmp_path_factory.mktemp("recurrent") / "run", **values)


def test_a_language_is_learnt(learnt: Path) -> None:
    assert metrics(learnt, "valid")[-1]["nll"] < 0.15  # by chance it would be log 10 = 2.3


@pytest.mark.parametrize(
    ("beam_size", "precision"), [(4, "fp32"), (1, "fp32"), (4, "bf16")], ids=str
)
def test_it_translates(learnt: Path, beam_size: int, precision: str) -> None:
    options = nmt.SearchOptions(beam_size=beam_size)
    translator = nmt.Translator.load(learnt, options, precision=precision)
    assert [found.text for found in translator.translate([LINE])] == [TRANSLATION]


def test_its_attention_aligns_words(learnt: Path) -> None:
    (found,) = nmt.Translator.load(learnt, alignment=True).translate([LINE])
    assert found.alignment is not None
    assert found.alignment.words == ((0, 3), (1, 2), (2, 1), (3, 0))

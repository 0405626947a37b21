"""Runs on data that changes on its way: augmentation in the training loop."""

from pathlib import Path

import pytest
from toy_training import Toy, assert_same_state, metrics, prepare_toy, train

from nmt.config.fields import Value
from nmt.errors import UsageError

AUGMENTED: dict[str, Value] = {"title_case": 0.3, "typos": 0.3, "merged": 0.5}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with text."""
    return prepare_toy(tmp_path_factory.mktemp("text"), keep_text=True)


def test_a_run_with_augmentation_goes_on_as_if_it_was_never_stopped(toy: Toy, text: Path) -> None:
    values = AUGMENTED | {"subword_dropout": 0.1}
    whole = train(text, toy.folder / "whole", **values, max_updates=10)
    train(text, toy.folder / "run", **values, max_updates=5)
    assert_same_state(train(text, toy.folder / "run", **values, max_updates=10), whole)
    plain = train(text, toy.folder / "plain", max_updates=5)
    assert metrics(whole, "train")[0]["nll"] != metrics(plain, "train")[0]["nll"]


def test_augmentation_needs_text(toy: Toy) -> None:
    with pytest.raises(UsageError, match=rf"{toy.data} .*\[augment\] .*--keep-text"):
        toy.train(**AUGMENTED)

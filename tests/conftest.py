"""What several test files stand on: a vocabulary, and a model that translates, if only nonsense."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from benchmarks import corpora

from nmt import console
from nmt.data.vocabulary import EOS_ID, Vocabulary, learn_vocabulary
from nmt.model_config import TransformerConfig
from nmt.models.model_file import ModelCard, write_model

TEXT = "the a cat dog bird sees hears finds small red old house tree river and then slowly"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need real text, so that `-m real_text` finds them."""
    for item in items:
        if "real_text" in getattr(item, "fixturenames", ()):
            item.add_marker("real_text")


@pytest.fixture(scope="session")
def real_text() -> Callable[[str], Path]:
    """Find the folder of a corpus in NMT_DATA, or skip the test."""
    return corpora.real_text


@pytest.fixture(autouse=True)
def _nothing_is_quiet() -> None:
    console.set_quiet(False)  # which a command of another test may have been


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _signals_are_heard() -> None:
    # What `nohup` or a shell's `&` lets a process ignore, all that it starts ignores as well.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, usual)


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    """330 pieces: 4 special, 256 bytes, letters, and merges of some English words."""
    words = TEXT.split()
    lines = [" ".join(words[start::step]) for step in (1, 2, 3, 5) for start in range(step)]
    return learn_vocabulary([f"{line}." for line in lines], vocab_size=330)


@pytest.fixture(scope="session")
def card(vocabulary: Vocabulary) -> ModelCard:
    """A tiny Transformer that takes 20 source tokens at once."""
    config = TransformerConfig(
        num_encoder_layers=1, num_decoder_layers=1, d_model=16, d_ff=32, num_heads=2
    )
    return ModelCard(
        architecture="transformer",
        config=config,
        src_lang="en",
        tgt_lang="de",
        src_vocabulary=vocabulary,
        tgt_vocabulary=vocabulary,
        max_src_tokens=20,
        data="fingerprint",
        update=7,
        valid={"loss": 1.5},
    )


@pytest.fixture(scope="session")
def model_file(card: ModelCard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny Transformer with random weights, on disk."""
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        weights: dict[str, torch.Tensor] = dict(card.build().named_parameters())
    # Logits are products with this matrix: eos is now no random model's favourite, and no line is
    # translated by nothing.
    with torch.no_grad():
        weights["output_projection"][EOS_ID] = 0.0
    write_model(path, card, weights)
    return path

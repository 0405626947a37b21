"""Fixtures of several test files: a vocabulary, a model that translates nonsense, trained runs."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks import corpora
from command_line import QUICK, Answer, Nmt, Stderr, TranslateText
from filelock import FileLock
from hypothesis import HealthCheck, settings
from network_of_hosts import Host, missing, network
from toy_training import Toy, prepare_toy, python_command, run_command, train

from nmt import console
from nmt.__main__ import main
from nmt.config.fields import Value
from nmt.config.model_config import TransformerConfig
from nmt.data import line_blocks
from nmt.data.pieces import Kind, Piece, PieceModel
from nmt.data.vocabulary import ANNOTATION, EOS_ID, Vocabulary, learn_vocabulary
from nmt.models.model_file import ModelCard, write_model
from nmt.system.program import SIGNALS
from nmt.training import setup

# Programs that tests start are to buffer and to be compiled once as they are for most people.
for variable in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
    os.environ.pop(variable, None)

# On a busy machine, drawing examples takes as long as it does.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

_MISSING = re.compile(r"(?:needs|could not import) (.*?)(?:[:;]|$)", re.DOTALL)
"""What a skipped test lacks, in its reason."""

MadeOnce = Callable[[str, Callable[[Path], object]], Path]
TEXT = "the a cat dog bird sees hears finds small red old house tree river and then slowly"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need real text, so that `-m real_text` finds them."""
    # The longest come first, or a worker would be left alone with them at the end.
    items.sort(key=lambda item: "pretended_gpu" not in item.path.parts)
    for item in items:
        if "real_text" in getattr(item, "fixturenames", ()):
            item.add_marker("real_text")


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End with a line that lists what was not tested, for want of what."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):  # a worker's tests are told of elsewhere
        return
    # `longrepr` of a skipped test is its file, line and reason.
    reasons = [report.longrepr[2] for report in reporter.stats.get("skipped", [])]
    missing = Counter(match[1] for reason in reasons if (match := _MISSING.search(reason)))
    if missing:
        listed = ", ".join(f"{what} ({count})" for what, count in missing.most_common())
        reporter.write_line(f"Not tested, for want of (number of tests): {listed}")


@pytest.fixture(scope="session")
def real_text() -> Callable[[str], Path]:
    """Find the folder of a corpus in NMT_DATA, or skip the test."""
    return corpora.real_text


@pytest.fixture
def three_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Host]]:
    """Three hosts that share the folders of tests."""
    if reason := missing():
        pytest.skip(reason)
    # Above it are the folders that parallel workers of pytest share.
    with network(("north", "east", "west"), tmp_path_factory.getbasetemp().parent) as hosts:
        yield hosts


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _nothing_is_quiet() -> None:
    console.set_quiet(False)  # which a command of another test may have been
    console.set_verbose(False)


@pytest.fixture(scope="session", autouse=True)
def _one_process_trains() -> Iterator[None]:
    choose = setup.choose_processes

    def choose_one(asked: int | None, *more: Any) -> tuple[int, str]:
        return choose(asked or 1, *more)

    with pytest.MonkeyPatch.context() as patch:  # in this process; others have one thread
        patch.setattr(setup, "choose_processes", choose_one)
        yield


@pytest.hookimpl(tryfirst=True)  # before fixtures that train
def pytest_runtest_setup() -> None:
    torch.set_num_threads(1)  # which training in the test before may have set to all cores


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
    sizes: Any = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 16, "d_ff": 32}
    return ModelCard(
        architecture="transformer",
        config=TransformerConfig(**sizes, num_heads=2),
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
    return _random_model(tmp_path_factory.mktemp("model") / "tiny.safetensors", card, seed=5)


@pytest.fixture(scope="session")
def other_model(card: ModelCard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another one, of other weights."""
    return _random_model(tmp_path_factory.mktemp("model") / "other.safetensors", card, seed=6)


@pytest.fixture(scope="session")
def term_reader(card: ModelCard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another one, which says that it was trained to read terms in its sources."""
    added = [Piece(piece, kind=Kind.CONTROL) for piece in ANNOTATION]
    model = PieceModel.read(card.src_vocabulary.model).with_pieces(added)
    vocabulary = Vocabulary(model.write())
    card = replace(card, src_vocabulary=vocabulary, tgt_vocabulary=vocabulary)
    card = replace(card, reads_annotations=True)
    return _random_model(tmp_path_factory.mktemp("model") / "reader.safetensors", card, seed=7)


def _random_model(path: Path, card: ModelCard, *, seed: int) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        weights: dict[str, torch.Tensor] = dict(card.build().named_parameters())
    # Logits are products with this matrix: eos is now no random model's favourite, and no line is
    # translated by nothing.
    with torch.no_grad():
        weights["output_projection"][EOS_ID] = 0.0
    write_model(path, card, weights)
    return path


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """Make a folder that nobody changes, once for all processes that run tests."""
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent  # of the folders of all of them

    def find(name: str, make: Callable[[Path], object]) -> Path:
        folder, is_made = place / name, place / f"{name}.made"
        with FileLock(f"{folder}.lock"):
            if not is_made.exists():
                folder.mkdir()
                make(folder)
                is_made.touch()
        return folder

    return find


@pytest.fixture(scope="session")
def data(made_once: MadeOnce) -> Path:
    """A small data folder; nobody changes it."""
    return made_once("toy", prepare_toy) / "data"


@pytest.fixture(scope="session")
def learnt(data: Path, made_once: MadeOnce) -> Path:
    """A run long enough to learn; nobody changes it."""

    values: dict[str, Value] = {"d_model": 64, "d_ff": 128, "max_updates": 250, "keep_best": 3}
    values |= dict.fromkeys(("warmup_updates", "log_every", "validate_every", "save_every"), 50)
    values |= {"validate_metric": "bleu", "keep_last": 3}
    return made_once("learnt", lambda folder: train(data, folder / "run", **values)) / "run"


@pytest.fixture(scope="session")
def two_ranks(data: Path, learnt: Path, made_once: MadeOnce) -> list[Any]:
    """What two processes found, in order of rank (see `two_ranks.py`)."""

    def find(folder: Path) -> None:
        program = Path(__file__).parent / "training" / "two_ranks.py"
        words = (program, data, learnt / "best.safetensors", folder / "found")
        done = run_command(python_command(*words, ranks=2))
        assert done.returncode == 0, done.stderr

    found = made_once("two_ranks", find) / "found"
    return [json.loads(Path(f"{found}.{rank}").read_text()) for rank in range(2)]


@pytest.fixture(scope="session")
def undisturbed(data: Path, made_once: MadeOnce) -> Callable[..., Path]:
    """Return the run of some values that was never stopped."""

    def find(**values: Value) -> Path:
        name = hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()
        run = made_once(name, lambda folder: train(data, folder / "run", **values))
        return run / "run"

    return find


@pytest.fixture
def nmt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Nmt:
    """The command line inside this process: as `python -m nmt`, less the seconds of its start."""
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def run(*words: str | Path, stdin: bytes | None = None) -> Answer:
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as caught:
            patch.setattr(sys, "argv", ["nmt", *map(str, words)])
            if stdin is not None:  # no more than a pipe holds
                reading, writing = os.pipe()
                os.write(writing, stdin)
                os.close(writing)
                patch.setattr(sys, "stdin", os.fdopen(reading))
            main()
        for number, handler in before.items():  # the end of a process ignores them
            signal.signal(number, handler)
        assert isinstance(caught.value.code, int)
        return Answer(caught.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this test, as the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stderr(capsys: pytest.CaptureFixture[str]) -> Stderr:
    """Returns what was written to stderr since the last call."""
    return lambda: capsys.readouterr().err


@pytest.fixture
def toy(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Callable[..., Path]
) -> Toy:
    """The toy language's data, and a folder for runs on it."""
    return Toy(data, tmp_path, monkeypatch, undisturbed)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("needs root, and the right to mount")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def translate(nmt: Nmt, model_file: Path) -> Nmt:
    """Runs `nmt translate` with the tiny model, by one worker."""

    def run(*words: str | Path, stdin: bytes | None = None) -> Answer:
        return nmt("translate", model_file, *QUICK, "--summary", *words, stdin=stdin)

    return run


@pytest.fixture
def translate_text(translate: Nmt, tmp_path: Path) -> TranslateText:
    def run(text: str | bytes, *words: str | Path) -> Answer:
        source = tmp_path / "in"
        source.write_bytes(text.encode() if isinstance(text, str) else text)
        return translate("--input", source, *words)

    return run


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 5 lines."""
    monkeypatch.setattr(line_blocks, "BLOCK_LINES", 5)

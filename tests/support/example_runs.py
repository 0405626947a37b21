"""Run the Makefile of an example on made-up text, as it is or with kills on the way."""

import contextlib
import gzip
import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from make_text import corpus
from split import TESTS, Tokenizer, clean
from toy_training import ENGLISH, GERMAN, environment, pairs
from warm_python import warm_python

EXAMPLES = Path(__file__).parents[2] / "examples"
TINY = (
    "--set d_model=32 --set d_ff=64 --set num_encoder_layers=1 --set num_decoder_layers=1 "
    "--set batch_tokens=200 --set threads=1 --set matmul=torch --precision fp32 --quiet"
)
"""TRAIN_OPTIONS of a tiny model."""

_TAGS = ["<url>http://a.example</url>", "<keywords>talks, oceans</keywords>", "<talkid>3</talkid>"]

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


def write_corpus(prefix: Path, count: int, seed: int) -> None:
    """Write pairs of number words as PREFIX.en.gz and PREFIX.de.gz, each number once at least."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    text = [*zip(ENGLISH, GERMAN, strict=True), *pairs(count, seed=seed)]
    for lang, side in zip(("en", "de"), zip(*text, strict=True), strict=True):
        with gzip.open(f"{prefix}.{lang}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in side)


def make_command(example: str, *arguments: str, python: str | None = None) -> list[str]:
    """Return the command that makes an example with a Python's nmt, by default a warm one's."""
    python = shlex.quote(python or warm_python())
    tools = [f"NMT={python} -m nmt", f"PYTHON={python}"]
    return ["make", "-C", str(EXAMPLES / example), *tools, *arguments]


def make(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Make an example."""
    command = make_command(example, *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment())


def start_to_kill(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command that can be killed with all its processes."""
    silent: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, start_new_session=True, env=environment(), **silent)


def made(example: str, *arguments: str) -> str:
    """Make an example without a failure; return what that prints."""
    done = make(example, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_with_kills(example: str, limits: Sequence[float], *arguments: str) -> int:
    """Make an example, and kill it with all its processes after each limit, in seconds.

    Afterwards it runs to its end. Return how many times it was killed.
    """
    kills = 0
    for limit in limits:
        process = start_to_kill(make_command(example, *arguments, python=sys.executable))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit)
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    made(example, *arguments)
    return kills


def iwslt14_archive(
    path: Path, training: dict[str, list[str]], test: dict[str, list[list[str]]]
) -> Path:
    """Write an archive of training lines, and of the lines of each test set, by language."""
    files = {}
    for language, lines in training.items():
        files[f"de-en/train.tags.de-en.{language}"] = [*_TAGS, *lines]
    for language, parts in test.items():
        for name, part in zip(TESTS, parts, strict=True):
            segments = [f'<seg id="{n}"> {line} </seg>' for n, line in enumerate(part, start=1)]
            head = ["<mteval>", "<doc docid='1'>", "<title>Not in the text</title>"]
            files[f"de-en/IWSLT14.{name}.de-en.{language}.xml"] = [*head, *segments, "</doc>"]
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            text = "".join(f"{line}\n" for line in content).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
    return path


def iwslt14_rehearsal(folder: Path) -> list[str]:
    """Make a small archive, and return the variables for a tiny model."""
    pairs = corpus(1, {"train": 320, "valid": 0, "test": 0})["train"]
    sides = {"de": [pair.de for pair in pairs[:300]], "en": [pair.en for pair in pairs[:300]]}
    parts = [pairs[300 + n :: 5] for n in range(5)]
    tests = {"de": [[pair.de for pair in part] for part in parts]}
    tests["en"] = [[pair.en for pair in part] for part in parts]
    iwslt14_archive(folder / "de-en.tgz", sides, tests)
    tokenizers = {language: Tokenizer(language) for language in sides}
    tokens = [[tokenizers[x].tokenize(line) for line in side] for x, side in sides.items()]
    kept = len(clean(list(zip(*tokens, strict=True))))
    counts = {"raw": 300, "train": kept - kept // 23, "valid": kept // 23, "test": 20}
    entries = ['[archives."de-en.tgz"]', "addresses = []", "[texts]", "[lines]"]
    entries += [f"{name} = {count}" for name, count in counts.items()]
    (folder / "iwslt14.toml").write_text("\n".join(entries), encoding="utf-8")
    tiny = "--model transformer_tiny --batch-tokens 300 --set save_every=2 --set validate_every=6"
    tiny += " --set threads=1 --set matmul=torch --precision fp32"
    variables = [f"MIRROR={folder}", f"CATALOGUE={folder}/iwslt14.toml", "PROCESSES=1"]
    return [*variables, "VOCAB=400", "UPDATES=6", "AVERAGE=2", f"RECIPE={tiny}"]

"""Faults that are planted into a copy of nmt: the tests that are named must find each of them.

To add one, give it a row in `FAULTS`. The text is looked for in all of nmt, so that it may move to
another file; if it is gone, or is there twice, a test of every day says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]


class Fault(NamedTuple):
    """A change of `nmt`, and the test file that finds it."""

    right: str  # what stands in one place of nmt
    wrong: str
    tests: str
    only: str = ""  # the tests of the file that run, as of pytest -k


FAULTS = {
    "lines of several sentences": Fault(
        "(not most or self._length(text) > most)",
        "(not most or self._length(text) > most + 1)",
        "translate/test_split.py",
    ),
    "length penalty": Fault(
        "else (5 + length) / 6", "else (6 + length) / 6", "search/test_beam.py"
    ),
    "top-k by one": Fault(
        "return largest.values[:, :count], largest.indices[:, :count], is_clear",
        "return largest.values[:, -count:], largest.indices[:, -count:], is_clear",
        "search/test_top_k.py",
    ),
    "mask inverted": Fault(
        ".masked_fill_(~mask, -math.inf)",
        ".masked_fill_(mask, -math.inf)",
        "models/test_attention.py",
    ),
    "label smoothing": Fault(
        "loss += (1 - label_smoothing) * chunk_nll", "loss += chunk_nll", "training/test_loss.py"
    ),
    "learning rate": Fault(
        "(config.warmup_updates / update) ** 0.5",
        "config.warmup_updates / update",
        "training/test_optimizer.py",
    ),
    "Adam's second beta": Fault(
        "beta1=config.adam_beta1,\n            beta2=config.adam_beta2",
        "beta1=config.adam_beta1,\n            beta2=config.adam_beta1",
        "training/test_optimizer.py",
    ),
    "Schedule-Free's gradient at z": Fault(
        "torch.lerp(self._iterate, average, config.adam_beta1, out=trainable)",
        "trainable.copy_(self._iterate)",
        "training/test_optimizer.py",
    ),
    "shard offsets": Fault(
        "offsets[indices].astype(np.int64)",
        "offsets[indices].astype(np.int64) + 1",
        "data/test_shards.py",
    ),
    "added tokens in text": Fault(
        "row += [self._added[part]] if number % 2 else next(ids)",
        "row += next(ids) if number % 2 == 0 else []",
        "cli/test_import.py",
        "added_tokens",
    ),
    "rows of a foreign vocabulary": Fault(
        "weight = weight[torch.from_numpy(mapping.rows)]",
        "weight = weight[torch.from_numpy(mapping.rows - 1)]",
        "cli/test_import.py",
        "probabilities_are_those_of_marian_mt",
    ),
    "a folder that has changed": Fault(
        'digest.update(f"{path.name} {sha256_file(path)}\\n"',
        'digest.update(f"{path.name}\\n"',
        "cli/test_translate_huggingface.py",
        "has_changed",
    ),
    "a pair that no epoch visits": Fault(
        "np.flatnonzero(images >= self._size)",
        "np.flatnonzero(images >= self._size - 1)",
        "data/test_epochs.py",
    ),
    "a last line without a newline": Fault(
        'return newlines + (end != b"\\n")',
        "return newlines",
        "cli/test_translate_forms.py",
        "shard",
    ),
    "where a journal goes on": Fault(
        "_after(text, self.progress.input_bytes, self._input)",
        "_after(text, self.progress.input_bytes + 1, self._input)",
        "jobs/test_journal.py",
    ),
    "duplicates by target": Fault(
        "src * _SRC_FACTOR + tgt * _TGT_FACTOR",
        "tgt * _TGT_FACTOR",
        "prepare/test_prepare.py",
        "rules",
    ),
    "BLEU's tokenizer": Fault(
        'return "char" if is_without_spaces(lang) else DEFAULT',
        "return DEFAULT",
        "scoring/test_tokenizers.py",
    ),
    "rows of the cache that stay": Fault(
        "vectors.index_copy_(1, targets, vectors.index_select(1, sources))",
        "vectors.index_copy_(1, sources, vectors.index_select(1, sources))",
        "models/test_kv_cache.py",
    ),
}


def planted_in(fault: Fault) -> Path:
    """Return the only file of nmt in which the right text stands, once."""
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "nmt").rglob("*.py")}
    counts = {path: text.count(fault.right) for path, text in texts.items() if fault.right in text}
    assert list(counts.values()) == [1], f"{fault.right!r} is in {counts}: plant the fault anew"
    return next(iter(counts)).relative_to(ROOT)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_each_fault_has_its_place(fault: Fault) -> None:
    planted_in(fault)
    assert (ROOT / "tests" / fault.tests).is_file()


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_each_fault_is_found(fault: Fault, tmp_path: Path) -> None:
    without = shutil.ignore_patterns("__pycache__", "written_before", "built")
    for part in ("nmt", "tests"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=without)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / planted_in(fault)
    path.write_text(path.read_text(encoding="utf-8").replace(fault.right, fault.wrong))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-k", fault.only, "--basetemp", str(tmp_path / "t"), f"tests/{fault.tests}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout, done.stdout

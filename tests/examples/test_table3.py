"""The recipe of Table 3: a share of the data, costs, the table, and two complete rows."""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import results
import share
from example_runs import TINY, made, needs_make
from toy_training import metrics, prepare_toy

from nmt.config.presets import PRESETS, preset_values
from nmt.config.recipes import resolve_recipe
from nmt.data.folder import DataFolder
from nmt.models.registry import count_parameters

ROWS = ("transformer_base_heads1", "transformer_big")
UPDATES = 20


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_toy(tmp_path_factory.mktemp("toy"))


def test_a_share_is_evenly_spaced_with_the_same_vocabulary(data: Path, tmp_path: Path) -> None:
    whole, part = DataFolder.open(data), share.make_share(data, 0.25, tmp_path / "quarter")
    assert (len(whole.train), len(part.train)) == (300, 75)
    for index in range(75):
        assert np.array_equal(part.train.src(index), whole.train.src(4 * index))
        assert np.array_equal(part.train.tgt(index), whole.train.tgt(4 * index))
    for name in ("vocab.model", "valid.en", "valid.de", "valid.bin"):
        assert (part.path / name).read_bytes() == (data / name).read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["quarter"]


@pytest.mark.parametrize(
    ("preset", "hours", "cost"),
    [("transformer_base", 12, 3.3e18), ("transformer_big", 3.5 * 24, 2.3e19)],
)
def test_cost_by_time_is_the_papers_on_its_machine(preset: str, hours: float, cost: float) -> None:
    # Section 5.2 and Table 2's footnote: 8 P100 GPUs that sustain 9.5 TFLOP/s each.
    machine = {"kind": "start", "matrix_product_flops_per_second": 8 * 9.5e12}
    found = results.flops_by_time([machine, {"kind": "train", "seconds": 3600 * hours}])
    assert found == pytest.approx(cost, rel=0.01)
    assert results.PAPER_FLOPS[preset] == cost


def test_the_rows_are_presets_and_differ_in_size_as_in_the_paper() -> None:
    variations = {name for name, preset in PRESETS.items() if "Table 3" in preset.summary}
    assert results.TABLE_3.keys() == variations | {"transformer_base", "transformer_big"}
    vocab = 37_000  # the paper's joint vocabulary of English and German

    def millions(name: str) -> float:
        recipe = resolve_recipe(name, "transformer", [(name, preset_values(name))])
        return count_parameters(recipe.architecture, recipe.model, vocab, vocab) / 1e6

    base = millions("transformer_base")
    for name, row in results.TABLE_3.items():
        # The paper rounds, and slips.
        by_paper = row.parameters - results.TABLE_3["transformer_base"].parameters
        assert millions(name) - base == pytest.approx(by_paper, abs=4), name


@pytest.mark.slow
@needs_make
def test_two_rows_on_a_share_of_the_data(data: Path, tmp_path: Path) -> None:
    arguments = [f"DATA={data}", f"WORK={tmp_path}", f"UPDATES={UPDATES}", "SHARE=0.5"]
    arguments += [f"ROWS={' '.join(ROWS)}", "PROCESSES=1"]
    arguments += [f"TRAIN_OPTIONS={TINY}", f"PYTHON={sys.executable}"]

    printed = made("table3", *arguments)
    rows = [line.split("|") for line in printed.splitlines() if line.startswith("| ")]
    found = {row[2].strip(" `"): [cell.strip() for cell in row[3:-1]] for row in rows[1:]}
    for preset, updates in zip(ROWS, (UPDATES, 3 * UPDATES), strict=True):
        run = tmp_path / f"{UPDATES}-updates-of-0.5" / preset
        last = metrics(run, "valid")[-1]
        assert last["update"] == updates
        assert found[preset][:2] == [f"{updates}", f"{last['perplexity']:.2f}"]
        card = json.loads((run / "score.json").read_text())
        scores = [f"{card[key]['score']:.1f}" for key in ("bleu", "bleu-compounds")]
        assert found[preset][3:5] == scores
        # 20 updates are five epochs. The run's log has the work of each update.
        records, start = metrics(run, "train"), metrics(run, "start")[-1]
        rate = start["matrix_product_flops_per_second"]
        seconds = [0.0, *(record["seconds"] for record in records)]
        windows = zip(records, itertools.pairwise(seconds), strict=True)
        used = sum(record["mfu"] * (end - begin) for record, (begin, end) in windows)
        by_time, counted = map(float, found[preset][8:10])
        assert records[-1]["epoch"] == updates / 4
        assert by_time == pytest.approx(seconds[-1] * rate, rel=0.05)
        assert counted == pytest.approx(used * rate, rel=0.05)
    assert found["transformer_base"][0] == "-"
    assert "2 of 20 rows, trained on 150 pairs (en-de)" in printed
    assert "nrefs:1|case:mixed|eff:no|tok:13a" in printed
    assert "nmt train" not in made("table3", *arguments, "--dry-run")

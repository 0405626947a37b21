"""The table of examples/page: correct Velu, in each form that Excel saves, and the road to a page.

The Velu expected here is written by hand, by the grammar, not by the generator.
"""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from example_runs import EXAMPLES, TINY, made, needs_make
from prepare_job import job_of, pairs_in

FORMS = {  # how Excel may save it, and the name that `nmt prepare` takes
    "comma": "table.csv",
    "semicolon": "table.csv",
    "unicode": "table.tsv",
}
SENTENCES = {
    "He sees our dogs.": "Dagarinun kat.",
    "They draw the dogs.": "Dagaran riter.",
    "You will not see this bird.": "Tifen ki nekatvat.",
    "We loved my small dogs.": "Dagarimin pikor amalime.",
    "Some friends forget some small dogs.": "Naror per dagaran pikor per leter.",
    "Will your big man sell some houses tomorrow?": "Mane toruti groo kolaran per venuva ka?",
    "We look for the old teachers near the big gardens.": "Paloralla grour lomeneren vanor sekuma.",
}


def write(folder: Path, form: str = "semicolon") -> Path:
    """Write the table and the test."""
    command = [sys.executable, f"{EXAMPLES}/page/make_table.py", "--out", f"{folder}"]
    subprocess.run([*command, "--form", form], check=True)
    return folder


def test_velu_has_the_endings_of_its_grammar(tmp_path: Path) -> None:
    with (write(tmp_path) / "table.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    found = {row["English"]: row["Velu"] for row in rows}
    assert len(found) == len(rows) == 6_000
    assert {en: found[en] for en in SENTENCES} == SENTENCES
    assert not found.keys() & set((tmp_path / "test.en").read_text().splitlines())


def test_every_form_of_the_table_is_read_as_the_same_pairs(tmp_path: Path) -> None:
    found = []
    for form, name in FORMS.items():
        folder = write(tmp_path / form, form)
        path = folder / name
        if form == "unicode":
            (folder / "table.txt").rename(path)
        found.append(pairs_in(job_of(folder, f"{path}:English,Velu", vocab_size=400).prepare()))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 6_000


@needs_make
@pytest.mark.slow
def test_a_table_becomes_a_small_page_that_is_right(tmp_path: Path) -> None:
    printed = made("page", f"WORK={tmp_path}", "exact", "page")
    (exact,) = re.findall(r"(\d+) of 300 sentences are exact", printed)
    assert int(exact) >= 270
    model = tmp_path / "page" / "model"
    files = json.loads((model / "registry.json").read_text())["enqaa"].values()
    assert sum((model / file["name"]).stat().st_size for file in files) < 1_000_000
    assert json.loads((model / "metadata.json").read_text())["targetName"] == "Velu"
    assert (tmp_path / "page" / "index.html").is_file()


@needs_make
@pytest.mark.slow
def test_an_imported_model_becomes_a_page(tmp_path: Path) -> None:
    tiny = TINY.replace("d_model=32", "d_model=64").removesuffix(" --quiet")
    options = (f"WORK={tmp_path}", "UPDATES=30", f"TRAIN_OPTIONS={tiny} --n-best 1")
    printed = made("page", *options, "imported", "agreement")
    assert re.search(r"^\d+ of 500 translations are the same$", printed, re.MULTILINE)
    page = tmp_path / "imported" / "page"
    assert (page / "index.html").is_file()
    assert (page / "model" / "registry.json").is_file()

"""The text of examples/documents: pronouns that only the line before can tell."""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from command_line import write

EXAMPLE = Path(__file__).parents[2] / "examples" / "documents"
PRONOUNS = {"er", "ihn", "sie", "es"}
Line = tuple[str, str]


def run(script: str, *words: str | Path) -> str:
    command = [sys.executable, EXAMPLE / script, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[Line]]]:
    """The documents of each split."""
    folder = tmp_path_factory.mktemp("text")
    run("make_text.py", "--out", folder)
    found = {}
    for split in ("train", "test"):
        src, tgt = ((folder / f"{split}.{lang}").read_text().strip() for lang in ("en", "de"))
        documents = zip(src.split("\n\n"), tgt.split("\n\n"), strict=True)
        found[split] = [
            list(zip(one.split("\n"), other.split("\n"), strict=True)) for one, other in documents
        ]
    return found


def pronoun(line: str) -> str:
    (found,) = set(line.lower().strip(".?").split()) & PRONOUNS
    return found


def test_each_second_line_needs_the_line_before(texts: dict[str, list[list[Line]]]) -> None:
    said = defaultdict(set)
    gender = {"einen": "m", "eine": "f"}
    expected = {"er": "m", "ihn": "m", "sie": "f", "es": "n"}
    for document in texts["train"] + texts["test"]:
        assert len(document) in (2, 4, 6)
        for (en, de), (it, translation) in zip(document[::2], document[1::2], strict=True):
            assert "it" not in en.lower().strip(".").split()
            assert "it" in it.lower().strip(".?").split()
            article = next(word for word in de.lower().split() if word in ("ein", "eine", "einen"))
            wanted = expected[pronoun(translation)]
            assert gender.get(article, wanted) == wanted
            said[it].add(pronoun(translation))
    # Three genders, and two forms of them: every line is said of all.
    assert len(said) == 70
    assert all(found in ({"er", "sie", "es"}, {"ihn", "sie", "es"}) for found in said.values())


def test_accuracy_counts_the_second_lines_of_each_document(tmp_path: Path) -> None:
    reference = ["Hier ist ein Hut.", "Er ist alt.", "Sie hat eine Uhr.", "Ich mag sie.", ""]
    output = ["Sie ist ein Hut.", "er ist neu.", "Er.", "Ich mag es.", "", "Es.", "Es ist sie."]
    write(tmp_path / "reference", [*reference, "Zu Hause.", "Es ist da."])
    write(tmp_path / "output", output)
    told = run("accuracy.py", tmp_path / "reference", tmp_path / "output")
    assert told == "33.3 % of the pronouns are right: 1 of 3\n"

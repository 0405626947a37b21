"""What earlier versions have written is still read as it was meant.

`written_before` holds a model of 49 kB that learnt sentences such as "the old dog sees the red
bird .", its translation of eight of them, and a data folder of 60 more, all from November 2026.
"""

from __future__ import annotations

from pathlib import Path

from nmt.data.folder import DataFolder
from nmt.data.vocabulary import Vocabulary
from nmt.translate.translator import Translator

WRITTEN = Path(__file__).parent / "written_before"


def lines(name: str) -> list[str]:
    return (WRITTEN / name).read_text(encoding="utf-8").splitlines()


def test_a_model_file_written_before_translates_to_the_same_text() -> None:
    translator = Translator.load(WRITTEN / "model.safetensors")
    found = [translation.text for translation in translator.translate(lines("data/valid.en"))]
    assert found == lines("valid.out.de")


def test_a_data_folder_written_before_holds_the_same_text() -> None:
    data = DataFolder.open(WRITTEN / "data")
    vocabulary = Vocabulary.load(WRITTEN / "data" / "vocab.model")
    valid = data.valid
    for side, lang in (("src", "en"), ("tgt", "de")):
        ids = [getattr(valid, side)(pair).tolist() for pair in range(len(valid))]
        assert vocabulary.decode(ids) == lines(f"data/valid.{lang}")
    assert len(data.train) == 60

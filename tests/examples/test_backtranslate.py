"""The text of examples/backtranslate."""

import gzip
from pathlib import Path

from example_runs import made, needs_make


@needs_make
def test_german_text_of_your_own_is_taken_without_what_are_pairs_already(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "mono.de.gz", "wt", encoding="utf-8") as file:
        file.write("eins\nzwei\ndrei\nvier\nvier\nf\u00fcnf\nsechs\n")
    text = tmp_path / "work" / "backtranslated.de"
    values = [f"WORK={text.parent}", f"MONOLINGUAL={tmp_path}/mono.de.gz", "SKIP=2", "LINES=3"]
    made("backtranslate", *values, str(text))
    assert text.read_text(encoding="utf-8") == "drei\nvier\nf\u00fcnf\n"

"""Files of terms, and whether a translation has them."""

import gzip
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.lexical.term_list import TermUse, read_terms
from nmt.lexical.word_list import ListedWord


def test_a_file_is_read_with_its_forms_and_alternatives(tmp_path: Path) -> None:
    text = "\ufeff# comment\n\ndog\tHund\tHundes\t\r\n cat \t Katze \ndog\tKöter\nDog\tDogge\n"
    path = tmp_path / "terms.tsv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    known = read_terms(path)
    assert len(known) == 3
    found = [(one.word.source, one.word.targets) for one in known.find("dog cat Dog")]
    assert found == [("dog", ("Hund", "Hundes", "Köter")), ("cat", ("Katze",)), ("Dog", ("Dogge",))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"dog", "line 3 "),
        (b"dog\t \tHund", "line 3 .*target"),
        (b" \tHund", "line 3 .*source"),
        ("dog\tHund".encode("utf-16-le"), "line 3 .*UTF-8"),
        (b"dog\tK\xf6ter", "line 3 .*UTF-8"),
    ],
)
def test_a_line_that_is_no_term_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes(b"cat\tKatze\n\n" + line + b"\n")
    with pytest.raises(DataError, match=f"^{path}: {message}"):
        read_terms(path)


@pytest.mark.parametrize(
    ("text", "lang", "is_placed"),
    [
        ("Die Katze schläft", None, True),
        ("Zwei Katzen schlafen", None, False),
        ("Zwei Katzen schlafen", "de", True),
        ("Zwei Kater schlafen", "de", True),  # the other target
        ("Zwei Hunde schlafen", "de", False),
    ],
)
def test_a_term_is_there_in_any_form_if_the_model_inflects_it(
    text: str, lang: str | None, is_placed: bool
) -> None:
    pytest.importorskip("simplemma", reason="needs the extra terms")
    use = TermUse.of(ListedWord("cat", ("Katze", "Kater")), text, lang)
    assert (use.source, use.target, use.is_placed) == ("cat", "Katze", is_placed)

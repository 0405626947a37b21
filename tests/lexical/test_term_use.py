"""Whether a translation has its terms."""

import pytest

from nmt.lexical.term_use import TermUse
from nmt.lexical.word_list import ListedWord


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

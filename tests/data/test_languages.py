"""Language codes of every standard mean the same language."""

from __future__ import annotations

import pytest

from nmt.data.languages import primary_language


@pytest.mark.parametrize(
    ("code", "language"),
    [
        *((code, "de") for code in ("de", "DE", "de_AT", "deu", "ger", "deu_Latn", "de.tok")),
        *((code, "zh") for code in ("zh-CN", "zho_Hans", "cmn", "chi")),
        *((code, "ar") for code in ("arb_Arab", "ara")),
        *((code, "yue") for code in ("yue", "yue_Hant")),
        *((code, code) for code in ("nb", "nn", "hr", "bs", "tlh", "xx")),
        ("lvs", "lv"),
        ("german", "german"),
        ("en-1", "en"),
    ],
)
def test_a_code_is_reduced_to_the_shortest_code_of_its_language(code: str, language: str) -> None:
    assert primary_language(code) == language

"""Text of a picture is legible, and is text to whoever reads the XML."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from svg_picture import texts

from nmt.plot import document, legible, text


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("▁Straße 東京", "▁Straße 東京"),
        ("\0\n", "<U+0000><U+000A>"),
        ("a\u202eb", "a<U+202E>b"),  # which would turn the rest round
        ("\u00a0", "<U+00A0>"),
        ("\ufffe\ud800", "<U+FFFE><U+D800>"),
    ],
)
def test_what_nobody_sees_is_shown_by_its_number(content: str, shown: str) -> None:
    assert legible(content) == shown


@given(st.text())
def test_any_text_makes_a_picture(content: str) -> None:
    picture = ElementTree.fromstring(document(100, 50, content, [text(1, 2, content)]))
    assert texts(picture) == [legible(content)] * 2

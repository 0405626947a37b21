"""TBX: which terms of a terminology database are taken, and what is refused."""

from pathlib import Path

import pytest
from command_line import Stderr

from nmt.errors import DataError
from nmt.lexical.tbx import read_tbx

V2 = (
    '<?xml version="1.0"?>\n<!DOCTYPE martif SYSTEM "TBXcdv04.dtd">\n'
    '<martif type="TBX"><text><body>'
)
V3 = '<tbx style="dca" xmlns="urn:iso:std:iso:30042:ed-2"><text><body>'


def term_2(text: str, status: str = "") -> str:
    note = f'<termNote type="administrativeStatus">{status}</termNote>' if status else ""
    return f"<tig><term>{text}</term>{note}</tig>"


def entry_2(*sides: tuple[str, str]) -> str:
    sets = "".join(f'<langSet xml:lang="{lang}">{terms}</langSet>' for lang, terms in sides)
    return f'<termEntry id="c1"><descrip type="definition">a cat</descrip>{sets}</termEntry>'


def read(
    folder: Path, text: str, langs: tuple[str, str] = ("en", "de")
) -> list[tuple[str, tuple[str, ...]]]:
    path = folder / "x.tbx"
    path.write_text(text, encoding="utf-8")
    return [(word.source, word.targets) for word in read_tbx(path, langs)]


def test_preferred_terms_come_first_and_others_that_may_be_used_after_them(tmp_path: Path) -> None:
    german = "".join(
        [
            term_2("Kater", "admitted"),
            term_2("Mieze", "deprecatedTerm-admn-sts"),
            term_2("Katze", "preferredTerm-admn-sts"),
            term_2("Dachhase", "supersededTerm"),
            term_2("Katz", "Obsolete"),
            term_2("Viech", "forbidden"),
            term_2("Stubentiger", "notRecommended"),
            term_2("Mauz"),
        ]
    )
    english = term_2("cat") + term_2("puss", "deprecatedTerm")
    found = read(
        tmp_path, f"{V2}{entry_2(('en-US', english), ('de-DE', german))}</body></text></martif>"
    )
    assert found == [("cat", ("Katze", "Kater", "Mauz"))]


@pytest.mark.parametrize(
    "text",
    [
        # As Microsoft writes it.
        f'{V2}<termEntry id="1"><langSet xml:lang="en-US"><descripGrp><descrip type="definition">x'
        '</descrip></descripGrp><ntig><termGrp><term id="1">cat</term><termNote type="partOfSpeech"'
        '>Noun</termNote></termGrp></ntig></langSet><langSet xml:lang="de-DE"><ntig><termGrp><term>'
        "Katze</term></termGrp></ntig><ntig><termGrp><term>Mieze</term><termNote type="
        '"administrativeStatus">forbidden</termNote></termGrp></ntig></langSet></termEntry></body>'
        "</text></martif>",
        # Version 3, and its style with an element for each kind of note.
        f'{V3}<conceptEntry id="1"><langSec xml:lang="en"><termSec><term>cat</term></termSec>'
        '</langSec><langSec xml:lang="de"><termSec><term>Katze</term></termSec></langSec>'
        "</conceptEntry></body></text></tbx>",
        '<tbx style="dct" xmlns:b="urn:b" xmlns:t="urn:t"><t:conceptEntry><t:langSec xml:lang="EN">'
        "<t:termSec><t:term> <hi>cat</hi>\n</t:term></t:termSec></t:langSec>"
        "<t:langSec lang='de_DE'>"
        "<t:termSec><t:term>Mieze</t:term><b:administrativeStatus>deprecatedTerm-admn-sts"
        "</b:administrativeStatus></t:termSec><t:termSec><t:term>Katze</t:term></t:termSec>"
        "</t:langSec></t:conceptEntry></tbx>",
    ],
    ids=["ntig", "version 3", "dct"],
)
def test_terms_stand_in_the_elements_of_each_version(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == [("cat", ("Katze",))]


@pytest.mark.parametrize(
    ("langs", "found"),
    [
        (("en", "pt"), [("colour", ("a cor",)), ("color", ("a cor",))]),
        (("en", "zh"), [("colour", ("颜色",)), ("color", ("颜色",))]),
        (("en-US", "zh-TW"), [("color", ("顏色",))]),
        (("zh-tw", "pt-pt"), [("顏色", ("cor",))]),
    ],
)
def test_the_variant_that_serves_best_is_taken(
    tmp_path: Path, langs: tuple[str, str], found: list[tuple[str, tuple[str, ...]]]
) -> None:
    sides = {"zh-TW": "顏色", "en-GB": "colour", "pt-PT": "cor", "zh-CN": "颜色", "en-US": "color"}
    text = entry_2(*((lang, term_2(term)) for lang, term in {**sides, "pt-BR": "a cor"}.items()))
    assert sorted(read(tmp_path, f"{V2}{text}</body></text></martif>", langs)) == sorted(found)


def test_entries_without_a_translation_are_counted(tmp_path: Path, stderr: Stderr) -> None:
    cat = entry_2(("en", term_2("cat")), ("de", term_2("Katze")))
    others = entry_2(("en", term_2("dog"))) + entry_2(
        ("en", term_2("owl")), ("de", term_2("Kauz", "obsolete"))
    )
    assert read(tmp_path, f"{V2}{cat}{others}</body></text></martif>") == [("cat", ("Katze",))]
    assert "x.tbx: 1 of 3 entries" in stderr()
    read(tmp_path, f"{V2}{cat}</body></text></martif>")
    assert stderr() == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{V2}{entry_2(('en', term_2('cat')), ('fr', term_2('chat')))}</body></text></martif>",
            "en, fr",
        ),
        (f"{V2}</body></text></martif>", "none"),
        ('<TBX dialect="TBX-Min"><entry/></TBX>', "TBX>"),
        ("<tmx/>", "tmx>"),
        (f"{V2}<termEntry>", "line 3: not valid XML"),
        ('<!DOCTYPE tbx [<!ENTITY e "x">]><tbx>&e;</tbx>', "&e;"),
        ("<tbx>&e;</tbx>", "line 1"),
    ],
)
def test_what_is_not_basic_tbx_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=f"x.tbx.*{message}"):
        read(tmp_path, text)

"""Files of terms: what is a term in them, and what is told of them."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Stderr
from text_formats import xlsx

from nmt.errors import DataError, UsageError
from nmt.lexical.term_list import read_terms

Terms = dict[str, tuple[str, ...]]
Read = Callable[..., Terms]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Write a file of terms, and return those of its terms that a line has with all of them."""

    def written(
        content: str | bytes, name: str = "x.tsv", langs: tuple[str, str] = ("en", "de")
    ) -> Terms:
        raw = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name.partition(":")[0]).write_bytes(raw)
        words = read_terms(tmp_path / name, langs)
        line = 'dog cat Dog mouse bird 犬 tree (big) cat, dog "red" rose'
        found = {one.word.source: one.word.targets for one in words.find(line)}
        assert len(found) == len(words)
        return found

    return written


def test_a_file_is_read_with_its_forms_and_alternatives(read: Read) -> None:
    text = (
        "\ufeff# comment\n\nsource\ttarget\tform\tform\n\ndog\tHund\tHundes\t\r\n cat \t Katze \n"
    )
    text += "dog\tKöter\t\tKöters\nDog\tDogge\n"
    found = read(gzip.compress(text.encode()), "terms.tsv.gz")
    expected = ("Hund", "Hundes", "Köter", "Köters")
    assert found == {"dog": expected, "cat": ("Katze",), "Dog": ("Dogge",)}


def test_a_row_may_have_more_forms_than_the_header(read: Read) -> None:
    found = read("source\ttarget\tform\ndog\tHund\tHundes\tHunde\ncat\tKatze\n")
    assert found == {"dog": ("Hund", "Hundes", "Hunde"), "cat": ("Katze",)}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.tsv", "dog\tHund\ncat\tKatze\n"),
        ("x.txt", "dog\tHund\ncat\tKatze\n".encode("utf-16")),
        ("x.csv", "dog,Hund\ncat,Katze\n"),
        ("x.csv", "sep=;\r\n\r\ndog;Hund\r\ncat;Katze;;\r\n"),
        ("x.csv", "\n\ndog,Hund\n\n\ncat,Katze\n"),
        ("x.tsv", '"dog"\tHund\ncat\t"Katze"\n'),
        # A header, by the names of the languages or of the sides, in any order and column.
        ("x.tsv", "English\tGerman\ndog\tHund\ncat\tKatze\n"),
        ("x.csv", "DE;notes;en-US\nHund;noun;dog\nKatze;;cat\n"),
        ("x.tsv", "Term\tTranslation\ndog\tHund\ncat\tKatze\n"),
        ("x.csv", "ID,English term,German_word\n1,dog,Hund\n2,cat,Katze\n"),
        # Columns that are named are those, and no others are forms.
        ("x.tsv:1,2", "dog\tHund\tEN\tDE\ncat\tKatze\tEN\tDE\n"),
        ("x.tsv:3,2", "1\tHund\tdog\n2\tKatze\tcat\n"),
        ("x.csv:word,meaning", "meaning,word,form\nHund,dog,n\nKatze,cat,\n"),
        # OmegaT's: the third column is a comment.
        (
            "x.txt",
            "# Glossary in tab-separated format -*- coding: utf-8 -*-\ndog\tHund\tnot Köter\n"
            "cat\tKatze\n",
        ),
        # Rows say of which languages they are.
        (
            "x.tsv",
            "source\ttarget\tsource_lang\ttarget_lang\ndog\tHund\ten\tde\nbird\toiseau\ten\tfr\n"
            "cat\tKatze\tEN\tDE\n",
        ),
    ],
)
def test_terms_are_in_the_columns_that_the_header_the_user_or_omegat_say(
    read: Read, name: str, content: str | bytes
) -> None:
    assert read(content, name) == {"dog": ("Hund",), "cat": ("Katze",)}


def test_terms_are_read_from_a_sheet(read: Read) -> None:
    pytest.importorskip("python_calamine")
    rows = [("German", "English", "POS"), ("Hund", "dog", "n."), (None, "bird"), ("Katze", "cat")]
    book = xlsx({"Words": rows, "Other": [("mouse", "Maus")]})
    assert read(book, "x.xlsx") == {"dog": ("Hund",), "cat": ("Katze",)}
    assert read(book, "x.xlsx:Other") == {"mouse": ("Maus",)}


@pytest.mark.parametrize("name", ["x.tbx", "x.xml", "x.xml.gz:en-us,de-de"])
def test_tbx_is_known_by_its_content(read: Read, name: str) -> None:
    cat = '<tig><term>cat</term></tig></langSet><langSet xml:lang="de-de"><tig><term>Katze'
    text = f'\ufeff<martif><termEntry><langSet xml:lang="en-us">{cat}</term></tig></langSet>'
    content = f"{text}</termEntry></martif>".encode()
    content = gzip.compress(content) if ".gz" in name else content
    langs = ("fr", "es") if ":" in name else ("en", "de")
    assert read(content, name, langs) == {"cat": ("Katze",)}


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("dog\tHund; Köter;Hund", {"dog": ("Hund", "Köter")}),
        ("dog\tHund | Köter", {"dog": ("Hund", "Köter")}),
        ("bird\t鸟；禽", {"bird": ("鸟", "禽")}),
        ("bird; mouse\t鸟", {"bird": ("鸟",), "mouse": ("鸟",)}),
        ("dog\tHund (m.)", {"dog": ("Hund",)}),
        ("dog\tHund {m} [ugs.]; Köter (abwertend; selten)", {"dog": ("Hund", "Köter")}),
        ("dog (animal)\tHund", {"dog": ("Hund",)}),
        ("犬（いぬ）\tHund", {"犬": ("Hund",)}),
        ('"red" rose\t"rote" Rose', {'"red" rose': ('"rote" Rose',)}),
        # Not at the end, or a part of the word.
        ("cat\t(kleine) Katze", {"cat": ("(kleine) Katze",)}),
        ("cat\tKatze(n)", {"cat": ("Katze(n)",)}),
        ("(big)\t(groß)", {"(big)": ("(groß)",)}),
        ("dog\t;", {"dog": (";",)}),
        # Without a semicolon we cannot know.
        ("dog\tHund/Köter", {"dog": ("Hund/Köter",)}),
    ],
)
def test_a_cell_may_hold_alternatives_and_brackets(read: Read, row: str, found: Terms) -> None:
    assert read(f"{row}\ntree\tBaum\n") == found | {"tree": ("Baum",)}


@pytest.mark.parametrize(
    "text",
    [
        # As tools for translators write it.
        "term;description;forbidden;en;de\ndog;;no;dog;Hund\ndog;;yes;dog;Köter\n",
        "Term [en],Term [de],Status [de],Status [fr]\ndog,Hund,preferred,obsolete\n"
        "dog,Köter,not recommended,preferred\n",
        "en,de,Status,Forbidden\ndog,Hund,Approved,FALSE\ndog,Köter,Approved,TRUE\n",
        "英文,中文,en,de,administrative status\na,b,dog,Hund,\na,b,dog,Köter,deprecatedTerm\n",
    ],
)
def test_terms_that_must_not_be_used_are_left_out(read: Read, stderr: Stderr, text: str) -> None:
    assert read(text, "x.csv") == {"dog": ("Hund",)}
    assert re.search("left out 1 row that must not be used by .*, such as dog = Köter", stderr())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("dog\tHund; Köter\ncat\tKatze (f.)\n", "x.tsv: 2 terms .*Hund; Köter"),
        ("dog\tHund/Köter\ncat\tKatze\n", "warning: .*x.tsv: 1 term .*Hund/Köter"),
        ("cat\t猫\nbird\t鸟、禽\n", "warning: .*x.tsv: 1 term .*鸟、禽"),
        ("dog\tHund\ncat\t\nbird\t \n", "warning: .*x.tsv: .*2 rows .*row 2"),
        ("en\tde\ndog\tHund\tHundes\ncat\tKatze\n", "warning: .*x.tsv: .*1 row .*row 2"),
        ("en\tde\tPOS\tnote\ndog\tHund\n", "x.tsv: .*en and de.*POS, note"),
        ("en\tde\tlp\ndog\tHund\ten-de\ncat\tchat\ten-fr\n", "x.tsv: .*1 row"),
    ],
)
def test_what_is_left_out_is_told(read: Read, stderr: Stderr, text: str, told: str) -> None:
    read(text)
    (line,) = stderr().splitlines()
    assert re.search(told, line)


@pytest.mark.parametrize(
    ("words", "langs", "is_told"),
    [
        ("Dog Cat Mouse Bird Tree", ("en", "de"), True),
        ("Dog Cat mouse Bird Tree", ("en", "de"), False),
        ("Hund Katze Maus Vogel Baum", ("de", "en"), False),  # as it should be
    ],
)
def test_a_list_of_capitals_is_told(
    tmp_path: Path, stderr: Stderr, words: str, langs: tuple[str, str], is_told: bool
) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("".join(f"{word} {n}\tx\n" for n in "ab" for word in words.split()))
    read_terms(path, langs)
    assert ("10 of 10 terms" in stderr()) == is_told


def test_nothing_is_told_of_good_terms(read: Read, stderr: Stderr) -> None:
    read("tree\tBaum\ncat, dog\tKatze, Hund\n(big)\t(groß) und (klein)er\n")
    assert read('sep=;\r\n"dog";"Hund"\r\ncat;Katze\r\n', "x.csv")["dog"] == ("Hund",)
    assert stderr() == ""


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", "dog\n", "tab.*SOURCE<TAB>TARGET"),
        ("x.json", '{"dog": "Hund"}', "tab.*TBX"),
        ("x.tsv", "# nothing\n\n", "no terms"),
        ("x.tsv", "", "no terms"),
        ("x.tsv", "12\tdrei\n", "no terms"),
        ("x.tsv", "dog\t34\n", "no terms"),
        ("x.tsv", "English\tGerman\n", "no terms"),
        # Other columns than two are comments, codes or numbers as often as forms.
        ("x.tsv", "dog\tHund\tHundes\n", "3 columns.*x.tsv:1,2.*source, target, form"),
        ("x.tsv", "dog\tHund\ncat\tKatze\tn.\n", "3 columns.*x.tsv:1,2"),
        ("x.tsv", "1\tdog\tHund\n2\tcat\tKatze\n", "3 columns.*x.tsv:2,3"),
        ("x.csv", "dog,Hund,EN,DE\ncat,Katze,EN,DE\n", "x.csv:1,2"),
        ("x.tsv:word,meaning", "dog\tHund\n", "word"),
        ("x.tsv", "en-US\ten-GB\tde\ndog\tdog\tHund\n", "en-US, en-GB"),
        ("x.tsv", 'dog\t"Hund\ncat\t"Katze, ""groß"""\n', "line 1: a quote"),
        ("x.tsv", "cat\tKatze\n\ndog\tHund\n".encode("utf-16-le"), "line 1 .*UTF-8"),
        ("x.tsv", b"cat\tKatze\n\ndog\tK\xf6ter\n", "line 3 .*UTF-8"),
    ],
)
def test_what_does_not_show_its_terms_is_refused(
    read: Read, tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(DataError, match=f"^{tmp_path}/{name.partition(':')[0]}.*{message}"):
        read(content, name)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", b"PK\x03\x04", "xlsx"),
        ("x.xlsb", b"PK\x03\x04", "xlsx"),
        ("x.tsv:1,2,3", b"dog\tHund\tn.\n", "two columns"),
    ],
)
def test_other_files_are_refused(read: Read, name: str, content: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(content, name)

"""`nmt translate --markup`: lines, and documents."""

import gzip
import json
import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command_line import Nmt, TranslateText
from context_stub import one_sentence, use_instead_of_a_model
from mishaps import short_of_memory

from nmt.data.vocabulary import Vocabulary
from nmt.markup.markup_tokens import tokenize
from nmt.markup.tags import parse
from nmt.models.model_file import load_model

LINES = [
    "the <b>cat</b> sees a &amp; bird",
    "",
    "<p> </p>",
    'a dog. <i>The old <x id="1"/>house</i> and the river and <u>a small tree</u>, and a red bird.',
    "</i> the <b",
]
TEXT = "".join(f"{line}\n" for line in LINES)
PLAIN = "".join(f"{parse(line, 'html').text}\n" for line in LINES)


def tags(line: str) -> Counter[str]:
    return Counter(token.raw for token in tokenize(line, "html") if token.kind != "text")


@pytest.mark.parametrize("words", [(), ("--split",), ("--format", "jsonl")])
def test_tags_come_back_and_the_text_is_that_of_lines_without_tags(
    translate_text: TranslateText, words: tuple[str, ...]
) -> None:
    # Line 4 is longer than the model takes at once.
    with_tags = translate_text(TEXT, *words, "--markup", "html").succeeded()
    without = translate_text(PLAIN, *words).succeeded()
    lines, plain = (answer.stdout.split("\n")[:-1] for answer in (with_tags, without))
    if "jsonl" in words:
        lines, plain = ([json.loads(line)["text"] for line in one] for one in (lines, plain))
    assert len(lines) == len(LINES)
    for line, found, expected in zip(LINES, lines, plain, strict=True):
        assert tags(found) == tags(line)
        assert parse(found, "html").text.strip() == expected
    assert lines[1:3] == ["", "<p> </p>"]


def test_each_of_several_translations_has_the_tags(translate_text: TranslateText) -> None:
    found = translate_text(TEXT, "--markup", "xml", "--n-best", "2").stdout.splitlines()
    numbers = []
    for entry in found:
        number, text, _ = entry.split(" ||| ")
        numbers.append(int(number))
        assert tags(text) == tags(LINES[int(number)])
    assert sorted(set(numbers)) == list(range(len(LINES)))
    assert len(numbers) > len(LINES)  # some lines have two texts


def test_documents_are_written_whole(translate: Nmt, tmp_path: Path) -> None:
    page, out = tmp_path / "page.html", tmp_path / "seite.html"
    page.write_text("<h1>the cat</h1>\n<p>a <b>dog</b> sees<br>the tree")
    done = translate("--input", page, "--output", out)
    assert (done.status, done.stdout) == (0, "")
    assert done.summary["lines_in"] == 3
    assert tags(out.read_text()) == tags(page.read_text())
    assert not (tmp_path / ".seite.html.partial").exists()
    before = out.stat()
    assert "seite.html: already translated" in translate("--input", page, "--output", out).stderr
    assert out.stat().st_mtime_ns == before.st_mtime_ns
    # To stdout, and with an option that says the same.
    assert translate("--input", page, "--markup", "html").stdout == out.read_text()


@pytest.fixture
def _knows_sentences_only(monkeypatch: pytest.MonkeyPatch, vocabulary: Vocabulary) -> None:
    use_instead_of_a_model(monkeypatch, lambda source: one_sentence(vocabulary, source))


@pytest.mark.usefixtures("_knows_sentences_only")
def test_no_sentence_of_a_document_is_lost(translate: Nmt, tmp_path: Path) -> None:
    sentences = ["The cat.", "A <b>dog</b>.", "A bird."]
    page = tmp_path / "page.html"
    page.write_text(f"<p>{' '.join(sentences)}</p>\n<p>{sentences[0]}</p>")
    for words, count in (((), 4), (("--split",), 4), (("--no-split",), 2)):
        found = translate("--input", page, *words).succeeded()
        assert found.stdout.count(".") == count
        assert tags(found.stdout) == tags(page.read_text())


@pytest.mark.parametrize("words", [(), ("--no-split",), ("--sample",)])
def test_breaks_stay_between_lines(translate_text: TranslateText, words: tuple[str, ...]) -> None:
    line = "<p>The cat sees.</p><ul><li>- a <b>dog</b><li>the tree</ul>1<br> <br>\tthe river<br>"
    found = translate_text(f"{line}\n", "--markup", "html", *words).succeeded()
    parts = re.split("(<(?!/?b>)[^<>]*>)", found.stdout)
    expected = re.split("(<(?!/?b>)[^<>]*>)", f"{line}\n")
    assert parts[1::2] == expected[1::2]
    for text, src in zip(parts[::2], expected[::2], strict=True):
        assert text == src or not src.strip().isnumeric()
        assert text.startswith("- ") == src.startswith("- ")
        assert bool(text.strip()) == bool(src.strip())


@pytest.mark.usefixtures("_knows_sentences_only")
def test_lines_of_a_unit_are_translated_one_by_one(translate: Nmt, tmp_path: Path) -> None:
    kept = "The cat.\n\n  1. A dog. A bird.\n  \u2022 the tree\n12:30"
    page = tmp_path / "page.xlf"
    for source in (
        f'<source xml:space="preserve">{kept}</source>',
        '<source>The cat. A dog.<x id="1" ctype="lb"/>A bird.\n  The tree.</source>',
    ):
        page.write_text(f"<xliff><trans-unit>{source}</trans-unit></xliff>")
        found = translate("--input", page)
        target = source.replace("source", "target")
        assert (found.status, source + target in found.stdout) == (0, True)


@pytest.mark.usefixtures("_knows_sentences_only")
def test_text_beside_documents_is_split_as_without_them(translate: Nmt, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for name in ("a.html", "b.txt"):
        (folder / name).write_text("The cat. A dog.\n")
    job = ("--input", folder, "--output", out, "--markup", "html")
    assert translate(*job).status == 0
    assert (out / "a.html").read_text() == "The cat. A dog.\n"
    assert (out / "b.txt").read_text() == "The cat.\n"
    (folder / "a.html").unlink()
    assert "b.txt: already translated" in translate(*job).stderr


MIXED: dict[str, str | bytes] = {
    "a.html": "<p>the <b>cat</b> &amp; a dog</p>\n",
    "b.txt": "the <b>cat</b> sees \U0001f600\n",
    "c.xlf": "<xliff><trans-unit><source>the <g id='1'>cat</g></source></trans-unit></xliff>\n",
    "d.srt": "1\n00:00:01,000 --> 00:00:02,000\nthe cat\n",
    "e.txt": 'msgid "the\\n%s cat\\n"\nmsgstr ""\n\nmsgid "cat"\nmsgstr "Katze"\n',
    "f.html.gz": gzip.compress(b"<p>the cat</p>\n"),
}


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A folder of files of several types; the last cannot be translated."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    for name, content in MIXED.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.mark.parametrize("words", [(), ("--markup", "xml", "--workers", "2")])
def test_each_file_of_a_folder_is_translated_by_its_own_type(
    translate: Nmt,
    mixed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    loaded: list[Path] = []

    def load(path: Path) -> Any:
        loaded.append(path)
        return load_model(path)

    monkeypatch.setattr("nmt.translate.load_model.load_model", load)
    out, apart = tmp_path / "out", tmp_path / "apart"
    done = translate("--input", mixed, "--output", out, *words)
    assert len(loaded) == 1
    assert (done.status, done.summary["lines_in"]) == (1, 5)
    assert "1 unit has a translation" in done.stderr
    for name in list(MIXED)[:-1]:
        translate("--input", mixed / name, "--output", apart, *words).succeeded()
        assert (out / name).read_bytes() == apart.read_bytes() != (mixed / name).read_bytes(), name
        again = translate("--input", mixed / name, "--output", out / name, *words)
        assert "already translated" in again.stderr
        apart.unlink()


def test_documents_that_do_not_go_with_an_option_fail_and_lines_go_on(
    translate: Nmt, mixed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = translate("--input", mixed, "--output", out, "--scores")
    assert (done.status, done.summary["lines_in"]) == (1, 1)
    assert [path.name for path in out.iterdir() if path.name[0] != "."] == ["b.txt"]
    for name in set(MIXED) - {"b.txt"}:
        (line,) = (line for line in done.stderr.splitlines() if name in line)
        assert ("--scores" in line) == (name != "f.html.gz")


def test_a_unit_that_fails_stays_and_the_status_is_1(
    translate: Nmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_of_memory(monkeypatch, tokens=5)
    page, out = tmp_path / "page.htm", tmp_path / "out.htm"
    long = "<p>a small dog sees the old bird in <i>the river</i></p>"
    page.write_text(f"<p>the cat</p>\n{long}\n")
    done = translate("--input", page, "--output", out)
    assert done.status == 1
    first, second = out.read_text().splitlines()
    assert first != "<p>the cat</p>"
    assert second == long
    again = translate("--input", page, "--output", out)
    assert again.status == 1
    for told in (done.stderr, again.stderr):
        assert re.search(r"page\.htm: 1 unit .* unit 2: ", told)
    assert done.summary["failed"] == 1


def test_what_is_odd_about_a_document_is_told(translate: Nmt, tmp_path: Path) -> None:
    page, terms = tmp_path / "page.xlf", tmp_path / "terms.tsv"
    sources = ("user_name the cat", "a.b_c", "a.d", "a.e", "the tree " * 100)
    units = [f"<trans-unit><source>{source}</source></trans-unit>" for source in sources]
    page.write_text(f"<xliff>{''.join(units)}</xliff>")
    terms.write_text("cat\tKatze\n")
    told = translate("--input", page, "--terms", terms, "--max-tokens", "1").stderr
    for message in (
        ".* keys, such as a\\.b_c",
        ".*translation.*placeholder, such as user_name",
        "1 unit .* unit 1: cat -> Katze\n",
        "1 unit .*tokens.* unit 5",
    ):
        assert re.search(rf"warning: \S+page\.xlf: {message}", told)


MESSAGE = "the cat {n, plural, one {a dog} other {# dogs}}"


def test_icu_messages_stay(translate: Nmt, translate_text: TranslateText, tmp_path: Path) -> None:
    told = translate_text(f"the <b>cat</b>\n<i>{MESSAGE}</i>\n", "--markup", "html").succeeded()
    assert told.stdout.splitlines()[1] == f"<i>{MESSAGE}</i>"
    assert re.search(r"warning: \S+: 1 line has .*, .* line 2; ", told.stderr)
    for name, content in (
        ("a.xlf", f"<xliff><trans-unit><source>{MESSAGE}</source></trans-unit></xliff>\n"),
        ("a.po", f'msgid "{MESSAGE}"\nmsgstr ""\n'),
        ("a.json", f'{{"a": "{MESSAGE}"}}\n'),
    ):
        (tmp_path / name).write_text(content)
        told = translate("--input", tmp_path / name)
        assert (told.status, told.stdout) == (0, content)
        assert re.search(rf"warning: \S+{name}: 1 unit has .* unit 1; ", told.stderr)


UNSUPPORTED = {
    "a.json": '{"name": "the_cat"}\n',
    "b.md": "# the cat\n",
    "c.docx": "the cat\n",
    "d.txt": '<?xml version="1.0"?><resources/>\n',
}


def test_another_structure_is_refused_and_the_others_go_on(translate: Nmt, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for name, content in UNSUPPORTED.items():
        (folder / name).write_text(content)
        alone = translate("--input", folder / name, "--markup", "html").refusal(1)
        assert f"{name}: " in alone
        assert ("--markup none" in alone) == (name not in ("a.json", "c.docx"))
    (folder / "e.html").write_text("<p>the cat\n")
    done = translate("--input", folder, "--output", out)
    assert done.status == 1
    assert [path.name for path in out.iterdir() if path.name[0] != "."] == ["e.html"]
    assert all(f"{name}: " in done.stderr for name in UNSUPPORTED)


def test_with_markup_none_any_text_is_lines(translate: Nmt, tmp_path: Path) -> None:
    content, out = b"<html> the cat\n", tmp_path / "out"
    as_text = translate("--markup", "none", stdin=content)
    assert "warning" not in as_text.stderr
    for name in ("a.html", "a.txt", "b.json", "a.html.gz"):
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        words = ("--markup", "none", "--scores", "--input", tmp_path / name)
        scored = translate(*words).succeeded()
        assert scored.stdout.partition("\t")[2] == as_text.stdout
        assert translate(*words, "--output", out).status == 0
        assert out.read_text() == scored.stdout


@pytest.mark.parametrize("text", ["<!DOCTYPE html>\n", "the <b>cat</b>\n", "cat = the cat\n"])
def test_markup_that_is_translated_as_text_is_warned_of(translate: Nmt, text: str) -> None:
    assert "nmt: warning: stdin: " in translate(stdin=text.encode()).succeeded().stderr
    assert "warning" not in translate(stdin=b"the cat\n" * 20 + text.encode()).stderr
    assert "warning" not in translate("--markup", "html", stdin=text.encode()).stderr


def test_tags_around_decomposed_words_come_back_around_them(translate_text: TranslateText) -> None:
    text = "the <b>cät</b> sees <i>é ậ</i> bird <u>한국</u>.\nthe <b>ḍo</b>g ö\n"
    composed, decomposed = (
        translate_text(unicodedata.normalize(form, text), "--markup", "html").succeeded()
        for form in ("NFC", "NFD")
    )
    assert decomposed.stdout == composed.stdout
    assert "NFD" not in decomposed.stderr

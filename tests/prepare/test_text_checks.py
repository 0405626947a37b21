"""Texts that are not what they are called are warned of, and clean ones are not."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from command_line import Stderr
from prepare_job import Job, pairs, write

from nmt.data.corpus import Encoding, find_sides
from nmt.errors import DataError, UsageError
from nmt.prepare.block import Block, Pairs
from nmt.prepare.readers.line_files import MosesFiles
from nmt.prepare.text_checks import faults

UTF8 = Encoding.find("utf-8")
NAMES = ("t.en", "t.de")

WORDS = {
    "en": "the house of a man and the river in which you have to be with it is red",
    "de": "das Haus von einem Mann und der Fluss in dem du mit ihm zu sein hast ist rot",
    "nb": "huset av en mann og elva som du har til å være med ham i det er ikke rødt",
    "ru": "дом человека и река в которой ты с ним что не на по это но красный",
}


def lines_of(lang: str, lengths: list[int], seed: int) -> list[str]:
    words = random.Random(seed)
    return [" ".join(words.choices(WORDS[lang].split(), k=length)) for length in lengths]


def pairs_of(src: list[str], tgt: list[str], langs: tuple[str, str]) -> Pairs:
    one, other = ("".join(f"{line}\n" for line in lines).encode() for lines in (src, tgt))
    return Pairs.decode(Block(0, 2, len(src), one, other, UTF8, langs=langs))


def gaps(lines: list[str], seed: int) -> list[str]:
    """Return lines of which some stand for others, as verses of the Bible do that are joined."""
    places = random.Random(seed)
    return [places.choice(["<range>", "", *[line] * 8]) for line in lines]


_NUMBERS = random.Random(4)
LENGTHS = [_NUMBERS.randint(3, 40) for _ in range(300)]
EN, DE, NB, RU = (lines_of(lang, LENGTHS, seed) for seed, lang in enumerate(WORDS))
AM = [line.translate({code: code + 0x131 for code in range(0x430, 0x450)}) for line in RU]
SOFTWARE = [f"{line}河和红色的房子" for line in EN]
"""Chinese text that is mostly English words, all of which stand in its translation."""


SHIFTED = "t.en and t.de: .* targets"
UNRELATED = "t.en and t.de: .* match"
SWAPPED = "t.en and t.de: .* swapped"
CUT = "t.en .* subwords"


def marked(lines: list[str], mark: str, step: int) -> list[str]:
    """Put a mark after the first word of each of so many lines."""
    return [line if n % step else line.replace(" ", f" {mark} ", 1) for n, line in enumerate(lines)]


@pytest.mark.parametrize(
    ("src", "tgt", "langs", "message"),
    [
        (EN, DE, "en de", None),
        (EN, NB, "en no", None),
        (EN, RU, "eng rus_Cyrl", None),
        (EN, DE, "xx yy", None),
        (EN, SOFTWARE, "en zh", None),
        (EN, EN, "en zh", "t.de .* zh"),
        (EN[:20], DE[5:25], "en de", None),  # too few to tell
        (gaps(EN, 1), gaps(DE, 2), "en de", None),
        (EN, [DE[-1], *DE[:-1]], "en de", f"{SHIFTED} .*1 line later"),
        (EN, [*DE[1:], DE[0]], "en de", f"{SHIFTED} .*1 line earlier"),
        (EN, [*DE[-3:], *DE[:-3]], "en de", f"{SHIFTED} .*3 lines later"),
        (EN, random.Random(2).sample(DE, len(DE)), "en de", UNRELATED),
        (DE, EN, "en de", SWAPPED),
        (NB, EN, "en no", SWAPPED),
        (RU, EN, "en ru", SWAPPED),
        (DE, DE, "en de", "t.en .* de, .* en"),
        (EN, RU, "en de", "t.de .* ru, .* de"),
        (EN, RU, "en ua", None),
        (EN, AM, "en am", "t.de .* am; .*Armenian, its code is hy"),
        (EN, RU, "en am", "t.de .* am$"),
        (EN, EN, "en deu_Latn", "t.de .* en, .* deu_Latn"),
        ([line.replace("house", "ho@@ use") for line in EN], DE, "en de", rf"{CUT} .*@@\)"),
        (EN, [*DE[:-1], "CANARY GUID 1-2"], "en de", "t.de: line 301 is the canary"),
        ([f"<bos> {line}" for line in EN], DE, "en de", "t.en: 300 of 300 lines .*<bos>"),
        (EN, [f"{line} ###" for line in DE], "en de", "t.de: 300 of 300 lines .*###"),
        (marked(EN, "[F]", 12), DE, "en de", r"t.en: 25 of 300 lines have \[F\] in them"),
        (EN, marked(RU, "<в>", 12), "en ru", "t.de: 25 of 300 lines have <в> in them"),
        (marked(EN, "[2]", 25), marked(DE, "</b>", 25), "en de", None),
        (marked(EN, "<b>", 4), marked(DE, "<b>", 4), "en de", None),
        ([f"{line} ." for line in EN], [f"{line} 。" for line in DE], "en de", None),
        ([f"{line} 。" for line in EN], ["1.2"] * len(DE), "en xx", "t.de: .* no letters"),
        ([line.replace("house", "\u2581house") for line in EN], DE, "en de", f"{CUT} .*\u2581\\)"),
    ],
)
def test_text_that_is_not_what_it_is_called_is_warned_of(
    src: list[str], tgt: list[str], langs: str, message: str | None
) -> None:
    one, two = langs.split()
    found = faults(NAMES, pairs_of(src, tgt, (one, two)))
    assert len(found) == (message is not None)
    assert not message or re.match(message, found[0])


@pytest.mark.parametrize(
    ("corpus", "name", "src", "tgt"),
    [
        ("multi30k", "train", "en", "de"),
        ("tatoeba-en-de", "train", "en", "de"),
        ("europarl-en-de-20k", "train", "de", "en"),
        ("wmt-news", "newstest2013.en-de", "en", "de"),
        ("wmt-news", "newstest2009.en-fr", "fr", "en"),
    ],
)
def test_real_text_is_warned_of_if_and_only_if_something_is_done_to_it(
    real_text: Callable[[str], Path], corpus: str, name: str, src: str, tgt: str
) -> None:
    reader = MosesFiles(find_sides(str(real_text(corpus) / name), src, tgt), UTF8)
    (block,) = islice(reader.blocks(), 1)
    read = Pairs.decode(replace(block, langs=(src, tgt)))
    assert faults(reader.sides, read) == []
    one, other = (side.lines for side in read.sides)
    swapped = faults(reader.sides, pairs_of(other, one, (src, tgt)))
    assert re.findall(f"{' and '.join(reader.sides)}: .*swapped", swapped[0]) == swapped
    (fault,) = faults(reader.sides, pairs_of(one, ["First.", *other[:-1]], (src, tgt)))
    assert "1 line later" in fault


def test_decomposed_text_is_warned_of_if_the_given_vocabulary_does_not_compose(
    job: Job, tmp_path: Path, stderr: Stderr
) -> None:
    old = job.but(normalization="identity").prepare()
    lines = [(f"u\u0308ber {src}", f"\u00fcber {tgt}") for src, tgt in pairs(60)]
    decomposed = job.but(train=(write(tmp_path, "marks", lines),))
    stderr()
    decomposed.but(out=tmp_path / "new").prepare()
    assert "NFD" not in stderr()
    decomposed.but(out=tmp_path / "tuned", vocab=(old.path / "vocab.model",)).prepare()
    told = stderr()
    assert re.search(r"marks\.en: 60 .*NFD", told)
    assert "marks.de" not in told


def test_lines_that_are_one_element_are_warned_of(job: Job, tmp_path: Path, stderr: Stderr) -> None:
    lines = [("<url>a</url>", "<url>b</url>"), *pairs(60), ("<range>", "das"), ("<b>a</b> b", "c")]
    tagged = write(tmp_path, "tagged", lines)
    job.but(out=tmp_path / "one", train=(tagged,), keep=("ratio",)).prepare()
    told = re.findall(r"tagged\.(..): (\d+) .* markup, such as <url>", stderr())
    assert told == [("en", "1"), ("de", "1")]  # a rule drops <range>
    job.but(out=tmp_path / "two", test=(tagged,)).prepare()
    told = re.findall(r"tagged\.(..): (\d+) .* markup, such as <url>", stderr())
    assert told == [("en", "2"), ("de", "1")]


@pytest.mark.parametrize(
    ("lang", "line", "message"),
    [
        ("fr", "J’aime l’eau et l’arbre.", "100% of .*t-en.de.*J ’ aime"),
        ("zh", "我喜欢水，也喜欢树。", "100% of .*t-en.de"),
        ("de", "Ich mag Wasser, und den Baum.", None),
    ],
)
def test_tokenisation_that_is_not_undone_is_warned_of(
    tmp_path: Path, stderr: Stderr, lang: str, line: str, message: str | None
) -> None:
    job = moses_job(tmp_path, [("I’m fond of “water”.", line)] * 3, lang)
    job.but(out=tmp_path / "plain", moses_tokenize=False).prepare()
    assert "tokenize" not in stderr()
    job.prepare()
    said = [row for row in stderr().splitlines() if "--moses-tokenize" in row]
    assert len(said) == (message is not None)
    assert not message or re.search(message, said[0])


@pytest.mark.parametrize("lang", ["th", "vi"])
def test_tokenisation_that_tears_marks_from_letters_is_refused(tmp_path: Path, lang: str) -> None:
    line = {"th": "ฉันไม่ได้ชอบน้ำ", "vi": "Tôi thích nước".translate({0xED: "i\u0301"})}[lang]
    one = moses_job(tmp_path, [("I like water.", line)] * 3, lang)
    two = moses_job(tmp_path, [(line, "I like water.")] * 3, "en", src=lang)
    for job, name in ((one, "t-en.de"), (two, f"t-{lang}.en")):
        with pytest.raises(UsageError, match=f"--moses-tokenize .* 3 of 3 lines of .*{name}"):
            job.prepare()
        if lang == "vi":  # which is whole once composed
            job.but(normalization="nfc", out=tmp_path / f"{name}-nfc").prepare()


def moses_job(folder: Path, lines: list[tuple[str, str]], lang: str, src: str = "en") -> Job:
    text = write(folder, f"t-{src}", lines)
    values = {"src_lang": src, "tgt_lang": lang, "moses_tokenize": True, "vocab_size": None}
    held_out = write(folder, "valid", [("something else", "etwas anderes")])
    texts = {"train": (f"{text}.en,{text}.de",), "valid": (f"{held_out}.en,{held_out}.de",)}
    return Job.of(folder / "data", **texts, **values, keep=("script",))


@pytest.mark.parametrize("option", ["train", "valid", "test"])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    "form", ["{n} ||| {} ||| -0.5", "-0.500000\t{}", "{} ||| 0-0", "H-{n}\t-0.5\t{}", "{n}\t{}"]
)
def test_lines_that_hold_more_than_text_are_refused(
    job: Job, tmp_path: Path, form: str, side: int, option: str
) -> None:
    lines = [[*pair] for pair in pairs(20)]
    for number, pair in enumerate(lines):
        pair[side] = form.format(pair[side], n=number)
    scored = write(tmp_path, "scored", [(src, tgt) for src, tgt in lines])
    with pytest.raises(DataError, match=rf"scored\.{('en', 'de')[side]} is "):
        job.but(**{option: (scored,)}).prepare()


RAW = [(f"A man, No. {n}, said: Now, go.", f"Ein Mann, Nr. {n}, sagte: Geh.") for n in range(99)]
TOKENISED = [(src.replace(",", " ,").replace(".", " ."), tgt) for src, tgt in RAW]
LOWER = [(src, tgt.lower()) for src, tgt in RAW]


@pytest.mark.parametrize(
    ("train", "valid", "told"),
    [
        (RAW, RAW[:90], None),
        (TOKENISED, TOKENISED[:90], None),
        (TOKENISED, RAW[:90], r"train\.en: 100% of its commas .* but 0% in .*held\.en"),
        (RAW, LOWER[:90], r"train\.de: 23.5% of its .* capitals, but 0.0% in .*held\.de"),
    ],
)
def test_a_text_in_another_style_than_valid_is_warned_of(
    job: Job,
    tmp_path: Path,
    stderr: Stderr,
    train: list[tuple[str, str]],
    valid: list[tuple[str, str]],
    told: str | None,
) -> None:
    texts = {
        "train": (write(tmp_path, "train", train),),
        "valid": (write(tmp_path, "held", valid),),
    }
    job.but(**texts, vocab_size=None, keep=("overlap",)).prepare()
    said = [line for line in stderr().splitlines() if "as people write" in line]
    assert len(said) == (told is not None)
    assert told is None or re.search(told, said[0])

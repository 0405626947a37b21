"""Subtitles stay as they are, except for what is said."""

import pytest
from read_document import read_document

from nmt.errors import DataError
from nmt.markup.documents import Document

CUT = "<nmt-cut/>"
SUBRIP = """1
00:00:01,000 --> 00:00:02,500 X1:40 X2:600
Say it & stay
in the house

2
00:00:02,600 --> 00:00:04,000
<i>with a <b>red</b></i>
<i>door.</i>

3
00:00:05,000 --> 00:00:06,000
{\\an8}<i>- Who's there?</i>
- It is {\\i1}me{\\i0}, Tom.

4
00:00:07,000 --> 00:00:08,000
♪ A man sings ♪
[door]

a dog. 5
A cat.

6

00:00:09,000 --> 00:00:10,000

7
00:00:10,000 --> 00:00:11,000
2026


"""
SUBRIP_LINES = [f"Say it &amp; stay in the house{CUT} <i>with a <b>red</b> door.</i>"]
SUBRIP_LINES += ["Who's there?", "It is <!--{\\i1}-->me<!--{\\i0}-->, Tom.", "A man sings"]
SUBRIP_LINES += ["[door]", "a dog. 5 A cat."]
WEBVTT = """WEBVTT - A title
Kind: captions

STYLE
::cue { color: red }

NOTE a note
of two lines

first
00:01.000 --> 00:02.000 align:start
<v.loud Tom>A man &amp; <c.red.big>a dog</c>

1:00:02.500 --> 1:00:04.000
sit<1:00:03.000> down.

NOTE 00:05
"""
WEBVTT_LINES = ["<v .loud Tom>A man &amp; <c .red.big>a dog</c>", "sit<!--<1:00:03.000>--> down."]


def read(content: str, name: str = "a.srt") -> Document:
    return read_document(name, content)


def cues(*texts: str, seconds: float = 0.5, pause: float = 0.1) -> str:
    """Return subtitles of these cues, one after the other."""
    times = [number * (seconds + pause) for number in range(len(texts))]
    return "\n".join(
        f"00:00:{begin:06.3f} --> 00:00:{begin + seconds:06.3f}\n{text}\n".replace(".", ",", 2)
        for begin, text in zip(times, texts, strict=True)
    )


def lines_of(content: str, name: str = "a.srt") -> list[str]:
    return [unit.line for unit in read(content, name).units]


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [("a.srt", SUBRIP, SUBRIP_LINES), ("a.vtt", WEBVTT, WEBVTT_LINES), ("a.vtt", "WEBVTT", [])],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_only_speech_is_translated(name: str, content: str, lines: list[str], newline: str) -> None:
    content = content.replace("\n", newline)
    document = read(content, name)
    assert [unit.line for unit in document.units] == lines
    assert document.write(None for _ in lines).content.decode() == content
    written = document.write(lines).content.decode()
    if name == "a.srt":  # the lines of a cue are about equally long
        before = f"<i>with a <b>red</b></i>{newline}<i>door.</i>"
        content = content.replace(before, f"<i>with a{newline}<b>red</b> door.</i>")
    assert written == content


def test_a_sentence_of_several_cues_is_cut_where_the_tag_is() -> None:
    document = read(cues("A man sits", "on a", "red chair.", "He sings."))
    written = document.write([f"Da sitzt er{CUT} auf {CUT}dem roten Stuhl.", "Er singt."])
    assert written.content.decode() == cues("Da sitzt er", "auf", "dem roten Stuhl.", "Er singt.")


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        (f"Eins zwei drei vier. {CUT}", ("Eins zwei", "drei vier.")),
        (f"{CUT}<i>Eins</i> zwei drei vier.", ("<i>Eins</i> zwei", "drei vier.")),
        (f"Eins{CUT} zwei drei vier fünf sechs.", ("Eins zwei drei", "vier fünf sechs.")),
        (f"Das ist l'{CUT}Eins zwei.", ("Das ist", "l'Eins zwei.")),
        (f"Eins{CUT} zwei{CUT} drei.", ("Eins zwei", "drei.")),  # of a source that has one
    ],
)
def test_without_words_it_is_cut_by_length(translation: str, expected: tuple[str, str]) -> None:
    document = read(cues("A man sits", "on a seat.", "Yes."))
    assert document.write([translation, "Ja."]).content.decode() == cues(*expected, "Ja.")


@pytest.mark.parametrize(
    "content",
    [
        cues("A man sits.", "On a chair."),
        cues("♪ A man sits ♪", "on a chair."),
        cues("A MAN", "sits there."),
        cues("A man sits", "on a chair.", pause=3),
        cues("He said that", "<i>Dr. Smith (V.O.): A man</i> sits."),
        cues("उसने कहा कि", "मीरा: वह बैठा है।"),
        cues("Նա եկավ։", "նա նստեց։", "Այո!", "Ոչ!"),
        cues("ہم گھر میں ہیں۔\u200f", "وہ وہاں ہیں۔"),
        cues("እሱ መጣ፡፡", "እሷ ሄደች፡፡", "አዎ!", "አይ!"),
        cues("He said that", "[door slams]"),
        cues("人们坐", "在椅子", "上面看", "书了吗", "我不知道。"),
    ],
)
def test_what_is_whole_is_not_joined(content: str) -> None:
    assert not any(CUT in line for line in lines_of(content))


@pytest.mark.parametrize(
    "content",
    [
        cues("A MAN SITS", "ON A CHAIR.", "HE SINGS.", "YES."),
        cues("He sits on", "a chair: it is red.", "Yes."),
        cues("The Old House", "is red.", "Yes."),
    ],
)
def test_what_goes_on_is_joined(content: str) -> None:
    assert CUT in lines_of(content)[0]


@pytest.mark.parametrize(
    ("text", "line", "translation", "written"),
    [
        (r"A man\Nsits\hthere.", "A man sits there.", "Er sitzt dort.", r"Er sitzt\Ndort."),
        (r"Oh, no \N\hnever!\N", "Oh, no never!", "O nein, nie!", "O nein,\x20\\N\\hnie!\\N"),
        (r"\h\hYes, sir.\h", "Yes, sir.", "Ja.", r"\h\hJa.\h"),
        (
            r"<i>{\an7}\hYes.</i>",
            r"<!--{\an7}--><!--\h-->Yes.",
            r"<!--{\an7}--><!--\h-->Ja.",
            r"<i>{\an7}\hJa.</i>",
        ),
    ],
)
def test_hard_spaces_are_layout(text: str, line: str, translation: str, written: str) -> None:
    document = read(cues(text))
    assert [unit.line for unit in document.units] == [line]
    assert document.write([translation]).content.decode() == cues(written)


@pytest.mark.parametrize(
    "data",
    [
        "a/b.jpg#xywh=0,0,160,90",
        "https://example.org/a",
        '["A man", "a dog"]',
        '{"who": "Tom",\n "says": ["A man sits.", "Yes."]}',
    ],
)
def test_data_for_programs_stays(data: str) -> None:
    said = "00:02.000 --> 00:03.000\nA man sits."
    document = read(f"WEBVTT\n\n00:00.000 --> 00:01.000\n{data}\n\n{said}", "a.vtt")
    assert [unit.line for unit in document.units] == ["A man sits."]


@pytest.mark.parametrize(
    ("content", "name", "line"),
    [
        ("A man sits.\n", "a.srt", 1),
        (cues("A man.") + "\n00:00:05,000 -> 00:00:06,000\nHe sits.\n", "a.srt", 4),
        ("WEBVTT\r\r00:00.000 --> 00:01.000\rA man.\r", "a.vtt", 1),
        ("WEBVTT\n\n00:0a.000 --> 00:01.000\nA man.\n", "a.vtt", 3),
    ],
)
def test_what_is_not_subtitles_is_refused(content: str, name: str, line: int) -> None:
    with pytest.raises(DataError, match=rf"{name} line {line}: "):
        read(content, name)

"""ICU messages: the frame stays byte for byte, and each branch is translated by itself."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest

from nmt.markup.file_types import FORMS
from nmt.markup.markup_tokens import tokenize
from nmt.markup.messages import find_messages
from nmt.markup.tag_writer import restore
from nmt.markup.tags import parse
from nmt.translate.alignment import Alignment
from nmt.translate.output import Translation
from nmt.translate.steps import LinesUnderWay, put_back
from nmt.translate.tagged_lines import take_tags_out

DOGS = "{n, plural, one {a dog} other {# dogs}}"


def through_the_steps(line: str, form: str, random: Random | None = None) -> tuple[str, list[str]]:
    """Return a line translated by a stand-in that writes capitals, and the texts that it got.

    With random numbers, it also loses words, says them twice and moves them.
    """
    lines = LinesUnderWay([line])
    take_tags_out(form, lambda _: True, False, lambda texts, *_, **__: [[] for _ in texts], lines)
    for number, text in enumerate(lines.texts):
        words = text.split()
        order = list(range(len(words)))
        if random is not None:
            order = [at for at in order for _ in range(random.choice((0, 1, 1, 1, 2)))]
            order.sort(key=lambda at: at + random.uniform(-2, 2))
        tokens = tuple(f"\u2581{words[at].upper()}" for at in order)
        attention = np.zeros((len(order), len(words)), np.float32)
        attention[range(len(order)), order] = 1
        lines.translations[number] = Translation(
            "".join(tokens).replace("\u2581", " ").strip(),
            *(-1.0, -2.0, tokens, (0.0,) * len(tokens), 1),
            alignment=Alignment.from_attention(
                [attention], [f"\u2581{word}" for word in words], tokens
            )
            if words
            else None,
        )
    put_back(lines)
    (translation,) = lines.translations.values()
    assert translation.score == -len(lines.texts)
    return translation.text, list(lines.texts)


@pytest.mark.parametrize(
    ("line", "texts", "expected"),
    [
        (DOGS, ["{n}", "a dog", "5 dogs"], "{n, plural, one {A DOG} other {# DOGS}}"),
        (
            "see {n, plural, =0 {no dogs} =1{<b>one</b> dog}\tother {{n, number} dogs}} now",
            ["see {n} now", "no dogs", "one dog", "{n, number} dogs"],
            "SEE {n, plural, =0 {NO DOGS} =1{<b>ONE</b> DOG}\tother {{n, number} DOGS}} NOW",
        ),
        (
            "{VAR_PLURAL, plural, =0 {no dogs} other {<x id='I'/> dogs} }",
            ["{VAR_PLURAL}", "no dogs", " dogs"],
            "{VAR_PLURAL, plural, =0 {NO DOGS} other {<x id='I'/> DOGS} }",
        ),
        (
            "{n,selectordinal,offset:1 one {#st dog} two{#nd dog}other{ the dog }}",
            ["{n}", "#st dog", "#nd dog", "the dog"],
            "{n,selectordinal,offset:1 one {#ST DOG} two{#ND DOG}other{ THE DOG }}",
        ),
        # Nested three deep, with tags and text around.
        (
            "a <i>{g, select, f {her {n, plural, one {dog {m, plural, one {b} other {c}}} other "
            "{<b>dogs</b>}}} other {their {n, plural, other {dogs}}}}</i> d",
            ["a {g} d", "her {n}", "dog {m}", "b", "c", "dogs", "their {n}", "dogs"],
            "A <i>{g, select, f {HER {n, plural, one {DOG {m, plural, one {B} other {C}}} other "
            "{<b>DOGS</b>}}} other {THEIR {n, plural, other {DOGS}}}}</i> D",
        ),
        # A branch without words, and an argument that is an expression.
        ("{a.b?.c, plural, one {#} other {}}", ["{a.b?.c}", "1", ""], None),
        ("{n, plural,\n one {#}\n other {dogs}\n}", ["{n}", "1", "dogs"],
         "{n, plural,\n one {#}\n other {DOGS}\n}"),
        # A number of which the plural is known, unless it is there already, or in a word.
        ("{n, plural, =1 {# dog and 1 cat} other {5 of # #rd}}",
         ["{n}", "5 dog and 1 cat", "5 of 7 #rd"],
         "{n, plural, =1 {# DOG AND 1 CAT} other {5 OF # #RD}}"),
        # Two messages, and a placeholder beside them.
        (f"{DOGS} {{n}} and {DOGS}", ["{n} {n} and {n}", *["a dog", "5 dogs"] * 2],
         "{n, plural, one {A DOG} other {# DOGS}} {n} AND {n, plural, one {A DOG} other {# DOGS}}"),
        # Apostrophes: doubled ones are text, and a brace behind one is quoted.
        ("{n, plural, other {it''s '{dogs}' it''s}}", ["{n}", "it's {dogs} it's"],
         "{n, plural, other {IT''S '{dogs}' IT''S}}"),
        ("{n, plural, other {dog's # '#' '}'}}", ["{n}", "dog's 5 # }"],
         "{n, plural, other {DOG''S # '#' '}'}}"),
        ("{n, plural, other {dog&apos;s &apos;{&apos; a}}", ["{n}", "dog's { a"],
         "{n, plural, other {DOG&apos;&apos;S &apos;{&apos; A}}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", FORMS)
def test_branches_are_translated_and_the_frame_stays(
    line: str, texts: list[str], expected: str | None, form: str
) -> None:
    found, seen = through_the_steps(line, form)
    assert seen == texts
    assert found == (line if expected is None else expected)


@pytest.mark.parametrize(
    "line",
    [
        DOGS[:-1],
        "{n, plural, one {a dog other {# dogs}}",
        "{n, plural, one {'{a dog} other {# dogs}}",
        "{n, choice, 0#no dogs|1#{a} dog}",
    ],
)
def test_a_damaged_message_is_kept_whole(line: str) -> None:
    found, texts = through_the_steps(f"see {line}", "html")
    assert found == f"SEE {line}"
    assert texts == ["see {n}"]


@pytest.mark.parametrize(
    "line",
    [
        "<b>{n, plural, one {a</b> dog} other {# dogs}}",
        "{n, plural, one {a dog} <br> other {# dogs}}",
    ],
)
def test_a_message_with_a_tag_across_its_branches_loses_no_brace(line: str) -> None:
    found, _ = through_the_steps(line, "html")
    for sign in "{}#<>":
        assert found.count(sign) == line.count(sign)
    assert "n, plural, one" in found


@pytest.mark.parametrize(
    ("translation", "expected"),
    [("l'{n}", "l''{n}"), ("chiens'", "chiens''"), ("l'a {n}", "l'a {n}"), ("{ { {n} }", " {n} ")],
)
def test_a_translation_does_not_begin_a_quotation(translation: str, expected: str) -> None:
    text = "a {n}" if "{n}" in translation else "a"
    branch = parse(f"{{m, plural, other {{{text}}}}}", "html").messages[0].parts[1]
    assert not isinstance(branch, str)
    assert "".join(restore(branch, translation, []).split()) == "".join(expected.split())


WORDS = ("dog", "a", "<b>big</b>", "<x/>", "{name}", "it's", "5", "<i>so <u>so</u></i>", "'{'")


def message(random: Random, level: int = 0) -> str:
    kind = random.choice(("plural", "select", "selectordinal"))
    keys = random.sample(("one", "two", "few", "male", "=0", "=12"), random.randrange(3))
    branches = [
        f"{key}{random.choice((' ', ''))}{{{text(random, level + 1)}}}" for key in (*keys, "other")
    ]
    offset = random.choice((" ", " offset:2 ", "")) if kind == "plural" else " "
    between = random.choice((" ", "", " \t "))
    return f"{{n{level}, {kind},{offset}{between.join(branches)}}}"


def text(random: Random, level: int = 0) -> str:
    words = [random.choice(WORDS) for _ in range(random.randrange(4))]
    if level < 4 and random.random() < 0.5:
        words.insert(random.randrange(len(words) + 1), message(random, level))
    return " ".join(words)


def skeleton(line: str) -> list[object]:
    """Return the frame of each message of a line, with those in its branches, in any order."""
    masked = "".join(
        token.raw if token.kind == "text" else "\0" * len(token.raw)
        for token in tokenize(line, "html")
    )
    frames: list[list[object]] = []
    for one in find_messages(masked):
        frames.append([])
        last = one.start
        for start, end in one.branches:
            frames[-1] += [line[last:start].rstrip(), skeleton(line[start:end])]
            last = end
        frames[-1].append(line[last : one.end].lstrip())
    return sorted(frames, key=repr)


def test_sixty_messages_keep_their_frames_and_tags() -> None:
    random = Random(1)
    for _ in range(60):
        line = f"{text(random)} {message(random)}"
        found, _ = through_the_steps(line, "html", random)
        assert skeleton(found) == skeleton(line), (line, found)
        for tag in re.findall("<.*?>|\\{name}|'\\{'", line):
            assert found.count(tag) == line.count(tag), (line, found)

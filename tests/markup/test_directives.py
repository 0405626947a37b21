"""A translation takes the values of its source: what msgfmt refuses is never written."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from nmt.markup.directives import fit_directives, take_the_same

MUTATIONS = 1_500  # a flag
SOURCES = {
    "boost": ["%1% b %2%", "%s is %d%%", "%|d| %|s|", "%|1$+5| is %|2$5d|", "%*d %t %|5|", "%10T."],
    "c": [
        "a %s b %d",
        "%5.2f of %-10s, %lx%%",
        "%1$s and %2$ld",
        "%*d x %.*f",
        "%2$*1$d x %3$s",
        "%zu %hhd %lld %Lf %m",
        "%<PRIu64> of %<PRIdMAX>",
        "%c %ls %p",
    ],
    "csharp": ["a {0} b {1}", "{0,5:C2} of {1:yyyy}", "{{a}} {0}", "{2} {0} {1,-10}"],
    "gcc-internal": [
        "%qD is %qs",
        "%q+D and %d",
        "%<%s%> is %m",
        "%.*s and %lu %wd",
        "%2$T of %1$E",
        "%2$.*1$s a %3$i",
        "%#qT %J %K %L",
    ],
    "java": [
        "a {0} b {1}",
        "{0,number,#.##} of {1,date,short}",
        "it''s {0}",
        "'{'{0}'}' {1,time}",
        "{0} is {0,number} {2,number}",
    ],
    "java-printf": [
        "a %s b %d",
        "%,d of %<x",
        "%2$s is %1$5.2f",
        "%tY-%<tm-%<td%n",
        "%-5d %05d %+.2e%%",
        "%h %c %b %x",
    ],
    "javascript": ["a %s b %d", "%2$s is %1$d", "%5.2f %j %c%%", "%x %b %o"],
    "kde": ["a %1 b %2", "%1 of %2 and %3%", "%10 %1 %2 %3 %4 %5 %6 %7 %8 %9"],
    "objc": ["a %@ b %d", "%1$@ and %2$ld", "%5.2f of %@, %lx%%"],
    "perl": [
        "a %s b %d",
        "%2$s is %1$d",
        "%vd and %5.2f%%",
        "%*vX of %s",
        "%*d %.*f %lu",
        "%hd %c",
    ],
    "perl-brace": ["a {a} b {name}", "{one} of {two_2}"],
    "php": ["a %s b %d", "%2$s is %1$d", "%05.2f of %'*10s%%", "%c %x %1$c"],
    "python": [
        "a %s b %d",
        "%(a)s is %(b)d",
        "%5.2f of %-10r%%",
        "%*d x %.*f",
        "%.0s %s",
        "%(a)5.1f%% %(long name)s",
    ],
    "python-brace": [
        "a {0} b {1}",
        "{name} is {b.c[0]}",
        "{0:5.2f} of {1:{width}} {{x}}",
        "{a:>10} {b:+d}",
    ],
    "qt": ["a %1 b %2", "%L1 of %2", "%1 %10 %3%"],
    "qt-plural": ["%n files", "%Ln of them"],
    "ruby": ["a %s b %d", "%2$s is %1$d", "%<a>5.2f of %{b}%%", "%-10s %p", "%*d x", "%1$*2$d"],
    "sh": ["a $a b ${name}", "${a}x $b_1"],
    "ycp": ["a %1 b %2", "%3 %% %1"],
}
SIGNS = "%{}~$ 0123456789*.-+#,:;'|<>()[]/&_@abcdefghijklmnopqrstuvwxyzLIqDEGSTX"

REFUSED = [  # language, source, and a translation that msgfmt refuses
    ("boost", "%|d| x", "%|d x"),
    ("boost", "a %1% b", "a %2% b"),
    ("c", "a %d", "a %ld"),
    ("c", "%s %s", "%2$s %3$s"),
    ("c", "%s %s", "%1$s %s"),
    ("c", "%<PRIu64>", "%<PRIu32>"),
    ("c", "a %s", "100% %s"),
    ("csharp", "A {0} }} x", "A {0} } x"),
    ("gcc-internal", "%q+D", "%q + D"),
    ("gcc-internal", "%s: %m", "%s"),
    ("java", "it''s {0}", "it's {0}"),
    ("java-printf", "%s dogs", "%,s dogs"),
    ("javascript", "%j", "%s"),
    ("kde", "%1 %2", "%1"),
    ("kde-kuit", "<b>%1</b>", "<b>%1</b"),
    ("kde-kuit", "%1 &lt; %2", "%2 & %1"),
    ("objc", "%@", "%s"),
    ("perl", "%vd x", "%v d x"),
    ("perl-brace", "{a} {b}", "{a}"),
    ("php", "%s", "% '10"),
    ("python", "%(a)s", "%(b)s"),
    ("python-brace", "{0:{width}} x", "{0: {width}} x"),
    ("qt", "%1", "%L1"),
    ("qt-plural", "%Ln", "%L n"),
    ("ruby", "%<a>5d", "%{a}"),
    ("sh", "$a", "${a"),
]


@pytest.mark.parametrize(("language", "source", "translation"), REFUSED)
def test_translations_take_values_of_sources(language: str, source: str, translation: str) -> None:
    assert take_the_same(source, source, language)
    assert fit_directives(translation, source, [language]) is None


@pytest.mark.parametrize(
    ("language", "source", "translation", "expected"),
    [
        ("perl", "%s of %-5d", "%-5d von %s", "%2$-5d von %1$s"),
        ("java-printf", "%s of %,d", "%,d von %s", None),  # a rare one
        ("java-printf", "%1$s of %2$,d", "%2$,d von %1$s", "%2$,d von %1$s"),
        ("elisp", "%S of %s", "%S von %s", "%S von %s"),
        ("elisp", "%2$s of %s", "%s von %2$s", None),  # it counts from the last number
        ("java", "it''s {0} of {1}", "{1} ist von {0}", "{1} ist von {0}"),
        ("java", "{0} of '{1}'", "'{1}' von {0}", None),
        ("python", "%(a)s of %(b)d%%", "%(b)d%% von %(a)s, %(b)d", "%(b)d%% von %(a)s, %(b)d"),
        ("kde", "%1 of %2", "%2 von %1 zu 5%", "%2 von %1 zu 5%"),
        ("rust", "{0} of {1:>5}", "{1:>5} von {0}", "{1:>5} von {0}"),
        ("rust", "{} of {:>5}", "{:>5} von {}", None),
        ("lisp", "~a of ~d", "~a von ~d", None),  # its directives are not read
        ("scheme", "~a of ~d", "~a von ~d", None),
        ("lisp", "90 files", "90 Dateien", "90 Dateien"),
        ("go", "%d of %s", "%s von %d", None),  # a language that came later
        ("go", "%[1]d of %s", "%[1]d von %s", "%[1]d von %s"),
    ],
)
def test_directives_that_move_get_numbers_if_there_are_any(
    language: str, source: str, translation: str, expected: str | None
) -> None:
    assert fit_directives(translation, source, [language]) == expected


def refused_by_msgfmt(language: str, pairs: Sequence[tuple[str, str]], folder: Path) -> set[int]:
    """Return the numbers of the pairs of source and translation that msgfmt refuses."""

    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    lines = ['msgid ""', 'msgstr "Content-Type: text/plain; charset=UTF-8\\n"']
    for number, (source, translation) in enumerate(pairs):
        lines += [f"#, {language}-format", f'msgctxt "{number}"']
        lines += [f"msgid {quoted(source)}", f"msgstr {quoted(translation)}"]
    catalogue = folder / "x.po"
    catalogue.write_text("\n".join(lines) + "\n")
    command = ["msgfmt", "--check-format", f"--output-file={folder / 'x.mo'}", "x.po"]
    env = os.environ | {"LC_ALL": "C", "LANGUAGE": ""}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    numbers = {int(line) for line in re.findall(r"^x\.po:(\d+): ", done.stderr, re.MULTILINE)}
    assert bool(numbers) == bool(done.returncode), done.stderr
    return {(number - 3) // 4 for number in numbers}


def mutated(text: str, random: Random) -> str:
    """Return a text with signs added, lost, replaced or swapped, or with words in another order."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at = random.randrange(len(text) + 1)
        before, here, after = text[:at], text[at : at + 1], text[at + 1 :]
        words = text.split(" ")
        random.shuffle(words)
        text = random.choice(
            [
                before + random.choice(SIGNS) + here + after,
                before + after,
                before + random.choice(SIGNS) + after,
                before + after[:1] + here + after[1:],
                before + text[random.randrange(at, len(text) + 1) :],
                " ".join(words),
            ]
        )
        text = text or "x"
    return text


def _needs_msgfmt() -> None:
    if shutil.which("msgfmt") is None:
        pytest.skip("msgfmt is not installed")
    version = subprocess.run(["msgfmt", "--version"], capture_output=True, text=True, check=True)
    if " 0.21" not in version.stdout.splitlines()[0]:
        pytest.skip("needs msgfmt 0.21: others check some directives otherwise")


def test_msgfmt_refuses_them_too(tmp_path: Path) -> None:
    _needs_msgfmt()
    for language in SOURCES:
        pairs = [(source, translation) for of, source, translation in REFUSED if of == language]
        assert refused_by_msgfmt(language, pairs, tmp_path) == set(range(len(pairs)))


@pytest.mark.slow
@pytest.mark.parametrize("language", SOURCES)
def test_what_msgfmt_refuses_is_never_written(language: str, tmp_path: Path) -> None:
    _needs_msgfmt()
    random = Random(language)
    sources = [random.choice(SOURCES[language]) for _ in range(MUTATIONS)]
    pairs = [(source, mutated(source, random)) for source in sources]
    fitted = [fit_directives(translation, source, [language]) for source, translation in pairs]
    refused = refused_by_msgfmt(language, pairs, tmp_path)
    written = [(source, text or source) for (source, _), text in zip(pairs, fitted, strict=True)]
    assert [written[at] for at in refused_by_msgfmt(language, written, tmp_path)] == []
    assert MUTATIONS / 10 < len(refused) < MUTATIONS * 9 / 10

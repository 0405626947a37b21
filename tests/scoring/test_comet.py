"""COMET by another program: a stub that prints what comet-score prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from nmt.errors import DataError, UsageError
from nmt.scoring.comet import Comet

STUB = """
import json, sys
words = sys.argv[1:]
open({log!r}, "a").write(json.dumps(words) + "\\n")
def lines(option):
    at = words.index(option)
    names = []
    for word in words[at + 1:]:
        if word.startswith("-"):
            break
        names.append(word)
    return {{name: [line.strip() for line in open(name).readlines()] for name in names}}
print("Some library greets you")
outputs = lines("-t")
(source,), (reference,) = lines("-s").values(), lines("-r").values()
scores = {{name: [] for name in outputs}}
for number in range(len(reference)):
    for name, text in outputs.items():
        same = len(set(text[number].split()) & set(reference[number].split()))
        scores[name].append(same / 10 - len(source[number]) / 1000)
        print("{{}}\\tSegment {{}}\\tscore: {{:.4f}}".format(name, number, scores[name][-1]))
for name, own in scores.items():
    print("{{}}\\tscore: {{:.4f}}".format(name, sum(own) / len(own)))
print("warnings go here", file=sys.stderr)
"""
SOURCE = ["ein Haus", "zwei\rHunde", ""]
REFERENCE = ["a house", "two dogs", "\u2028"]
OUTPUTS = [["a house", "two cats", "x"], ["house", "some dogs", ""]]


def stub(folder: Path, program: str) -> str:
    """Return the command of a program that notes its calls in `calls`."""
    path = folder / "comet score.py"
    path.write_text(program.format(log=str(folder / "calls")) if "{log" in program else program)
    return f"{sys.executable} '{path}' --gpus 0"


def test_scores_are_the_program_s_in_percent_by_one_call(tmp_path: Path) -> None:
    comet = Comet(stub(tmp_path, STUB), "dir/da.ckpt", SOURCE, REFERENCE, OUTPUTS)
    # Words in common / 10 - letters of the source / 1000.
    expected = [[0.192, 0.09, 0.0], [0.092, 0.09, 0.0]]
    for lines, scores in zip(OUTPUTS, expected, strict=True):
        assert comet.count(lines) == [[score, 1.0] for score in scores]
        found = comet.score(comet.count(lines), {"bs": 100})
        assert found.score == pytest.approx(100 * sum(scores) / 3)
        assert (found.name, found.signature) == ("COMET", "model:da.ckpt|nrefs:1|bs:100")
    assert comet.sentence_level().value([0.192, 1.0]) == pytest.approx(19.2)
    (call,) = map(json.loads, (tmp_path / "calls").read_text().splitlines())
    assert call[:3] == ["--gpus", "0", "-s"]
    assert call[-2:] == ["--model", "dir/da.ckpt"]
    assert not Path(call[3]).exists()  # text is not left behind


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.exit('no such model')", "no such model"),
        ("import sys; sys.exit(3)", "status 3"),
        ("print('0.5')", "0 of 3 lines"),
        (STUB.replace("range(len(reference))", "range(2)"), "2 of 3 lines"),
        (STUB.replace("score: {{:.4f}}", "score: {{:.4f}}x", 1), "0 of 3 lines"),
        (STUB.replace("scores[name][-1]))", 'float("nan")))'), "not a finite"),
    ],
)
def test_a_program_that_fails_is_named(tmp_path: Path, program: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        Comet(stub(tmp_path, program), "da", SOURCE, REFERENCE, OUTPUTS)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: "):
        Comet(str(tmp_path / "nowhere"), "da", SOURCE, REFERENCE, OUTPUTS)


@pytest.mark.parametrize(
    ("command", "message"), [("comet 'x", "No closing quotation"), ("  ", "is blank")]
)
def test_a_command_that_no_shell_would_take_is_refused(command: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Comet(command, "da", SOURCE, REFERENCE, OUTPUTS)

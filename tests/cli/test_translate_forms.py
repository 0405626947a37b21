"""What `nmt translate` reads and writes besides plain lines."""

import json
import os
import pty
import re
import select
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from command_line import QUICK, TranslateText
from processes import LONG
from toy_training import nmt_command

from nmt.data.vocabulary import learn_vocabulary
from nmt.models.model_file import ModelCard, write_model
from nmt.search.options import SearchOptions
from nmt.translate.translator import Translator

LINES = ["the cat sees a bird", "", "a dog. The old house and the river", "the small tree"]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture
def translator(model_file: Path) -> Translator:
    options = SearchOptions(beam_size=2, n_best=2, max_extra_tokens=3)
    return Translator.load(model_file, options, alignment=True)


def objects(stdout: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stdout.splitlines()]


def test_lists_scores_and_alignments_stand_beside_the_text(translate_text: TranslateText) -> None:
    plain, scored, n_best, aligned = (
        translate_text("a small cat\n\na small cat\n", *words).stdout.splitlines()
        for words in ((), ("--scores",), ("--n-best", "2"), ("--alignment",))
    )
    texts = [line.split("\t", maxsplit=1) for line in scored]
    assert [text for _, text in texts] == plain
    assert float(texts[0][0]) < 0
    assert texts[1][0] == "0.000000"

    rows = [line.split(" ||| ") for line in n_best]
    assert [row[0] for row in rows] == ["0", "0", "1", "2", "2"]
    assert all(re.fullmatch(r"-?\d+\.\d{6}", row[-1]) for row in rows)
    assert float(rows[0][-1]) >= float(rows[1][-1])
    assert rows[2] == ["1", "", "0.000000"]

    assert [line.split(" ||| ")[0] for line in aligned] == plain
    assert [bool(re.search(r" \|\|\| \d+-\d+", line)) for line in aligned] == [True, False, True]


def test_jsonl_has_an_object_a_line(translate_text: TranslateText, translator: Translator) -> None:
    answer = translate_text(TEXT, "--format", "jsonl", "--n-best", "2", "--alignment").succeeded()
    found = objects(answer.stdout)
    assert [one["line"] for one in found] == [0, 1, 2, 3]
    for one, expected in zip(found, translator.translate(LINES), strict=True):
        assert one["text"] == expected.text
        assert one["tokens"] == list(expected.tokens)
        assert one["score"] == pytest.approx(expected.score, abs=1e-5)
        assert one["segments"] == expected.segments
        others = [other["text"] for other in one.get("others", [])]
        assert others == [other.text for other in expected.others]
        assert len(one["token_log_probs"]) == len(one["tokens"])
        # The rest is eos's.
        assert one["log_prob"] <= sum(one["token_log_probs"]) + 1e-5
        if expected.alignment is None:
            assert "alignment" not in one
            continue
        (attention,) = one["attention"]
        assert [len(row) for row in attention] == [len(one["src_tokens"])] * len(one["tokens"])
        looked_at = zip(attention, one["alignment"], strict=True)
        assert all(row[position] == max(row) for row, position in looked_at)
        assert one["word_alignment"] == " ".join(f"{s}-{t}" for s, t in expected.alignment.words)


def test_attention_is_of_the_first_text_line(translate_text: TranslateText, tmp_path: Path) -> None:
    picture = tmp_path / "attention.svg"
    answer = translate_text("\n2024\nthe cat\na dog\n", "--attention", picture).succeeded()
    assert answer.stdout.count("\n") == 4
    drawn = "".join(ElementTree.parse(picture).getroot().itertext())
    assert "layer" not in drawn
    assert "cat" in drawn
    assert "dog" not in drawn
    assert translate_text("the cat\n", "--attention", picture, "--all-heads").status == 0
    drawn = "".join(ElementTree.parse(picture).getroot().itertext())
    assert "Cross-attention, layer 1" in drawn
    answer = translate_text("\n\n", "--attention", tmp_path / "none.svg")
    assert (answer.status, answer.stdout) == (0, "\n\n")
    assert "none.svg: not drawn" in answer.stderr


def test_models_of_other_vocabularies_are_not_an_ensemble(
    translate_text: TranslateText, card: ModelCard, tmp_path: Path
) -> None:
    vocabulary = learn_vocabulary(["another text of other words"], vocab_size=280)
    other = replace(card, src_vocabulary=vocabulary, tgt_vocabulary=vocabulary)
    write_model(tmp_path / "other", other, dict(other.build().named_parameters()))
    line = translate_text(TEXT, "--ensemble", tmp_path / "other").refusal(2)
    assert "vocabularies" in line


def test_on_a_terminal_each_line_is_answered(model_file: Path, translator: Translator) -> None:
    master, slave = pty.openpty()
    command, env = nmt_command("translate", model_file, *QUICK), os.environ | {"TERM": "dumb"}
    streams: Any = {"stdin": slave, "stdout": slave, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=env, **streams)
    os.close(slave)
    seen = ""

    def read_until_prompt() -> None:
        nonlocal seen
        size = len(seen)
        while len(seen) == size or not seen.endswith("> "):
            assert select.select([master], [], [], LONG)[0], f"nothing comes after {seen!r}"
            seen += os.read(master, 4_096).decode(errors="replace")

    try:
        for typed in (b"the cat sees a bird\n", b"\n", b"the small tree\n", b"\x04"):  # Ctrl-D
            read_until_prompt()
            os.write(master, typed)
        _, complaints = process.communicate(timeout=LONG)
    finally:
        process.kill()
        os.close(master)
    assert process.returncode == 0
    greeting = complaints.decode()  # and no summary
    assert str(model_file) in greeting and "en to de" in greeting and "Ctrl-D" in greeting
    assert greeting.count("\n") == 1
    lines = [line.removeprefix("> ") for line in seen.replace("\r", "").split("\n")]
    first, _, _, last = translator.translate(LINES)
    assert {first.text, last.text} <= set(lines)


def test_lines_searched_again_are_marked_and_counted(translate_text: TranslateText) -> None:
    # With random weights, some translations run to their limit.
    lines = [f"the {'small ' * (n % 5)}cat {n}" for n in range(20)]
    text = "".join(f"{line}\n" for line in (*lines, ""))
    guarded, plain = (
        translate_text(text, "--format", "jsonl", "--max-extra-tokens", "20", *words)
        for words in ((), ("--no-guard",))
    )
    marked = [one.get("guarded", False) for one in objects(guarded.stdout)]
    assert 0 < sum(marked) <= 20
    assert not marked[-1]  # the blank line
    assert guarded.summary["guarded"] == sum(marked)
    assert plain.summary["guarded"] == 0
    for one, other in zip(objects(guarded.stdout), objects(plain.stdout), strict=True):
        assert "guarded" not in other
        assert one == other or one["guarded"] is True

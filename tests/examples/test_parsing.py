"""The example parsing: trees to text and back, repairs, scores counted by hand, and the recipe."""

import re
from pathlib import Path

import bracket_score
import pytest
import toy_trees
from example_runs import made, needs_make
from trees import Tree, bracketed, linearised, read_trees, restored, words_of

from nmt.config.presets import preset_values
from nmt.config.recipes import resolve_recipe
from nmt.errors import DataError

# Laid out as the Penn Treebank: functions, an index, empty elements, and no label outside.
TREEBANK = """
( (S
    (NP-SBJ-1 (DT The) (NN dog) )
    (VP (VBD seemed)
      (S
        (NP-SBJ (-NONE- *-1) )
        (VP (TO to)
          (VP (VB bark) ))))
    (. .) ))

( (NP=2 (NN Silence) (. .) ))
"""


def read(text: str) -> list[Tree]:
    return list(read_trees(text.splitlines(keepends=True), "some.mrg"))


def words(count: int) -> list[Tree]:
    return [Tree("NN", word=f"w{number}") for number in range(count)]


def test_a_treebank_becomes_words_and_linearised_trees() -> None:
    trees = read(TREEBANK)
    lines = [" ".join(word.word for word in words_of(tree)) for tree in trees]
    assert lines == ["The dog seemed to bark .", "Silence ."]
    linear = ["(S (NP XX XX )NP (VP XX (S (VP XX (VP XX )VP )VP )S )VP XX )S", "(NP XX XX )NP"]
    assert [linearised(tree) for tree in trees] == linear


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("(TOP (S (VP (VB Go))))", "(TOP (S (VP (VB Go))))"),
        ("(S1 (S (NP (NP (NNP A)))))\r\n", "(TOP (S (NP (NP (NNP A)))))"),
        ("(S (VP (VB Go)))", "(TOP (S (VP (VB Go))))"),
        ("(NP\t(-LRB- -LRB-) (NN\na) )", "(TOP (NP (-LRB- -LRB-) (NN a)))"),
        ("(S (ADVP|PRT-CLR (RP up)) (NP-SBJ=1 ($ $) (CD 1\\/2)))",
         "(TOP (S (ADVP|PRT (RP up)) (NP ($ $) (CD 1\\/2))))"),
        ("(NP (CD 1\u00a01/2) (NN a\u2028b))", "(TOP (NP (CD 1\u00a01/2) (NN a\u2028b)))"),
    ],
)  # fmt: skip
def test_trees_of_other_tools_are_read(text: str, tree: str) -> None:
    assert [bracketed(one) for one in read(text)] == [tree]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("(S (NP (DT the)\n dog))", 2),
        ("(S\n (NP )\n (VP (VB go)))", 2),
        ("(NN a)\n(S\n (VB go)", 2),
        ("( (S (VB go))\n( (S (VB stay))))", 2),
        ("(S (NN\n f(x)))", 2),
        ("*x*x*\n(NN a)", 1),
    ],
)
def test_what_is_not_a_tree_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(DataError, match=rf"some\.mrg: line {line}: "):
        read(text)


def test_each_sentence_of_the_toy_has_one_tree_and_reads_back() -> None:
    grammar = toy_trees.Grammar(5)
    by_sentence: dict[str, str] = {}
    for text in {toy_trees.lines_of(grammar.sentence()) for _ in range(150)}:
        tree = read(text)[0]
        line = linearised(tree)
        again, is_repaired = restored(line, words_of(tree))
        assert bracketed(again) == bracketed(tree)
        assert not is_repaired
        assert read(bracketed(tree)) == [tree]
        assert by_sentence.setdefault(" ".join(w.word for w in words_of(tree)), line) == line


# Repairs


@pytest.mark.parametrize(
    ("line", "tree"),
    [
        # Brackets that are missing or too many.
        ("(S (NP XX (VP XX )VP )S", "(S (NP w0 (VP w1)))"),
        ("(S (NP XX )NP )NP (VP XX )VP )S", "(S (NP w0) (VP w1))"),
        ("(S (NP XX )NP (VP XX", "(S (NP w0) (VP w1))"),
        # Words that are missing or too many.
        ("(S (NP XX )NP )S", "(S (NP w0) w1)"),
        ("(S (NP XX XX XX )NP XX )S", "(S (NP w0 w1))"),
        ("XX", "w0 w1"),
        # Phrases without words, and what is neither a bracket nor a word.
        ("(S (NP (QP )QP )NP XX (VP XX )VP )S", "(S w0 (VP w1))"),
        ("(S XX NP ( )) (TOP (N(P dog XX )S", "(S w0 w1)"),
    ],
)
def test_lines_that_are_not_well_formed_are_repaired(line: str, tree: str) -> None:
    found, is_repaired = restored(line, words(2))
    assert is_repaired
    words_only = bracketed(found).replace("(NN ", "").replace("w0)", "w0").replace("w1)", "w1")
    assert words_only == f"(TOP {tree})"


@pytest.mark.parametrize(
    ("gold", "written", "matched", "in_gold", "in_written"),
    [
        # All right; the outermost bracket does not count.
        ("(S (NP (NN a)) (VP (VB b)))", "(S (NP XX )NP (VP XX )VP )S", 3, 3, 3),
        # Wrong label; wrong words: VP has b instead of b c.
        ("(S (NP (NN a)) (VP (VB b)))", "(S (PP XX )PP (VP XX )VP )S", 2, 3, 3),
        # Punctuation does not count, so neither does where it is attached, nor a phrase of it.
        ("(S (NP (NN a) (, ,)) (VP (VB b)) (. .))", "(S (NP XX )NP XX (VP XX XX )VP )S", 3, 3, 3),
        # Brackets in words are not punctuation.
        ("(S (PRN (-LRB- -LRB-) (NN a)))", "(S XX (PRN XX )PRN )S", 1, 2, 2),
        # ADVP and PRT are one label; other labels are not.
        ("(S (PRT (RP up)) (NN a))", "(S (ADVP XX )ADVP XX )S", 2, 2, 2),
        # Of equal brackets, as many match as both have.
        ("(NP (NP (NN a)))", "(NP (NP (NP XX )NP )NP )NP", 2, 2, 3),
        # A flat answer has no brackets at all.
        ("(S (NP (NN a)) (NN b))", "XX XX", 0, 2, 0),
    ],
)
def test_brackets_are_counted_as_by_hand(
    gold: str, written: str, matched: int, in_gold: int, in_written: int
) -> None:
    (tree,) = read(gold)
    score = bracket_score.Score()
    score.add(tree, restored(written, words_of(tree))[0])
    assert (score.matched, score.gold, score.written) == (matched, in_gold, in_written)


def test_the_score_is_over_all_brackets_and_repairs_are_counted(tmp_path: Path) -> None:
    gold, written, parses = (tmp_path / name for name in ("gold", "written", "parses"))
    gold.write_text("(S (NP (NN a)) (. .))\n(S (NP (NN b)) (VP (VB c)))\n", encoding="utf-8")
    written.write_text("(S (NP XX )NP XX )S\n(S XX (VP XX\n", encoding="utf-8")
    # 2 + 2 brackets match, of 2 + 3 in the gold trees and 2 + 2 that were written: 8 of 9.
    found = str(bracket_score.score(gold, written, parses))
    assert re.search(r"F1 88\.89, precision 100\.00, recall 80\.00", found)
    assert re.search("2 sentences: 1 .* 1 ", found)
    assert parses.read_text(encoding="utf-8") == (
        "(TOP (S (NP (NN a)) (. .)))\n(TOP (S (NN b) (VP (VB c))))\n"
    )
    written.write_text("(S (NP XX )NP XX )S\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"written.* 1 .*gold 2"):
        bracket_score.score(gold, written, None)


@needs_make
@pytest.mark.parametrize(
    ("model", "vocabulary", "dropout"), [("wsj", 16_000, 0.2), ("semi-supervised", 32_000, 0.1)]
)
def test_values_of_the_paper(model: str, vocabulary: int, dropout: float, tmp_path: Path) -> None:
    given = [f"TREEBANK={tmp_path}", f"PARSED={tmp_path}/parsed", f"WORK={tmp_path}", "PROCESSES=1"]
    printed = made("parsing", "-n", "score", f"MODEL={model}", *given)
    commands = re.sub(r"\s+", " ", printed.replace("\\\n", " "))
    splits = {"train": ("2-21", 39_832), "valid": ("22", 1_700), "test": ("23", 2_416)}
    for split, (sections, count) in splits.items():
        assert re.search(rf"{split} \S+ --sections {sections} --expect {count} ", commands)
    assert f"--vocab-size {vocabulary} " in commands
    assert ("/parsed --valid" in commands) == (model == "semi-supervised")
    assert "--beam-size 21 --length-penalty 0.3 --max-extra-tokens 300 " in commands
    preset = re.findall(r"--model (\S+)", commands)[0]
    recipe = resolve_recipe(preset, "transformer", [(preset, preset_values(preset))])
    assert recipe.model.dropout == dropout


@pytest.mark.slow
@needs_make
def test_the_toy_treebank_is_learnt(tmp_path: Path) -> None:
    printed = made("parsing", "toy", f"WORK={tmp_path}", "PROCESSES=1")
    assert float(re.findall(r"F1 ([\d.]+)", printed)[0]) > 95

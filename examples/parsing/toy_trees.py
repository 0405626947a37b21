#!/usr/bin/env python3
"""Write a treebank of the toy language: toy_trees.py OUT.

It is written as the Penn Treebank's Wall Street Journal, in files from wsj_0001.mrg to
wsj_2401.mrg, with function tags, traces, quotes and brackets. The words are those of
examples/toy. Each sentence has one tree, which follows from its words, and occurs once.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path
from random import Random

from nmt.cli.command import run
from nmt.system.files import atomic_folder

SECTIONS = 25
TREES = 300
"""In each section."""
ROWS = [
    line.split()
    for line in (Path(__file__).resolve().parents[1] / "toy" / "words.txt")
    .read_text("utf-8")
    .splitlines()
]
NOUNS = [row[1:] for row in ROWS if row[:1] == ["noun"]]  # en, plural, ..., kind
ADJECTIVES = [(row[1], row[3]) for row in ROWS if row[:1] == ["adjective"]]
VERBS = [(row[1], row[2], row[8], row[9]) for row in ROWS if row[:1] == ["verb"]]
TIMES = {"VBD": "(NN yesterday)", "VBZ": "(DT every) (NN day)", "MD": "(NN tomorrow)"}
SUBJECTS = ("(PRP he)", "(PRP she)", "(NNP Anna)", "(NNP Peter)")
PLACES = {"f": "on", "r": "in"}


class Grammar:
    """Phrases of the toy language in brackets, drawn at random."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)

    def often(self, share: float, text: str) -> str:
        """Return the text, or nothing."""
        return text if self.draw.random() < share else ""

    def noun_phrase(self, kinds: str, label: str = "NP") -> str:
        noun = self.draw.choice([noun for noun in NOUNS if noun[-1] in kinds])
        fitting = [word for word, of_kinds in ADJECTIVES if noun[-1] in of_kinds]
        adjective = self.often(0.3, f"(JJ {self.draw.choice(fitting)})")
        determiner = self.draw.choice(("(DT the)", "(DT this)", "(PRP$ my)", "(PRP$ her)"))
        return f"({label} {determiner} {adjective} (NN {noun[0]}))"

    def place(self, kinds: str, label: str) -> str:
        kind = self.draw.choice(kinds)
        return f"({label} (IN {PLACES[kind]}) {self.noun_phrase(kind)})"

    def verb_phrase(self, tense: str, after: str = "") -> str:
        """Return what somebody does, and what follows it in the innermost phrase."""
        verb, past, takes, kinds = self.draw.choice(
            [row for row in VERBS if row[2] not in ("where", "-")]
        )
        verb, _, particle = verb.partition("_")
        if takes == "into":
            objects = f"(PP-DIR (IN into) {self.noun_phrase(kinds)})"
        elif particle:
            objects = f"(PP-CLR (IN {particle}) {self.noun_phrase(kinds)})"
        else:
            objects = self.noun_phrase(kinds)
        if takes == "on":
            objects += f" {self.place('f', 'PP-PUT')}"
        return self.inflected(tense, verb, past.partition("_")[0], f"{objects} {after}")

    def inflected(self, tense: str, verb: str, past: str, rest: str) -> str:
        if tense == "MD":
            modal = self.draw.choice(("will", "must"))
            return f"(VP (MD {modal}) (VP (VB {verb}) {rest}))"
        if tense == "VBD":
            return f"(VP (VBD {past}) {rest})"
        third = "is" if verb == "be" else verb + ("es" if verb[-1] in "oh" else "s")
        return f"(VP (VBZ {third}) {rest})"

    def subject(self) -> str:
        """Return a person, perhaps with a relative clause or an explanation in brackets."""
        kind = self.draw.random()
        if kind < 0.4:
            return f"(NP-SBJ {self.draw.choice(SUBJECTS)})"
        if kind < 0.8:
            return self.noun_phrase("p", "NP-SBJ")
        head = self.noun_phrase("p")
        if kind < 0.87:
            inside = f"(-LRB- -LRB-) {self.noun_phrase('p')} (-RRB- -RRB-)"
            return f"(NP-SBJ {head} (PRN {inside}))"
        clause = f"(S (NP-SBJ (-NONE- *T*-1)) {self.verb_phrase(self.tense())})"
        return f"(NP-SBJ {head} (SBAR (WHNP-1 (WP who)) {clause}))"

    def tense(self) -> str:
        return self.draw.choice(list(TIMES))

    def clause(self, after: str = "") -> str:
        """Return a subject and its verb phrase."""
        tense = self.tense()
        if self.draw.random() < 0.2:
            state = self.place("fr", "PP-LOC-PRD")
            if self.draw.random() < 0.5:
                state = f"(ADJP-PRD (RB too) (JJ {self.draw.choice(ADJECTIVES)[0]}))"
            verb = self.inflected(tense, "be", "was", f"{state} {after}")
            return f"{self.noun_phrase('ls', 'NP-SBJ')} {verb}"
        time = self.often(0.3, f"(NP-TMP {TIMES[tense]})")
        return f"{self.subject()} {self.verb_phrase(tense, f'{time} {after}')}"

    def sentence(self) -> str:
        kind = self.draw.random()
        if kind < 0.64:
            tree = f"(S {self.clause()} (. .))"
        elif kind < 0.78:
            reason = self.draw.choice(("because", "although", "if"))
            side = f"(SBAR-ADV (IN {reason}) (S {self.clause()}))"
            tree = f"(S {self.clause(side)} (. .))"
            if kind < 0.71:
                tree = f"(S {side} (, ,) {self.clause()} (. .))"
        elif kind < 0.9:
            tree = f"(S (S {self.clause()}) (, ,) (CC and) (S {self.clause()}) (. .))"
        else:
            said = f"(`` ``) (S-TPC-1 {self.clause()}) (, ,) ('' '')"
            trace = "(SBAR (-NONE- 0) (S (-NONE- *T*-1)))"
            tree = f"(S {said} {self.subject()} (VP (VBD said) {trace}) (. .))"
        return " ".join(tree.split())


def lines_of(tree: str) -> str:
    """Return a tree as the treebank has it: on several lines, in a bracket without a label."""
    for phrase in (" (VP ", " (SBAR", " (S ", " (NP-TMP "):
        tree = tree.replace(phrase, f" \n    {phrase[1:]}")
    return f"( {tree.replace('))', ') )')} )\n"


def main() -> None:
    """Write the treebank, completely or not at all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder to make")
    out = parser.parse_args().out
    grammar = Grammar(1)
    trees: dict[str, None] = {}  # in order, without repeated ones
    while len(trees) < SECTIONS * TREES:
        trees[lines_of(grammar.sentence())] = None
    texts = iter(trees)
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(out) as folder:
        for section in range(SECTIONS):
            text = "".join(islice(texts, TREES))
            (folder / f"wsj_{section:02}01.mrg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)

#!/usr/bin/env python3
"""Bracketed trees to the text that a model reads and writes, and back.

    python trees.py convert OUT PATH [PATH ...] [--sections 2-21] [--expect TREES]
    python trees.py restore SENTENCES TREES OUT

`convert` writes three files with a line for each tree: OUT.en its words, OUT.tree the linearised
tree, which a model learns to write, and OUT.gold the tree itself, which score.py reads. `restore`
makes bracketed trees of sentences and of what a model wrote for them.

Linearised trees are those of Vinyals et al. (2015). They have opening brackets with the label of
their phrase, XX for each word, and closing brackets, which repeat the label.

    (TOP (S (NP (PRP He)) (VP (VBD slept)) (. .)))
    (S (NP XX )NP (VP XX )VP XX )S
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt import console
from nmt.cli.command import run
from nmt.errors import DataError, UsageError
from nmt.system.files import atomic_writer

TOP = "TOP"
TOPS = ("", TOP, "ROOT", "S1")
"""Labels of an outermost bracket that is no phrase. In the treebank it has none."""
EMPTY = "-NONE-"
WORD = "XX"
# Blanks are those of ASCII, because a word may hold others.
TOKEN = re.compile(
    r"\(\s*(?P<tag>[^\s()]+)\s+(?P<word>[^\s()]+)\s*\)"
    r"|\(\s*(?P<label>[^\s()]*)|(?P<end>\))|[^\s()]+",
    re.ASCII,
)
NO_PARSE = re.compile(r"\s*\(\s*\(\s*\)\s*\)\s*", re.ASCII)
"""What the Berkeley parser writes if it finds no tree."""
BRACKET = re.compile(r"([()])([^()]+)")
FILE = re.compile(r"wsj_(\d\d)\d\d\.(mrg|parse)", re.IGNORECASE)


@dataclass
class Tree:
    """A phrase with its children, or a word, whose label is its tag."""

    label: str
    children: list[Tree] = field(default_factory=list)
    word: str = ""


def walk(tree: Tree) -> Iterator[tuple[str, Tree]]:
    """Yield the brackets of phrases, as ( and ), and the words, without a sign, in order."""
    pending = [("(", tree)]
    while pending:
        sign, node = pending.pop()
        yield ("" if node.word else sign), node
        if sign == "(" and not node.word:
            pending.append((")", node))
            pending += [("(", child) for child in reversed(node.children)]


def words_of(tree: Tree) -> list[Tree]:
    """Return the words of a tree in order."""
    return [node for sign, node in walk(tree) if not sign]


def bracketed(tree: Tree) -> str:
    """Return a tree in brackets, on one line."""
    form = {"(": "({0.label}", ")": ")", "": "({0.label} {0.word})"}
    return " ".join(form[sign].format(node) for sign, node in walk(tree)).replace(" )", ")")


def linearised(tree: Tree) -> str:
    """Return a tree, without its outermost bracket, as a model learns to write it."""
    inside = ((sign, node) for sign, node in walk(tree) if node is not tree)
    return " ".join(sign + node.label if sign else WORD for sign, node in inside)


def read_trees(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """Yield the trees of a file, of one or several lines each, below a node TOP.

    Left out are empty elements, phrases that hold nothing else, and the functions of phrases: of
    NP-SBJ-1, NP remains.

    DataError if something is not a tree; it names the file and line.
    """
    depth, number, first, text = 0, 0, 1, ""
    for number, line in enumerate(lines, start=1):
        text += line
        depth += line.count("(") - line.count(")")
        if depth <= 0:
            yield from _trees(text, name, first)
            depth, first, text = 0, number + 1, ""
    yield from _trees(text, name, first)


def _trees(text: str, name: str, first: int) -> Iterator[Tree]:
    """Yield the trees of some lines of a file; `first` is the number of the first one."""

    def line_of(position: int) -> int:
        return first + text.count("\n", 0, position)

    def error(position: int, problem: str) -> DataError:
        return DataError(f"{name}: line {line_of(position)}: {problem}")

    if NO_PARSE.fullmatch(text):
        text = "()"
    open_trees: list[Tree] = []
    start, is_new = 0, False
    for token in TOKEN.finditer(text):
        here, label, tree = token.start(), token["label"], None
        if label is not None:
            if not open_trees:
                start = here
            elif label in TOPS:
                raise error(here, f"a tree begins inside the tree of line {line_of(start)}")
            open_trees.append(Tree(label.split("-")[0].split("=")[0] or label))
        elif token["word"]:
            tree = Tree(token["tag"], word=token["word"])
        elif token["end"] and open_trees:
            tree = open_trees.pop()
            if is_new and open_trees:
                raise error(here, f"the bracket {tree.label} holds nothing")
        elif token["end"]:
            raise error(here, "a bracket is closed that was not opened")
        else:
            raise error(
                here,
                f"{token[0]!r} is not in brackets of its own with a tag; in words, brackets are "
                "written -LRB- and -RRB-",
            )
        is_new = tree is None
        if tree is None:
            continue
        kept = [tree] if tree.children or (tree.word and tree.label != EMPTY) else []
        if open_trees:
            open_trees[-1].children += kept
        else:
            yield Tree(TOP, tree.children if tree.label in TOPS and not tree.word else kept)
    if open_trees:
        raise error(start, "the brackets of this tree are not closed")


def restored(line: str, words: Sequence[Tree]) -> tuple[Tree, bool]:
    """Return the tree of a line that a model wrote for a sentence, and whether it was repaired.

    - A closing bracket also closes what is open inside of its phrase. If no phrase of its label is
      open, it is left out. Brackets that are still open at the end are closed there.
    - Words too many are left out, and words too few are added at the end of the outermost phrase.
    - Phrases without words are left out, and so is what is neither a bracket nor a word.
    """
    top = Tree(TOP)
    open_trees, remaining = [top], list(reversed(words))
    for token in line.split():
        sign, label = found.groups() if (found := BRACKET.fullmatch(token)) else ("", "")
        if token == WORD and remaining:
            open_trees[-1].children.append(remaining.pop())
        elif sign == "(" and label not in TOPS:
            open_trees.append(Tree(label))
            open_trees[-2].children.append(open_trees[-1])
        elif sign == ")" and any(tree.label == label for tree in open_trees[1:]):
            while open_trees.pop().label != label:
                pass
    outermost = top.children[-1] if top.children and not top.children[-1].word else top
    outermost.children += reversed(remaining)
    for sign, node in list(walk(top)):  # a phrase ends after those inside of it
        if sign == ")":
            node.children = [child for child in node.children if child.word or child.children]
    return top, linearised(top) != " ".join(line.split())


# ------------------------------------------------------------------------- files


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file; DataError if they are not UTF-8."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            yield from file
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: {error.object[error.start]:#x} is not UTF-8") from None


def files_of(path: Path, sections: Sequence[int]) -> list[Path]:
    """Return a file, or the files of a treebank's sections in order.

    DataError if a folder lacks a section, or has a file of one twice.
    """
    if not path.is_dir():
        return [path]
    if not sections:
        raise UsageError(f"{path}: is a folder; name the sections with --sections")
    files: dict[str, Path] = {}
    for file in sorted(path.rglob("*")):
        name = FILE.fullmatch(file.name)
        if name and int(name[1]) in sections:
            other = files.setdefault(file.stem.lower(), file)
            if other != file:
                raise DataError(f"{file}: the same text is there as {other}")
    for section in sections:
        if not any(int(stem[4:6]) == section for stem in files):
            raise DataError(
                f"{path}: has no file of section {section}, such as wsj_{section:02}01.mrg"
            )
    return [files[stem] for stem in sorted(files)]


def convert(out: Path, paths: Sequence[Path], sections: Sequence[int], expect: int) -> None:
    """Write the trees of files and of a treebank's sections, as OUT.en, OUT.tree and OUT.gold.

    DataError if there are none, or not as many as expected, which is any number if 0.
    """
    count = empty = 0
    files = [file for path in paths for file in files_of(path, sections)]
    out.parent.mkdir(parents=True, exist_ok=True)
    with (
        atomic_writer(out.with_name(f"{out.name}.gold")) as gold,  # appears last
        atomic_writer(out.with_name(f"{out.name}.tree")) as trees,
        atomic_writer(out.with_name(f"{out.name}.en")) as sentences,
    ):
        for tree in (tree for file in files for tree in read_trees(read_lines(file), str(file))):
            words = words_of(tree)
            count += bool(words)
            empty += not words
            if words:
                sentences.write(f"{' '.join(word.word for word in words)}\n".encode())
                trees.write(f"{linearised(tree)}\n".encode())
                gold.write(f"{bracketed(tree)}\n".encode())
        where = f"{', '.join(map(str, paths))}: {count:,} trees"
        if not count or (expect and count != expect):
            raise DataError(f"{where}, and {expect or 'some'} are expected")
    console.notice(f"{where}" + (f"; {empty:,} without words left out" if empty else ""))


def restore(sentences: Path, written: Path, out: Path) -> None:
    """Write the bracketed trees of sentences and of what a model wrote for them, tagged XX.

    DataError if there are not as many of both.
    """
    lines, outputs = list(read_lines(sentences)), list(read_lines(written))
    check_counts(sentences, len(lines), written, len(outputs))
    with atomic_writer(out) as file:
        for line, output in zip(lines, outputs, strict=True):
            words = [Tree(WORD, word=word) for word in line.split()]
            file.write(f"{bracketed(restored(output, words)[0])}\n".encode())


def check_counts(one: Path, count: int, other: Path, other_count: int) -> None:
    """Raise DataError unless two files have as many lines."""
    if count != other_count:
        raise DataError(f"{other} has {other_count:,} lines, and {one} {count:,}")


def section_numbers(text: str) -> range:
    """Return the sections that 22 or 2-21 stands for."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("convert", help="trees to text for nmt")
    command.add_argument("out", type=Path, help="prefix of the files to write")
    command.add_argument("paths", type=Path, nargs="+", help="files, or folders of wsj_0001.mrg")
    command.add_argument("--sections", type=section_numbers, default=(), help="of a folder: 2-21")
    command.add_argument("--expect", type=int, default=0, help="trees that there must be")
    command.set_defaults(call=convert)
    command = commands.add_parser("restore", help="a model's output to trees")
    command.add_argument("sentences", type=Path, help="what the model read")
    command.add_argument("written", type=Path, help="what it wrote")
    command.add_argument("out", type=Path, help="file of bracketed trees to write")
    command.set_defaults(call=restore)
    options = vars(parser.parse_args())
    options.pop("call")(**options)


if __name__ == "__main__":
    run(main)

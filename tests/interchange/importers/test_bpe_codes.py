"""Codes of subword-nmt become a SentencePiece model that cuts text as they do."""

from collections.abc import Iterator, Sequence

import pytest
from reference import learned_merges, merged

from nmt.data.vocabulary import UNK_ID, Vocabulary, learn_vocabulary
from nmt.errors import DataError
from nmt.interchange.importers.bpe_codes import is_bpe_codes, model_of_codes
from nmt.lexical.token_offsets import token_offsets
from nmt.lexical.word_list import forms_before_sign, token_forms
from nmt.search.phrases import Phrase, SentencePhrases
from nmt.translate.alignment import align_words
from nmt.translate.segmentation import split_ids

LINES = [
    "the dog sees the other dogs , and then they are there",
    "der Hund sieht die anderen Hunde , und dann hören sie auf",
    "собака видит других собак , и потом они там",
    "狗 看见 别的 狗 , 然后 他们 在 那里",
]
OTHERS = ["the hound hears", "Hundehütte", "собачка", "狗狗 看", "aaaa aa a", "x", ""]
WORDS = " ".join(LINES).split()
VERSIONS = {"0.2": False, "0.1": True, "fastBPE": False}


def codes(merges: Sequence[Sequence[str]], version: str = "0.2") -> bytes:
    """Write merges as the program of a version does."""
    lines = ["#version: 0.2"] if version == "0.2" else []
    count = " 17" if version == "fastBPE" else ""
    return "".join(f"{one}\n" for one in (*lines, *(f"{a} {b}{count}" for a, b in merges))).encode()


def in_pieces(parts: Sequence[str]) -> list[str]:
    return [part.replace("</w>", "\u2581") for part in parts]


def as_written(parts: Sequence[str]) -> Iterator[str]:
    """The parts of a word as subword-nmt writes them."""
    for part in parts:
        yield part.removesuffix("</w>") if part.endswith("</w>") else f"{part}@@"


@pytest.mark.parametrize("version", VERSIONS)
def test_each_word_is_cut_as_the_codes_say(version: str) -> None:
    apart = VERSIONS[version]
    merges = learned_merges(WORDS, 60, apart=apart)
    content = codes(merges, version)
    assert is_bpe_codes(content)
    vocabulary = Vocabulary(model_of_codes(content))
    known = {letter for pair in merges for part in pair for letter in part} | set(", ")
    as_codes_say = 0
    for line in [*LINES, *OTHERS]:
        ids = vocabulary.encode([line])[0]
        if set(line) <= known:
            as_codes_say += 1
            expected = [part for word in line.split() for part in merged(word, merges, apart=apart)]
            assert [vocabulary.pieces[id_] for id_ in ids] == in_pieces(expected)
        assert UNK_ID not in ids  # other characters are bytes
        assert vocabulary.decode([ids]) == [line]
    assert as_codes_say >= 5


def test_subwords_that_a_dictionary_lacks_are_taken_apart_or_unknown() -> None:
    merges = learned_merges(WORDS, 60)
    of_words = [list(as_written(merged(word, merges))) for word in WORDS]
    frequent = sorted({part for parts in of_words for part in parts if len(part) != 3} - {"Hund@@"})
    listed = [*frequent, "madeupword0000", "@@"]
    vocabulary = Vocabulary(model_of_codes(codes(merges), listed))
    in_halves = {a + b: (a, b) for a, b in merges}

    def apart(part: str) -> Iterator[str]:
        (written,) = as_written([part])
        if written in listed or part not in in_halves:
            yield written
        else:
            for half in in_halves[part]:
                yield from apart(half)

    for line in LINES:
        subwords = [p for word in line.split() for one in merged(word, merges) for p in apart(one)]
        ids = [4 + listed.index(one) if one in listed else UNK_ID for one in subwords]
        assert vocabulary.encode([line])[0] == ids
    assert any(UNK_ID in ids for ids in vocabulary.encode(LINES))
    assert vocabulary.known == 4 + len(listed)
    assert 4 + listed.index("madeupword0000") in vocabulary.barred_ids


def test_tokens_of_text_have_their_marks_before_words() -> None:
    vocabulary = Vocabulary(model_of_codes(codes(learned_merges(WORDS, 30))))
    tokens = vocabulary.tokens(vocabulary.encode(["dogs ☃x, Hund"])[0])
    assert "".join(tokens).replace("<0xE2><0x98><0x83>", "☃") == "\u2581dogs\u2581☃x,\u2581Hund"
    assert tokens[0].startswith("\u2581")
    assert not any(token.endswith("\u2581") for token in tokens[-2:])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"#version: 0.2\nt h\nth e</w>\nt he</w>\nh e</w>\n", "in several ways"),
        ("#version: 0.2\nĠ t\nh e\n".encode(), "of bytes"),
        (b"#version: 0.2\nt h\nth e x\n", "line 3 has 3 parts"),
        (b"#version: 0.2\n\xff h\n", "UTF-8"),
        (b"#version: 0.2\n", "no part"),
    ],
)
def test_codes_that_would_cut_otherwise_are_refused(content: bytes, said: str) -> None:
    with pytest.raises(DataError, match=said):
        model_of_codes(content)


@pytest.mark.parametrize("content", [b"", b"\n\x07\x0a <pad>", b"a b c\n", b"a\tb c\n", b"text\n"])
def test_other_files_are_no_codes(content: bytes) -> None:
    assert not is_bpe_codes(content)


BOTH = {
    "codes": lambda: Vocabulary(model_of_codes(codes(learned_merges(WORDS, 30)))),
    "learnt": lambda: learn_vocabulary(LINES, vocab_size=360),
}
"""A vocabulary with marks behind words, and one with marks before them."""


@pytest.fixture(params=BOTH)
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    made: Vocabulary = BOTH[request.param]()
    return made


def test_places_of_tokens_are_those_of_their_text(vocabulary: Vocabulary) -> None:
    text = "the dogs, там ☃ Hunden"
    tokens = vocabulary.tokens(vocabulary.encode([text])[0])
    for token, (start, end) in zip(tokens, token_offsets(text, tokens), strict=True):
        if not token.startswith("<0x"):
            assert text[start:end].strip() == token.strip("\u2581")


def test_words_are_aligned_by_their_subwords(vocabulary: Vocabulary) -> None:
    src, tgt = (vocabulary.tokens(ids) for ids in vocabulary.encode(["the dogs hound", "Hunden x"]))
    assert len(src) > 3
    assert align_words([len(src) - 1] * len(tgt), src, tgt) == [(2, 0), (2, 1)]


def test_long_text_is_cut_before_a_word(vocabulary: Vocabulary) -> None:
    text = "the dogs see the other dogs and then they are there"
    segments = split_ids(vocabulary, vocabulary.encode([text])[0], 12, ("en", "de"))
    parts = vocabulary.decode([segment.source.ids for segment in segments])
    assert len(parts) > 1
    assert " ".join(parts) == text
    assert {segment.separator for segment in segments[:-1]} == {" "}


def test_a_term_is_a_word_of_its_own(vocabulary: Vocabulary) -> None:
    spaced, *inner = token_forms(vocabulary, "dog")
    before_sign = list(forms_before_sign(vocabulary, "dog"))
    phrase = Phrase((spaced, *before_sign), inner_forms=tuple(inner), is_word=True)
    phrases = SentencePhrases([phrase], vocabulary.word_edges)
    for text, has_it in (("the dog sees", True), ("the dog, the", True), ("dogs see", False)):
        assert bool(phrases.met(vocabulary.encode([text])[0])) == has_it, text

"""Language tokens: which codes name a language, and which lines begin with its token."""

import pytest
from foreign_models import TAGS, learn_pieces

from nmt.data.language_tokens import LanguageTokens
from nmt.data.pieces import PieceModel
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError, UsageError

NLLB = LanguageTokens(
    {code: code for code in ("deu_Latn", "zho_Hans", "zho_Hant", "eng_Latn")}, "src", "tgt"
)
TRAINED = LanguageTokens.of_targets([("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en")])
OPUS = LanguageTokens({"fra": ">>fra<<", "deu_Latn": ">>deu_Latn<<"}, "tgt", "")


@pytest.mark.parametrize(
    ("lang", "codes"),
    [
        ("deu_Latn", ["deu_Latn"]),
        ("de", ["deu_Latn"]),
        ("de-AT", ["deu_Latn"]),
        ("zh", ["zho_Hans", "zho_Hant"]),
        ("zh_Hant", ["zho_Hant"]),
        ("deu_Cyrl", []),
        ("fr", []),
        ("", []),
        ("no language", []),
    ],
)
def test_a_language_has_several_codes(lang: str, codes: list[str]) -> None:
    assert NLLB.codes(lang) == codes


def test_what_is_given_must_be_known_and_a_default_if_the_decoder_reads_it() -> None:
    for tokens, side, lang in ((NLLB, "src", "fr"), (NLLB, "tgt", "zh"), (OPUS, "tgt", "es")):
        with pytest.raises(UsageError, match=f"--x {lang}: the model "):
            tokens.check(side, lang, "--x", is_given=True)
    NLLB.check("tgt", "de", "--x", is_given=True)
    with pytest.raises(UsageError, match="--x is missing"):
        NLLB.check("src", "", "--x", is_given=False)
    OPUS.check("tgt", "roa", "--x", is_given=False)
    OPUS.check("src", "en", "--x", is_given=True)  # not its choice


def test_a_message_lists_a_few_languages() -> None:
    many = LanguageTokens({f"a{letter}": "" for letter in "abcdefghij"}, "src", "tgt")
    with pytest.raises(UsageError, match=r"aa, ab, .* 4 more"):
        many.check("src", "xx", "--x", is_given=True)
    with pytest.raises(UsageError, match=r"--x no: .*nno_Latn, nob_Latn and 1 more"):
        some = LanguageTokens(dict.fromkeys(("nob_Latn", "nno_Latn", "eng_Latn"), ""), "src", "tgt")
        some.check("src", "no", "--x", is_given=True)


@pytest.mark.parametrize(
    ("own", "given", "chosen"),
    [
        (("", ""), (None, "de"), ("en", "de")),
        (("", ""), (None, "en"), ("", "en")),  # from any language, also one without its pair
        (("", ""), ("fr", "en"), ("fr", "en")),
        (("", ""), ("deu", "eng"), ("de", "en")),
        (("", ""), ("de", None), ("de", "en")),
        (("en", "de"), (None, None), ("en", "de")),
        (("en", "de"), (None, "fr"), ("en", "fr")),
    ],
)
def test_a_pair_is_one_of_training(
    own: tuple[str, str], given: tuple[str | None, str | None], chosen: tuple[str, str]
) -> None:
    assert TRAINED.choose(own, given) == chosen


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((None, None), "--to is missing: .*en-de, de-en, en-fr, fr-en"),
        (("en", None), "--to is missing"),
        ((None, "it"), "--to it: .*en-de, de-en, en-fr, fr-en$"),
        (("de", "fr"), "--from de --to fr: .*leave out --from"),
        (("it", "fr"), "--from it --to fr: "),
    ],
)
def test_another_pair_is_refused(given: tuple[str | None, str | None], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TRAINED.choose(("", ""), given)


@pytest.fixture
def vocabulary() -> Vocabulary:
    model = PieceModel.read(learn_pieces("source", "unigram"))
    texts = [piece for piece in model.own if piece != "<unk>"]
    return Vocabulary(model.reordered([*texts, *TAGS], TAGS).write())


def test_lines_begin_with_the_token_of_their_pair(vocabulary: Vocabulary) -> None:
    src, tgt = OPUS.begin((vocabulary, vocabulary), ("en", "fr"))
    assert tgt is vocabulary and src.first
    (text,) = vocabulary.encode(["abc"])
    assert src.tokens(src.first) == [TAGS[0]]
    assert src.encode(["abc", f"{TAGS[1]}abc", ""]) == [
        [*src.first, *text],
        *vocabulary.encode([f"{TAGS[1]}abc"]),  # its own tag wins
        [*src.first],
    ]
    assert src.encode_text(["abc"]) == [text]
    assert src.decode([[*src.first, *text]]) == ["abc"]
    assert src.encode([]) == []

    # A language that is not known has no token, and a vocabulary without one is damaged.
    assert OPUS.begin((vocabulary, vocabulary), ("en", "roa")) == (vocabulary, vocabulary)
    with pytest.raises(DataError, match="piece 'deu_Latn'"):
        NLLB.begin((vocabulary, vocabulary), ("de", "en"))

"""Paragraphs are cut where sentences end, nothing is lost, and half sentences are not made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.translate.segmentation import split_sentences


def texts(paragraph: str, lang: str) -> list[str]:
    return [text for text, _ in split_sentences(paragraph, lang)]


@pytest.mark.parametrize(
    ("lang", "sentences"),
    [
        ("en", ["One.", "Two!", "Three?", "Four…", "Five...", "Six.", "7 is a number."]),
        ("en", ["What?!", "Never!!", "Well...?", "No."]),
        ("en", ["He sleeps. 😆", "She sings!👍🏽🎉", "They play."]),
        # Quotes and brackets that close belong to the sentence, those that open to the next.
        ("en", ['He said "no."', '"Why?"', "(She left.)", "[So did he.]", "‘Me too.’", "“Yes.”"]),
        ("de", ["„Wer ist da?“", "»Niemand.«", "«Oui.»", "– Ja.", "- Gut."]),
        ("fr", ["« Oui. »", "« Non ? »", "Il part."]),
        ("es", ["¿Quién?", "¡Nadie!", "Bueno."]),
        ("en", ['He said " no. "', 'Then " yes " .', '" Maybe " .']),
        # Scripts without case, and with capitals that do not begin sentences.
        ("ar", ["هل أنت بخير؟", "نعم.", "شكرا!"]),
        ("hi", ["यह एक है।", "यह दो है।", "क्या?"]),
        # Letters with marks before the stop and after it.
        ("si", ["මෙය පොතක් වේය.", "ඔහු ගියේය.", "ඇය එන්නේය."]),
        ("lo", ["ຂ້ອຍກິນ.", "ລາວຢູ່ບ້ານ."]),
        ("ar", ["شكرًا.", "مرحبًا بكم.", "كيف الحال؟"]),
        ("my", ["သူသွားသည်။", "ေဒါက္တာလာသည္။", "ဟုတ်ကဲ့။"]),  # the second one as Zawgyi has it
        ("pa", ["ਉਹ ਘਰ ਸੀ.", "ਉਹ ਆਇਆ|", "ਉਹ ਗਿਆ |", "ਠੀਕ ਹੈ।"]),
        # Stops of other scripts, and how keyboards without them write them.
        ("hy", ["Նա եկավ։", "Նա գնաց:", "«Լավ»:", "Այո:"]),
        ("am", ["እሱ መጣ።", "እሷ ሄደች፡፡", "የት ናት፧", "እሺ::"]),
        ("el", ["Πού είναι;", "«Ποιος;»", "Εδώ\u037e", "Ναι."]),
        ("km", ["គាត់បានទៅ។", "«គាត់ទៅ។»", "នាងមក៕"]),
        ("ti", ["“ንሱ መጺኡ።“", "ሕራይ።"]),
        # Signs for the direction of text follow the stop, or stand before the next sentence.
        ("ps", ["هغه راغی.\u200e \u200e", "\u200fهغه لاړ.", "هو."]),
        ("en", ["It cost more.", "£5 was enough."]),
        # Words that can be abbreviations and more often end sentences.
        ("de", ["Äpfel, Birnen usw.", "Das ist von dieser Art.", "Gut."]),
        ("fr", ["Des pommes, etc.", "Il parle de ce vol.", "Bon."]),
        ("en", ["He said No.", "She said yes at 3 p.m.", "It was in 1999.", "Then it ended."]),
        ("en", ["World War II.", "It was long.", "Yes, it's John's.", "Let's go."]),
    ],
)
def test_sentences_that_stand_in_a_row_are_found_again(lang: str, sentences: list[str]) -> None:
    assert texts(" ".join(sentences), lang) == sentences


@pytest.mark.parametrize(
    ("lang", "sentence"),
    [
        ("en", "version 2.5.1 of www.example.org, sent at 10.30"),
        ("en", "It was... well, odd. eBay? never! said he."),
        ("en", "They paid... 1.6 million and … 3 more."),
        ("en", "Mr. Smith, Dr. Jones, Prof. Li and Gen. Lee met J. R. R. Tolkien."),
        ("en", "The U.S. Army left Washington D.C. Friday, e.g. John B. Goode."),
        ("en", "See No. 5, pp. 3 to 7, Fig. 2, Vol. 3 and the attacks of Sept. 11, 2001."),
        ("mr", "डॉ. जोशी"),
        ("bo", "ང་ཚོ་འགྲོ་གི་ཡིན། ཁོང་ཡོང་གི་རེད།"),  # a shad ends clauses, too
        ("en", "Note: The one; The other | The third"),
        ("el", "στις 10:30 το πρωί· α; β"),
        ("am", "አዲስ፡አበባ፡ ነው"),
        ("en", "1. Introduction"),
        ("de", "Am 3. Mai, dem 9./10. Juni und vom 8.-10. August regierte Heinrich VIII. England."),
        ("de", "Prof.-Dr. Müller (z.B. Nr. 7) nach Art. 5 Abs. 2 u.a. Richter a.D. Meier."),
        ("de", "Vgl. Hamburg, das 5 Mio. Euro kostete."),
        ("fr", "M. Dupont, l'U.S. Army, p.ex. Paris, et Dr. Motte de St. Petersburg"),
        ("ru", "А. С. Пушкин родился в Москве"),
        ("xx", "A language that Moses does not know, with Mr. Smith and No. 5"),
        ("ja", "「行く。」と彼は言った"),
        ("zh", "圆周率是3.14，约为3.1。"),
        ("en", "(...) The rest"),
        ("fr", ". - Monsieur le Président"),
    ],
)
def test_other_dots_do_not_cut(lang: str, sentence: str) -> None:
    assert texts(sentence, lang) == [sentence]


@pytest.mark.parametrize(
    ("lang", "sentences"),
    [
        ("zh", "他走了。 “你好！” （真的？） GPU很快。 iPhone也是。 3个。 真的吗? 他走了! 好"),
        ("ja", "行く。 「はい。」 「いいえ！」 終わり"),
        ("km", "នេះមួយ។ នេះពីរ។"),
    ],
)
def test_scripts_without_spaces_are_cut_without(lang: str, sentences: str) -> None:
    expected = [(text, "") for text in sentences.split()]
    assert split_sentences(sentences.replace(" ", ""), lang) == expected


def test_a_separator_is_the_white_space_that_stood_there() -> None:
    found = split_sentences(" One.  Two.\t\u00a0Three. \n", "en")
    assert found == [(" One.", "  "), ("Two.", "\t\u00a0"), ("Three.", " \n")]


@pytest.mark.parametrize("blank", [" ", "\t \u3000\n"])
def test_a_blank_paragraph_is_one_blank_sentence(blank: str) -> None:
    assert split_sentences(blank, "en") == [(blank, "")]


PARTS = st.sampled_from(["A.", "Mr.", "No.", "3.", "the", "The", " ", '"', "。", "?!"])
SIGNS = st.text("Aa1 .!?…。」」»«\"')(-–\n\u00a0你と")
PARAGRAPHS = st.one_of(st.text(), SIGNS, st.lists(PARTS).map("".join))


@given(PARAGRAPHS, st.sampled_from(["en", "de", "zh", "xx"]))
def test_sentences_have_text_and_make_up_the_paragraph(paragraph: str, lang: str) -> None:
    sentences = split_sentences(paragraph, lang)
    assert "".join(map("".join, sentences)) == paragraph
    for number, (text, separator) in enumerate(sentences):
        assert separator.strip() == ""
        assert text == text.rstrip() or paragraph.isspace()
        if number:
            assert text == text.lstrip()
        if len(sentences) > 1:
            assert any(map(str.isalnum, text))

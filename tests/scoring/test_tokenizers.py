"""BLEU's tokenizer follows the language and its script."""

import pytest

from nmt.scoring.tokenizers import tokenizer_for

ALL = {
    "13a": ["en", "de", "ru", "ug", "vi", "zh-Latn", "ja_Latn", "khk_Cyrl", "kk", "mn", "xx", ""],
    "zh": ["zh", "zh-TW", "cmn_Hans", "yue", "wuu", "lzh", "zh.tok"],
    "ja-mecab": ["ja", "jpn_Jpan"],
    "ko-mecab": ["ko", "kor_Hang", "ko-KR"],
    "char": ["th", "tha_Thai", "km", "lo", "my", "mya_Mymr", "bo", "dz", "shn"],
}


@pytest.mark.parametrize(("tokenizer", "langs"), ALL.items())
def test_the_tokenizer_follows_the_language(tokenizer: str, langs: list[str]) -> None:
    found = {lang: tokenizer_for(lang, is_installed=lambda _: True) for lang in langs}
    assert found == dict.fromkeys(langs, tokenizer)


@pytest.mark.parametrize(("lang", "tokenizer"), [("ja", "char"), ("ko", "13a"), ("zh", "zh")])
def test_without_its_packages_another_one_does(lang: str, tokenizer: str) -> None:
    assert tokenizer_for(lang, is_installed=lambda _: False) == tokenizer

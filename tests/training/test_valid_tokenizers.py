"""BLEU of validation counts what its language calls words, so that the best model is the best."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sacrebleu
from prepare_job import Job
from toy_training import ALONE, GERMAN, config_of, metrics, recipe, train
from toy_training import pairs as german_pairs

from nmt.config.fields import Value
from nmt.data.folder import DataFolder, HeldOut
from nmt.errors import UsageError
from nmt.models.model_file import ModelReader
from nmt.runs.report import ValidationResult
from nmt.system.distributed import Ranks
from nmt.training import validation
from nmt.training.validation import Validator, resolve_tokenizers, tokenizers_of
from nmt.translate.rescoring import Likelihood, score_pairs
from nmt.translate.translator import Translator

WORDS = {
    "zh": "一个 两只 三条 四张 五位 六本 七件 八辆 九座 十棵",
    "ja": "ひとつ ふたつ みっつ よっつ いつつ むっつ ななつ やっつ ここのつ とお",
    "th": "หนึ่ง สอง สาม สี่ ห้า หก เจ็ด แปด เก้า สิบ",
}
TOKENIZERS = {"zh": "zh", "ja": "char", "th": "char"}
END = {"zh": "。", "ja": "。", "th": "", "de": ""}
BEST: dict[str, Value] = {"validate_metric": "bleu", "best_metric": "bleu", "keep_last": 4}


def pairs_in(lang: str, count: int, *, seed: int) -> list[tuple[str, str]]:
    """Draw pairs as `toy_training.pairs` does, with a target language without spaces."""
    if lang == "de":
        return german_pairs(count, seed=seed)
    words = dict(zip(GERMAN, WORDS[lang].split(), strict=True))
    return [
        (src, "".join(words[word] for word in tgt.split()) + END[lang])
        for src, tgt in german_pairs(count, seed=seed)
    ]


def prepared(folder: Path, *langs: str) -> Path:
    """Make a data folder from English to one language, or to several."""
    for lang in langs:
        for name, count, seed in (("train", 300, 1), ("valid", 20, 2)):
            text = pairs_in(lang, count, seed=seed)
            for side, lines in zip(("en", lang), zip(*text, strict=True), strict=True):
                path = folder / f"{name}-{lang}.{side}"
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    options: dict[str, Any] = {"vocab_size": 345, "tgt_lang": langs[0]}
    options |= {"train": (f"{folder}/train-{langs[0]}",), "valid": f"{folder}/valid-{langs[0]}"}
    if len(langs) > 1:
        named = {
            name: tuple(f"en-{lang}={folder}/{name}-{lang}" for lang in langs)
            for name in ("train", "valid")
        }
        options = {"vocab_size": 400, "src_lang": "", "tgt_lang": ""}
        options |= {"pair": named["train"], "valid": named["valid"]}
    return Job.of(folder / "data", **options).prepare().path


def oracle(lang: str, outputs: Sequence[str], tokenizer: str = "") -> float:
    """Return sacreBLEU's BLEU of the valid text."""
    references = [tgt for _, tgt in pairs_in(lang, 20, seed=2)]
    bleu = sacrebleu.BLEU(tokenize=tokenizer or TOKENIZERS.get(lang, "13a"))
    return float(bleu.corpus_score(list(outputs), [references]).score)


def worse(text: str, share: float) -> str:
    """Return a text whose end is lost."""
    return text[: round(share * len(text))] + "？"


@pytest.fixture(autouse=True)
def no_mecab(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, False)


def install(patch: pytest.MonkeyPatch, is_there: bool) -> None:
    """Pretend that MeCab is installed, or not."""

    def has_packages(tokenizer: str) -> bool:
        return is_there or "mecab" not in tokenizer

    patch.setattr(validation, "has_packages", has_packages)


def translate_as(patch: pytest.MonkeyPatch, *shares: float) -> list[list[str]]:
    """Let each validation find references of which such a share is left; return all of them."""
    outputs: list[list[str]] = []

    def translated(self: Validator, _: object, sources: list[str], *__: object) -> list[str]:
        validation, number = divmod(len(outputs), len(self._texts))
        text = self._texts[number]
        assert text.sources == sources
        outputs.append([worse(line, shares[validation]) for line in text.references])
        return outputs[-1]

    patch.setattr(Validator, "_translate", translated)
    return outputs


# --- the best is the best


@pytest.mark.parametrize("lang", ["zh", "th"])
def test_the_best_model_has_the_best_translations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str
) -> None:
    outputs = translate_as(monkeypatch, 0.5, 0.7, 0.9, 0.6)
    run = train(prepared(tmp_path, lang), tmp_path / "run", **BEST, max_updates=8, validate_every=2)
    expected = [oracle(lang, some) for some in outputs]
    found = metrics(run, "valid")
    assert [one["bleu"] for one in found] == pytest.approx(expected)
    assert f"|tok:{TOKENIZERS[lang]}|" in found[0]["bleu_signature"]
    assert expected.index(max(expected)) == 2
    assert ModelReader(run / "best.safetensors").card.update == 6
    # What splits at spaces sees no difference.
    assert {oracle(lang, some, "13a") for some in outputs} == {0.0}


@pytest.mark.parametrize(("tokenizer", "warns"), [("13a", True), ("char", False)])
def test_before_it_trains_a_run_doubts_a_tokenizer_that_sees_no_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: str, warns: bool
) -> None:
    # As with a code that nobody knows, such as cn. Digits in the text may lift BLEU above 0.5.
    translate_as(monkeypatch, 0.8)
    values = {**BEST, "max_updates": 2, "validate_tokenizer": tokenizer}
    run = train(prepared(tmp_path, "th"), tmp_path / "run", **values)
    doubt = "valid of en-th: 15 of 20 "
    log = (run / "train.log").read_text()
    assert (doubt in log) == warns
    assert log.find(doubt) < log.find("update 2 valid")


def test_each_pair_has_its_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = prepared(tmp_path, "zh", "de")
    outputs = translate_as(monkeypatch, 0.8)
    run = train(data, tmp_path / "run", **BEST, max_updates=2, validate_every=2)
    (found,) = metrics(run, "valid")
    order = [text.langs[1] for text in DataFolder.open(data).valid_texts]
    scores = {lang: oracle(lang, some) for lang, some in zip(order, outputs, strict=True)}
    assert {lang: found[f"bleu/en-{lang}"] for lang in order} == pytest.approx(scores)
    assert found["bleu"] == pytest.approx(sum(scores.values()) / 2)
    nlls = []
    for lang in order:
        translator = Translator.load(run / "last.safetensors", src_lang="en", tgt_lang=lang)
        list(score_pairs(translator, pairs_in(lang, 20, seed=2), likelihood := Likelihood()))
        nlls.append((likelihood.nll, likelihood.tokens))
        assert found[f"nll/en-{lang}"] == pytest.approx(likelihood.nll, rel=1e-4)
        assert f">en-{lang}" in (run / "curves.svg").read_text()
    assert found["nll"] == pytest.approx(
        sum(nll * tokens for nll, tokens in nlls) / sum(tokens for _, tokens in nlls), rel=1e-4
    )
    for lang, tokenizer in (("zh", "zh"), ("de", "13a")):
        assert f"|tok:{tokenizer}|" in found[f"bleu_signature/en-{lang}"]
        assert f"{found[f'bleu_signature/en-{lang}']})" in (run / "train.log").read_text()
    assert "bleu_signature" not in found
    named = str(config_of(run)["training"]["validate_tokenizer"])
    assert set(named.split(",")) == {"en-zh:zh", "en-de:13a"}


# --- which one


def folder_of(*targets: str) -> DataFolder:
    """Return what this asks of a data folder from English to these languages."""
    texts = [HeldOut(("en", tgt), Path(), Path()) for tgt in targets]
    return cast(DataFolder, SimpleNamespace(path=Path("data"), valid_texts=texts))


@pytest.mark.parametrize(
    ("targets", "tokenizer"),
    [
        ("zh zh-TW cmn zho_Hant yue_Hant", "zh"),
        ("ja", "ja-mecab"),
        ("ko", "ko-mecab"),
        ("km lo my bo", "char"),
        ("xx de", "13a"),
    ],
)
def test_the_target_chooses(monkeypatch: pytest.MonkeyPatch, targets: str, tokenizer: str) -> None:
    install(monkeypatch, True)
    for tgt in targets.split():
        resolved = resolve_tokenizers(recipe().training, "auto", folder_of(tgt), ALONE)
        assert resolved == f"en-{tgt}:{tokenizer}"
        assert tokenizers_of(resolved, folder_of(tgt)) == {f"en-{tgt}": tokenizer}


def test_you_can_name_one_for_all_or_one_for_each() -> None:
    assert tokenizers_of("intl", folder_of("de", "zh")) == {"en-de": "intl", "en-zh": "intl"}
    named = tokenizers_of("en-zh:char, en-de:none", folder_of("de", "zh"))
    assert list(named.items()) == [("en-de", "none"), ("en-zh", "char")]


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("mecab", "validate_tokenizer: .*'mecab'"),
        ("en-de:13a,en-zh:", "unknown tokenizer ''"),
        ("en-de:13a", "en-de, .*data .*en-de, en-zh"),
        ("en-de:13a,en-zh:zh,en-fr:13a", "en-de, en-zh, en-fr, .*data .*en-de, en-zh"),
    ],
)
def test_what_does_not_name_them_is_refused(named: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tokenizers_of(named, folder_of("de", "zh"))


@pytest.mark.parametrize(
    ("values", "refused"),
    [({"validate_metric": "bleu"}, True), ({"validate_metric": "chrf"}, False), ({}, False)],
)
def test_a_tokenizer_must_be_there_for_bleu(values: dict[str, Value], refused: bool) -> None:
    def resolve() -> str:
        return resolve_tokenizers(recipe(**values).training, "ko-mecab", folder_of("ko"), ALONE)

    if not refused:
        assert resolve() == "ko-mecab"
        return
    with pytest.raises(UsageError, match=r"sacrebleu\[ko\]"):
        resolve()


# --- a run that goes on


@pytest.fixture
def japanese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Train a run to Japanese, whose validations are invented: they need no MeCab."""
    data = prepared(tmp_path, "ja")
    monkeypatch.setattr(Validator, "measure", lambda *_: ValidationResult(1.0, 1.0))
    monkeypatch.setattr(validation, "make_metrics", lambda *_, **__: None)

    def go_on(max_updates: int, **values: Value) -> Path:
        values = {"validate_metric": "bleu", "max_updates": max_updates, **values}
        return train(data, tmp_path / "run", **values)

    return go_on


def test_a_run_keeps_its_tokenizer_when_another_is_installed(
    japanese: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    japanese(2)
    install(monkeypatch, True)
    assert config_of(japanese(4))["training"]["validate_tokenizer"] == "en-ja:char"
    with pytest.raises(UsageError, match=r"validate_tokenizer .*'en-ja:char'"):
        japanese(6, validate_tokenizer="ja-mecab")


def test_a_run_does_not_go_on_without_its_tokenizer(
    japanese: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, True)
    assert config_of(japanese(2))["training"]["validate_tokenizer"] == "en-ja:ja-mecab"
    install(monkeypatch, False)
    with pytest.raises(UsageError, match=r"ja-mecab \(validate_tokenizer\)"):
        japanese(4)


def test_every_process_must_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, True)
    others = ["13a", "char"]
    monkeypatch.setattr(Ranks, "gather", lambda _, own: [own, others] if own else [None, None])
    for named, resolved in (("auto", "en-ja:char"), ("char", "char")):
        config = recipe(validate_metric="bleu").training
        assert resolve_tokenizers(config, named, folder_of("ja"), ALONE) == resolved

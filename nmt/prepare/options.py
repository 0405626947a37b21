"""The options of `prepare`, except those of cleaning."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nmt.config.fields import check, option_name, value
from nmt.console import listed
from nmt.data.composition import NFC
from nmt.data.compressed import SUFFIXES
from nmt.data.corpus import Encoding
from nmt.data.language_tokens import LanguageTokens
from nmt.data.manifest import LEARNING
from nmt.data.moses import STEPS, MosesRules, moses_rules
from nmt.errors import UsageError, did_you_mean
from nmt.prepare.readers.text_names import TMX, ZIP, number_of, problems_of_values
from nmt.system.machine import RAY, cores, most_workers
from nmt.tables.formats import QUOTINGS, STDIN, TABLES, file_and_columns, name_and_value

_text_value = partial(value, panel="Text")
_vocabulary_value = partial(value, panel="Vocabulary")
_MOSES_TAG = re.compile(r"<[^\s<>]+>")
_SPECIAL_PIECE = re.compile(r"<(pad|unk|s|/s|0x[0-9A-F]{2})>")
_LARGEST_WEIGHT = 1000
_is_lang = re.compile(r"(?!bin\Z)[A-Za-z0-9][A-Za-z0-9_@.-]*").fullmatch  # valid.bin is a shard
_LANGS_ARE = "use letters, digits and _ @ . - as in PREFIX.en, but not bin"

AUTO_TERMS = "auto"  # stands for terms that are found in the text


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    src_lang: str = value("", "Source language: PREFIX.LANG.", option="--src", metavar="LANG")
    tgt_lang: str = value("", "Target language: PREFIX.LANG.", option="--tgt", metavar="LANG")
    train: tuple[str, ...] = value(
        (),
        f"Training text in PREFIX.SRC and PREFIX.TGT, plain or compressed ({', '.join(SUFFIXES)}), "
        f"or in two files SOURCE,TARGET. Or a file: {listed((t.suffix for t in TABLES), 'or')} "
        f"with columns, such as crawl.tsv:en,de, {TMX.suffix}, a folder or 'PATTERN*' of them, a "
        f"{ZIP.suffix} of OPUS, a test set of WMT or IWSLT (.sgm, .xml), or {STDIN} for TSV on "
        f"stdin. All except {STDIN} can be at a URL such as s3://bucket/train. You can repeat it.",
        metavar="PREFIX|FILE",
    )
    valid: tuple[str, ...] = value(
        (),
        "Text to validate on, one for each pair of languages. Cleaning leaves it as it is.",
        metavar="PREFIX|FILE",
    )
    valid_lines: int = value(
        0,
        "Without --valid: take N random pairs out of the training text of each pair of languages.",
        minimum=0,
    )
    test: tuple[str, ...] = value(
        (), "A test set. Cleaning leaves it as it is. You can repeat it.", metavar="PREFIX|FILE"
    )
    pair: tuple[str, ...] = value(
        (),
        "For a model of several languages, instead of --src, --tgt and --train: languages and "
        "training text. You can repeat it. --valid, --test, --weight and --tag then name "
        "languages, too.",
        metavar="SRC-TGT=PREFIX",
    )
    vocab_size: int | None = value(
        None,
        "Size of the vocabulary. 4 special tokens and 256 bytes count too.",
        minimum=1,
        maximum=10_000_000,
        shown="by the number of pairs and of characters",
    )
    vocab: tuple[Path, ...] = value(
        (),
        "Use the vocabulary of this model file, run folder, data folder, SentencePiece model or "
        "BPE codes (subword-nmt, fastBPE) instead of learning one. Give two for separate "
        "vocabularies: source, then target.",
        metavar="MODEL",
    )
    workers: str | None = value(
        None,
        "Number of processes, or ray for a cluster that RAY_ADDRESS names. The result does not "
        "depend on it.",
        metavar="N|ray",
        shown="all cores",
    )
    weight: tuple[str, ...] = value(
        (),
        "How often an epoch visits each pair of this text: 3 repeats it three times, and 0.5 takes "
        "a different half in each epoch.",
        metavar="TEXT=NUMBER",
        shown="1",
    )
    tag: tuple[str, ...] = value(
        (),
        "Put a tag such as <BT> before each source line of this text. To use it later, type it "
        "before the line that you translate.",
        metavar="TEXT=TAG",
    )
    terms: str | None = value(
        None,
        "Write into some source lines how their words are translated, so that the model learns to "
        "obey `nmt translate --terms`. auto finds words and the lemmas of their translations in "
        "the text; or give a file of terms, such as lines of SOURCE<TAB>TARGET.",
        metavar="auto|FILE",
    )
    documents: bool = value(
        False,
        "The lines of all texts are in the order of their documents, and a line that is blank on "
        "both sides ends one. Train on windows of neighbouring lines, so that the model can use "
        "the lines before: see `nmt translate --context`.",
    )
    seed: int = _vocabulary_value(
        1, "Seed of what is drawn: the vocabulary's pairs, --valid-lines, --terms.", minimum=0
    )
    temperature: float = _text_value(
        1.0,
        "How evenly the pairs of languages are mixed: they are visited by their size to the power "
        "of 1/X. 1 leaves them as they are; 5 visits small ones more often.",
        minimum=1,
    )
    quoting: tuple[str, ...] = _text_value(
        (),
        "Whether the cells of a TSV are quoted, as in crawl.tsv=none. `prepare` asks for it if it "
        "cannot tell.",
        metavar="TEXT=csv|none",
        shown="found by the cells",
    )
    encoding: str = _text_value(
        "utf-8", "Character encoding of all text, for example windows-1252."
    )
    new_language: str | None = _vocabulary_value(
        None,
        "Add this language to the vocabulary of a model of several languages, to tune it for one "
        "more, such as gsw_Latn.",
        metavar="LANG",
    )
    subwords: str = _vocabulary_value(
        "bpe",
        "How subwords are learnt: byte-pair encoding (Sennrich et al. 2016) or a unigram language "
        "model (Kudo 2018).",
        choices=("bpe", "unigram"),
    )
    split_digits: bool = _vocabulary_value(False, "Make each digit a subword of its own.")
    symbol: tuple[str, ...] = _vocabulary_value(
        (),
        "A word that is always one subword, such as a placeholder __URL__. You can repeat it.",
        metavar="WORD",
    )
    separate_vocab: bool = _vocabulary_value(
        False, "Learn one vocabulary for each language instead of a joint one."
    )
    sample_size: int | None = _vocabulary_value(
        None,
        "Learn the vocabulary from this many random pairs, drawn by --weight. Without it, BPE is "
        "learnt from all pairs, and a unigram model from 1,000,000.",
        minimum=1,
    )
    normalization: str = _vocabulary_value(
        NFC,
        "How the vocabulary normalises text: nfc composes letters and their marks; identity "
        "changes nothing; nfkc, nfkc_cf, nmt_nfkc and nmt_nfkc_cf are SentencePiece's. What is "
        "changed, decoding does not restore.",
        choices=(NFC, "identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf"),
        metavar="RULE",
    )
    moses_normalize: bool = _vocabulary_value(
        False,
        "Apply Moses' punctuation normalisation to all text. `nmt translate` will do the same to "
        "its input.",
    )
    moses_tokenize: bool = _vocabulary_value(
        False,
        "Apply Moses' tokeniser to all text. `nmt translate` will do the same to its input, and "
        "detokenise its output, as well as that can be done in the language.",
    )
    moses_escape: bool = _vocabulary_value(
        False,
        "With --moses-tokenize: write & < > ' \" [ ] | as entities, as Moses' tokeniser does by "
        "itself. It is undone in translations.",
    )
    moses_aggressive: bool = _vocabulary_value(
        False, "With --moses-tokenize: split words at hyphens. It is undone in translations."
    )
    moses_lowercase: bool = _vocabulary_value(
        False, "Write all text in lower case. Translations will be in lower case, too."
    )
    character_coverage: float = _vocabulary_value(
        1.0,
        "Share of characters that become subwords. The others are written as bytes.",
        minimum=0.98,
        maximum=1,
    )
    keep_text: bool = _text_value(
        False,
        "Keep the raw training text in OUT, too, for a recipe that changes it in training, such as "
        "to upper case. It takes the size of the text and 12 bytes a pair.",
    )
    window: int = _text_value(
        4,
        "The most lines of a window of --documents. A window ends with each line, and begins up to "
        "N - 1 lines before, at random.",
        minimum=2,
        maximum=100,
    )

    shard_pairs: int = 500_000  # of a shard of train; the last block may add some

    def __post_init__(self) -> None:
        check(self)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the languages, the encoding, and combinations of options."""
        yield from self._problems_of_pairs() if self.pair else self._problems_of_one_pair()
        if not (self.workers == RAY or 1 <= self.threads <= most_workers()):
            yield (
                f"--workers {self.workers}: must be ray, or from 1 to {most_workers()} (this "
                f"process may use {cores()} cores)"
            )
        if bool(self.valid) == bool(self.valid_lines):
            yield "give one of --valid PREFIX and --valid-lines N"
        try:
            Encoding.find(self.encoding)
        except UsageError as error:
            yield str(error)
        train, held_out = self.train or self.pair, (*self.valid, *self.test)
        if [self._file_of(text) for text in train].count(STDIN) > 1:
            yield "--train -: stdin can be read only once"
        for text in held_out:
            if self._file_of(text) == STDIN:
                yield f"{text}: only training text is read from stdin"
        yield from problems_of_values("--weight", self.weight, train)
        yield from problems_of_values("--tag", self.tag, (*train, *held_out))
        texts = [self.prefix_of(text) for text in (*train, *held_out)]
        yield from problems_of_values("--quoting", self.quoting, texts)
        for text in self.quoting:
            if name_and_value(text)[1] not in QUOTINGS:
                yield f"--quoting {text}: must be csv or none"
        for text in self.weight:
            if not 0 < number_of(name_and_value(text)[1]) <= _LARGEST_WEIGHT:
                yield f"--weight {text}: must be a number above 0 and at most {_LARGEST_WEIGHT:,}"
        yield from self._problems_of_words()
        yield from self._problems_of_documents()
        if self.terms is not None and (self.pair or self.keep_text):
            yield "--terms goes with neither --pair nor --keep-text; leave it out"
        if (times := len(self.vocab)) > 2:
            yield f"--vocab was given {times} times; give it once, or once for each language"
        if len(self.vocab) == 1 and self.separate_vocab:
            yield "--separate-vocab needs --vocab twice, for --src and for --tgt"
        for spec in dataclasses.fields(self) if self.vocab else ():
            if spec.name in LEARNING and getattr(self, spec.name) != spec.default:
                yield f"{option_name(spec)} has no effect with --vocab; remove one of them"

    def _problems_of_one_pair(self) -> Iterator[str]:
        needed = {"--src": self.src_lang, "--tgt": self.tgt_lang, "--train": self.train}
        missing = [option for option, given in needed.items() if not given]
        if missing:
            yield f"{', '.join(missing)}: missing; give --src, --tgt and --train, or --pair"
            return
        for side, lang in (("src", self.src_lang), ("tgt", self.tgt_lang)):
            if not _is_lang(lang):
                yield f"--{side} {lang!r}: {_LANGS_ARE}"
        if self.src_lang == self.tgt_lang:
            yield f"--src and --tgt are both {self.src_lang!r}"
        if len(self.valid) > 1:
            yield "--valid: give it once"
        for step in ("escape", "aggressive"):
            if step in self.moses_steps and not self.moses_tokenize:
                yield f"--moses-{step} is a part of --moses-tokenize; add it"
        if self.temperature != 1:
            yield "--temperature is for several --pair; leave it out"

    def _problems_of_pairs(self) -> Iterator[str]:
        if self.src_lang or self.tgt_lang or self.train:
            yield "--pair names languages and training text; leave out --src, --tgt and --train"
        for step in self.moses_steps[:1]:
            yield f"--moses-{step} is for one pair of languages; leave it out"
        options = (("--pair", self.pair), ("--valid", self.valid), ("--test", self.test))
        for option, texts in options:
            for text in texts:
                langs, equals, prefix = text.partition("=")
                src, _, tgt = langs.partition("-")
                if not (equals and prefix and _is_lang(src) and _is_lang(tgt)) or "-" in tgt:
                    yield f"{option} {text}: must be SRC-TGT=PREFIX, such as en-de=train"
                elif src == tgt:
                    yield f"{option} {text}: the languages are both {src}"
        pairs = [text.partition("=")[0] for text in self.pair]
        valids = [text.partition("=")[0] for text in self.valid]
        for text, pair in zip(self.valid, valids, strict=True):
            if "=" in text and pair not in pairs:
                yield f"--valid {text}: no --pair is {pair}{did_you_mean(pair, pairs)}"
            elif valids.count(pair) > 1:
                yield f"--valid {text}: {pair} has more than one; give only one"

    def _problems_of_documents(self) -> Iterator[str]:
        if not self.documents and self.window != type(self).window:
            yield "--window is for --documents; add it"
        if self.documents and self.keep_text:
            yield (
                "--keep-text does not go with --documents: changing single lines in training would "
                "undo the windows"
            )
        if self.documents and self.terms is not None:
            yield "--terms does not go with --documents; leave one of them out"

    def _problems_of_words(self) -> Iterator[str]:
        """Yield what is wrong with --tag and --symbol, which become pieces of their own."""
        of_pairs = LanguageTokens.of_targets(self.pairs).pieces.values() if self.pair else ()
        controls = self.control_pieces
        words = [("--tag", text, name_and_value(text)[1]) for text in self.tag]
        words += [("--symbol", symbol, symbol) for symbol in self.symbol]
        for option, text, word in words:
            if len(word.split()) != 1 or "\u2581" in word:
                yield f"{option} {text}: must be one word"
            elif word in of_pairs:
                yield f"{option} {text}: {word} is a language token of --pair; choose another word"
            elif _SPECIAL_PIECE.fullmatch(word) or word in controls:
                yield f"{option} {text}: every vocabulary has {word} already; choose another word"
            elif option == "--tag" and self.moses_tokenize and not _MOSES_TAG.fullmatch(word):
                yield f"--tag {text}: with --moses-tokenize it must be of the form <tag>"

    @property
    def moses_steps(self) -> list[str]:
        return [step for step in STEPS if getattr(self, f"moses_{step}")]

    @property
    def moses(self) -> MosesRules:
        """Moses' rules of the source and of the target, if they have some."""
        return moses_rules(self.langs, self.moses_steps)

    @property
    def lines_a_pair(self) -> int:
        return self.window if self.documents else 1

    @property
    def control_pieces(self) -> dict[str, str]:
        """Pieces that the vocabulary must have, and what to do if text may have one already."""
        from nmt.data.vocabulary import ANNOTATION, SEPARATOR  # which loads SentencePiece

        pieces = {SEPARATOR: "choose another --vocab"} if self.documents else {}
        return pieces | dict.fromkeys(ANNOTATION if self.terms else (), "leave out --terms")

    @property
    def processes(self) -> int | None:
        """The number of worker processes; None: a Ray cluster does the work."""
        return None if self.workers == RAY else self.threads

    @property
    def threads(self) -> int:
        """The number of threads that read files; 0 if it is not a number."""
        if self.workers in (None, RAY):
            return cores()
        return int(self.workers) if re.fullmatch("[0-9]{1,99}", str(self.workers)) else 0

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of languages to train on."""
        pairs = list(dict.fromkeys(map(self.langs_of, self.pair)))
        return pairs or [(self.src_lang, self.tgt_lang)]

    @property
    def texts(self) -> list[tuple[str, tuple[str, str]]]:
        texts = (*(self.train or self.pair), *self.valid, *self.test)
        return [(self.prefix_of(text), self.langs_of(text)) for text in texts]

    @property
    def langs(self) -> tuple[str, str]:
        """Source and target language; "" if there are several."""
        src, tgt = ({pair[side] for pair in self.pairs} for side in (0, 1))
        return ("".join(src) if len(src) == 1 else "", "".join(tgt) if len(tgt) == 1 else "")

    def langs_of(self, text: str) -> tuple[str, str]:
        """Return the languages of a text as it was given."""
        if not self.pair:
            return self.src_lang, self.tgt_lang
        src, _, tgt = text.partition("=")[0].partition("-")
        return src, tgt

    def _file_of(self, text: str) -> str:
        return file_and_columns(self.prefix_of(text))[0]

    def prefix_of(self, text: str) -> str:
        """Return the prefix or file of a text, with its columns, as it was given."""
        return text.partition("=")[2] if self.pair else text

    @property
    def weights(self) -> dict[str, float]:
        """How often an epoch visits each pair, by prefix or file of train, if not once."""
        return {prefix: float(number) for prefix, number in map(name_and_value, self.weight)}

    @property
    def tags(self) -> dict[str, str]:
        """The tag put before each source line, by prefix or file."""
        return dict(map(name_and_value, self.tag))

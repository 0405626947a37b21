"""valid and test sets: nothing is cleaned away, and what cannot be used is named by its line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from nmt.data.corpus import Encoding
from nmt.data.manifest import Settings
from nmt.data.shards import Shard
from nmt.data.vocabulary import learn_vocabulary
from nmt.errors import DataError
from nmt.prepare.cleaning import Cleaner
from nmt.prepare.duplicates import OverlapKeys
from nmt.prepare.encode import BlockEncoder
from nmt.prepare.sources import Sources, SourceText
from nmt.prepare.splits import HeldOutText, SplitWriter
from nmt.prepare.text import BlockDecoder

DECODE = BlockDecoder(Encoding.find("utf-8"), ("en", "de"))
SETTINGS = Settings(src_lang="en", tgt_lang="de", max_length=5)


def text_of(folder: Path, src: list[bytes], tgt: list[bytes]) -> SourceText:
    for lang, lines in (("en", src), ("de", tgt)):
        (folder / f"t.{lang}").write_bytes(b"".join(line + b"\n" for line in lines))
    sources = Sources.survey(
        [], f"{folder}/t", [], langs=("en", "de"), encoding=DECODE.encoding, threads=1
    )
    assert sources.valid is not None
    return sources.valid


@pytest.mark.parametrize(
    ("src", "tgt", "message"),
    [
        ([b"a"] * 19 + [b"b\xff"], [b"x"] * 20, r"t\.en line 20 is not valid utf-8.*fix it"),
        ([b"a", b"b", b"c"], [b"x", b"y", b" \t"], r"t\.de line 3 is blank.*remove the pair"),
        ([], [], r"t\.en and .*t\.de are empty"),
    ],
)
def test_text_is_kept_whole_or_refused_by_line(
    tmp_path: Path, src: list[bytes], tgt: list[bytes], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        HeldOutText.check(text_of(tmp_path, src, tgt), DECODE)


def encoder(*lines: str) -> BlockEncoder:
    vocabulary = learn_vocabulary(lines, vocab_size=270)
    cleaner = Cleaner.of(SETTINGS, held_out=(OverlapKeys.join([]),) * 2)
    return BlockEncoder(
        DECODE, cleaner, (vocabulary.model,), (None, None), duplicates_by="pair", tags=("",)
    )


def test_no_rule_takes_anything_away(tmp_path: Path) -> None:
    src = [b"same", b"same", b"\x07", b"x" * 999, b"10 20"]
    tgt = [b"same", b"same", b"b", b"y", b"10.20"]
    text = HeldOutText.check(text_of(tmp_path, src, tgt), DECODE)
    by = encoder("some text")
    writer = SplitWriter(tmp_path, "valid", token_bytes=by.token_bytes)
    text.encode(by, writer, [tmp_path / "out.en", tmp_path / "out.de"])
    writer.flush()
    shard = Shard.open(tmp_path / "valid.bin")
    assert [shard.line(n) for n in range(len(shard))] == [1, 2, 3, 4, 5]
    assert (tmp_path / "out.en").read_bytes() == b"".join(line + b"\n" for line in src)
    assert (tmp_path / "out.de").read_bytes() == b"".join(line + b"\n" for line in tgt)
    assert (text.record().lines, text.record().kept, dict(text.record().rejected)) == (5, 5, {})


def test_a_tag_becomes_part_of_the_text(tmp_path: Path) -> None:
    source = dataclasses.replace(text_of(tmp_path, [b"one", b"two"], [b"x", b"y"]), tag="<2de>")
    by = encoder("some text")
    writer = SplitWriter(tmp_path, "valid", token_bytes=by.token_bytes)
    text = HeldOutText.check(source, DECODE)
    text.encode(by, writer, [tmp_path / "out.en", tmp_path / "out.de"])
    assert (tmp_path / "out.en").read_text() == "<2de> one\n<2de> two\n"
    assert (tmp_path / "out.de").read_text() == "x\ny\n"
    assert text.record().tag == "<2de>"


def test_a_line_without_tokens_is_refused(tmp_path: Path) -> None:
    # U+2581 is how SentencePiece writes a space, and alone it is none of the text.
    text = HeldOutText.check(text_of(tmp_path, [b"a", "\u2581".encode()], [b"x", b"y"]), DECODE)
    by = encoder("some text")
    writer = SplitWriter(tmp_path, "valid", token_bytes=by.token_bytes)
    with pytest.raises(DataError, match=r"t\.en line 2 has no tokens"):
        text.encode(by, writer, [tmp_path / "out.en", tmp_path / "out.de"])
    assert not (tmp_path / "out.en").exists()


def test_long_lines_are_remembered_to_keep_them_out_of_train(tmp_path: Path) -> None:
    src = [b"short", *[b"a sentence of more than thirty letters"] * 2]
    tgt = [b"ein Satz mit mehr als dreissig Buchstaben", b"kurz", b"auch kurz"]
    text = HeldOutText.check(text_of(tmp_path, src, tgt), DECODE)
    assert [len(keys.keys) for keys in text.keys] == [1, 1]

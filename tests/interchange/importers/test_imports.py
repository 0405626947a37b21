"""Imported models are those of their files: segmentation, numbers, and what is refused.

The models here have random weights. That their probabilities are those of the formulas is in
test_exporters.py, and test_peers.py imports what the other toolkits have made.
"""

import json
import os
import shutil
import struct
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from command_line import Nmt
from foreign_folders import Spoil, changed, renamed, replaced, taken, with_values, without
from foreign_m2m100 import M2M100
from foreign_models import (
    LINES,
    MARIAN,
    TAGS,
    MarianFile,
    MarianModel,
    MarianMT,
    MarianMTFolder,
    assert_same,
    import_huggingface,
    import_marian,
    learn_pieces,
    to_binary,
    write_package,
)
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from nmt.config.model_config import TransformerConfig
from nmt.errors import DataError, UsageError
from nmt.interchange.importers.marian import pieces_by_id
from nmt.interchange.marian_binary import BinaryArrays
from nmt.models.model_file import load_model, model_checksum, read_card


def test_positions_are_marian_s_if_nobody_says_otherwise(nmt: Nmt, tmp_path: Path) -> None:
    _, card = load_model(import_huggingface(nmt, MarianMT().write(tmp_path / "opus")))
    assert isinstance(card.config, TransformerConfig)
    assert card.config.positions == "sinusoidal_halves"
    assert card.max_src_tokens == 511  # of 512 positions, one is for eos


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_lines_are_segmented_as_by_marian(nmt: Nmt, tmp_path: Path, model_type: str) -> None:
    folder = MarianMT(model_type=model_type).write(tmp_path / "opus")
    theirs = MarianMTFolder(folder, "marian")
    _, card = load_model(import_huggingface(nmt, folder))
    tagged = [f"{TAGS[0]} abc", f"{TAGS[1]}gh", f"ab {TAGS[0]}", TAGS[0], ">>xyz<<a", ">> a"]
    lines = [*(line for pair in LINES for line in pair), *tagged, "ßß mß"]
    for side, vocabulary in (("source", card.src_vocabulary), ("target", card.tgt_vocabulary)):
        names = {id_: piece for piece, id_ in theirs.ids[side].items()}
        for line, ids in zip(lines, vocabulary.encode(lines), strict=True):
            pieces = [piece.removeprefix("\ue000") for piece in vocabulary.tokens(ids)]
            assert pieces == [names[id_] for id_ in theirs.segment(line, side)], line


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_a_spelt_special_token_is_text(nmt: Nmt, tmp_path: Path, model_type: str) -> None:
    # No piece has these letters, so SentencePiece leaves them together.
    model = import_huggingface(nmt, MarianMT(model_type=model_type).write(tmp_path / "opus"))
    vocabulary = read_card(model).src_vocabulary
    for ids in vocabulary.encode(["ab </s> cd", "<s>", "ab <UNK>", f"ab {TAGS[0]}"]):
        controls = [vocabulary.has_control(piece) for piece in vocabulary.tokens(ids)]
        assert not any(controls), vocabulary.tokens(ids)


def pickle(folder: Path, is_zip: bool) -> None:
    path = folder / "model.safetensors"
    torch.save(load_file(path), folder / "pytorch_model.bin", _use_new_zipfile_serialization=is_zip)
    path.unlink()


def write_shards(folder: Path, name: str = "model.safetensors") -> None:
    """Write the weights into two files, with the index that transformers writes."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    stem, _, suffix = name.partition(".")
    places = {
        weight: f"{stem}-0000{1 + number % 2}-of-00002.{suffix}"
        for number, weight in enumerate(weights)
    }
    for file in set(places.values()):
        part = {weight: weights[weight] for weight in places if places[weight] == file}
        save = save_file if suffix == "safetensors" else torch.save
        save(part, folder / file)
    (folder / f"{name}.index.json").write_text(json.dumps({"weight_map": places}))


@pytest.mark.parametrize(
    "rewrite",
    [
        partial(pickle, is_zip=True),
        partial(pickle, is_zip=False),  # as torch before 1.6 wrote it
        write_shards,
        partial(write_shards, name="pytorch_model.bin"),
    ],
)
def test_the_weights_of_other_and_several_files_are_the_same(
    nmt: Nmt, tmp_path: Path, rewrite: Callable[[Path], None]
) -> None:
    folder = MarianMT().write(tmp_path / "opus")
    first = model_checksum(import_huggingface(nmt, folder))
    rewrite(folder)
    assert model_checksum(import_huggingface(nmt, folder)) == first


def test_added_tokens_are_split_off_from_text(nmt: Nmt, tmp_path: Path) -> None:
    folder = MarianMT().write(tmp_path / "opus")
    theirs = with_added_tokens(folder, "<term>", "<term>s")
    model = import_huggingface(nmt, folder)
    assert_same(model, LINES, theirs.log_probs)  # their rows have a share in the softmax
    vocabulary = read_card(model).tgt_vocabulary
    ghi, spaced, jkl = vocabulary.encode(["ghi ", " jkl ", "jkl"])
    (term,), (terms,) = vocabulary.encode(["<term>", "<term>s"])
    found = vocabulary.encode(["ghi <term> jkl <term>sjkl", "<term><term>"])
    assert found == [[*ghi, term, *spaced, terms, *jkl], [term, term]]
    assert vocabulary.decode(found) == ["ghi<term> jkl<term>s jkl", "<term><term>"]
    line = nmt("export", "huggingface", model, tmp_path / "out").refusal(2)
    assert "were added" in line


def with_added_tokens(folder: Path, *tokens: str) -> MarianMTFolder:
    """Add tokens and rows to a folder as transformers does, and return its formulas."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    first = len(weights["model.shared.weight"])
    rows = 0.1 * torch.randn(len(tokens), weights["model.shared.weight"].shape[1])
    weights["model.shared.weight"] = torch.cat([weights["model.shared.weight"], rows])
    bias = torch.zeros(1, len(tokens))
    weights["final_logits_bias"] = torch.cat([weights["final_logits_bias"], bias], dim=1)
    save_file(weights, path)
    ids = {token: first + number for number, token in enumerate(tokens)}
    (folder / "added_tokens.json").write_text(json.dumps(ids))
    listed = {str(id_): {"content": token, "special": False} for token, id_ in ids.items()}
    size = first + len(tokens)
    with_values("tokenizer_config.json", added_tokens_decoder=listed)(folder)
    with_values("config.json", vocab_size=size, decoder_vocab_size=size)(folder)
    return MarianMTFolder(folder, "marian")


def test_a_pickle_with_code_is_not_executed(nmt: Nmt, tmp_path: Path) -> None:
    class Malicious:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "executed",)

    folder = MarianMT().write(tmp_path / "opus")
    (folder / "model.safetensors").unlink()
    torch.save({"model.shared.weight": Malicious()}, folder / "pytorch_model.bin")
    line = nmt("import", "huggingface", folder, tmp_path / "out").refusal(1)
    assert "pytorch_model.bin: " in line
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("quantised", "number"), [("", 0), ("_W.?$|Wemb", 0x4101), ("_W.?$", 0x10001)]
)
@pytest.mark.parametrize("kind", ["ssru", "untied"])
def test_a_binary_model_has_the_numbers_that_it_stands_for(
    nmt: Nmt, tmp_path: Path, kind: str, quantised: str, number: int
) -> None:
    path = MARIAN[kind].write(tmp_path / "marian")
    listing = path.with_name("model.npz.decoder.yml")
    binary = to_binary(path, quantised, number)
    names = yaml.safe_load(listing.read_text())["vocabs"]
    vocabularies = [word for name in names for word in ("--vocab", path.with_name(name))]
    languages = ("--src", "en", "--tgt", "de")
    model = import_marian(nmt, binary, *languages, *vocabularies)
    assert_same(model, LINES, MarianFile(path).log_probs)
    if len(set(names)) == 1:
        assert model_checksum(
            import_marian(nmt, binary, *languages, *vocabularies[:2])
        ) == model_checksum(model)


def test_pieces_of_a_list_are_read_as_marian_writes_them(tmp_path: Path) -> None:
    # Keys like numbers, truth values and dates; escapes, YAML's line breaks, and no UTF-8 at all.
    keys = {
        "null": b'"null"', "no": b"no", "0x1F": b"0x1F", "2019-01-01": b"2019-01-01",
        "'": b'"\'"', '"': b'"\\""', "\\": b"\\", "it's": b"'it''s'", "\x80": b'"\\x80"',
        "a:b": b"a:b", "\x85": b"\xc2\x85", "\u2028": b"\xe2\x80\xa8", "\ufeff": b'"\\ufeff"',
        "": b"\xc1\xbf",
    }  # fmt: skip
    lines = [b"%s: %d\n" % (key, id_) for id_, key in enumerate(keys.values())]
    lines[1] = b"? no\n: 1\n"
    path = tmp_path / "vocab.yml"
    path.write_bytes(b"".join(reversed(lines)))
    assert pieces_by_id(path) == {id_: piece for id_, piece in enumerate(keys) if piece}
    (tmp_path / "vocab").write_bytes(b"no\r\n'a'\r\n")
    assert pieces_by_id(tmp_path / "vocab") == {0: "no", 1: "'a'"}


@given(st.data())
def test_any_bytes_are_a_binary_model_or_refused(data: st.DataObject) -> None:
    content = bytearray(SMALL_BINARY)
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(content[: data.draw(st.integers(0, len(content)))])
        file.flush()
        try:
            arrays = BinaryArrays(Path(file.name))
            for name in arrays.files:
                arrays[name]
        except (DataError, UsageError) as error:
            assert str(error).startswith(file.name)


# One array a with the numbers 1 and 2.
SMALL_BINARY = (
    struct.pack("<6Q", 1, 1, 2, 0x4101, 2, 6) + b"a\0" + struct.pack("<2i", 1, 2)
    + struct.pack("<Q", 3) + bytes(3) + b"\1\2" + struct.pack("<f", 1.0)
)  # fmt: skip


def cut(name: str) -> Spoil:
    return changed(name, lambda content: content[: len(content) // 2])


def with_line(line: str) -> Spoil:
    return changed("opus.vocab.yml", lambda content: content + f"{line}\n".encode())


def piped(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        without(name)(folder)
        os.mkfifo(folder / name)

    return spoil


with_config = partial(with_values, "config.json")
with_weights = partial(with_values, "model.safetensors")


def with_options(**options: Any) -> Spoil:
    """Write a model of Marian with other options in place of the one that is there."""
    made = MarianModel(options={name.replace("_", "-"): options[name] for name in options})

    def spoil(folder: Path) -> None:
        shutil.rmtree(folder)
        made.write(folder)

    return spoil


def with_rows(folder: Path) -> None:
    with_added_tokens(folder, *map(str, range(200)))
    without("added_tokens.json")(folder)
    with_values("tokenizer_config.json", added_tokens_decoder=None)(folder)


def without_a_shard(folder: Path) -> None:
    write_shards(folder)
    without("model-00002-of-00002.safetensors")(folder)


def packed(content: bytes) -> bytes:
    """Say that int8 matrices are packed for some processors."""
    packed = bytearray(content)
    (count,) = struct.unpack_from("<Q", packed, 8)
    for at in range(24, 24 + 32 * count, 32):
        if struct.unpack_from("<Q", packed, at)[0] == 0x4101:
            struct.pack_into("<Q", packed, at, 0x1801)
    return bytes(packed)


PIPES = {
    "huggingface": ("config.json", "model.safetensors", "source.spm"),
    "package": ("decoder.yml", "opus.npz.best-perplexity.npz", "opus.vocab.yml", "source.spm"),
    "binary": ("model.bin", "vocab.spm"),
}
FEW_PIECES = partial(learn_pieces, "source", "bpe", 60, bos_id=-1, eos_id=0, unk_id=1)
LACKING = "model.encoder.layers.1.fc1.weight"
DAMAGED: list[tuple[str, Spoil, str]] = [
    ("huggingface", without("config.json"), "config.json: no"),
    ("huggingface", without("model.safetensors"), "model.safetensors: no"),
    ("huggingface", cut("model.safetensors"), "model.safetensors: damaged"),
    ("huggingface", taken("model.safetensors", LACKING), f"lacks {LACKING}"),
    ("huggingface", with_config(d_model=32), "its sizes"),
    ("huggingface", with_values("vocab.json", a=10**4), "embeddings for"),
    *((kind, piped(name), f"{name}: not a file") for kind in PIPES for name in PIPES[kind]),
    ("huggingface", without_a_shard, "00002.safetensors: no"),
    ("huggingface", with_values("added_tokens.json", a=0), "the id of 'a' is 0"),
    ("huggingface", renamed("config.json", "adapter_config.json"), "adapter_config.json: "),
    ("huggingface", with_rows, "embeddings for"),
    ("nllb", with_values("tokenizer.json", model={"vocab": []}), "tokenizer.json: damaged"),
    ("m2m100", without("vocab.json"), "imports Hugging Face"),
    # New folders do not list their languages, which are then taken to be a hundred.
    ("m2m100", without("special_tokens_map.json"), "embeddings for"),
    ("marian", without("model.npz.decoder.yml"), "decoder.yml: no"),
    ("marian", cut("model.npz"), "model.npz: damaged"),
    ("marian", taken("model.npz", "encoder_l2_ffn_W1"), "lacks encoder_l2_ffn_W1"),
    ("marian", with_values("model.npz", Wemb=np.array([Path()], dtype=object)), "Wemb cannot"),
    ("marian", changed("vocab.spm", lambda _: FEW_PIECES()), "vocab.spm: has 60 "),
    ("package", with_line("a: b"), "opus.vocab.yml: damaged: 'a: b'"),
    ("package", with_line("more: 99999"), "has 100,000 "),
    ("package", without("decoder.yml"), "one decoder.yml"),
    ("binary", cut("model.bin"), "model.bin: damaged"),
]
INT8, POSITIONS = torch.ones(1, 9, dtype=torch.int8), "model.encoder.embed_positions.weight"
OTHER_MODELS: list[tuple[str, Spoil, str]] = [
    ("huggingface", with_config(model_type="bart"), "model_type is 'bart'"),
    ("huggingface", with_config(scale_embedding=False), "scale_embedding is False"),
    ("huggingface", with_config(static_position_embeddings=False), "position_embeddings is False"),
    ("huggingface", with_config(decoder_attention_heads=4), "decoder_attention_heads is 4"),
    ("nllb", with_config(model_type="nllb-moe"), "model_type is 'nllb-moe'"),
    ("nllb", with_config(decoder_start_token_id=0), "decoder_start_token_id is 0"),
    ("marian", with_options(transformer_decoder_autoreg="average-attention"), "average-attention"),
    ("marian", with_options(transformer_tied_layers=[1, 1]), "transformer-tied-layers is [1, 1]"),
    ("marian", with_options(type="s2s"), "type is 's2s'"),
    ("marian", with_options(transformer_decoder_autoreg="rnn"), "dec-cell is 'gru'"),
    ("huggingface", with_config(activation_function=[]), "activation_function is []"),
    ("huggingface", with_config(model_type=None, architectures=["BartModel"]), "['BartModel']"),
    ("huggingface", replaced("adapter_config.json", b"{}"), "adapter_config.json"),
    ("huggingface", with_weights(**{"lora_A.weight": torch.ones(2, 2)}), "has lora_A.weight"),
    ("huggingface", with_weights(final_logits_bias=INT8), "int8"),
    ("huggingface", with_weights(**{POSITIONS: torch.ones(512, 16)}), "embed_positions"),
    ("package", renamed("source.spm", "source.bpe"), "source.bpe: "),
    ("package", replaced("source.tcmodel", b"a"), "source.tcmodel: "),
    ("binary", changed("model.bin", packed), "type 0x1801"),
]


@pytest.mark.parametrize(
    ("kind", "spoil", "named", "status"),
    [*((*row, 1) for row in DAMAGED), *((*row, 2) for row in OTHER_MODELS)],
)
def test_a_damaged_or_other_model_is_refused_in_one_line(
    nmt: Nmt, tmp_path: Path, kind: str, spoil: Spoil, named: str, status: int
) -> None:
    folder, form, more = tmp_path / "theirs", "huggingface", list[str | Path]()
    match kind:
        case "huggingface":
            path = MarianMT().write(folder)
        case "nllb" | "m2m100":
            path = M2M100(kind).write(folder)
        case _:
            form, more = "marian", ["--src", "en", "--tgt", "de"]
            path = MarianModel().write(folder)
    if kind == "package":
        path = folder = write_package(tmp_path / "package", MarianMT().write(tmp_path / "opus"))
    if kind == "binary":
        path, more = to_binary(path), [*more, "--vocab", folder / "vocab.spm"]
    spoil(folder)
    assert named in nmt("import", form, path, tmp_path / "out", *more).refusal(status)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("made", "file", "key", "value"),
    [
        # What transformers computes by.
        (MarianMT(), "config.json", "quantization_config", {"load_in_8bit": True}),
        (MarianMT(), "config.json", "architectures", ["MarianForCausalLM"]),
        (M2M100(), "config.json", "normalize_before", False),
        # What it must and must not produce.
        (MarianMT(), "config.json", "forced_bos_token_id", 5),
        (MarianMT(), "generation_config.json", "bad_words_ids", [[5]]),
        # How it reads text.
        (MarianMT(), "tokenizer_config.json", "tokenizer_class", "T5Tokenizer"),
        (MarianMT(), "special_tokens_map.json", "unk_token", {"content": "[UNK]"}),
        (M2M100(), "tokenizer_config.json", "legacy_behaviour", True),
    ],
)
def test_a_value_that_would_change_translations_is_refused_by_its_key(
    nmt: Nmt, tmp_path: Path, made: MarianMT | M2M100, file: str, key: str, value: object
) -> None:
    folder = made.write(tmp_path / "theirs")
    with_values(file, **{key: value})(folder)
    line = nmt("import", "huggingface", folder, tmp_path / "out").refusal(2)
    assert file in line and key in line
    assert not (tmp_path / "out").exists()


def test_what_published_folders_say_besides_is_harmless(nmt: Nmt, tmp_path: Path) -> None:
    folder = MarianMT().write(tmp_path / "opus")
    first = model_checksum(import_huggingface(nmt, folder))
    pad = json.loads((folder / "vocab.json").read_text("utf-8"))["<pad>"]
    of_config = {
        "add_bias_logits": False, "add_final_layer_norm": False, "architectures": ["MarianMTModel"],
        "bad_words_ids": [[pad]], "bos_token_id": 0, "classif_dropout": 0.0,
        "extra_pos_embeddings": 58101, "forced_eos_token_id": 0, "id2label": {"0": "LABEL_0"},
        "max_length": 512, "normalize_before": False, "normalize_embedding": False, "num_beams": 4,
        "prefix": None, "static_position_embeddings": True, "torch_dtype": "float16",
    }  # fmt: skip
    with_config(**of_config)(folder)
    generation = {"max_length": 512, "num_beams": 6, "renormalize_logits": True}
    with_values("generation_config.json", bad_words_ids=[[pad]], **generation)(folder)
    tokenizer = {"tokenizer_class": "MarianTokenizer", "sp_model_kwargs": {}, "backend": "custom"}
    listed = {str(pad): {"content": "<pad>", "special": True, "single_word": False}}
    with_values("tokenizer_config.json", added_tokens_decoder=listed, **tokenizer)(folder)
    with_values("special_tokens_map.json", eos_token="</s>", unk_token={"content": "<unk>"})(folder)
    for name in ("README.md", "tf_model.h5", "training_args.bin", "train.py"):
        (folder / name).touch()
    assert model_checksum(import_huggingface(nmt, folder)) == first

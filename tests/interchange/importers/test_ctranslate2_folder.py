"""Folders of CTranslate2; test_toolkits.py says that they score and translate as there."""

import itertools
import json
import math
import re
import shutil
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
import torch
from command_line import Nmt, write
from foreign_folders import (
    BY_PIECES,
    CODES,
    FOLDERS,
    LANGS,
    SEGMENTERS,
    Importer,
    Spoil,
    changed,
    config_of,
    copied,
    edited,
    put,
    replaced,
    without,
)
from foreign_m2m100 import M2M100
from foreign_models import import_huggingface
from numpy.typing import NDArray
from torch import Tensor

from nmt.config.model_config import TransformerConfig
from nmt.data.moses import Moses
from nmt.data.vocabulary import Vocabulary
from nmt.models.model_file import load_model, read_card, write_model

POST, APART = FOLDERS / "ctranslate2" / "post", FOLDERS / "ctranslate2" / "apart"
WRITTEN = FOLDERS.parents[1] / "written_before" / "model.safetensors"
WORDS = (*LANGS, "--vocab", CODES)
LINEAR, NORM = "encoder/layer_0/ffn/linear_0/weight", "encoder/layernorm_embedding/gamma"
NO_NUMBERS = np.full((128, 64), math.nan, "<f4")
PIECES = "shared_vocabulary.json"
ALONE = ("--workers", "1", "--threads", "1", "--no-guard", "--beam-size", "1")
TYPES = ("<f4", "<i1", "<i2", "<i4", "<f2", "<u2")


@dataclass
class Binary:
    """A `model.bin`, read and written by what `ctranslate2.specs.model_spec` does."""

    version: int
    specification: str
    variables: dict[str, NDArray[Any]]
    aliases: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> "Binary":
        content, place = path.read_bytes(), 0

        def take(form: str) -> tuple[Any, ...]:
            nonlocal place
            place += struct.calcsize(form)
            return struct.unpack_from(form, content, place - struct.calcsize(form))

        def name() -> str:
            return str(take(f"<{take('<H')[0]}s")[0][:-1].decode())

        (version,), specification, (_, count) = take("<I"), name(), take("<2I")
        variables = {}
        for _ in range(count):
            named, shape = name(), take(f"<{take('<B')[0]}I")
            kind, size = take("<BI")
            variables[named] = np.frombuffer(take(f"<{size}s")[0], TYPES[kind]).reshape(shape)
        return cls(version, specification, variables, {name(): name() for _ in range(*take("<I"))})

    def write(self, path: Path) -> None:
        def name(text: str) -> bytes:
            return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

        parts = [struct.pack("<I", self.version), name(self.specification)]
        parts.append(struct.pack("<2I", 7, len(self.variables)))
        for named, values in self.variables.items():
            kind = TYPES.index(values.dtype.str.replace("|", "<"))
            parts.append(name(named) + struct.pack(f"<B{values.ndim}I", values.ndim, *values.shape))
            sizes = (values.itemsize, values.size) if self.version < 4 else (kind, values.nbytes)
            parts.append(struct.pack("<BI", *sizes) + values.tobytes())
        if self.version > 2:
            parts.append(struct.pack("<I", len(self.aliases)))
            parts += [name(alias) + name(named) for alias, named in self.aliases.items()]
        path.write_bytes(b"".join(parts))


Change = Callable[[Binary], object]


def in_binary(change: Change) -> Spoil:
    """Change model.bin."""

    def spoil(folder: Path) -> None:
        binary = Binary.read(folder / "model.bin")
        change(binary)
        binary.write(folder / "model.bin")

    return spoil


def importing(nmt: Nmt, folder: Path, out: Path) -> Path:
    nmt("import", "ctranslate2", folder, out).succeeded()
    return out


def translated(nmt: Nmt, model: Path, *words: str) -> str:
    words = (*ALONE, *words)
    return nmt("translate", model, "--input", POST / "source.txt", *words).succeeded().stdout


def same_weights(ours: Path, theirs: Path) -> bool:
    """Whether a model has all weights of another, but for an embedding that nobody reads."""
    mine, others = (dict(load_model(path)[0].named_parameters()) for path in (ours, theirs))
    mine.pop("output_bias", None)  # bars pieces in exports
    return all(
        torch.equal(weight[3:], others[name][3:])
        if "tgt_emb" in name
        else weight.equal(others[name])
        for name, weight in mine.items()
    )


@pytest.mark.parametrize(
    "values",
    [
        {"pre_norm": True, "norm": "rms", "feed_forward": "swiglu", "positions": "rotary"},
        {
            "positions": "learned",
            "max_positions": 60,
            "source_end": False,
            "tie_embeddings": "none",
        },
        {"positions": "sinusoidal_halves", "first_position": 2, "first_input": "eos"},
        {"tie_embeddings": "decoder", "feed_forward": "gelu", "attention_bias": True},
    ],
)
def test_an_export_comes_back_as_it_was(nmt: Nmt, tmp_path: Path, values: dict[str, Any]) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    config = TransformerConfig(
        num_encoder_layers=2, num_decoder_layers=1, d_model=16, d_ff=24, num_heads=2, **values
    )
    rules = Moses("en", normalize=False, tokenize=True)
    card = read_card(WRITTEN)
    moses = Vocabulary(card.src_vocabulary.model, rules)
    card = replace(card, config=config, src_vocabulary=moses, tgt_vocabulary=moses)
    weights: dict[str, Tensor] = dict(card.build().named_parameters())
    for name, weight in weights.items():
        if "bias" in name:  # those of zeros are left out
            torch.nn.init.normal_(weight)
    write_model(tmp_path / "model", card, weights)
    nmt("export", "ctranslate2", tmp_path / "model", tmp_path / "export").succeeded()
    back = importing(nmt, tmp_path / "export", tmp_path / "back.safetensors")
    assert same_weights(tmp_path / "model", back)
    found = read_card(back)
    differing = ("dropout", "norm_epsilon", "output_bias")  # which exports lack, or spell out
    assert asdict(config_of(back)) == asdict(config) | dict.fromkeys(differing, ANY)
    assert (found.src_lang, found.tgt_lang) == (card.src_lang, card.tgt_lang)
    assert found.src_vocabulary.moses == rules
    words = ("import", "ctranslate2", tmp_path / "export", tmp_path / "other")
    assert "--vocab" in nmt(*words, "--vocab", CODES).refusal(2)


@pytest.mark.parametrize("kind", ["int8", "int16", "float16", "bfloat16", "int8_float16"])
def test_rounded_weights_are_what_they_stand_for(nmt: Nmt, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    nmt("export", "ctranslate2", WRITTEN, tmp_path / kind, "--quantization", kind).succeeded()
    done = nmt("import", "ctranslate2", tmp_path / kind, tmp_path / "back").succeeded()
    assert f"rounded to {kind.partition('_')[0]}" in done.stderr
    models = [load_model(path)[0] for path in (WRITTEN, tmp_path / "back")]
    before, after = (dict(model.named_parameters())["encoder.0.attention.qkv"] for model in models)
    allowed = 0.004 * before.abs().amax(dim=1, keepdim=True)
    assert not before.equal(after)
    assert ((before - after).abs() <= allowed).all()


def test_the_tokens_of_languages_are_chosen(nmt: Nmt, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    nllb = import_huggingface(nmt, M2M100().write(tmp_path / "nllb"))
    nmt("export", "ctranslate2", nllb, tmp_path / "export").succeeded()
    models = [nllb, importing(nmt, tmp_path / "export", tmp_path / "card.safetensors")]
    for name in ("export.json", "card.safetensors"):
        (tmp_path / "export" / name).unlink()
    models.append(importing(nmt, tmp_path / "export", tmp_path / "pieces.safetensors"))
    pairs = [
        ("--from", "eng_Latn", "--to", lang, "--max-tokens", "9")
        for lang in ("deu_Latn", "zho_Hans")
    ]
    first, *others = ([translated(nmt, model, *pair) for pair in pairs] for model in models)
    assert first[0] != first[1]
    assert others == [first, first]
    words = ("import", "ctranslate2", tmp_path / "export", tmp_path / "out", "--src", "fra_Latn")
    assert "--src" in nmt(*words).refusal(2)


def test_a_package_of_argos_names_segmenters(nmt: Nmt, importer: Importer, tmp_path: Path) -> None:
    package = tmp_path / "translate-en_de-1_0"
    shutil.copytree(POST, package / "model")
    shutil.copy(CODES, package / "bpe.model")
    metadata = {"from_code": "en", "to_code": "de"}
    (package / "metadata.json").write_text(json.dumps(metadata))
    moses = ("--moses-normalize", "--moses-tokenize", "--moses-escape")
    explicit = translated(nmt, importer.model(POST, words=(*WORDS, *moses)))
    for folder in (package, package / "model"):
        found = importing(nmt, folder, tmp_path / f"{folder.name}.safetensors")
        assert translated(nmt, found) == explicit
    (package / "metadata.json").write_text(json.dumps(metadata | {"target_prefix": "__de__"}))
    assert "target_prefix" in nmt("import", "ctranslate2", package, tmp_path / "b").refusal(2)


def test_an_argos_package_of_nmt_comes_back(nmt: Nmt, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    out = tmp_path / "en_de.argosmodel"
    nmt("export", "argos", WRITTEN, out, "--quantization", "float32").succeeded()
    shutil.unpack_archive(out, tmp_path, "zip")
    (folder,) = tmp_path.glob("translate-*")
    back = importing(nmt, folder, tmp_path / "back.safetensors")
    assert "unpacked" in nmt("import", "ctranslate2", out, tmp_path / "zip").refusal(2)
    lines = [translated(nmt, model, "--max-tokens", "9") for model in (back, WRITTEN)]
    assert lines[0] == lines[1]


def test_segmenters_beside_the_model_are_found(nmt: Nmt, importer: Importer) -> None:
    assert "--vocab spm.model" in importer.refusal(2, APART)
    beside = (copied(SEGMENTERS[0], "source.spm"), copied(SEGMENTERS[1], "target.spm"))
    models = importer.model(APART, *beside), importer.model(APART, words=(*LANGS, *BY_PIECES))
    assert len({translated(nmt, model) for model in models}) == 1


def as_of_2021(binary: Binary) -> None:
    """Change a model into one of version 5, whose settings were variables."""
    binary.version = 5
    values = {"with_source_eos": 1, "with_target_bos": 0}
    binary.variables |= {name: np.array(value, "<i1") for name, value in values.items()}
    binary.variables["eos_token"] = np.frombuffer(b"</s>", "<i1")
    for name in ("num_heads", "pre_norm", "activation"):
        binary.variables[name] = binary.variables.pop(f"encoder/{name}")
        del binary.variables[f"decoder/{name}"]
    rename = {"encoder/embeddings_0/weight": "encoder/embeddings/weight"}
    binary.aliases = {rename.get(a, a): rename.get(b, b) for a, b in binary.aliases.items()}
    binary.variables = {rename.get(name, name): one for name, one in binary.variables.items()}


def as_of_2019(binary: Binary) -> None:
    """Change a model into one of version 2, which stored equal variables twice."""
    as_of_2021(binary)
    binary.version, binary.specification = 2, "TransformerBase"
    binary.variables |= {alias: binary.variables[name] for alias, name in binary.aliases.items()}
    del binary.variables["num_heads"]


def write_pieces_as_text(folder: Path) -> None:
    pieces = folder / PIECES
    write(pieces.with_suffix(".txt"), json.loads(pieces.read_text()))
    pieces.unlink()


@pytest.mark.parametrize(("change", "heads"), [(as_of_2021, 4), (as_of_2019, 8)])
def test_models_of_earlier_years_are_read(importer: Importer, change: Change, heads: int) -> None:
    spoils = (in_binary(change), without("config.json"), write_pieces_as_text)
    old, new = importer.model(POST, *spoils, words=WORDS), importer.model(POST, words=WORDS)
    assert same_weights(old, new)
    assert config_of(old) == replace(config_of(new), num_heads=heads)


def sines_apart(binary: Binary) -> None:
    """Reorder the residual stream so that the paper's sines come before its cosines."""
    width = 64
    paper = np.arange(256)[:, None] / 10_000 ** (np.arange(0, width, 2) / width)
    table = np.stack([np.sin(paper), np.cos(paper)], axis=-1).reshape(256, width)
    binary.variables["decoder/position_encodings/encodings"] = table.astype("<f4")
    order = np.arange(width).reshape(-1, 2).T.reshape(-1)
    reads = (
        r".*(embeddings.*|projection|attention/linear_0|/attention/linear_1|ffn/linear_0)/weight"
    )
    for name, values in binary.variables.items():
        if re.fullmatch(reads, name) or "encodings" in name:
            binary.variables[name] = values[:, order]
        elif values.ndim and re.search(
            r"norm|self_attention/linear_1|/attention/linear_2|ffn/linear_1", name
        ):
            binary.variables[name] = values[order]


def paper_only(binary: Binary) -> None:
    """Take the paper's positions in their own order."""
    sines_apart(binary)
    back = np.arange(64).reshape(2, -1).T.reshape(-1)
    table = binary.variables["decoder/position_encodings/encodings"][:, back]
    original = Binary.read(POST / "model.bin")
    binary.variables = original.variables | {"decoder/position_encodings/encodings": table}


def test_a_residual_stream_in_another_order_is_put_into_ours(importer: Importer) -> None:
    models = [importer.model(POST, in_binary(change)) for change in (sines_apart, paper_only)]
    assert all(config_of(model).positions == "sinusoidal" for model in models)
    assert same_weights(*models)


def without_tables(binary: Binary) -> None:
    """Leave out the positions, as OpenNMT-tf does."""
    del binary.variables["decoder/position_encodings/encodings"]
    del binary.aliases["encoder/position_encodings/encodings"]


def relative(binary: Binary) -> None:
    """Give each layer vectors for distances up to 3, in place of positions."""
    without_tables(binary)
    for side, layer, kind in itertools.product(("encoder", "decoder"), (0, 1), ("keys", "values")):
        name = f"{side}/layer_{layer}/self_attention/relative_position_{kind}"
        binary.variables[name] = np.full((7, 16), len(name), "<f4")


def unscaled(binary: Binary) -> None:
    """Do not multiply embeddings by the root of their width, which is 8."""
    for side in ("encoder", "decoder"):
        binary.variables[f"{side}/scale_embeddings"] = np.array(1.0, "<f4")


@pytest.mark.parametrize(
    ("change", "values"),
    [
        (without_tables, {"positions": "sinusoidal_halves", "first_position": 1}),
        (relative, {"positions": "relative", "max_relative_distance": 3}),
        (unscaled, {"positions": "sinusoidal_halves", "first_position": 2}),
    ],
)
def test_positions_and_scales_are_those_of_the_model(
    importer: Importer, change: Change, values: dict[str, Any]
) -> None:
    found, usual = importer.model(POST, in_binary(change)), importer.model(POST)
    assert values.items() <= asdict(config_of(found)).items()
    ours, theirs = (dict(load_model(path)[0].named_parameters()) for path in (usual, found))
    factor = 8.0 if change is unscaled else 1.0
    table = ours["output_projection"]
    assert torch.equal(theirs["output_projection"], table)
    assert torch.allclose(theirs.get("src_embedding.weight", table / factor) * factor, table)
    if change is relative:
        vectors = theirs["decoder.1.attention.relative.values"]
        name = "decoder/layer_1/self_attention/relative_position_values"
        assert vectors.equal(torch.full_like(vectors, len(name)))


def variables(**values: NDArray[Any]) -> Spoil:
    return in_binary(lambda binary: binary.variables.update(values))


def setting(name: str, value: int) -> Spoil:
    return variables(**{name: np.array(value, "<i1")})


def config(key: str, value: object) -> Spoil:
    return put("config.json", value, key)


def use_gelu_tanh(binary: Binary) -> None:
    for side in ("encoder", "decoder"):
        binary.variables[f"{side}/activation"] = np.array(1, "<i1")


def numbered(pieces: bytes) -> bytes:
    """Pieces as a vocab.json lists them."""
    return json.dumps({piece: id_ for id_, piece in enumerate(json.loads(pieces))}).encode()


@pytest.mark.parametrize(
    ("spoil", "status", "said"),
    [
        (setting("decoder/activation", 4), 2, "GELUSigmoid"),
        (in_binary(use_gelu_tanh), 2, "GELUTanh"),
        (setting("decoder/num_heads", 8), 2, "num_heads"),
        (setting("decoder/alibi", 1), 2, "alibi"),
        (setting("encoder/multi_query_attention", 1), 2, "multi_query_attention"),
        (setting("decoder/final_logit_softcapping", 30), 2, "final_logit_softcapping"),
        (config("decoder_start_token", None), 2, "decoder_start_token"),
        (config("add_source_bos", True), 2, "add_source_bos"),
        (config("quantization_type", 1), 2, "quantization_type"),
        (config("eos_token", "<end>"), 2, "<end>"),
        (config("decoder_start_token", "<start>"), 2, "<start>"),
        (in_binary(lambda binary: setattr(binary, "version", 7)), 2, "version 7"),
        (in_binary(lambda binary: setattr(binary, "specification", "Whisper")), 2, "Whisper"),
        (in_binary(lambda binary: binary.variables.pop(LINEAR)), 1, "lacks"),
        (variables(**{NORM: np.ones(64, "<f4")}), 2, "layernorm_embedding"),
        (variables(**{LINEAR: np.ones(64, "<f4")}), 1, "damaged"),
        (variables(**{LINEAR: NO_NUMBERS}), 1, "encoder.0.feed_forward.inner.weight"),
        (edited(PIECES, lambda pieces: pieces.pop(0)), 1, PIECES),
        (changed(PIECES, numbered), 1, PIECES),
        (replaced(PIECES, b"7"), 1, PIECES),
        (replaced(PIECES, b"null"), 1, PIECES),
        *((without(name), 1, name) for name in (PIECES, "config.json", "model.bin")),
        (changed("model.bin", lambda content: content[:-9]), 1, "model.bin"),
        (changed("model.bin", lambda content: content[:900]), 1, "model.bin"),
        (changed("model.bin", lambda content: content + b"\0"), 1, "model.bin"),
        (changed("model.bin", lambda content: content[:4] + b"\xff" * 99), 1, "model.bin"),
        (replaced("model.bin", b""), 1, "model.bin"),
    ],
)
def test_other_models_are_refused(importer: Importer, spoil: Spoil, status: int, said: str) -> None:
    assert said in importer.refusal(status, POST, spoil, words=WORDS)


def test_languages_must_be_named(importer: Importer) -> None:
    assert "--src and --tgt" in importer.refusal(2, POST, words=())


def test_sources_end_with_eos_if_translations_begin_with_it(importer: Importer) -> None:
    """The converter of transformers leaves that to the tokenizer, and says that it is not so."""
    assert config_of(importer.model(POST, config("add_source_eos", False))).source_end

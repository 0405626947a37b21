"""Models of other toolkits with random weights, by NumPy and safetensors only, and their formulas.

The files are as transformers and Marian write them. The formulas read those files, not ours. At the
end is what the tests of imports share.
"""

import io
import json
import math
import random
import re
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
import yaml
from command_line import Nmt, write
from numpy.typing import NDArray
from pairs import batch_of
from reference import sinusoids_by_halves
from safetensors.numpy import load_file, save_file

from nmt.models.model_file import load_model

Array = NDArray[np.floating[Any]]

WIDTH, INNER, HEADS, LAYERS = 16, 24, 2, 2
TAGS = (">>fra<<", ">>deu_Latn<<")
LETTERS = {"source": "abcdefghijkl", "target": "ghijklmnopqrß"}


def text(side: str, lines: int = 400) -> list[str]:
    """Lines of made-up words from the letters of a side."""
    drawn = random.Random(side)
    words = ["".join(drawn.choices(LETTERS[side], k=drawn.randint(1, 6))) for _ in range(150)]
    return [" ".join(drawn.choices(words, k=drawn.randint(2, 8))) for _ in range(lines)]


def learn_pieces(side: str, model_type: str, vocab_size: int = 90, **settings: Any) -> bytes:
    """Return a SentencePiece model as others learn it: without a pad, unk first."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text(side)),
        model_writer=model,
        model_type=model_type,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        minloglevel=9,
        num_threads=1,
        **settings,
    )
    return model.getvalue()


@dataclass(frozen=True)
class MarianMT:
    """What a folder of `MarianMTModel` is made of."""

    activation: str = "swish"
    model_type: str = "unigram"
    joint: bool = True
    tied: bool = True
    start: str = "<pad>"
    without_id: int = 4
    """Pieces of the segmenters that vocab.json lacks."""
    config: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write the folder."""
        folder.mkdir()
        sides = {side: learn_pieces(side, self.model_type) for side in ("source", "target")}
        for side, model in sides.items():
            (folder / f"{side}.spm").write_bytes(model)
        groups = [("source", "target")] if self.joint else [("source",), ("target",)]
        sizes = []
        for group in groups:
            name = "vocab.json" if group[0] == "source" else "target_vocab.json"
            sizes.append(self._write_ids(folder / name, [sides[side] for side in group]))
        ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        config = {
            "model_type": "marian",
            "activation_function": self.activation,
            "d_model": WIDTH,
            "dropout": 0.1,
            "pad_token_id": ids["<pad>"],
            "eos_token_id": ids["</s>"],
            "decoder_start_token_id": ids[self.start],
            "max_position_embeddings": 512,
            "scale_embedding": True,
            "share_encoder_decoder_embeddings": self.joint,
            "tie_word_embeddings": self.tied,
            "vocab_size": sizes[0],
            "decoder_vocab_size": sizes[-1],
        }
        for side in ("encoder", "decoder"):
            config |= {f"{side}_layers": LAYERS, f"{side}_attention_heads": HEADS}
            config[f"{side}_ffn_dim"] = INNER
        (folder / "config.json").write_text(json.dumps(config | self.config))
        tokenizer = {"source_lang": "en", "target_lang": "de", "separate_vocabs": not self.joint}
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
        save_file(self._weights(sizes, ids["<pad>"]), folder / "model.safetensors")
        return folder

    def _write_ids(self, path: Path, models: Sequence[bytes]) -> int:
        processors = [sentencepiece.SentencePieceProcessor(model_proto=model) for model in models]
        found = [p.id_to_piece(i) for p in processors for i in range(p.get_piece_size())]
        pieces = [piece for piece in dict.fromkeys(found) if piece not in ("<unk>", "<s>", "</s>")]
        lacking = [piece for piece in pieces if len(piece) > 2][5 : 5 + self.without_id]
        random.Random(1).shuffle(pieces)
        pieces = ["</s>", "<unk>", *(p for p in pieces if p not in lacking), *TAGS, "<pad>"]
        ids = {piece: id_ for id_, piece in enumerate(pieces)}
        path.write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
        return len(ids)

    def _weights(self, sizes: Sequence[int], pad: int) -> dict[str, NDArray[np.float32]]:
        matrix = random_matrices(seed=3)
        weights = {"final_logits_bias": matrix(1, sizes[-1])}
        if self.joint and self.tied:
            weights["model.shared.weight"] = matrix(sizes[0], WIDTH)
        else:
            for side, size in (("encoder", sizes[0]), ("decoder", sizes[-1])):
                weights[f"model.{side}.embed_tokens.weight"] = matrix(size, WIDTH)
        for name in [name for name in weights if "weight" in name]:
            weights[name][pad] = 0.0
        if not self.tied:
            weights["lm_head.weight"] = matrix(sizes[-1], WIDTH)
        return weights | layers(matrix)


def random_matrices(seed: int) -> Callable[..., NDArray[np.float32]]:
    """Return a function from a shape to a random matrix."""
    drawn = np.random.default_rng(seed)
    return lambda *shape: drawn.normal(0, 0.35, shape).astype(np.float32)


def layers(matrix: Callable[..., NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Return the weights and biases of all layers of Hugging Face's."""
    weights = {}
    for side, kinds in (("encoder", ["self"]), ("decoder", ["self", "encoder"])):
        attention = [f"{kind}_attn" for kind in kinds]
        shapes = {"fc1": (INNER, WIDTH), "fc2": (WIDTH, INNER)}
        for name in attention:
            shapes |= {f"{name}.{part}_proj": (WIDTH, WIDTH) for part in ("q", "k", "v", "out")}
        for layer in range(LAYERS):
            at = f"model.{side}.layers.{layer}"
            for name, shape in shapes.items():
                weights[f"{at}.{name}.weight"] = matrix(*shape)
                weights[f"{at}.{name}.bias"] = matrix(shape[0])
            for name in (*(f"{one}_layer_norm" for one in attention), "final_layer_norm"):
                weights[f"{at}.{name}.weight"] = 1 + matrix(WIDTH)
                weights[f"{at}.{name}.bias"] = matrix(WIDTH)
    return weights


class Formulas:
    """A Transformer by its equations, on weights by Hugging Face's names."""

    weights: dict[str, Any]
    activation = "relu"
    pre_norm = False
    epsilon = 1e-5

    def stack(self, side: str, x: Array, memory: Array | None) -> Array:
        """Return the states of the encoder (T, D), or of the decoder that sees a memory (S, D)."""
        for layer in range(LAYERS):
            x = self._layer(f"model.{side}.layers.{layer}", x, memory)
        return self._norm(f"model.{side}.layer_norm", x) if self.pre_norm else x

    def _layer(self, at: str, x: Array, memory: Array | None) -> Array:
        causal = np.tril(np.ones((len(x), len(x)), bool)) if memory is not None else None
        name = f"{at}.self_attn"
        x = self._residual(name, x, lambda y: self.attend(f"{at}.self_attn", y, y, causal))
        if memory is not None:
            name = f"{at}.encoder_attn"
            x = self._residual(name, x, lambda y: self.attend(name, y, memory, None))
        return self._residual(f"{at}.final", x, lambda y: self._feed_forward(at, y))

    def _residual(self, name: str, x: Array, sublayer: Callable[[Array], Array]) -> Array:
        norm = f"{name}_layer_norm"
        if self.pre_norm:
            return np.asarray(x + sublayer(self._norm(norm, x)))
        return self._norm(norm, x + sublayer(x))

    def _norm(self, name: str, x: Array) -> Array:
        x = x - x.mean(1, keepdims=True)
        x = x / np.sqrt((x**2).mean(1, keepdims=True) + self.epsilon)
        return np.asarray(x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"])

    def _linear(self, name: str, x: Array) -> Array:
        return np.asarray(x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"])

    def _feed_forward(self, at: str, x: Array) -> Array:
        return self._linear(f"{at}.fc2", ACTIVATIONS[self.activation](self._linear(f"{at}.fc1", x)))

    def attend(self, name: str, x: Array, y: Array, mask: NDArray[np.bool_] | None) -> Array:
        """Scaled dot-product attention by heads, of one sentence."""
        sides = (("q", x), ("k", y), ("v", y))
        parts = [self._linear(f"{name}.{part}_proj", of) for part, of in sides]
        found = []
        for q, k, v in zip(*(np.split(part, HEADS, axis=1) for part in parts), strict=True):
            scores = q @ k.T / math.sqrt(q.shape[1])
            if mask is not None:
                scores = np.where(mask, scores, -np.inf)
            weights = np.exp(scores - scores.max(1, keepdims=True))
            found.append(weights / weights.sum(1, keepdims=True) @ v)
        return self._linear(f"{name}.out_proj", np.concatenate(found, axis=1))


def of_tokens(logits: Array, tokens: Sequence[int]) -> Array:
    """Return the log-probabilities of tokens by logits (tokens, V)."""
    found = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return np.asarray(found[np.arange(len(tokens)), tokens])


class MarianMTFolder(Formulas):
    """The formulas of `MarianMTModel`, and of its tokenizer, on the files of a folder."""

    def __init__(self, folder: Path, positions: str) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = load_file(folder / "model.safetensors")
        joint = self.config["share_encoder_decoder_embeddings"]
        names = {"source": "vocab.json", "target": "vocab.json" if joint else "target_vocab.json"}
        self.ids = {s: json.loads((folder / name).read_text("utf-8")) for s, name in names.items()}
        self._pieces = {
            side: sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
            for side in names
        }
        self._halves = positions == "marian"
        self.activation = self.config["activation_function"]

    def segment(self, line: str, side: str) -> list[int]:
        """Ids without eos, as `MarianTokenizer` finds them."""
        code, rest = [], line
        if line.startswith(">>") and "<<" in line:
            end = line.index("<<") + 2
            code, rest = [line[:end]], line[end:]
        pieces = code + self._pieces[side].encode(rest, out_type=str)
        ids = self.ids[side]
        return [ids.get(piece, ids["<unk>"]) for piece in pieces]

    def log_probs(self, source: str, target: str) -> Array:
        """Return the log-probabilities of each token of a target and of eos."""
        eos = self.config["eos_token_id"]
        src = [*self.segment(source, "source"), eos]
        tgt = [*self.segment(target, "target"), eos]
        start = self.config["decoder_start_token_id"]
        memory = self.stack("encoder", self._embed("encoder", src), None)
        states = self.stack("decoder", self._embed("decoder", [start, *tgt[:-1]]), memory)
        output = self.weights.get("lm_head.weight", self._table("decoder"))
        return of_tokens(states @ output.T + self.weights["final_logits_bias"][0], tgt)

    def _table(self, side: str) -> Array:
        shared = self.weights.get("model.shared.weight")
        own = f"model.{side}.embed_tokens.weight"
        return np.asarray(self.weights[own] if shared is None else shared)

    def _embed(self, side: str, ids: list[int]) -> Array:
        if self._halves:
            positions = sinusoids_by_halves(len(ids), WIDTH)
        else:  # sin | cos of position / 10000^(2i / width)
            angles = np.arange(len(ids))[:, None] / 10000 ** (np.arange(0, WIDTH, 2) / WIDTH)
            positions = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        return np.asarray(self._table(side)[ids] * math.sqrt(WIDTH) + positions)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
}


@dataclass(frozen=True)
class MarianModel:
    """What a `model.npz` of Marian is made of."""

    activation: str = "swish"
    model_type: str = "unigram"
    tie: str = "all"
    pre_norm: bool = False
    ssru: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write the model and what lies beside it, and return the path of model.npz."""
        folder.mkdir()
        names = ["vocab.spm"] * 2 if self.tie == "all" else ["source.spm", "target.spm"]
        sizes = []
        for name in names:
            side = "target" if name == "target.spm" else "source"
            model = learn_pieces(side, self.model_type, bos_id=-1, eos_id=0, unk_id=1)
            (folder / name).write_bytes(model)
            sizes.append(sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size())
        arrays: dict[str, Any] = self._arrays(sizes)
        # As newer versions end it.
        options = yaml.safe_dump(self._options()).encode() + b"\0\xff\xfe\0"
        arrays["special:model.yml"] = np.frombuffer(options, np.int8)
        np.savez(folder / "model.npz", **arrays)
        listing = {"relative-paths": True, "models": ["model.npz"], "vocabs": names}
        (folder / "model.npz.decoder.yml").write_text(yaml.safe_dump(listing))
        return folder / "model.npz"

    def _options(self) -> dict[str, Any]:
        pre, post, top = ("n", "da", "n") if self.pre_norm else ("", "dan", "")
        return {
            "type": "transformer",
            "dim-emb": WIDTH,
            "enc-depth": LAYERS,
            "dec-depth": LAYERS,
            "tied-embeddings-all": self.tie == "all",
            "tied-embeddings": self.tie == "decoder",
            "transformer-dim-ffn": INNER,
            "transformer-heads": HEADS,
            "transformer-ffn-activation": self.activation,
            "transformer-decoder-autoreg": "rnn" if self.ssru else "self-attention",
            "dec-cell": "ssru" if self.ssru else "gru",
            "transformer-preprocess": pre,
            "transformer-postprocess": post,
            "transformer-postprocess-top": top,
        } | self.options

    def _arrays(self, sizes: Sequence[int]) -> dict[str, NDArray[np.float32]]:
        matrix = random_matrices(seed=4)
        arrays = {"decoder_ff_logit_out_b": matrix(1, sizes[1])}
        if self.tie == "all":
            arrays["Wemb"] = matrix(sizes[0], WIDTH)
        else:
            arrays["encoder_Wemb"] = matrix(sizes[0], WIDTH)
            arrays["decoder_Wemb"] = matrix(sizes[1], WIDTH)
        if self.tie == "none":
            arrays["decoder_ff_logit_out_Wt"] = matrix(sizes[1], WIDTH)
        for name, weight in layers(matrix).items():
            if not (self.ssru and ".decoder." in name and ".self_attn." in name):
                place = marian_place(name, pre_norm=self.pre_norm, ssru=self.ssru)
                arrays[place] = as_marian(weight)
        for layer in range(1, LAYERS + 1) if self.ssru else ():
            arrays[f"decoder_l{layer}_rnn_W"] = matrix(WIDTH, WIDTH)
            arrays[f"decoder_l{layer}_rnn_Wf"] = matrix(WIDTH, WIDTH)
            arrays[f"decoder_l{layer}_rnn_bf"] = matrix(1, WIDTH)
        for side in ("encoder", "decoder") if self.pre_norm else ():
            arrays[f"{side}_top_ln_scale"] = 1 + matrix(1, WIDTH)
            arrays[f"{side}_top_ln_bias"] = matrix(1, WIDTH)
        return arrays


def write_package(folder: Path, source: Path) -> Path:
    """Write a package of OPUS-MT with the weights of a `MarianMTModel` whose embeddings are shared.

    Marian's has no <pad>, which is the last piece there.
    """
    folder.mkdir()
    ids = json.loads((source / "vocab.json").read_text(encoding="utf-8"))
    assert ids.pop("<pad>") == len(ids)
    lines = [f"{yaml_key(piece)}: {id_}\n" for piece, id_ in ids.items()]
    (folder / "opus.vocab.yml").write_text("".join(lines), encoding="utf-8", newline="")
    for name in ("source.spm", "target.spm"):
        shutil.copy(source / name, folder)
    (folder / "source.tcmodel").touch()
    (folder / "README.md").write_text("# opus-2020-02-26.zip\n")
    (folder / "preprocess.sh").write_text("sed 's/\u2019/'\"'/g' | spm_encode --model $2\n")
    config = json.loads((source / "config.json").read_text())
    weights = load_file(source / "model.safetensors")
    arrays: dict[str, Any] = {
        "Wemb": weights["model.shared.weight"][:-1],
        "decoder_ff_logit_out_b": weights["final_logits_bias"][:, :-1],
    }
    for name, weight in weights.items():
        if ".layers." in name:
            arrays[marian_place(name)] = as_marian(weight)
    sizes = {"dim-vocabs": [len(ids)] * 2}
    made = MarianModel(activation=config["activation_function"], options=sizes)
    options = yaml.safe_dump(made._options()).encode() + b"\0"
    arrays["special:model.yml"] = np.frombuffer(options, np.int8)
    np.savez(folder / "opus.npz.best-perplexity.npz", **arrays)
    listing = {"relative-paths": True, "models": ["opus.npz.best-perplexity.npz"], "beam-size": 6}
    listing["vocabs"] = ["opus.vocab.yml"] * 2
    (folder / "decoder.yml").write_text(yaml.safe_dump(listing))
    return folder


def yaml_key(piece: str) -> str:
    """Write a piece as Marian does: quoted if it does not begin with a letter of a word."""
    escaped = piece.replace("\\", r"\\").replace('"', r"\"")
    return piece if piece[0].isalpha() else f'"{escaped}"'


def as_marian(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a weight as Marian stores it: (inputs, outputs), or (1, D)."""
    return np.ascontiguousarray(weight.T if weight.ndim == 2 else weight[None])


def marian_place(name: str, *, pre_norm: bool = False, ssru: bool = False) -> str:
    """Marian's name for a weight of a layer of `MarianMTModel`."""
    _, side, _, layer, kind = name.split(".", 4)
    marian = _marian_name(kind)
    if ssru and side == "decoder":
        marian = marian.replace("self_Wo_ln", "rnn_ln" if pre_norm else "rnn_ffn_ln")
    suffix = "_pre" if pre_norm and "norm" in kind else ""
    return f"{side}_l{int(layer) + 1}_{marian}{suffix}"


def _marian_name(kind: str) -> str:
    kind = kind.replace("encoder_attn", "context").replace("self_attn", "self")
    kind, _, part = kind.rpartition(".")
    is_bias = part == "bias"
    if kind.endswith("layer_norm"):
        stem = {"final": "ffn_ffn"}.get(kind.removesuffix("_layer_norm"), kind[:-11] + "_Wo")
        return f"{stem}_ln_{'bias' if is_bias else 'scale'}"
    if kind.startswith("fc"):
        return f"ffn_{'b' if is_bias else 'W'}{kind[2]}"
    stem, _, projection = kind.partition(".")
    return f"{stem}_{'b' if is_bias else 'W'}{projection[0]}"


class MarianFile(Formulas):
    """The formulas of Marian's Transformer, on its files."""

    epsilon = 1e-6

    def __init__(self, path: Path) -> None:
        self._arrays = dict(np.load(path))
        text = self._arrays.pop("special:model.yml").tobytes().split(b"\0")[0]
        options = yaml.safe_load(text)
        names = yaml.safe_load(path.with_name(f"{path.name}.decoder.yml").read_text())["vocabs"]
        self._pieces = [
            sentencepiece.SentencePieceProcessor(model_file=str(path.parent / name))
            for name in names
        ]
        self.pre_norm = options["transformer-preprocess"] == "n"
        self.activation = options["transformer-ffn-activation"]
        self.weights = dict(self._by_the_others_names())

    def _by_the_others_names(self) -> Iterator[tuple[str, Array]]:
        ssru = "decoder_l1_rnn_W" in self._arrays
        for name in layers(random_matrices(seed=0)):
            array = self._arrays.get(marian_place(name, pre_norm=self.pre_norm, ssru=ssru))
            if array is not None:
                yield name, array[0] if len(array) == 1 else array.T
        if self.pre_norm:
            for side in ("encoder", "decoder"):
                for part, ours in (("weight", "scale"), ("bias", "bias")):
                    yield f"model.{side}.layer_norm.{part}", self._arrays[f"{side}_top_ln_{ours}"]

    def log_probs(self, source: str, target: str, eos: int = 0) -> Array:
        """Return the log-probabilities of each token of a target and of eos."""
        src, tgt = (
            [*pieces.encode(line), eos]
            for pieces, line in zip(self._pieces, (source, target), strict=True)
        )
        shared = self._arrays.get("Wemb")
        tables = [
            self._arrays[f"{side}_Wemb"] if shared is None else shared
            for side in ("encoder", "decoder")
        ]
        # The decoder begins with zeros.
        shifted = np.concatenate([np.zeros((1, WIDTH)), tables[1][tgt[:-1]]])
        memory = self.stack("encoder", self._placed(tables[0][src]), None)
        states = self.stack("decoder", self._placed(shifted), memory)
        output = self._arrays.get("decoder_ff_logit_out_Wt", tables[1])
        return of_tokens(states @ output.T + self._arrays["decoder_ff_logit_out_b"], tgt)

    def _placed(self, embedded: Array) -> Array:
        return np.asarray(embedded * math.sqrt(WIDTH) + sinusoids_by_halves(len(embedded), WIDTH))

    def attend(self, name: str, x: Array, y: Array, mask: NDArray[np.bool_] | None) -> Array:
        """Attend, or compute an SSRU where the layer has one in place of self-attention."""
        at = f"decoder_l{int(name.split('.')[3]) + 1}_rnn"
        if not name.startswith("model.decoder") or x is not y or f"{at}_W" not in self._arrays:
            return super().attend(name, x, y, mask)
        forget = 1 / (1 + np.exp(-(x @ self._arrays[f"{at}_Wf"] + self._arrays[f"{at}_bf"])))
        cell, outputs = np.zeros(WIDTH), []
        for gate, value in zip(forget, x @ self._arrays[f"{at}_W"], strict=True):
            cell = gate * cell + (1 - gate) * value
            outputs.append(np.maximum(cell, 0))
        return np.stack(outputs)


def to_binary(path: Path, quantised: str = "_W.?$|Wemb", number: int = 0x4101) -> Path:
    """Write model.bin beside model.npz, and give model.npz the values that are left.

    path: of model.npz.
    quantised: a pattern for the names of int8 matrices.
    number: of their type.
    """
    arrays, table, contents = dict(np.load(path)), [], []
    for name, array in arrays.items():
        shape, content = array.shape, array.tobytes()
        kind = 0x101 if array.dtype == np.int8 else 0x404
        if quantised and re.search(quantised, name):
            factor = np.float32(127) / np.abs(array).max()
            numbers = np.clip(np.rint(array * factor), -127, 127).astype(np.int8)
            arrays[name] = numbers / factor
            numbers = numbers if "Wemb" in name else numbers.T
            kind, content = number, numbers.tobytes() + factor.tobytes()
        content += bytes(-len(content) % 256)
        table.append((name.encode() + b"\0", kind, shape, len(content)))
        contents.append(content)
    found = struct.pack("<2Q", 1, len(table))
    found += b"".join(struct.pack("<4Q", len(n), k, len(s), size) for n, k, s, size in table)
    found += b"".join(name for name, *_ in table)
    found += b"".join(np.array(shape, np.int32).tobytes() for _, _, shape, _ in table)
    padding = -(len(found) + 8) % 256
    binary = path.with_suffix(".bin")
    binary.write_bytes(found + struct.pack("<Q", padding) + bytes(padding) + b"".join(contents))
    np.savez(path, **arrays)
    return binary


KINDS = {
    "unigram": MarianMT(),
    "bpe": MarianMT(model_type="bpe", activation="relu"),
    "separate": MarianMT(joint=False, activation="gelu"),
    "untied": MarianMT(tied=False, without_id=0),
    "starts_with_eos": MarianMT(start="</s>"),
    "starts_with_a_tag": MarianMT(start=TAGS[0]),
}

MARIAN = {
    "post_norm": MarianModel(),
    "pre_norm": MarianModel(pre_norm=True, activation="relu"),
    "separate": MarianModel(tie="decoder", model_type="bpe", activation="gelu"),
    "untied": MarianModel(tie="none"),
    "ssru": MarianModel(ssru=True),
    "ssru_pre_norm": MarianModel(ssru=True, pre_norm=True),
}

LINES = [
    *zip(text("source", 6), text("target", 6), strict=True),
    ("", ""),
    ("ß mm abc", "abc ?? g ß"),  # of the other side's characters, and of neither's
    (" a  b\u00a0c", "zz"),
]


def log_probs(model: Path, pairs: list[tuple[str, str]]) -> list[Array]:
    """The log-probabilities of each target's tokens and of eos, by an imported model."""
    built, card = load_model(model)
    sources = card.src_vocabulary.encode([source for source, _ in pairs])
    targets = card.tgt_vocabulary.encode([target for _, target in pairs])
    batch = batch_of(sources, targets)
    with torch.no_grad():
        found = built.eval().project(built(batch)).log_softmax(-1)
    own = found.gather(1, batch.targets[:, None])[:, 0]
    return [part.numpy() for part in torch.split(own, [len(ids) + 1 for ids in targets])]


def assert_same(model: Path, pairs: list[tuple[str, str]], of: Callable[[str, str], Array]) -> None:
    for (source, target), found in zip(pairs, log_probs(model, pairs), strict=True):
        np.testing.assert_allclose(found, of(source, target), atol=2e-5)


def import_huggingface(nmt: Nmt, folder: Path, *words: str) -> Path:
    out = folder.with_suffix(".safetensors")
    done = nmt("import", "huggingface", folder, out, *words)
    assert (done.status, done.stdout) == (0, ""), done.stderr
    return out


def import_marian(nmt: Nmt, path: Path, *words: str | Path) -> Path:
    out = path.parent.with_suffix(".safetensors")
    done = nmt("import", "marian", path, out, *(words or ("--src", "en", "--tgt", "de")))
    assert (done.status, done.stdout) == (0, ""), done.stderr
    return out


def write_pairs(
    folder: Path, src: str = "en", tgt: str = "de", *, train: int = 60, valid: int = 8
) -> tuple[str | Path, ...]:
    """Write small texts, and return the words of `prepare` that name them."""
    for name, lines in (("train", train), ("valid", valid)):
        for side, lang in (("source", src), ("target", tgt)):
            write(folder / f"{name}.{lang}", text(side, lines))
    texts = ("--train", folder / "train", "--valid", folder / "valid", "--keep", "overlap")
    return ("--src", src, "--tgt", tgt, *texts, "--workers", "1")

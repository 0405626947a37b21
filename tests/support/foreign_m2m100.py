"""Folders of M2M100 and NLLB with random weights, by NumPy and safetensors, and their formulas.

The files are as those of Hugging Face. The formulas read those files, not ours.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import foreign_models
import numpy as np
import sentencepiece
from numpy.typing import NDArray
from reference import sinusoids_by_halves
from safetensors.numpy import load_file, save_file

CODES = {"nllb": ("deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant"), "m2m100": ("de", "en", "fr")}
SPARE_ROWS = 2


def language_token(kind: str, code: str) -> str:
    """The piece of a language."""
    return code if kind == "nllb" else f"__{code}__"


@dataclass(frozen=True)
class M2M100:
    """What a folder is made of."""

    kind: str = "nllb"
    config: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write the folder."""
        folder.mkdir()
        model = foreign_models.learn_pieces("source", "bpe")
        (folder / "sentencepiece.bpe.model").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces = ["<s>", "<pad>", "</s>", "<unk>"]
        pieces += [processor.id_to_piece(id_) for id_ in range(3, processor.get_piece_size())]
        tokens = [language_token(self.kind, code) for code in CODES[self.kind]]
        ids = {piece: id_ for id_, piece in enumerate([*pieces, *tokens])}
        if self.kind == "nllb":
            ids["<mask>"] = len(ids)
            added = [{"id": ids[piece], "content": piece} for piece in (*tokens, "<mask>", "</s>")]
            known = {piece: ids[piece] for piece in pieces}
            tokenizer = {"model": {"type": "BPE", "vocab": known}, "added_tokens": added}
            (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
        else:
            (folder / "vocab.json").write_text(json.dumps({p: ids[p] for p in pieces}))
            listed = {
                "additional_special_tokens": [tokens[0], *({"content": t} for t in tokens[1:])]
            }
            (folder / "special_tokens_map.json").write_text(json.dumps(listed))
        (folder / "config.json").write_text(json.dumps(self._config(len(ids)) | self.config))
        save_file(self._weights(len(ids) + SPARE_ROWS), folder / "model.safetensors")
        return folder

    def _config(self, size: int) -> dict[str, Any]:
        sides = {
            "layers": foreign_models.LAYERS,
            "attention_heads": foreign_models.HEADS,
            "ffn_dim": foreign_models.INNER,
        }
        config = {f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in sides.items()}
        return config | {
            "model_type": "m2m_100",
            "activation_function": "relu",
            "d_model": foreign_models.WIDTH,
            "dropout": 0.1,
            "bos_token_id": 0,
            "pad_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 2,
            "max_position_embeddings": 512,
            "scale_embedding": True,
            "vocab_size": size + SPARE_ROWS,
        }

    def _weights(self, size: int) -> dict[str, NDArray[np.float32]]:
        matrix = foreign_models.random_matrices(seed=5)
        weights = {
            "model.shared.weight": matrix(size, foreign_models.WIDTH),
            **foreign_models.layers(matrix),
        }
        for side in ("encoder", "decoder"):
            weights[f"model.{side}.layer_norm.weight"] = 1 + matrix(foreign_models.WIDTH)
            weights[f"model.{side}.layer_norm.bias"] = matrix(foreign_models.WIDTH)
        return weights


class M2M100Folder(foreign_models.Formulas):
    """The formulas of `M2M100ForConditionalGeneration` on the files of a folder."""

    pre_norm = True

    def __init__(self, folder: Path, kind: str) -> None:
        self.weights = load_file(folder / "model.safetensors")
        pieces = sentencepiece.SentencePieceProcessor(
            model_file=str(folder / "sentencepiece.bpe.model")
        )
        self._kind, self._segmenter = kind, pieces
        # fairseq: four specials in place of three, then languages.
        self._first_language = pieces.get_piece_size() + 1

    def _ids(self, line: str, code: str) -> list[int]:
        """Ids of a line with its language and eos."""
        pieces = self._segmenter.encode(line)
        language = self._first_language + CODES[self._kind].index(code)
        return [language, *(3 if id_ == 0 else id_ + 1 for id_ in pieces), 2]

    def log_probs_of(self, source: str, target: str, codes: Sequence[str]) -> foreign_models.Array:
        """Return the log-probabilities of a target's language, each token and eos."""
        src, tgt = self._ids(source, codes[0]), self._ids(target, codes[1])
        memory = self.stack("encoder", self._with_positions(src), None)
        states = self.stack("decoder", self._with_positions([2, *tgt[:-1]]), memory)
        return foreign_models.of_tokens(states @ self.weights["model.shared.weight"].T, tgt)

    def _with_positions(self, ids: list[int]) -> foreign_models.Array:
        # Positions begin at 2.
        positions = sinusoids_by_halves(len(ids) + 2, foreign_models.WIDTH)[2:]
        return np.asarray(
            self.weights["model.shared.weight"][ids] * math.sqrt(foreign_models.WIDTH) + positions
        )

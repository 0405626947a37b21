"""Write the configurations and vocabularies of both models: see make.sh."""

from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from joeynmt.tokenizers import _build_tokenizer

RARE = 3  # what is rarer is not in the vocabulary, and so taken apart


def side_of(model: str, lang: str) -> dict[str, Any]:
    tokenizer = {"model_file": f"spm.{lang}.model", "pretokenizer": "none"}
    if model == "post":
        tokenizer = {"codes": "codes.bpe", "pretokenizer": "moses"}
    return {
        "lang": lang,
        "max_length": 100,
        "lowercase": False,
        "normalize": False,
        "level": "bpe",
        "voc_file": f"{model}.{'both' if model == 'post' else lang}.vocab",
        "tokenizer_type": "subword-nmt" if model == "post" else "sentencepiece",
        "tokenizer_cfg": tokenizer,
    }


def config_of(model: str) -> dict[str, Any]:
    is_post = model == "post"
    stack = {
        "type": "transformer",
        "num_layers": 2,
        "num_heads": 4,
        "embeddings": {"embedding_dim": 64, "scale": True} if is_post else {"embedding_dim": 64},
        "hidden_size": 64,
        "ff_size": 128,
        "dropout": 0.1,
        "layer_norm": model,
        "activation": "relu" if is_post else "gelu",
    }
    return {
        "name": model,
        "joeynmt_version": "2.3.0",
        "model_dir": f"run-{model}",
        "use_cuda": False,
        "random_seed": 1,
        "data": {
            "train": "text/train",
            "dev": "text/valid",
            "dataset_type": "plain",
            "sample_dev_subset": 20,
            "src": side_of(model, "en"),
            "trg": side_of(model, "de"),
        },
        "testing": {"beam_size": 1, "max_output_length": 200, "eval_metrics": ["bleu"]},
        "training": {
            "optimizer": "adamw",
            "adam_betas": [0.9, 0.98],
            "scheduling": "warmupinversesquareroot",
            "learning_rate": 0.004,
            "learning_rate_min": 1e-8,
            "learning_rate_warmup": 200,
            "label_smoothing": 0.1,
            "loss": "crossentropy",
            "normalization": "tokens",
            "batch_size": 2000,
            "batch_type": "token",
            "epochs": 100,
            "updates": 1000,
            "validation_freq": 1000,
            "logging_freq": 100,
            "overwrite": True,
        },
        "model": {
            "tied_embeddings": is_post,
            "tied_softmax": is_post,
            "encoder": stack,
            "decoder": stack | {"freeze": False},
        },
    }


def main() -> None:
    for model in ("post", "pre"):
        counts: dict[str, Counter[str]] = {}
        for lang in ("en", "de"):
            side = side_of(model, lang)
            tokenizer = _build_tokenizer(side)
            lines = Path(f"text/train.{lang}").read_text(encoding="utf-8").splitlines()
            of_file = counts.setdefault(side["voc_file"], Counter())
            for line in lines:
                of_file.update(tokenizer(tokenizer.pre_process(line)))
        for name, pieces in counts.items():
            kept = [piece for piece, count in pieces.most_common() if count >= RARE]
            Path(name).write_text("".join(f"{piece}\n" for piece in kept), encoding="utf-8")
        # Anchors would stand for what both sides share.
        dumper = yaml.SafeDumper
        dumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]
        Path(f"{model}.yaml").write_text(yaml.dump(config_of(model), Dumper=dumper))


main()

"""The model card of an export to Hugging Face: `README.md`, whose front matter the hub reads.

It says how to use the model. What nmt does not know, such as the licence, you add to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.config.model_config import TransformerConfig
from nmt.console import counted
from nmt.data.languages import english_name, is_code, primary_language
from nmt.data.manifest import SplitRecord
from nmt.interchange.importers.huggingface_settings import ARCHITECTURES, M2M100, MARIAN
from nmt.models.model_file import ModelCard

_SAVING = """
## Saving it again

This model has Marian's positions, as tables in `model.safetensors`. transformers reads them, but
its `save_pretrained`, `push_to_hub` and trainers leave them out. Opened again, such a folder
computes other positions without a word. Training changes the tables, too. So run this before you
train or save the model:

```python
model._keys_to_ignore_on_save = None
for side in (model.get_encoder(), model.get_decoder()):
    side.embed_positions.requires_grad_(False)
```

If a folder was saved without them, open it, and put them back before you save it again:

```python
from safetensors.torch import load_file

tables = {k: v for k, v in load_file("model.safetensors").items() if "embed_positions" in k}
model.load_state_dict(tables, strict=False)
```
"""


def model_card(
    card: ModelCard,
    kind: str,
    languages: Sequence[str | None],
    scores: Sequence[Mapping[str, Any]],
    train: SplitRecord | None,
) -> str:
    """Return the text of a model card.

    kind: the class of transformers that opens the model.
    languages: names of source and target; None: the usual English one.
    scores: of `nmt evaluate`, for each test set.
    train: the training data, if it is known.
    """
    codes = [*card.languages.pieces] if card.languages else [card.src_lang, card.tgt_lang]
    front = {
        "language": list(dict.fromkeys(filter(is_code, map(primary_language, codes)))),
        "library_name": "transformers",
        "pipeline_tag": "translation",
        "tags": ["translation", "nmt"],
    }
    # JSON is YAML without traps such as the code of Norwegian, which would be false.
    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in front.items())
    of_tokenizer = of_search = tag = ""
    code, language = next(iter(card.languages.pieces.items())) if card.languages else ("", "")
    if kind == ARCHITECTURES[M2M100]:
        of_tokenizer = f', src_lang="{language}"'
        of_search = f', forced_bos_token_id=tokenizer.convert_tokens_to_ids("{language}")'
    elif card.languages is not None:
        tag = f"Begin each line with its target language, such as `{language_tag(code)}`.\n\n"
    has_tables = isinstance(card.config, TransformerConfig) and (
        kind == ARCHITECTURES[MARIAN] and card.config.positions == "sinusoidal_halves"
    )
    made = f"trained by `nmt` for {card.update:,} updates" if card.update else "exported by `nmt`"
    limit, longest, known = "No source", f"more than {card.max_src_tokens:,}", "Not known."
    if train is not None:
        names = ", ".join(f"`{Path(corpus.prefix).name}`" for corpus in train.corpora)
        known = f"{counted(train.pairs, 'pair', 'pairs')} of {names}."
        limit, longest = "The longest source", f"{train.src.longest:,}"
    return f"""---
{lines}---

# {_title(card, languages)}

A Transformer, {made}. transformers opens it as a `{kind}`.

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("."{of_tokenizer})
model = AutoModelForSeq2SeqLM.from_pretrained(".")
given = tokenizer(["Hello, world!"], return_tensors="pt", padding=True)
ids = model.generate(**given{of_search})
print(tokenizer.batch_decode(ids, skip_special_tokens=True))
```

{tag}Split text into sentences. {limit} in training had {longest} tokens.
{_SAVING if has_tables else ""}
{_results(scores)}## Training data{"" if scores else ", results"} and license

{known} If you publish this model, describe them, and name the license in `license:` above, as
the data allows.
"""


def _results(scores: Sequence[Mapping[str, Any]]) -> str:
    """Return a section with the scores of all lines and of those that are farther from train."""
    if not scores:
        return ""
    head = "| test set | metric | all lines | half that is farther from train | signature |"
    rows = [head, "|---|---|---:|---:|---|"]
    for test in scores:
        halves = test.get("far_half", {})
        for metric, score in test.items():
            if isinstance(score, dict) and score is not halves:
                half = f"{halves[metric]:.2f}" if metric in halves else ""
                cells = score["name"], f"{score['score']:.2f}", half, score["signature"]
                rows.append(f"| {' | '.join((test['test'], *cells))} |")
    return "## Results\n\n" + "".join(f"{row}\n" for row in rows) + "\n"


def language_tag(code: str) -> str:
    """Return how a line begins for `MarianTokenizer` to read a target language."""
    return f">>{code}<<"


def _title(card: ModelCard, names: Sequence[str | None]) -> str:
    src, tgt = (
        name or (english_name(code) if is_code(code) else "")
        for code, name in zip((card.src_lang, card.tgt_lang), names, strict=True)
    )
    return f"Translation from {src} to {tgt}" if src and tgt else "Translation"

#!/usr/bin/env bash
# transformers 5.24.0: the sinusoidal positions of Marian and of FSMT, the models of WMT19.
#
# Expected: sinusoids are a formula, so nobody trains them, and saving may leave them out. Marian's
# class makes its table with `_freeze=True`.
#
# Seen: a model that was opened by `from_pretrained` trains them in both classes: the table requires
# a gradient, and a step of AdamW moves it. What becomes of it differs. Marian's `save_pretrained`
# drops the table, so the model that is opened again has other positions than those with which its
# weights were trained. FSMT saves it, but computes the formula again if a source is longer than the
# table. From then on, short sources also get other results than before.
#
# What it means for a translator: before you fine-tune such a model, freeze the tables:
# model.get_encoder().embed_positions.requires_grad_(False), and the same for the decoder.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.13.0
cd "$folder"

venv/bin/python - 2> log <<'PYTHON'
import torch
from transformers import FSMTConfig, FSMTForConditionalGeneration, MarianConfig, MarianMTModel

sides = {"layers": 1, "attention_heads": 2, "ffn_dim": 16}
sizes = {f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in sides.items()}
sizes |= {"d_model": 16, "max_position_embeddings": 20, "pad_token_id": 0, "eos_token_id": 2}
short, long = torch.tensor([[4, 5, 6, 7, 2]]), torch.arange(4, 29)[None]
configs = {
    MarianMTModel: MarianConfig(vocab_size=30, decoder_start_token_id=0, **sizes),
    FSMTForConditionalGeneration: FSMTConfig(src_vocab_size=30, tgt_vocab_size=30, **sizes),
}
for made, config in configs.items():
    made(config).save_pretrained("first")
    model = made.from_pretrained("first")
    table = model.get_encoder().embed_positions.weight
    formula = table.detach().clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(input_ids=short, labels=short).loss.backward()
    optimizer.step()
    model.save_pretrained("tuned")
    again = made.from_pretrained("tuned").get_encoder().embed_positions.weight
    is_kept = torch.equal(again, table)
    print(f"{made.__name__}: trained {not torch.equal(table, formula)}, kept {is_kept}")
    assert not torch.equal(table, formula), "changed: positions stay as they are"
    assert is_kept == (made is FSMTForConditionalGeneration), "changed: what is saved"
model.eval()
given = {"input_ids": short, "decoder_input_ids": short}
before = model(**given).logits
model(input_ids=long, decoder_input_ids=short)
is_same = torch.equal(model(**given).logits, before)
print(f"FSMT: a short source has the same result after a long one: {is_same}")
assert not is_same, "changed"
PYTHON

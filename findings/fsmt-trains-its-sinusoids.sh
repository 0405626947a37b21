#!/usr/bin/env bash
# transformers 5.24.0: the positions of FSMT, the models of fairseq from WMT19, and of Marian.
#
# Expected: sinusoids are a formula. So both classes treat them as constants: they are not trained,
# and saving may leave them out, since opening computes the same again.
#
# Seen: neither holds. FSMT's tables are parameters: one step of AdamW moves them, and they are saved
# as they are then. But a source longer than the table makes FSMT compute the formula again, for all
# positions, so that from then on short sources get other translations than before. Marian's are
# constants, but they are read from a folder that has tables, and `save_pretrained` drops them:
# what was computed with the tables is not what the saved model computes.
#
# What it means for whoever converts a model: other sinusoids than those of the class, such as
# Marian's own, last until the first training (FSMT) or saving (Marian).
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
sizes |= {"d_model": 16, "max_position_embeddings": 20}
short, long = torch.tensor([[4, 5, 6, 7, 2]]), torch.arange(4, 29)[None]

fsmt = FSMTForConditionalGeneration(FSMTConfig(src_vocab_size=30, tgt_vocab_size=30, **sizes))
table = fsmt.model.encoder.embed_positions.weight
formula = table.detach().clone()
optimizer = torch.optim.AdamW(fsmt.parameters(), lr=0.1)
fsmt(input_ids=short, labels=short).loss.backward()
optimizer.step()
print(f"FSMT: a step moves positions by {float((table - formula).detach().abs().max()):.2f}")
assert not torch.equal(table, formula), "FSMT no longer trains its positions"
fsmt.eval()
with torch.no_grad():
    before = fsmt(input_ids=short, decoder_input_ids=short).logits
    fsmt(input_ids=long, decoder_input_ids=short)
    after = fsmt(input_ids=short, decoder_input_ids=short).logits
print(f"FSMT: after a long source, a short one differs by {float((after - before).abs().max()):.2f}")
assert torch.equal(fsmt.model.encoder.embed_positions.weight[: len(formula)], formula), "changed"
assert not torch.equal(after, before), "changed"

config = MarianConfig(vocab_size=30, pad_token_id=0, decoder_start_token_id=0, **sizes)
MarianMTModel(config).save_pretrained("marian")
marian = MarianMTModel.from_pretrained("marian")
marian.model.encoder.embed_positions.weight.mul_(0.5)  # another formula
marian.save_pretrained("again")
saved, again = (one.model.encoder.embed_positions.weight for one in
                (marian, MarianMTModel.from_pretrained("again")))
print(f"Marian: saving moves positions by {float((again - saved).abs().max()):.2f}")
assert not saved.requires_grad and torch.equal(again, 2 * saved), "changed"
PYTHON

"""What to use instead of options and commands of fairseq, Marian, Sockeye, OpenNMT and others."""

from __future__ import annotations

_TEXT = "PREFIX or SOURCE,TARGET"
_RARE = "leave it out: what is rare becomes subwords or bytes"
_JOINT = "leave it out: the vocabulary is joint without --separate-vocab"
_OF_DATA = "name a data folder first, which `nmt prepare` makes of text: nmt train DATA"
_AGAIN = "a run goes on by itself if you name its --out again; a new one takes --init-from MODEL"
_ALL_GPUS = "all GPUs are used; write --processes N for fewer"
_ADAM = "leave it out: it is Adam, with adam_beta1 and other values of --set"
_ONE_GPU = "--device cuda, and choose the GPU by CUDA_VISIBLE_DEVICES"
_INT8 = "write `nmt export ctranslate2 MODEL OUT --quantization int8`, and translate with OUT"
_LANGUAGES = "leave it out; only a model of several languages needs --from and --to"
_AS_WRITTEN = "leave it out: text goes in and comes out as people write it"
_COMET = "run comet-score -s SOURCE -t HYPOTHESIS -r REFERENCE, of the package unbabel-comet"
OPTIONS = {
    "prepare|import source-lang src-lang from": "--src",
    "prepare|import target-lang tgt-lang to": "--tgt",
    "prepare trainpref train-sets input source target": f"--train {_TEXT}",
    "prepare validpref valid-sets dev validation-source validation-target": f"--valid {_TEXT}",
    "prepare testpref": f"--test {_TEXT}",
    "prepare destdir out output save-data model-prefix": "write `nmt prepare OUT`",
    "prepare thresholdsrc thresholdtgt word-min-count src-words-min-frequency": _RARE,
    "prepare joined-dictionary shared-vocab share-vocab": _JOINT,
    "prepare srcdict tgtdict src-vocab tgt-vocab vocabs": "--vocab MODEL, of SentencePiece or nmt",
    "prepare nwordssrc nwordstgt src-vocab-size num-words dim-vocabs": "--vocab-size",
    "prepare bpe model-type": "--subwords bpe or unigram, or --vocab CODES for your own codes",
    "prepare user-defined-symbols": "--symbol, once for each",
    "prepare input-sentence-size sentencepiece-max-lines": "--sample-size",
    "prepare max-seq-len src-seq-length": "--max-length, counted in subwords",
    "train arch a type task model-type encoder-type decoder-type": "--model PRESET",
    "train save-dir save-model output": "--out",
    "train finetune-from-model pretrained-model params": "--init-from",
    "train restore-file resume resume-from train-from": _AGAIN,
    "train fp16 bf16 tf32 amp memory-efficient-fp16": "--precision fp16, bf16 or tf32",
    "train gpus gpu devices gpu-ranks world-size distributed-world-size dist": _ALL_GPUS,
    "train|translate|rescore|evaluate cpu use-cpu cpu-threads": "--device cpu",
    "train train-sets valid-sets vocabs prepared-data source target source-lang": _OF_DATA,
    "train optimizer optim optimizer-params": _ADAM,
    "train criterion cost-type": "leave it out: it is cross-entropy, with --set label_smoothing=X",
    "train batch-type": "leave it out: --batch-tokens counts target tokens",
    "train workspace mini-batch-fit": "leave it out: it finds the size of micro-batches itself",
    "train max-length max-seq-len": "it takes all pairs that `nmt prepare --max-length N` kept",
    "translate diverse-beam-groups diversity-rate": "for lists that differ more, use --sample "
    "--n-best N",
    "translate nbest nbest-size": "--n-best",
    "translate lenpen normalize": "--length-penalty X --length-penalty-form power",
    "translate src source": "--input",
    "translate|rescore|evaluate gpu gpus devices device-id": _ONE_GPU,
    "translate shortlist restrict-lexicon": "it changed most lines for little speed; exports have "
    "theirs",
    "translate|rescore fp16 bf16 dtype": "--precision fp16, bf16 or fp32",
    "translate int8 compute-type gemm-type optimize": _INT8,
    "translate|rescore source-lang src-lang target-lang tgt-lang": _LANGUAGES,
    "translate remove-bpe post-process bpe sentencepiece-model no-spm-decode": _AS_WRITTEN,
    "translate replace-unk unkpen prevent-unk": "leave it out: no translation has unknown words",
    "translate model models path": "write `nmt translate MODEL`; --ensemble MODEL adds another",
    "translate|rescore vocabs": "leave it out: the model holds its vocabularies",
    "translate batch-size mini-batch mini-batch-words": "--batch-tokens, counted in source tokens",
    "translate maxi-batch chunk-size buffer-size": "--pool-lines, counted in lines",
    "translate max-len-a max-len-b max-length max-length-factor": "--max-tokens, or "
    "--max-extra-tokens for those above the source's number",
    "translate max-input-length max-length-crop": "leave it out: long lines are cut into segments",
    "translate min-len min-length": "--min-tokens",
    "translate block-ngram-repeat": "--no-repeat-ngram",
    "translate sampling output-sampling sampling-topk sampling-topp random-sampling-topk "
    "random-sampling-temp": "--sample, and --top-k, --top-p or --temperature",
    "translate with-score word-scores": "--scores, or --format jsonl for those of tokens",
    "translate prefix-size tgt-file-prefix force-decode": "--prefixes",
    "translate constraints": "--terms FILE",
    "translate tgt score-reference": "score translations by `nmt rescore` or `nmt score`",
    "translate gen-subset": "write `nmt evaluate RUN`, which scores the test sets",
    "score comet": _COMET,
    "score model": "models score by `nmt rescore`",
    "score input hypotheses sys ref references test-set": "write `nmt score REFERENCE HYPOTHESIS`",
    "score paired-bs paired-ar": "--baseline OTHER, once for each other output",
    "score chrf-word-order": "--metric chrf++",
    "score score-only short format": "--json",
    "rescore train-sets src tgt model": "write `nmt rescore MODEL TARGET --source SOURCE`",
    "average inputs models": "write `nmt average RUN --last N --out MODEL`",
    "average num-update-checkpoints num-epoch-checkpoints": "--last",
    "export output-dir output out model model-path": "write `nmt export FORMAT MODEL OUT`",
    "export int8 int16 float16 compute-type dtype": "--quantization int8, int16 or float16",
    "export force": "leave it out: an earlier export of that name is replaced",
    "import model model-path data-dir output-dir": "write `nmt import FORMAT MODEL OUT`",
}
"""By commands and options that other toolkits have, what to use; if that is an option, to write it.
"""


_TO_TRANSLATE = "write `nmt translate`"
_TO_EXPORT = "write `nmt export`, or `nmt import` for the way back"
COMMANDS = {
    "generate": f"{_TO_TRANSLATE}, or `nmt evaluate` for the test sets",  # fairseq
    "interactive": f"{_TO_TRANSLATE} without --input",
    "preprocess": "write `nmt prepare`",
    "predict": _TO_TRANSLATE,  # Eole
    "infer": _TO_TRANSLATE,  # OpenNMT-tf
    "decode": _TO_TRANSLATE,  # Tensor2Tensor
    "decoder": _TO_TRANSLATE,  # Marian
    "scorer": "write `nmt rescore`",
    "vocab": "`nmt prepare` learns it",
    "build-vocab": "`nmt prepare` learns it",
    "test": "write `nmt evaluate`",  # JoeyNMT
    "eval": "write `nmt evaluate`",
    "validate": "write `nmt evaluate`; `nmt train` validates by itself",
    "info": "`nmt data DATA` describes a data folder, and `nmt models NAME` a preset",
    "finetune": "write `nmt train --init-from MODEL`",
    "convert": _TO_EXPORT,
    "quantize": _TO_EXPORT,
}
"""What to use instead of commands that other toolkits have."""


def option_instead(command: str, name: str) -> str:
    """Return what to use instead of an option, which is named without dashes; "" if unknown."""
    for row, instead in OPTIONS.items():
        commands, *names = row.split()
        if command in commands.split("|") and name in names:
            return f"write {instead}" if instead.startswith("--") else instead
    return ""

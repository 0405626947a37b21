"""What to use instead of options and commands of fairseq, Marian, Sockeye, OpenNMT and others."""

from __future__ import annotations

_TEXT = "PREFIX or SOURCE,TARGET"
_OF_DATA = "name a data folder first, which `nmt prepare` makes of text: nmt train DATA"
_AGAIN = "a run goes on by itself if you name its --out again; a new one takes --init-from MODEL"
_ALL_GPUS = "all GPUs are used; write --processes N for fewer"
_ONE_GPU = "--device cuda, and choose the GPU by CUDA_VISIBLE_DEVICES"
_INT8 = "write `nmt export ctranslate2 MODEL OUT --quantization int8`, and translate with OUT"
_LANGUAGES = "leave it out; only a model of several languages needs --from and --to"
_AS_WRITTEN = "leave it out: text goes in and comes out as people write it"
_COMET = "run comet-score -s SOURCE -t HYPOTHESIS -r REFERENCE, of the package unbabel-comet"
INSTEAD = {
    "prepare|import source-lang src-lang from": "--src",
    "prepare|import target-lang tgt-lang to": "--tgt",
    "prepare trainpref train-sets input source target": f"--train {_TEXT}",
    "prepare validpref valid-sets dev validation-source validation-target": f"--valid {_TEXT}",
    "prepare destdir out output save-data model-prefix": "write `nmt prepare OUT`",
    "prepare thresholdsrc thresholdtgt word-min-count": "leave it out: rare words become subwords",
    "prepare joined-dictionary shared-vocab share-vocab": "leave it out: the vocabulary is joint",
    "prepare srcdict tgtdict src-vocab tgt-vocab vocabs": "--vocab MODEL, of SentencePiece or nmt",
    "prepare nwordssrc nwordstgt src-vocab-size num-words dim-vocabs": "--vocab-size",
    "prepare bpe model-type": "--subwords bpe or unigram, or --vocab CODES for your own codes",
    "prepare user-defined-symbols": "--symbol, once for each",
    "prepare max-seq-len src-seq-length": "--max-length, counted in subwords",
    "train arch a type task model-type encoder-type decoder-type": "--model PRESET",
    "train save-dir save-model output": "--out",
    "train finetune-from-model pretrained-model params": "--init-from",
    "train restore-file resume resume-from train-from": _AGAIN,
    "train fp16 bf16 tf32 amp memory-efficient-fp16": "--precision fp16, bf16 or tf32",
    "train gpus gpu devices gpu-ranks world-size distributed-world-size dist": _ALL_GPUS,
    "train|translate|rescore|evaluate cpu use-cpu cpu-threads": "--device cpu",
    "train train-sets valid-sets vocabs prepared-data source target source-lang": _OF_DATA,
    "train optimizer optim": "leave it out: it is Adam, with --set adam_beta1=X and others",
    "train criterion cost-type": "leave it out: it is cross-entropy, with --set label_smoothing=X",
    "train workspace mini-batch-fit": "leave it out: it finds the size of micro-batches itself",
    "train max-length max-seq-len": "it takes all pairs that `nmt prepare --max-length N` kept",
    "translate diverse-beam-groups diversity-rate": "--sample --n-best N",
    "translate nbest nbest-size": "--n-best",
    "translate lenpen normalize": "--length-penalty X --length-penalty-form power",
    "translate src source": "--input",
    "translate|rescore|evaluate gpu gpus devices device-id": _ONE_GPU,
    "translate shortlist restrict-lexicon": "it changed most lines; exports have theirs",
    "translate|rescore fp16 bf16 dtype": "--precision fp16, bf16 or fp32",
    "translate int8 compute-type gemm-type optimize": _INT8,
    "translate|rescore source-lang src-lang target-lang tgt-lang": _LANGUAGES,
    "translate remove-bpe post-process bpe sentencepiece-model no-spm-decode": _AS_WRITTEN,
    "translate replace-unk unkpen prevent-unk": "leave it out: no translation has unknown words",
    "translate model models path": "write `nmt translate MODEL`; --ensemble MODEL adds another",
    "translate|rescore vocabs": "leave it out: the model holds its vocabularies",
    "translate batch-size mini-batch mini-batch-words": "--batch-tokens, which counts tokens",
    "translate max-len-a max-len-b max-length": "--max-extra-tokens, or --max-tokens",
    "translate min-len min-length": "--min-tokens",
    "translate block-ngram-repeat": "--no-repeat-ngram",
    "translate sampling sampling-topk sampling-topp": "--sample --top-k N, or --top-p X",
    "translate with-score word-scores": "--scores, or --format jsonl for those of tokens",
    "translate prefix-size tgt-file-prefix force-decode": "--prefixes",
    "translate constraints": "--terms FILE",
    "translate gen-subset": "write `nmt evaluate RUN`, which scores the test sets",
    "score comet": _COMET,
    "score model": "models score by `nmt rescore`",
    "score input hypotheses sys ref references test-set": "write `nmt score REFERENCE HYPOTHESIS`",
    "score paired-bs paired-ar": "--baseline OTHER, once for each other output",
    "score chrf-word-order": "--metric chrf++",
    "rescore train-sets src tgt model": "write `nmt rescore MODEL TARGET --source SOURCE`",
    "average inputs models": "write `nmt average RUN --last N --out MODEL`",
    "average num-update-checkpoints num-epoch-checkpoints": "--last",
    "export output-dir output out model model-path": "write `nmt export FORMAT MODEL OUT`",
    "export int8 int16 float16 compute-type dtype": "--quantization int8, int16 or float16",
    "export force": "leave it out: an earlier export of that name is replaced",
    "nmt generate": "write `nmt translate`, or `nmt evaluate` for the test sets",
    "nmt interactive": "write `nmt translate` without --input",
    "nmt preprocess": "write `nmt prepare`",
    "nmt predict infer decode decoder": "write `nmt translate`",
    "nmt scorer": "write `nmt rescore`",
    "nmt vocab build-vocab": "`nmt prepare` learns it",
    "nmt test eval": "write `nmt evaluate`",
    "nmt validate": "write `nmt evaluate`; `nmt train` validates by itself",
    "nmt info": "`nmt data DATA` describes a data folder, and `nmt models NAME` a preset or model",
    "nmt finetune": "write `nmt train --init-from MODEL`",
    "nmt convert quantize": "write `nmt export`, or `nmt import` for the way back",
}
"""By our commands, and options of others' (or by nmt, and others' commands), what to use."""


def instead_of(name: str, command: str) -> str:
    """Return what to use instead of an option of a command, or a command of `nmt`; "" if unknown.

    name: without dashes before it.
    """
    for row, instead in INSTEAD.items():
        commands, *names = row.split()
        if command in commands.split("|") and name in names:
            return f"write {instead}" if instead.startswith("--") else instead
    return ""

"""What somebody may type by mistake: one line that says what is wrong, and nothing written.

`CASES` is the table of the wording of messages. Elsewhere, a test checks the kind of an error, and
the file or option that it names.
"""

import re
import shlex
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Nmt

from nmt.cli import application
from nmt.cli.other_toolkits import INSTEAD
from nmt.config.model_config import MODEL_CONFIGS, ModelConfig, RecurrentConfig, TransformerConfig
from nmt.config.presets import PRESETS
from nmt.config.recipes import recipe_fields
from nmt.data.language_tokens import LanguageTokens
from nmt.data.moses import Moses
from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.errors import SYNONYMS
from nmt.models.model_file import ModelCard, write_model
from nmt.system.machine import most_workers

UNFIT: dict[str, ModelConfig] = {
    "student": TransformerConfig(decoder_memory="ssru"),
    "modern": TransformerConfig(pre_norm=True, norm="rms", positions="rotary"),
    "odd": TransformerConfig(d_model=96, num_heads=4, d_ff=100),
    "recurrent": RecurrentConfig(),
}
"""Models that some programs cannot be."""
NOT_TEXT = b"\0\x14\0\x06" * 100
FILES = {
    "blank": b"\n \n\n",
    **dict.fromkeys(("latin", "latin.en", "latin.de"), b"eins\nzwei\ngr\xfc\xdfe\n"),
    **dict.fromkeys(("packed.en.gz", "empty.en", "empty.de"), b""),
    "page.html": b"<p>a",
    "a.xml": b"<a/>",
    "hub.json": b'{"en": "a", "de": "b"}\n',
    "unicode.txt": 'a\tb\r\n"c\nd"\te\r\n'.encode("utf-16"),  # as Excel writes it
    **dict.fromkeys(("sheet.xlsx", "renamed.csv"), b"PK\x03\x04" + NOT_TEXT),
    "old.xls": b"\xd0\xcf\x11\xe0" + NOT_TEXT,
    "a.sgm": b"<refset><doc docid='a'><seg id='1'>a</seg></doc></refset>",
    "a.docx": b"PK",
    # As other converters of CTranslate2 leave it, and as Marian does.
    **dict.fromkeys(("converted/model.bin", "converted/config.json"), b"{}"),
    "converted/shared_vocabulary.json": b"{}",
    **dict.fromkeys(("of-marian/model.bin", "of-marian/model.bin.decoder.yml"), b"{}"),
    "deep/dataset.json": b"[" * 100_000,
    "deep.toml": b"x = " + b"[" * 100_000,
    "long.toml": b"[training]\nmax_updates = " + b"9" * 5_000,
    "float.toml": b"[training]\nlearning_rate = " + b"9" * 400,
    **dict.fromkeys(
        ("lfs.safetensors", "of-lfs/config.json", "of-lfs/source.spm", "lfs.model"),
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 298763\n",
    ),
    "n-best": b"0 ||| Das ist ein Test. ||| -0.500000\n",
}


@pytest.fixture(scope="module")
def shared(
    data: Path, model_file: Path, card: ModelCard, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder to work in: text, a data folder, a model, a link that leads to itself."""
    tmp_path = tmp_path_factory.mktemp("wrong")
    for path in data.parent.iterdir():
        (tmp_path / path.name).symlink_to(path)
    for lang, path in (("en", data.with_name("train.en")), ("de", data.with_name("valid.de"))):
        (tmp_path / f"unequal.{lang}").symlink_to(path)
    shutil.copy(model_file, tmp_path / "model")
    for name, config in UNFIT.items():  # without weights, so that none can be read
        (kind,) = (kind for kind, known in MODEL_CONFIGS.items() if known is type(config))
        write_model(tmp_path / name, replace(card, architecture=kind, config=config), {})
    fitting = TransformerConfig(positions="sinusoidal_halves", first_input="zeros")
    languages = LanguageTokens.of_targets([("en", "de"), ("en", "fr")])
    tagged = learn_vocabulary(["a"], vocab_size=265, controls=list(languages.pieces.values()))
    rules = Vocabulary(card.src_vocabulary.model, Moses("en", True, True))
    for name, vocabulary, spoken in (("many", tagged, languages), ("split", rules, None)):
        one = replace(card, src_vocabulary=vocabulary, tgt_vocabulary=vocabulary, languages=spoken)
        write_model(tmp_path / name, replace(one, config=fitting), {})
    into = LanguageTokens.of_targets([("en", "de"), ("fr", "de")])
    of_two = replace(card, src_lang="", languages=into, src_vocabulary=tagged)
    write_model(tmp_path / "into", replace(of_two, tgt_vocabulary=tagged), {})
    (tmp_path / "round").symlink_to("round")
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as package:
        package.writestr("encoder.npy", "{}")
    return tmp_path


@pytest.fixture
def place(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That folder, in which nothing may change, as the current one."""
    monkeypatch.chdir(shared)
    return shared


LOOP, LONG = "Too many levels of symbolic links", "x" * 300
AUTO = "must be auto, ray or a number from 1"
TEXTS = "--src en --tgt de --train train --valid valid"
TRAIN = "train data --out run --model transformer_tiny"
TRANSLATE = "translate model --input valid.en"
SCORE = "score valid.de valid.en"
RESCORE = "rescore model valid.de --source valid.en"
HALVES = "--set first_input=zeros --set positions=sinusoidal_halves"
MEMORY, PORTABLE = "--set decoder_memory=attention", "--model transformer_portable"
NARROW = "--model transformer_portable_few"  # for models as narrow
DISTILL = "nmt distill RUN --out STUDENT"
STUDENT = "distill --out pupil --source train.en"
COMMAND = f"{STUDENT} --teacher-command cat --from en --to de"
MOST = most_workers()
CONVERT = "convert it to XLIFF with Okapi Tikal, or pass --markup none to translate it as lines"

CASES = [
    # A link that leads to itself.
    ("translate round", 1, "round"),
    ("translate model --input round", 1, "round"),
    (f"{TRANSLATE} --output round", 1, f"round: {LOOP}"),
    ("train data --out round", 1, "round"),
    ("train data --out run --config round", 1, f"round: {LOOP}"),
    ("average model model --out round.st/x.safetensors", 2, "no such folder"),
    ("average model model --out round", 1, f"round: {LOOP}"),
    (f"prepare round {TEXTS}", 1, f"round: {LOOP}"),
    ("score valid.de round", 1, f"round: {LOOP}"),
    # Arguments that are empty or mean a stream elsewhere.
    ("translate model --input ''", 2, "an argument is empty; give a value"),
    ("translate model --input -", 2, "leave it out to read stdin"),
    (f"{TRANSLATE} --output -", 2, "leave it out to write to stdout"),
    (f"{SCORE} --reference -", 2, "- is stdin, which only HYPOTHESIS can be here"),
    ("rescore model - --source -", 2, "stdin can be only one text"),
    # Names that are too long, and files where folders are expected.
    (f"translate model --input {LONG}", 1, "File name too long"),
    (f"{TRANSLATE} --output {LONG}", 1, "File name too long"),
    (f"train data --out {LONG}", 1, "File name too long"),
    (f"prepare {LONG} {TEXTS}", 1, "File name too long"),
    (f"prepare out {TEXTS} --terms {LONG}", 1, "File name too long"),
    (f"export {LONG}", 1, "File name too long"),
    (f"{TRANSLATE} --output valid.en/x", 2, "valid.en: no such folder"),
    (f"prepare valid.en/out {TEXTS}", 2, "valid.en"),
    ("data valid.en", 1, "valid.en is not a data folder"),
    ("average model model --out no/", 2, "no/: is a folder; name a file"),
    # Preparing.
    (f"prepare out {TEXTS} --train packed.en", 1, "packed.en.gz exists: give the prefix without"),
    (f"prepare out {TEXTS} --test page.html,page.html", 1, "cannot read HTML as parallel text"),
    (f"prepare out {TEXTS} --test hub.json", 1, "hub.json: cannot read JSON as parallel text"),
    (f"prepare out {TEXTS} --test valid.en", 2, "valid.en: give the prefix of both files, valid"),
    (f"prepare out {TEXTS} --test unicode.txt", 2, "unicode.txt: has columns parted by tabs; rena"),
    (f"prepare out {TEXTS} --test unicode.txt:1,2", 2, "unicode.txt: has columns parted by tabs; "),
    (f"prepare out {TEXTS} --test old.xls", 2, "old.xls: is a spreadsheet; open it and save it as"),
    (f"prepare out {TEXTS} --test sheet.xlsx:1,2", 1, "sheet.xlsx: cannot be read as .xlsx (File"),
    (f"prepare out {TEXTS} --test renamed.csv", 2, "renamed.csv: is a spreadsheet; open it and"),
    (f"prepare out {TEXTS} --test a.sgm", 2, "a.sgm: has one side only; give two files as SOURCE,"),
    (f"prepare out {TEXTS} --test a.sgm,valid.de", 2, "valid.de is lines of text; give it as SGML"),
    (f"prepare out {TEXTS} --vocab lfs.model", 1, "lfs.model: is a pointer of Git LFS, not"),
    (f"prepare out {TEXTS} --train n-best,n-best", 1, "n-best is an n-best list, not plain"),
    (f"prepare out {TEXTS} --train unequal", 1, "unequal.en has 300 lines and"),
    (f"prepare out {TEXTS} --vocab-size 8k", 2, "write 8000 (see"),
    ("prepare out --train a.en a.de --valid b.en b.de", 2, "write --train a.en,a.de (see"),
    ("translate nowhere --n-best five", 2, "'--n-best': must be a whole number (see"),
    (f"prepare out {TEXTS} --dry-run", 2, "for example --dry-run 10000 (see"),
    (f"prepare out --dry-run {TEXTS}", 2, "for example --dry-run 10000 (see"),
    (f"prepare out {TEXTS} --vocab-size 9999", 2, "9999 is too large for this text"),
    (f"prepare out {TEXTS} --keep ratoi --seed -1", 2, "did you mean 'ratio'?"),
    (f"prepare out {TEXTS} --keep ratoi --seed -1", 2, "--seed -1: must be 0 or more"),
    (f"prepare out {TEXTS} --vocab /nowhere/spm.model", 1, "/nowhere/spm.model"),
    (f"prepare out {TEXTS} --test /nowhere/test", 1, "/nowhere/test.en: no such file"),
    (f"prepare out {TEXTS} --keep empty", 2, "--keep empty: this rule cannot be switched off"),
    (f"prepare out {TEXTS} --quoting valid=csv", 2, "only TSV and CSV have quoted cells"),
    (f"prepare out {TEXTS} --symbol '<s>'", 2, "--symbol <s>: every vocabulary has <s>"),
    (f"prepare out {TEXTS} --new-language gsw", 2, "for --vocab with a model of several"),
    ("data data --show x", 2, "--show x: give numbers of pairs, such as 7 or 7,12 or 7-12"),
    ("data data --show 300", 2, "--show 300: there is no pair 300; train has 300 pairs, counted"),
    ("data deep", 1, "deep/dataset.json: damaged: nested too deep"),
    # Training.
    (f"{TRAIN} --config deep.toml", 2, "deep.toml: not a TOML file: nested too deep"),
    (f"{TRAIN} --config long.toml", 2, "long.toml: not a TOML file: a number has more than"),
    (f"{TRAIN} --config float.toml", 2, "must be a number"),
    (f"{TRAIN} --device gpu", 2, "cuda"),
    (f"{TRAIN} --max-updates 4 --set max_updates=2", 2, "contradict each other; give one of them"),
    (f"{TRAIN} --set threads=100000", 2, "threads = 100000: must be from 0 to 1024"),
    (f"{TRAIN} --set dropout=1.5", 2, "--set: dropout = 1.5: must be 0 or more and below 1"),
    (f"{TRAIN} --set d_modell=3", 2, "unknown key 'd_modell'; did you mean 'd_model'?"),
    (f"{TRAIN} --set dropout", 2, "is not of the form key=value"),
    (f"{TRAIN} --time-limit soon", 2, "--time-limit 'soon' is not a duration"),
    (f"{TRAIN} --deadline soon", 2, "--deadline 'soon' is not a time of day"),
    (f"{TRAIN} --max-update 3", 2, "No such option: --max-update; write --max-updates (see"),
    (f"{TRAIN} --lr 0.1", 2, "No such option: --lr; write --set learning_rate=VALUE (see"),
    (f"{TRAIN} --epochs 3", 2, "write --max-updates, which counts updates"),
    (f"{TRAIN} --max-grad-norm 1", 2, "write --set clip_norm=VALUE (see"),
    (f"{TRAIN} --max-updates 1.5e5", 2, "write 150000 (see"),
    (f"{TRAIN} --set max_updates=1e5", 2, "must be a whole number; write 100000"),
    ("train data --out valid.en/run", 2, "valid.en is not a folder that you can write to"),
    (f"{TRAIN} --cpu", 2, "write --device cpu (see"),
    ("average run --cpu", 2, "No such option: --cpu (see"),
    ("prepare out --trainpref text", 2, "write --train PREFIX or SOURCE,TARGET"),
    (f"{TRAIN} --set wandb=true", 2, "unknown key 'wandb'; write tensorboard"),
    (f"{TRAIN} --device cuda:1", 2, "unknown; write cuda, and choose the GPU by CUDA_VISIBLE"),
    ("train data --out run --model transformer", 2, "'transformer'; write transformer_base"),
    (f"{TRAIN} --processes 0", 2, "--processes 0: must be auto, or a number from 1"),
    (f"{TRAIN} --processes two", 2, "--processes two: must be auto, or a number from 1"),
    (f"{TRAIN} --processes 999999", 2, f"this machine takes at most {MOST}; give fewer, or auto"),
    ("train nowhere --out run", 1, "nowhere is not a data folder: there is no such folder"),
    ("train data --out run --init-from model", 2, "prepare it with --vocab model, or give"),
    (f"{TRAIN} --set lora_rank=2", 2, "lora_rank is for a model that is tuned; give --init-from"),
    (f"{TRAIN} --set lora_rank=2 --set freeze=encoder.*", 2, "lora_rank cannot be combined with"),
    ("evaluate model", 2, "not a run folder"),
    ("evaluate converted", 2, "not a run folder"),
    ("evaluate nowhere", 2, "no such run folder"),
    (
        "distill model --out pupil",
        2,
        "not a run, whose text is known; give the text to be translated: ",
    ),
    ("distill --out pupil", 2, "give one of TEACHER, --teacher-command and --translations"),
    (f"{STUDENT} model --teacher-command cat", 2, "give one of TEACHER, --teacher-command and"),
    (f"{STUDENT} model --data data", 2, "give one of --data and --source"),
    (
        f"{STUDENT} model --choose score --score-command cat",
        2,
        "one of --choose and --score-command",
    ),
    (f"{COMMAND} --choose score", 2, "--choose has no meaning for"),
    (f"{COMMAND} --keep 2", 2, "--keep has no meaning for"),
    (f"{COMMAND} --n-best 2", 2, "--n-best is for TEACHER"),
    (f"{COMMAND} --ensemble model", 2, "--ensemble is for TEACHER"),
    (f"{STUDENT} model --choose reference", 2, "--choose reference is for --data"),
    (f"{STUDENT} model --min-chrf 3", 2, "--min-chrf is for references"),
    (f"{STUDENT} model --tune", 2, "--tune is for --data, or for --valid"),
    ("distill model --out pupil --data data --min-score 3", 2, "--min-score is for scores"),
    (f"{COMMAND} --min-score 3", 2, "--min-score is for scores"),
    ("distill model --out pupil --data data --valid valid", 2, "--valid is for --source"),
    ("distill model --out pupil --data data --test valid", 2, "--test is for --source"),
    ("distill model --out pupil --data data --from en", 2, "--from is for --source"),
    ("distill model --out pupil --data data --to de", 2, "--to is for --source"),
    ("distill --teacher-command cat --out pupil", 2, "give one of --data and --source"),
    (f"{STUDENT} --teacher-command cat", 2, "name the languages of --source and its translations"),
    (f"{STUDENT} model --to fr", 2, "--to fr: the model knows only de"),
    (f"{STUDENT} into", 2, "into: knows several languages; name two by --from and --to"),
    (f"{STUDENT} model --valid missing", 1, "missing.en: no such file"),
    ("distill model --out pupil --source missing", 1, "missing: No such file"),
    ("distill model --out pupil --source empty.en", 1, "empty.en: has no text; give another"),
    ("distill model --out pupil --source -", 1, "--source -: is read twice; write it to a file"),
    ("distill model --out pupil --source latin", 1, "latin: line 3 is not valid utf-8"),
    ("distill --translations missing --out pupil --data data", 1, "missing: No such file"),
    ("distill data --out pupil", 2, "data: is a data folder; give the run folder"),
    ("distill nowhere --out pupil", 2, "nowhere: no such run folder; `nmt train` makes one"),
    (f"{TRAIN} --set cuda_graphs=false", 2, "--set: 'cuda_graphs' is no longer a key; leave it"),
    ("generate", 2, "No such command 'generate'; write `nmt translate`"),
    ("build_vocab", 2, "No such command 'build_vocab'; `nmt prepare` learns it"),
    ("models qqq", 2, "'qqq' (`nmt models --all`"),
    ("models transformer_tiny --all", 2, "--all lists all presets"),
    ("models transformer_tiny --vocab-size 3", 2, "--vocab-size"),
    ("models model --vocab-size 500", 2, "model has its own; leave it out"),
    # Exporting.
    ("export onnx model out", 2, "unknown format 'onnx'"),
    ("export onnx", 2, "onnx: no such model or format"),
    ("export transformers model out", 2, "unknown format 'transformers'; write huggingface"),
    ("export marian model", 2, "nmt export marian model OUT"),
    ("export model --src-name A", 2, "--src-name is for an export"),
    ("export ctranslate2 model nowhere/out", 2, "nowhere: no such folder"),
    ("export ctranslate2 model out --quantization int9", 2, "did you mean 'int8'?"),
    ("export ctranslate2 model data", 2, "data: exists and is not an export"),
    ("average data --last 2 --out mean", 2, "data: is a data folder; give the run folder"),
    ("average model nowhere --out mean", 1, "nowhere: no such file"),
    ("export marian model out --quantization int8", 2, "has no meaning for marian"),
    ("export marian odd out", 2, f"positions=sinusoidal; train with {HALVES}, or with {NARROW}"),
    ("export bergamot odd out", 2, f"--set d_model=128 --set d_ff=128 {HALVES}, or with"),
    ("export bergamot modern out", 2, f"positions=rotary; train with {PORTABLE}"),
    ("export huggingface modern out", 2, "MarianMTModel cannot have pre_norm=True, norm=rms, "),
    ("export huggingface modern out", 2, f"positions=rotary; train with {PORTABLE}"),
    ("export ctranslate2 student out", 2, f"cannot have decoder_memory=ssru; train with {MEMORY}"),
    ("export argos student a.argosmodel", 2, f"train with {MEMORY}, or with {PORTABLE}"),
    ("export marian recurrent out", 2, f"architecture rnn_attention; train with {PORTABLE}"),
    ("export bergamot modern out", 2, f"{PORTABLE}, or make a student: {DISTILL}"),
    ("export bergamot odd out", 2, f"{NARROW}, or make a student: {DISTILL}"),
    ("export marian recurrent out", 2, f"{PORTABLE}, or make a student: {DISTILL}"),
    ("export bergamot many out", 2, "cannot have several languages; take nmt export ctranslate2"),
    ("export marian many out", 2, "cannot have several languages; take nmt export ctranslate2"),
    ("export argos many a.argosmodel", 2, "begin the pieces of each source with its target"),
    ("export argos many a.argosmodel", 2, "; take nmt export ctranslate2"),
    ("export huggingface split out", 2, "without --moses options, or take"),
    ("export ctranslate2 model out --src-name ' '", 2, "--src-name ' ': is not a name"),
    ("export marian model out --tgt-name A", 2, "--tgt-name has no meaning for marian"),
    # Translating.
    ("translate data", 2, "data: is a data folder; give the run folder"),
    ("translate nowhere", 1, "nowhere: no such file or folder"),
    ("translate converted", 1, "converted: has no export.json, as exports of nmt do"),
    ("rescore converted valid.de --source valid.en", 1, "converted: no model in this folder"),
    ("translate lfs.safetensors", 1, "lfs.safetensors: is a pointer of Git LFS, not the file: run"),
    ("translate of-lfs", 1, "of-lfs/config.json: is a pointer of Git LFS, not the file: run git"),
    ("translate valid.de", 1, "valid.de: is text, not a model"),
    ("translate a.zip", 1, "a.zip: damaged, or not a safetensors file"),
    ("translate of-marian", 1, "of-marian: no model in this folder; it should hold"),
    ("translate some-lab/a-model", 1, "hf download some-lab/a-model --local-dir a-model"),
    ("translate model valid.en", 2, "write --input FILE, or < FILE"),
    ("translate model --device gpu", 2, "--device gpu: unknown; write cuda"),
    (f"{TRANSLATE} --beam-size 0", 2, "--beam-size 0: must be from 1 to 1000"),
    (f"{TRANSLATE} --n-best 4 --diverse-beam-groups 2", 2, "--sample --n-best N"),
    (f"{TRANSLATE} --n-best 5 --beam-size 3", 2, "must be from 1 to the beam size 3"),
    (f"{TRANSLATE} --shortlist list", 2, "exports have theirs"),
    (f"{TRANSLATE} --n-best 2 --scores", 2, "--n-best does not go with --scores"),
    (f"{TRANSLATE} --format json", 2, "--format json: unknown; did you mean 'jsonl'?"),
    (f"{TRANSLATE} --threads {'9' * 20}", 2, f"--threads {'9' * 20}: must be from 1 to 1024"),
    (f"{TRANSLATE} --top-k 5", 2, "--top-k needs --sample"),
    (f"{TRANSLATE} --sample --top-p 1.5", 2, "--top-p 1.5: must be above 0 and at most 1"),
    (f"{TRANSLATE} --precision fp23", 2, "--precision fp23: unknown; did you mean 'fp32'?"),
    (f"{TRANSLATE} --length-penalty inf", 2, "--length-penalty inf: must be a finite number"),
    (f"{TRANSLATE} --workers two", 2, f"--workers 'two' {AUTO}"),
    (f"{TRANSLATE} --workers {MOST + 1}", 2, f"must be at most {MOST}; this"),
    (f"{TRANSLATE} --deadline 06:30", 2, "--deadline needs --input and --output with files"),
    ("translate model --input nowhere", 1, "nowhere: No such file or directory"),
    ("translate model --output out.gz", 2, "the translation of a pipe cannot be compressed"),
    (f"{TRANSLATE} --output nowhere/text", 2, "nowhere: no such folder"),
    (f"{TRANSLATE} --output model", 2, "the output would replace"),
    (f"{TRANSLATE} --max-tokens 1 --output /dev/full", 1, "/dev/full: the disk is full"),
    ("translate model --input model", 1, "not text but safetensors"),
    (f"{TRANSLATE} --attention a.png", 2, "a.png: pictures are SVG; give a name that ends in .svg"),
    (f"{TRANSLATE} --attention a.svg --output out", 2, "--attention does not go with --output"),
    (f"{TRANSLATE} --attention a.svg --input valid.de", 2, "several inputs"),
    (f"{TRANSLATE} --terms nowhere", 1, "nowhere: no such file"),
    (f"{TRANSLATE} --terms valid.de", 1, "valid.de: has no tab; write terms as SOURCE<TAB"),
    (f"{TRANSLATE} --terms model", 1, "model: line 1 is not valid UTF-8; convert it"),
    (f"{TRANSLATE} --terms valid.de --sample", 2, "--terms does not go with --sample"),
    (f"{TRANSLATE} --markup htm", 2, "--markup htm: unknown; did you mean 'html'?"),
    ("translate model --input page.html --n-best 2", 2, "--n-best does not go with the document p"),
    ("translate model --input a.xml", 1, f"a.xml: XML is not supported; {CONVERT}"),
    ("translate model --input a.docx", 1, "is not supported; convert it to XLIFF with Okapi Tikal"),
    (f"{TRANSLATE} --context 1", 2, "--context 1: model was trained on single lines"),
    (f"{TRANSLATE} --to fr", 2, "--to fr: the model knows only "),
    # Scoring.
    ("score", 2, "REFERENCE"),
    ("score valid.de train.de", 1, "valid.de has 20, train.de has 300"),
    ("score valid.de latin", 1, "latin: line 3 is not valid utf-8"),
    ("score valid.de n-best", 1, "n-best is an n-best list, not plain text"),
    (f"{SCORE} --model run", 2, "models score by `nmt rescore` (see"),
    (f"{SCORE} --metric blue", 2, "--metric blue: unknown; did you mean 'bleu'?"),
    (f"{SCORE} --tokenize zh --metric ter", 2, "--tokenize is BLEU's"),
    (f"{SCORE} --card --metric ter", 2, "leave out --metric"),
    (f"{SCORE} --card --lang ja", 2, "leave out --card"),
    ("score blank blank --card", 2, "pass --lang"),
    (f"{SCORE} --comet", 2, "run comet-score -s SOURCE -t HYPOTHESIS -r REFERENCE"),
    # Rescoring.
    ("rescore model valid.de", 2, "Missing option '--source'; for example: nmt rescore run"),
    ("rescore model valid.de --source missing", 1, "missing: No such file"),
    ("rescore model train.de --source valid.en", 1, "train.de has 300, valid.en has 20"),
    ("rescore model blank --source blank", 1, "blank has no line with text"),
    (f"{RESCORE} --n-best n-best", 2, "TARGET and --n-best FILE are both translations"),
    (f"{RESCORE} --n-best n-best --tokens", 2, "--n-best and --tokens print different things"),
    (f"{RESCORE} --scores --json", 2, "--scores and --json print different things"),
    (f"{RESCORE} --weight 0.5", 2, "--weight is for --n-best"),
    (f"{RESCORE} --length-penalty 1", 2, "--length-penalty is for --scores"),
    (f"{RESCORE} --scores --length-penalty-form wo", 2, "known: power, wu"),
    (f"{RESCORE} --from fr", 2, "--from fr: the model knows only "),
]


@pytest.mark.parametrize(("line", "status", "message"), CASES)
def test_a_wrong_input_is_told(nmt: Nmt, place: Path, line: str, status: int, message: str) -> None:
    before = sorted(place.iterdir())
    command, *words = shlex.split(line)
    assert message in nmt(command, "--quiet", *words).refusal(status)
    assert sorted(place.iterdir()) == before


@pytest.mark.parametrize("line", ["train 100k --foo", "translate 5k --beam-size two"])
def test_a_name_with_a_k_is_no_number(nmt: Nmt, line: str) -> None:
    assert "; write" not in nmt(*line.split()).refusal(2)


def test_what_is_proposed_instead_of_foreign_words_exists() -> None:
    group: Any = typer.main.get_command(application())
    commands = {"nmt": group, **group.commands}.items()
    options = {name: {word for each in one.params for word in each.opts} for name, one in commands}
    for row, instead in INSTEAD.items():
        of_commands, *names = row.split()
        proposed = {*re.findall(r"--[a-z][\w-]*", instead)}
        others = [options[name] for name in re.findall("`?nmt ([a-z]+)", instead)]
        for command in of_commands.split("|"):
            assert options[command].isdisjoint(f"--{name}" for name in names)
            assert proposed <= options[command].union(*others)
    ours = {re.split(r"\W", name)[0] for name in SYNONYMS.values()}
    assert ours <= {*recipe_fields(), *PRESETS, "cuda", "huggingface"}

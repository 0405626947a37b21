"""The manual is true: its commands, links, paths and presets exist, and its shell blocks run.

The manual is README.md, a README in each folder of nmt/, those of the examples, and that of the
benchmarks. `sh` and `python` blocks of nmt's own pages run as they are written; other blocks show
output, or commands for other machines, and of those only the options are checked.
"""

import dataclasses
import gzip
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import write
from foreign_m2m100 import M2M100
from foreign_models import MarianModel, MarianMT, to_binary, write_package
from foreign_models import text as made_up
from listed import listed
from toy_training import pairs, prepare_toy, write_text

from nmt.cli import COMMANDS, application
from nmt.config.model_config import MODEL_CONFIGS
from nmt.config.presets import PRESETS
from nmt.config.recipes import resumable_keys
from nmt.config.training_config import AugmentConfig, TrainingConfig

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
CHAPTERS = sorted(ROOT.glob("nmt/*/README.md"))
OTHER_PAGES = [ROOT / ".github/CONTRIBUTING.md", ROOT / "tests/benchmarks/README.md"]
MANUAL = [README, *CHAPTERS, *OTHER_PAGES, *sorted(ROOT.glob("examples/*/*.md"))]

CONFIGS: list[type[Any]] = [TrainingConfig, AugmentConfig, *MODEL_CONFIGS.values()]
KEYS = {field.name for config in CONFIGS for field in dataclasses.fields(config)}

# What stands in the shell for `nmt`: small models, few updates, and few subwords of little text.
SHORT = f"""
nmt() {{
  case $1 in
    train) set -- "$@" --max-updates 6 --precision fp32 \\
      --batch-tokens 200 --set save_every=2 --set validate_every=2 --set keep_best=2
      case $* in *--init-from*) ;; *) set -- "$@" --model transformer_tiny ;; esac ;;
    prepare) case $* in
      *--vocab-size\\ 3[27]000*) set -- "$@" --vocab-size 345 ;;
      *--vocab* | *multi30k*) ;;
      *) set -- "$@" --vocab-size 345 ;;
    esac ;;
  esac
  {shlex.quote(sys.executable)} -m nmt "$@"
}}
"""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words after `nmt` of every command, in blocks and in running text."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    inline = re.findall(r"`(nmt [^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines += [re.sub(r"(--[\w-]+)$", r"\1 VALUE", line) for line in inline]
    for line in lines:
        if not re.search(rf"(^|[\s|])nmt ({'|'.join(COMMANDS)})\b", line):
            continue
        words = list(shlex.shlex(line, posix=True, punctuation_chars="|<>&"))
        for start in (at for at, word in enumerate(words) if word == "nmt"):
            rest = words[start + 1 :]
            if rest and rest[0] in COMMANDS:
                yield list(itertools.takewhile(lambda word: word[0] not in "|<>&", rest))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", MANUAL, ids=named)
def test_every_option_of_every_command_exists(page: Path) -> None:
    known = typer.main.get_command(application()).commands  # type: ignore[attr-defined]
    for name, *arguments in commands(page.read_text(encoding="utf-8")):
        context = known[name].context_class(known[name], info_name=name)
        values, _, _ = known[name].make_parser(context).parse_args(list(arguments))
        assert {one.partition("=")[0] for one in values.get("assignments") or ()} <= KEYS


@pytest.mark.parametrize("page", MANUAL, ids=named)
def test_every_local_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), anchor


@pytest.mark.parametrize("page", MANUAL, ids=named)
def test_every_path_and_preset_that_is_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:nmt|tests|examples)/[\w./]+)`", text):
        assert (ROOT / path).exists(), path
    named_presets = re.findall(r"\b(?:transformer|conv_seq2seq|rnn_attention)_\w+", text)
    assert not set(named_presets) - PRESETS.keys()


@pytest.mark.parametrize("recipe", sorted(ROOT.glob("examples/*/Makefile")), ids=named)
def test_a_recipe_writes_no_file_under_its_final_name(recipe: Path) -> None:
    # After a kill, make would take half a file for all of it.
    assert not re.findall(r".*> \$\$?@(?!\.).*", recipe.read_text(encoding="utf-8"))


def test_the_readme_stays_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 250


def test_every_number_of_the_results_stands_in_the_page_that_measured_it() -> None:
    results = README.read_text(encoding="utf-8").split("\n## Results\n")[1]
    rows = re.findall(r"^\| \[[^\]]*\]\(([^)#]*)#?[^)]*\)(.*)$", results, flags=re.MULTILINE)
    assert rows
    for page, row in rows:
        numbers = re.findall(r"\d[\d,]*(?:\.\d+)?", " ".join(row.split("|")[1:4]))
        text = (ROOT / page).read_text(encoding="utf-8")
        assert not [one for one in numbers if not re.search(rf"(?<![\d.,]){one}(?!\d)", text)], page


def test_the_manual_names_what_may_change_on_resuming() -> None:
    page = (ROOT / "nmt/training/README.md").read_text(encoding="utf-8")
    assert ", ".join(f"`{key}`" for key in sorted(resumable_keys())) in " ".join(page.split())


def run_script(script: str, folder: Path) -> str:
    """Run a script of bash in a folder, short of time; return stdout."""
    command = ["bash", "-euo", "pipefail", "-c", SHORT + script]
    env = os.environ | {"NMT_DATA": str(folder)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def captions(real_text: Callable[[str], Path], folder: Path) -> None:
    """Copy the beginning of Multi30k to a folder, also as the archive of other text."""
    (folder / "multi30k").mkdir()
    for path in real_text("multi30k").glob("*.gz"):
        length = 6_000 if path.name.startswith("train") else 60
        with gzip.open(path) as file, gzip.open(folder / "multi30k" / path.name, "w") as part:
            part.writelines(itertools.islice(file, length))
    sides = [folder / f"multi30k/train.{lang}.gz" for lang in ("en", "de")]
    lines = [gzip.decompress(side.read_bytes()).decode().splitlines() for side in sides]
    with zipfile.ZipFile(folder / "deu-eng.zip", "w") as archive:
        archive.writestr("deu.txt", "".join(f"{en}\t{de}\n" for en, de in zip(*lines, strict=True)))
        archive.writestr("_about.txt", "Attribution: www.manythings.org/anki and tatoeba.org\n")


def tour_and_jobs() -> tuple[str, str]:
    """Return the commands of the tour, and those of the common jobs after it."""
    tour, jobs = README.read_text(encoding="utf-8").split("\n## Common jobs\n")
    assert "nmt train" in "".join(blocks(tour, "sh"))
    return "\n".join(blocks(tour, "sh")), "\n".join(blocks(jobs, "sh"))


@pytest.mark.slow  # a minute or two
def test_common_jobs_run_after_the_tour(real_text: Callable[[str], Path], tmp_path: Path) -> None:
    captions(real_text, tmp_path)
    assert "approximate randomisation" in run_script("\n".join(tour_and_jobs()), tmp_path)
    run_python(README, tmp_path)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data, models and texts that the chapters' commands are about."""
    folder = tmp_path_factory.mktemp("manual")
    prepare_toy(folder)
    corpora = listed(
        "europarl paracrawl backtranslated news news-valid test old-valid ted ted-valid"
        " sample text-1 text-2"
    )
    for seed, name in enumerate(corpora):
        write_text(folder, name, pairs(40, seed=seed))
    for name in ("newstest2013", "newstest2014"):
        write_text(folder, name, pairs(20, seed=9))
    write_text(folder, "held-out", pairs(120, seed=31))
    for name in ("news", "newstest2013", "newstest2014"):  # as if it were French
        shutil.copy(folder / f"{name}.de", folder / f"{name}.fr")
    rows = (f"{src}\t{tgt}\n" for src, tgt in pairs(40, seed=30))
    (folder / "un.tsv").write_text("en\tfr\n" + "".join(rows))
    for name in ("in", "talk"):
        shutil.copy(folder / "news.en", folder / f"{name}.en")
    for name in ("output", "new", "old", "other"):
        shutil.copy(folder / "news.de", folder / f"{name}.de")
    lines = (folder / "test.de").read_text().splitlines()
    (folder / "all.tsv").write_text("".join(f"-\t{line}\n" for line in lines))
    (folder / "newstest2021.en-zh.xml").write_text(
        '<dataset><doc id="1"><src><seg id="1">Dogs bark.</seg></src>'
        '<ref lang="zh" translator="A"><seg id="1">狗叫。</seg></ref></doc></dataset>',
        encoding="utf-8",
    )
    (folder / "output.zh").write_text("狗在叫。\n", encoding="utf-8")
    (folder / "archive.en.gz").write_bytes(gzip.compress((folder / "news.en").read_bytes()))
    shutil.copy(folder / "news.en", folder / "paragraphs.en")
    MarianMT().write(folder / "opus-mt-en-de")
    write_package(folder / "opus-2020-02-26", folder / "opus-mt-en-de")
    M2M100().write(folder / "nllb-200-distilled-600M")
    firefox = MarianModel(ssru=True).write(folder / "firefox").parent
    to_binary(firefox / "model.npz").rename(folder / "model.ende.intgemm.alphas.bin")
    shutil.copy(firefox / "vocab.spm", folder / "vocab.ende.spm")
    for name, count in (("mine", 80), ("valid", 10)):
        for side, langs in (("source", ("en", "eng_Latn")), ("target", ("de", "gsw_Latn"))):
            for lang in langs:
                if not (folder / f"{name}.{lang}").exists():
                    write(folder / f"{name}.{lang}", made_up(side, count))
    (folder / "incoming").mkdir()
    shutil.copy(folder / "news.en", folder / "incoming")
    run_script(
        "nmt train data --out run --set dropout=0.3\n"
        "nmt average run --last 2 --out averaged.safetensors\n"
        "nmt prepare talks --src en --tgt de --train ted --valid ted-valid --documents\n"
        "nmt train talks --out run-of-talks\n"
        "for name in small big right-to-left; do cp -r run $name; done",
        folder,
    )
    return folder


def run_python(page: Path, folder: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8"), "python"):
        subprocess.run([sys.executable, "-c", block], cwd=folder, check=True)


@pytest.mark.parametrize("page", [README, *CHAPTERS], ids=named)
def test_blocks_that_run_need_no_other_program(page: Path) -> None:
    """Which a machine may lack: their commands stand in blocks without a language."""
    block = "\n".join(blocks(page.read_text(encoding="utf-8"), "sh"))
    programs = set(re.findall(r"^(?:\w+=\S+ )?([\w-]+)", block, re.MULTILINE))
    programs -= {"nmt", "echo", "printf", "head", "grep", "gzip", "for", "done"}
    assert programs <= set(re.findall(r"^(\w+)\(\)", block, re.MULTILINE))


@pytest.mark.slow  # half a minute each: most commands load torch
@pytest.mark.parametrize("page", CHAPTERS, ids=named)
def test_commands_of_a_chapter_run_as_written(page: Path, workspace: Path, tmp_path: Path) -> None:
    if "nmt export ctranslate2" in page.read_text(encoding="utf-8"):
        pytest.importorskip("ctranslate2")
    folder = shutil.copytree(workspace, tmp_path / "here")
    made = {"prepare": ("data", "talks", "run-of-talks"), "training": ("run",)}
    for name in made.get(page.parent.name, ()):  # by the commands themselves
        shutil.rmtree(folder / name)
    run_script("\n".join(blocks(page.read_text(encoding="utf-8"), "sh")), folder)
    run_python(page, folder)

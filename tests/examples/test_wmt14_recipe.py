"""WMT14's recipes use the values that they should, and run from end to end without the internet.

For the rehearsal, archives of the toy language are laid out as WMT14's own.
"""

import gzip
import hashlib
import io
import os
import re
import shutil
import signal
import sys
import tarfile
import time
from functools import partial
from html import escape
from itertools import islice
from pathlib import Path

import pytest
from catalogue import read_catalogue
from example_runs import made, make, make_command, needs_curl, needs_make, start_to_kill
from extract import count_lines
from make_text import corpus

from nmt.config.presets import find_preset, preset_values
from nmt.config.recipes import resolve_recipe
from nmt.data.manifest import read_info

ROOT = Path(__file__).parents[2]
WMT14 = ROOT / "examples" / "wmt14"
CATALOGUE = read_catalogue(WMT14 / "wmt14.toml")

# The paper, sections 5.1 to 6.1 and Table 3: preset, pieces, updates, updates between checkpoints,
# checkpoints averaged, dropout.
PAPER = {
    "en-de-base": ("transformer_base", 37_000, 100_000, 1_500, 5, 0.1),
    "en-de-big": ("transformer_big", 37_000, 300_000, 600, 20, 0.3),
    "en-fr-base": ("transformer_base", 32_000, 100_000, 1_500, 5, 0.1),
    "en-fr-big": ("transformer_big_en_fr", 32_000, 300_000, 600, 20, 0.1),
}

RECIPES = PAPER | {"en-de-modern": ("transformer_wmt", 37_000, 50_000, 1_000, 1, 0.1)}
"""All recipes. The last one has values of its own."""

pytestmark = needs_make


run = partial(made, "wmt14")


def would_run(*arguments: str) -> str:
    """Return all commands that make would run in an empty folder, one a line."""
    commands = run("-n", "WORK=nowhere", "PROCESSES=1", *arguments).replace("\\\n", " ")
    return re.sub(" +", " ", commands)


def command(commands: str, name: str) -> str:
    """Return the command of `nmt` that has a name, with a space at its end."""
    found = re.search(rf"-m nmt {name} [^\n]*", commands)
    assert found, commands
    return f"{found[0]} "


@pytest.mark.parametrize("model", RECIPES)
def test_a_recipe_uses_its_values(model: str) -> None:
    preset, pieces, updates, save_every, checkpoints, dropout = RECIPES[model]
    commands = would_run("score", f"MODEL={model}")
    assert f"--vocab-size {pieces} " in command(commands, "prepare")
    assert f"--max-updates {updates} " in command(commands, "train")
    assert f"--model {preset} " in command(commands, "train")
    assert f"--last {checkpoints} " in command(commands, "average")
    search = "--beam-size 4 --length-penalty 0.6 --max-extra-tokens 50"
    assert search in command(commands, "translate")

    architecture = find_preset(preset).architecture
    recipe = resolve_recipe(preset, architecture, [(preset, preset_values(preset))])
    training = recipe.training
    assert (training.max_updates, training.save_every) == (updates, save_every)
    assert training.keep_last >= checkpoints
    assert training.batch_tokens == 25_000
    assert training.label_smoothing == 0.1
    assert recipe.model.dropout == dropout


@pytest.mark.parametrize("example", ["wmt14", "iwslt14", "parsing"])
def test_a_dry_run_needs_prepared_text_and_makes_nothing(example: str, tmp_path: Path) -> None:
    done = make(example, "dry-run", f"WORK={tmp_path}", "PROCESSES=1", f"TREEBANK={tmp_path}")
    assert done.returncode and "run `make prepare` first" in done.stderr
    assert not [*tmp_path.iterdir()]


def test_what_a_recipe_needs_is_one_table(tmp_path: Path) -> None:
    table = run("needs", f"WORK={tmp_path}", "PROCESSES=1", "FORCE=1").splitlines()
    names = [line[:25].strip() for line in table if not line.startswith("make")]
    assert names == ["en-de-base", "GPUs", "disk, written and free"]


def test_without_a_gpu_a_recipe_stops_before_it_downloads(tmp_path: Path) -> None:
    # A Python for which no GPU is there, whatever this machine has.
    hidden = f"PYTHON=env CUDA_VISIBLE_DEVICES= {sys.executable}"
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    work, given = tmp_path / "work", (f"MIRROR={mirror}", hidden, "DISK=0")
    done = make("wmt14", "en-de-base", f"WORK={work}", *given)
    assert done.returncode
    assert "FORCE=1" in done.stderr
    assert not (work / "downloads").exists()


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_a_recipe_takes_every_text_of_the_catalogue(pair: str) -> None:
    commands = would_run("prepare", f"MODEL={pair}-base")
    texts = CATALOGUE.texts[pair]
    prepare = command(commands, "prepare").strip()
    used = re.findall(r"--(train|valid|test) \S*/(\S+)", prepare)
    splits = {"newstest2013": "valid", "newstest2014": "test"}
    assert sorted(used) == sorted((splits.get(name, "train"), name) for name in texts)
    for text in texts.values():
        fetch = commands.index(f"download.py {text.archive} ")
        assert fetch < commands.index(f"extract.py {text.name} ") < commands.index(prepare)


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all archives of the catalogue, and a catalogue of its own.

    Names, members and compression are those of the real archives. Size and checksum are recorded
    for the same archives.
    """
    folder = tmp_path_factory.mktemp("mirror")
    sentences = iter(corpus(1, {"train": 2_000, "valid": 0, "test": 0})["train"])
    taken: dict[str, list[tuple[str, str]]] = {}  # English and the other side, by text
    members: dict[str, dict[str, bytes]] = {name: {} for name in CATALOGUE.archives}
    entries = []
    for pair, texts in CATALOGUE.texts.items():
        for text in texts.values():
            if text.name not in taken:
                count = 20 if text.name.startswith("newstest") else 300
                taken[text.name] = [(one.en, one.de) for one in islice(sentences, count)]
            sides = zip(*taken[text.name], strict=True)
            for member, side in zip(text.members.values(), sides, strict=True):
                members[text.archive][member] = packed(member, side)
            entries += [f'[texts."{text.name}".{pair}]', f'archive = "{text.archive}"']
            entries += [f'{language} = "{member}"' for language, member in text.members.items()]
            entries.append(f"lines = {len(taken[text.name])}")
    for name, archive in CATALOGUE.archives.items():
        with tarfile.open(folder / name, "w:gz" if name.endswith(".tgz") else "w") as tar:
            for member, content in members[name].items():
                entry = tarfile.TarInfo(member)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        content = (folder / name).read_bytes()
        entries += [f'[archives."{name}"]', "addresses = []", 'source = "the mirror"']
        entries += [f"size = {len(content)}"] if archive.size else []
        for kind in archive.checksums:
            entries.append(f'{kind} = "{hashlib.new(kind, content).hexdigest()}"')
    (folder / "wmt14.toml").write_text("\n".join(entries), encoding="utf-8")
    return folder


def packed(member: str, lines: tuple[str, ...]) -> bytes:
    """Return a text in the format that the member's name tells."""
    if member.endswith(".sgm"):
        kind = "srcset" if "-src." in member else "refset"
        segments = [f'<seg id="{n}">{escape(line)}</seg>' for n, line in enumerate(lines, start=1)]
        head = f'<{kind} setid="test" srclang="any">\n<doc sysid="ref" docid="1">\n<p>'
        return "\n".join([head, *segments, f"</p>\n</doc>\n</{kind}>\n"]).encode()
    text = "".join(f"{line}\n" for line in lines).encode()
    return gzip.compress(text) if member.endswith(".gz") else text


def rehearsal(mirror: Path, work: Path) -> list[str]:
    """Return the variables for all stages with a tiny model on little text."""
    tiny = "--batch-tokens 300 --set save_every=2 --set validate_every=6 --set threads=1"
    tiny += " --set sample_translations=0"
    places = (f"MIRROR={mirror}", f"CATALOGUE={mirror}/wmt14.toml", f"WORK={work}")
    sizes = "PRESET=transformer_tiny VOCAB=400 UPDATES=6 AVERAGE=2 PROCESSES=2 FORCE=1"
    return [*places, *sizes.split(), f"TRAIN_OPTIONS={tiny}"]


def times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def interrupt(*arguments: str, sign: Path) -> None:
    """Start make, and stop it with all its processes when a file is there."""
    process = start_to_kill(make_command("wmt14", *arguments))
    while process.poll() is None and not sign.exists():
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait() != 0


@pytest.mark.slow
@needs_curl
def test_a_recipe_from_archives_to_a_score_can_be_stopped(mirror: Path, tmp_path: Path) -> None:
    work = tmp_path
    arguments = ["en-de-base", *rehearsal(mirror, work)]
    model, data = work / "en-de-base", work / "data-en-de"
    interrupt(*arguments, sign=model / "config.toml")
    before = times(work / "downloads") | times(work / "text-en-de") | times(data)
    assert data / "dataset.json" in before

    score = run(*arguments)
    assert before.items() <= times(work).items()
    info = read_info(data)
    assert [corpus.lines for corpus in info.train.corpora] == [300, 300, 300]
    assert (info.valid.pairs, info.tests[0].pairs) == (20, 20)
    assert info.vocabulary.sizes == (400,)
    assert '"ranks": 2' in (model / "metrics.jsonl").read_text(encoding="utf-8")
    assert count_lines(model / "newstest2014.de") == 20
    assert re.search(r"^BLEU\t", score, flags=re.MULTILINE)
    assert (model / "newstest2014.score").read_text(encoding="utf-8") in score

    # Everything is there, so only the score is shown again. So it is after an archive has come
    # back for another recipe, and after archives and text are gone.
    (work / "downloads" / "dev.tgz").touch()
    before = times(work)
    run(*arguments)
    assert times(work) == before
    further = run("-n", "score", *rehearsal(mirror, work), "UPDATES=8")
    assert " -m nmt train " in further
    assert "nmt prepare " not in further
    shutil.rmtree(work / "downloads")
    shutil.rmtree(work / "text-en-de")
    before = times(work)
    assert (model / "newstest2014.score").read_text(encoding="utf-8") in run(*arguments)
    assert times(work) == before

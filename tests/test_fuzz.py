"""Mutated files: each is read, or refused in one line, without a traceback, a signal or a hang.

NMT_FUZZ_SEED in the environment makes other files, and NMT_FUZZ_FILES more or fewer of each kind.
"""

import gzip
import json
import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path
from random import Random
from typing import NoReturn

import pyarrow
import pyarrow.parquet
import pytest
from command_line import QUICK
from foreign_models import MarianModel, MarianMT, to_binary, write_package
from listed import listed
from text_formats import write_csv, write_tmx, write_tsv, write_xlsx, write_zip
from toy_training import pairs, prepare_toy, train, write_text

from nmt.__main__ import main
from nmt.interchange.ctranslate2 import export_ctranslate2

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("NMT_FUZZ_SEED", "1"))
FILES = int(os.environ.get("NMT_FUZZ_FILES", "16"))  # of each kind
SECONDS = 120  # on a busy machine
MEMORY = 4 << 30  # more than the test has
_TOKENS = """
␍ ␊ ␉ " ' < & ]]> <!-- <![CDATA[ &#0; &#99999999999; <?xml -1 0 1e999 NaN null true
*a &a␣ !!python/name:os.system␣ !!timestamp␣x !!bool␣x ?␣ -␣
"""
_BYTES = "00 ff 80 ffffffff efbbbf fffe 1f8b08 504b0304 7f7f7f7f7f7f7f7f eda080"
_LONG = [b"9" * 20, b"9" * 5000, b"[" * 3000, b'{"a":' * 3000]
TOKENS = [*map(str.encode, listed(_TOKENS)), *map(bytes.fromhex, listed(_BYTES)), *_LONG]
"""What readers are known to stumble over."""
VALUE = re.compile(rb"""-?\b\d[\d.]*\b|"[^"<>\n]{0,80}"|\b(?:true|false|null)\b|\[[^]\n]{0,80}\]""")
_VALUES = r"""
0 -1 1 2.5 1e999 "" "x" "\u0000" "en" null true [] {} [[]] [1,␣"a"] {"a":␣1} nan "\ud800" "../x"
"\u001b[2J" "\q" [-1,␣2] [9999999999,␣9999999999]
"""
VALUES = [*map(str.encode, listed(_VALUES)), b"9" * 19, b"9" * 400]
"""What may stand in place of a value of JSON, TOML, YAML, XML or text."""


HTML = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>A cat</title>
<style>p > a {}</style></head><body><!-- no --><p class="x">The <b>small</b> dog&nbsp;sees
<a href="/a?b=1&amp;c=2">the house</a>, {0} and %s.<br>Then it finds 3 <i>birds</i>.</p>
<ul><li>old<li translate="no">red</ul><pre>  a
  b</pre></body></html>
"""
XLIFF = """<?xml version="1.0" encoding="utf-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"
 target-language="de" original="a" datatype="x"><body><group>
<trans-unit id="1"><source>The <g id="1">old</g> cat &amp; <x id="2"/></source></trans-unit>
<trans-unit id="2"><source>a</source><seg-source><mrk mtype="seg" mid="0">a dog.</mrk> <mrk
 mtype="seg" mid="1">{n, plural, one {a} other {# b}}</mrk></seg-source><target state="new"/>
</trans-unit></group></body></file></xliff>
"""
SGML = """<tstset setid="t" srclang="en" trglang="de"><doc docid="d" sysid="s">
<p><seg id="1">a &amp; b</seg>
<seg id="2">c</seg></p></doc></tstset>
"""
N_BEST = "".join(f"{n // 2} ||| a b ||| lm= -1 p= 0.5 1 ||| -0.{n}\n" for n in range(16))
SRT = (
    "1\n00:00:01,000 --> 00:00:02,000\nThe old cat\n\n2\n00:00:03,000 --> 00:00:04,500\nsees it.\n"
)

TRANSLATE = f"translate model {' '.join(QUICK)} --output out"
EXPORTED = "translate export --beam-size 1 --workers 1 --threads 1 --output out"
PREPARE = "prepare made --src en --tgt de --valid text --vocab data/vocab.model --workers 1 --train"
TRAIN = "train data --set threads=1 --out"
KINDS = {
    "html": ("page.html", f"{TRANSLATE}.html --input page.html"),
    "xliff": ("old.xlf", f"{TRANSLATE}.xlf --input old.xlf"),
    "srt": ("film.srt", f"{TRANSLATE}.srt --input film.srt"),
    "text": ("text.en", f"{TRANSLATE} --input text.en"),
    "gz": ("text.gz", f"{TRANSLATE} --input text.gz"),
    "terms": ("terms.tsv", f"{TRANSLATE} --input text.en --terms terms.tsv"),
    "safetensors": ("model", f"{TRANSLATE} --input text.en"),
    "journal": (".out.journal", f"{TRANSLATE} --input text.en"),
    "tmx": ("memory.tmx", f"{PREPARE} memory.tmx"),
    "tsv": ("crawl.tsv", f"{PREPARE} crawl.tsv:en,de"),
    "csv": ("sheet.csv", f"{PREPARE} sheet.csv"),
    "xlsx": ("sheet.xlsx", f"{PREPARE} sheet.xlsx:English,Deutsch"),
    "jsonl": ("lines.jsonl", f"{PREPARE} lines.jsonl"),
    "zip": ("opus.zip", f"{PREPARE} opus.zip"),
    "sgml": ("set.sgm", "score set.sgm set.sgm"),
    "n-best": ("list", "rescore model --n-best list --source text.en"),
    "npz": ("marian/model.npz", "import marian marian/model.npz made --src en --tgt de"),
    "bin": (
        "marian/model.bin",
        "import marian marian/model.bin made --src en --tgt de --vocab marian/vocab.spm",
    ),
    "yml": ("package/decoder.yml", "import marian package made --src en --tgt de"),
    "spm": ("marian/vocab.spm", "import marian marian/model.npz made --src en --tgt de"),
    "config.json": ("opus/config.json", "import huggingface opus made"),
    "vocab.json": ("opus/vocab.json", "import huggingface opus made"),
    "weights": ("opus/model.safetensors", "import huggingface opus made"),
    "parquet": ("hub.parquet", f"{PREPARE} hub.parquet"),
    "ctranslate2": ("export/model.bin", f"{EXPORTED} --input text.en"),
    "ctranslate2 config": ("export/config.json", f"{EXPORTED} --input text.en"),
    "dataset.json": ("data/dataset.json", "data data"),
    "shard": ("data/train-00000.bin", "data data"),
    "config.toml": ("run/config.toml", f"{TRAIN} run"),
    "metrics.jsonl": ("run/metrics.jsonl", f"{TRAIN} run --max-updates 3"),
}
"""Each with the file that is changed, and the command that then reads it."""


@pytest.fixture(scope="session")
def originals(model_file: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sound file of each kind."""
    folder = tmp_path_factory.mktemp("originals")
    text = pairs(8, seed=3)
    write_text(folder, "text", text)
    shutil.copy(model_file, folder / "model")
    shutil.copytree(data, folder / "data")
    shutil.copytree(prepare_toy(folder / "other", count=50), folder / "other_data")
    train(data, folder / "run", max_updates=2, validate_every=1, save_every=1)
    to_binary(MarianModel().write(folder / "marian"))
    write_package(folder / "package", MarianMT().write(folder / "opus"))
    for write in (write_tmx, write_tsv, write_csv, write_zip, write_xlsx):
        write(folder, text)
    lines = [json.dumps({"translation": {"en": src, "de": tgt}}) for src, tgt in text]
    contents = {"page.html": HTML, "old.xlf": XLIFF, "film.srt": SRT}
    contents |= {"set.sgm": SGML, "list": N_BEST, "lines.jsonl": "\n".join(lines)}
    contents["terms.tsv"] = "# terms\nen\tde\tform\none\teins\ntwo three\tzwei drei\tzwei\n"
    for name, content in contents.items():
        (folder / name).write_text(content)
    table = pyarrow.table({"en": [src for src, _ in text], "de": [tgt for _, tgt in text]})
    pyarrow.parquet.write_table(table, folder / "hub.parquet")
    export_ctranslate2(folder / "model", folder / "export", "float32")
    (folder / "text.gz").write_bytes(gzip.compress((folder / "text.en").read_bytes()))
    assert run_apart(KINDS["journal"][1], folder) == (0, "")
    # As if it had been killed before its end.
    (folder / "out").rename(folder / ".out.partial")
    journal = folder / ".out.journal"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    return folder


def mutated(content: bytes, random: Random) -> bytes:
    """Change a file in one to four places, or only what it says in one part of it."""
    header = int.from_bytes(content[:8], "little") if content[8:10] == b'{"' else 0
    if header and random.random() < 0.7:  # safetensors
        changed = mutated(content[8 : header + 8], random)
        return len(changed).to_bytes(8, "little") + changed + content[header + 8 :]
    return _mutated(content, random)


def _mutated(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    values = [value.span() for value in VALUE.finditer(content)] or [(0, 0)]
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        size = len(changed)
        # Headers matter more than the rest.
        start = random.randrange(min(size, random.choice((64, 1024, size))) or 1)
        end = min(size, start + random.choice((1, 2, 4, 16, 256, size)))
        match random.randrange(9):
            case 0:
                if start < size:
                    changed[start] ^= 1 << random.randrange(8)
            case 1:
                del changed[start:]
            case 2:
                del changed[start:end]
            case 3:
                changed[end:end] = changed[start:end] * random.choice((1, 1, 2, 50))
            case 4:
                changed[start:start] = random.choice(TOKENS)
            case 5:
                changed[start : start + random.choice((0, 1, 4, 8))] = random.choice(TOKENS)
            case _:
                first, last = random.choice(values)
                changed[first:last] = random.choice(VALUES)
    return bytes(changed)


def run_apart(words: str, folder: Path) -> tuple[int, str]:
    """Run a command in a copy of this process; return its exit status and what is odd on stderr.

    The status is the negative number of a signal, also if it ends by one of our limits.
    """
    said = folder / "stderr"
    child = os.fork()
    if child == 0:
        _become(words, folder, said)
    end = time.monotonic() + SECONDS
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -signal.SIGKILL, "it hangs"
        time.sleep(0.005)
    lines = said.read_text(errors="replace").splitlines()
    odd = "\n".join(line for line in lines if not line.startswith(("nmt: ", "{")))
    return os.waitstatus_to_exitcode(ended[1]), odd


def _become(words: str, folder: Path, said: Path) -> NoReturn:
    status = 99
    try:
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number, path in enumerate((os.devnull, os.devnull, str(said))):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        sys.argv = ["nmt", *words.split()]
        main()
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 98
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files_are_read_or_refused(kind: str, originals: Path, tmp_path: Path) -> None:
    name, words = KINDS[kind]
    content = (originals / name).read_bytes()
    faults = []
    for number in range(FILES):
        folder = tmp_path / str(number)
        shutil.copytree(originals, folder)
        (folder / name).write_bytes(mutated(content, Random(f"{SEED} {kind} {number}")))
        status, odd = run_apart(words, folder)
        if odd or status not in (0, 1, 2, 75):
            faults.append(f"{folder}: {words}: {status}\n{odd}")
        else:
            shutil.rmtree(folder)
    assert not faults, "\n".join(faults)

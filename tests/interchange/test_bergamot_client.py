"""Bergamot itself, in Node and in Chromium, translates what `nmt export bergamot` writes."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_runs import EXAMPLES
from toy_training import pairs, prepare_toy, train

from nmt.config.fields import Value

pytestmark = pytest.mark.slow

PACKAGE = "@browsermt/bergamot-translator"
HERE = Path(__file__).parent
GREEDY = ("--beam-size", "1", "--no-guard", "--workers", "1", "--threads", "1", "--quiet")


def run(*command: str | Path, stdin: str = "") -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def nmt(*words: str | Path) -> str:
    return run(sys.executable, "-m", "nmt", *words)


LENGTHS: dict[str, Value] = {"max_updates": 500, "warmup_updates": 50, "ema_decay": 0.9}
LENGTHS |= {"validate_every": 100, "save_every": 100}


def learn(folder: Path, *, separate_vocab: bool = False, **values: Value) -> Path:
    """Train and export a student of number words; return the folder of the run and the model."""
    data = prepare_toy(folder, count=1_000, separate_vocab=separate_vocab)
    usual: dict[str, Value] = {"preset": "transformer_student_tiny", "d_model": 64, "d_ff": 128}
    train(data, folder / "run", **LENGTHS | usual | values)
    nmt("export", "bergamot", folder / "run", folder / "model", "--src-name", "Plain English")
    return folder


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return learn(tmp_path_factory.mktemp("student"))


def translate(modules: Path, model: Path, text: str, *kind: str) -> list[str]:
    package = modules / "node_modules" / PACKAGE
    out = run("node", HERE / "bergamot.mjs", package, model, "en", "de", *kind, stdin=text)
    return out.splitlines()


def assert_alike(modules: Path, folder: Path, least: int) -> None:
    """Check that at least so many of 200 lines are translated by Node as by the run in a folder.

    Rounding to int8 changes what a model is unsure of.
    """
    text = "".join(f"{line}\n" for line, _ in pairs(200, seed=9))
    (folder / "text").write_text(text)
    ours = nmt("translate", folder / "run", "--input", folder / "text", *GREEDY).splitlines()
    theirs = translate(modules, folder / "model", text)
    assert sum(one == other for one, other in zip(ours, theirs, strict=True)) >= least


def test_node_translates_number_words_as_we_do(modules: Path, student: Path) -> None:
    assert_alike(modules, student, least=180)


@pytest.mark.parametrize(
    ("separate_vocab", "values"),
    [
        (True, {"tie_embeddings": "decoder"}),
        (False, {"decoder_memory": "attention", "feed_forward": "swish"}),
        (False, {"attention_bias": False, "output_bias": False, "tie_embeddings": "decoder"}),
    ],
)
def test_node_translates_with_models_unlike_firefox_s(
    modules: Path, tmp_path: Path, separate_vocab: bool, values: dict[str, Value]
) -> None:
    assert_alike(modules, learn(tmp_path, separate_vocab=separate_vocab, **values), least=160)


def test_tags_move_to_the_words_that_stand_for_theirs(modules: Path, student: Path) -> None:
    html = """one <b>two</b> three
<a href="x">four</a> five
<p>one <b>two <i class="x">three</i></b> four</p>
"""
    assert translate(modules, student / "model", html, "html") == [
        "drei <b>zwei</b> eins",
        'fünf <a href="x">vier</a>',
        '<p>vier <b><i class="x">drei</i> zwei</b> eins</p>',
    ]


def test_no_tag_is_lost(modules: Path, student: Path) -> None:
    html = """<p><a href="?a=1&amp;b=2">one</a> <em>two</em> <a href="#c">three</a></p>
one<br>two<hr>three <img src="a.png" alt="one"> four
<table><tr><td>one two</td><td><b>three</b> four</td></tr></table>
one <!-- two --> three
<ul><li>one &amp; two</li><li>five &lt; six</li></ul>
<p>one <code>x &lt; 1</code> two <kbd>y</kbd></p><script>"<b>"</script>
<p></p><p>one <a name="top"></a>two <b></b></p>
"""
    translations = translate(modules, student / "model", html, "html")
    for line, translation in zip(html.splitlines(), translations, strict=True):
        # A tag whose words come apart is there twice.
        assert set(re.findall(r"<[^>]+>", translation)) == set(re.findall(r"<[^>]+>", line))
    assert "<code>x &lt; 1</code>" in translations[5]


def is_answered(address: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(address):
        return True
    return False


@pytest.fixture
def page(student: Path, tmp_path: Path) -> Iterator[str]:
    """The address of examples/browser, served by its Makefile with the student."""
    site = tmp_path / "site"
    shutil.copytree(EXAMPLES / "browser", site)
    shutil.copytree(student / "model", site / "model")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    command = ["make", "-C", str(site), f"PORT={port}", f"PYTHON={sys.executable}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    address = next(filter(None, (re.search(r"http://\S+", line) for line in server.stdout)))[0]
    while not is_answered(address) and server.poll() is None:
        time.sleep(0.1)
    yield address
    os.killpg(server.pid, signal.SIGTERM)
    server.wait()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_translates_what_is_typed(modules: Path, page: str, tmp_path: Path) -> None:
    chromium = str(shutil.which("chromium"))
    words = ("one", "*two*", "three")
    typed = run("node", HERE / "type_text.mjs", modules, chromium, tmp_path, page, *words)
    shown = json.loads(typed)
    assert shown["errors"] == []
    assert (shown["from"], shown["to"]) == ("Plain English", "German")
    assert shown["target"] == "drei <b>zwei</b> eins"

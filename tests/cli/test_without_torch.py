"""What commands load. torch takes seconds, and others add up, so none loads more than it needs."""

import fcntl
import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from command_line import Nmt

NOT_FOR_A_LINE = {
    "torch": "CTranslate2 translates",
    "numpy": "only alignments, phrases and loops are computed with it",
    "sacremoses": "its list of abbreviations is read without its tables",
    "joblib": "only sacremoses uses it",
    "filelock": "only files have a journal, which is locked",
    "matplotlib": "only --attention draws",
    "sacrebleu": "nothing is scored",
    "nmt.markup.documents": "lines are no document",
    "nmt.markup.document_units": "its patterns, which are large, are those of documents",
    "nmt.training.train": "nothing is learnt",
}
"""What an export loads none of to translate a line of two sentences from stdin, and why."""

NOT_FOR_HELP = {
    "pydantic": "typer checks values with it, and there are none",
    "nmt.jobs.job": "it is of the body of translate",
    "nmt.prepare.prepare": "it is of the body of prepare",
}
"""What `nmt --help` loads none of, and why."""

# Runs a command as the program does, and tells on stderr what it has loaded.
LOADED = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(list(sys.modules)), file=sys.stderr))
from nmt.__main__ import main
main()
"""

# Runs commands one after the other in a process that cannot load some modules.
PROGRAM = """
import contextlib, io, json, sys
unneeded, commands = json.load(sys.stdin)
sys.modules |= dict.fromkeys(unneeded)
from nmt.__main__ import main
answers = []
for words in commands:
    sys.argv = ["nmt", *words]
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            answers.append((end.code, said.getvalue()))
        except ImportError as error:
            answers.append((None, f"{words}: {error}"))
print(json.dumps(answers))
"""


def run(program: str, *words: str | Path, stdin: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True)


def answers(unneeded: Sequence[str], commands: Sequence[Sequence[str | Path]]) -> list[Any]:
    """Return the statuses of commands that are run without these modules, and their stderr."""
    given = json.dumps([unneeded, [[str(word) for word in words] for words in commands]])
    found: list[Any] = json.loads(run(PROGRAM, stdin=given).stdout)
    return found


def test_what_needs_no_torch_loads_none(nmt: Nmt, model_file: Path, tmp_path: Path) -> None:
    text, done, held, run = (tmp_path / name for name in ("in", "done", "held", "run"))
    text.write_text("the cat\n")
    run.mkdir()
    files = ("--input", text, "--output")
    finished = ("translate", model_file, *files, done)
    assert nmt(*finished, "--workers", "1").status == 0
    translate, out = ("translate", model_file), ("--out", run / "out")
    new = (*translate, *files, run / "out", "--workers")
    cases: list[tuple[tuple[str | Path, ...], int, str]] = [
        (finished, 0, "already translated"),
        ((*translate, *files, held), 75, "held: another"),
        ((*translate, "--lock", tmp_path / "lock"), 75, "lock: another"),
        (("translate", tmp_path / "none.safetensors"), 1, "none.safetensors: no"),
        (("translate", run), 1, "run: no model"),
        ((*translate, "--precision", "fp23"), 2, "--precision fp23: "),
        ((*new, "99", "--device", "cpu"), 2, "--workers"),
        ((*translate, "--terms", run), 1, "run: is"),
        (("train", run, *out, "--model", "transformer_tiny"), 1, "run is not"),
        (("train", run, *out, "--model", "conv_seq2seq", "--set", "x=1"), 2, "key 'x'"),
        (("average", text, run / "none", *out), 1, "in: is text"),
        (("models",), 0, ""),
        (("score", text, text), 0, ""),
        (("rescore", model_file, text, "--source", text, "--device", "gpu"), 2, "--device gpu: "),
        (("data", run), 1, "run is not"),
    ]
    if find_spec("ctranslate2") is not None:
        export = tmp_path / "export"
        assert nmt("export", "ctranslate2", model_file, export).status == 0
        search = ("--max-extra-tokens", "3", "--threads", "1")
        cases.append((("translate", export, *files, tmp_path / "out", *search), 0, "lines_out"))
    job = (tmp_path / ".held.journal").open("ab")
    lock = (tmp_path / "lock").open("ab")
    with job, lock:
        for file in (job, lock):
            fcntl.flock(file, fcntl.LOCK_EX)
        # Moses, which is slow to load, is for paragraphs alone.
        found = answers(["torch", "sacremoses"], [words for words, _, _ in cases])
    for (words, status, message), (ended, said) in zip(cases, found, strict=True):
        assert ended == status, f"{words}: {said}"
        assert message in said


def test_bleu_of_two_files_loads_nothing_else(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("the cat\n")
    unneeded = ["numpy", "nmt.data.moses", "nmt.search.options"]
    ((status, said),) = answers(unneeded, [("score", text, text, "--metric", "bleu")])
    assert status == 0, said


def loaded(*words: str | Path) -> tuple[str, set[str]]:
    """Return stdout of a command that is given two sentences, and the modules that it loads."""
    ran = run(LOADED, *words, stdin="The cat sees it. Mr. Smith sees a dog.\n")
    return ran.stdout, set(json.loads(ran.stderr.splitlines()[-1]))


def test_an_export_starts_with_little(nmt: Nmt, model_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2")
    export = tmp_path / "export"
    assert nmt("export", "ctranslate2", model_file, export).status == 0
    # More than one segment, so that sentences were looked for.
    translated, modules = loaded("translate", export, "--split", "--no-guard", "--quiet")
    assert translated.count("\n") == 1
    assert "nmt.translate.segmentation" in modules
    assert {name: why for name, why in NOT_FOR_A_LINE.items() if name in modules} == {}


def test_the_list_of_commands_needs_little() -> None:
    listed, modules = loaded("--help")
    assert "translate" in listed
    assert {name: why for name, why in NOT_FOR_HELP.items() if name in modules} == {}

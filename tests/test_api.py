"""What `import nmt` offers to Python programs."""

import copy
import io
import os
import pickle
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import nmt
from nmt.errors import UsageError

LINES = ["the cat sees a bird", "", "a dog. The old house", "the small tree"]
OPTIONS = nmt.SearchOptions(beam_size=8, n_best=2, max_extra_tokens=3)


def test_all_names_are_there_and_no_others() -> None:
    for name in nmt.__all__:
        assert getattr(nmt, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'translated'"):
        _ = nmt.translated


def test_a_result_tells_all_about_a_line(model_file: Path) -> None:
    translator = nmt.Translator.load(model_file, OPTIONS, alignment=True)
    first, blank, _, last = translator.translate(LINES)
    assert blank == nmt.Translation("", 0.0, 0.0, (), (), 0)
    assert str(translator(LINES[0])) == first.text
    with pytest.raises(UsageError, match="load"):
        nmt.Translator(str(model_file))  # type: ignore[arg-type, call-arg]
    for found in (first, last):
        assert found.text
        assert len(found.tokens) == len(found.token_log_probs)
        assert found.score < 0
        assert len(found.others) == 1
        assert found.score >= found.others[0].score
        assert isinstance(found.alignment, nmt.Alignment)
        assert len(found.alignment.positions) == len(found.tokens)
    assert last.alignment is not None
    assert "".join(last.alignment.src_tokens).replace("▁", " ").strip() == LINES[-1]


CHANGES = """
import os, signal, sys, warnings
import numpy, safetensors, sentencepiece, torch, typer  # which may change something themselves

def state():
    return {
        "environment": dict(os.environ),
        "imports": [sys.meta_path[:], sys.path[:]],
        "hooks": [sys.excepthook, sys.unraisablehook, warnings.showwarning],
        "signals": [signal.getsignal(number) for number in signal.Signals],
        "streams": [sys.stdin, sys.stdout, sys.stderr],
        "warnings": warnings.filters[:],
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "precision": [torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32],
        "defaults": [torch.get_default_dtype(), torch.is_grad_enabled()],
        "random": [torch.initial_seed(), torch.get_rng_state().tolist()],
    }

torch.set_num_threads(5)  # more than cores
before = state()
exec(sys.argv[1])
print([name for name, value in state().items() if value != before[name]])
"""


WORK = """
import nmt, nmt.cli.command
for options in (nmt.SearchOptions(), nmt.SearchOptions(sampling=nmt.Sampling(seed=1))):
    nmt.Translator.load(sys.argv[2], options).translate(["the cat"])
"""


def test_a_library_leaves_the_process_of_its_caller_alone(model_file: Path) -> None:
    command = [sys.executable, "-c", CHANGES, WORK, str(model_file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_stream_is_taken_as_it_comes(model_file: Path) -> None:
    translator = nmt.Translator.load(model_file, OPTIONS)
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for line in LINES:
            taken.append(line)
            yield f"{line}\n"

    stream = translator.stream(lines(), pool_lines=2)
    first = next(stream)
    assert taken == LINES[:2]
    texts = [translation.text for translation in translator.translate(LINES)]
    assert [first.text, *(translation.text for translation in stream)] == texts


def test_prefixes_and_paragraphs(model_file: Path) -> None:
    translator = nmt.Translator.load(model_file, OPTIONS, split=True)
    begun, free = translator.translate(LINES[2:], prefixes=["a small bird", ""])
    assert begun.text.startswith("a small bird")
    assert (begun.segments, free.segments) == (2, 1)
    assert free.text == translator.translate(LINES[3:])[0].text


def test_what_has_no_meaning_is_refused(model_file: Path) -> None:
    translator = nmt.Translator.load(model_file, OPTIONS)
    marked = nmt.Translator.load(model_file, OPTIONS, markup="xml")
    for wrong in (
        lambda: translator.translate("the cat"),
        lambda: translator.translate(["the cat", "a dog"], ["x"]),
        lambda: list(translator.stream(["the cat"], pool_lines=0)),
        lambda: translator.translate([b"the cat"]),  # type: ignore[list-item]
        lambda: marked.translate(["the cat"], ["x"]),
        lambda: nmt.Translator.load([]),
        lambda: nmt.Translator.load(model_file, device="tpu"),
        lambda: nmt.Translator.load(model_file, batch_tokens=0),
        lambda: nmt.Translator.load(model_file, bream_size=4),
        lambda: nmt.Translator.load(model_file, models=[model_file]),
        lambda: nmt.Translator.load(model_file, encoding="utf-9"),
        lambda: nmt.SearchOptions(beam_size=0),
        lambda: copy.copy(translator),
        lambda: pickle.dumps(translator),
    ):
        with pytest.raises(UsageError):
            wrong()


def test_eight_threads_get_the_translations_of_one(model_file: Path) -> None:
    options = nmt.SearchOptions(beam_size=1, max_extra_tokens=0, no_guard=True)
    translator = nmt.Translator.load(model_file, options, markup="html", alignment=True)
    words = "the cat sees a small bird and the old dog".split()
    lines = [
        f"{' '.join(words[: n % 8])} <b>{words[n % 7]}</b> <i>{words[-1 - n % 3]} {n}</i>"
        for n in range(300)
    ]
    expected = [translator.translate([line])[0] for line in lines]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda line: translator.translate([line])[0], lines))
    assert [found.text for found in answers] == [found.text for found in expected]
    assert [found.alignment for found in answers] == [found.alignment for found in expected]


def test_a_call_has_its_own_threads_of_torch_and_others_keep_theirs(model_file: Path) -> None:
    counts: list[int] = []

    def look() -> None:
        with ThreadPoolExecutor(1) as new_thread:
            of_others = new_thread.submit(torch.get_num_threads).result()
        counts[:] = torch.get_num_threads(), of_others

    torch.set_num_threads(3)
    for own in (1, 2):
        nmt.Translator.load(model_file, OPTIONS, threads=own).translate(LINES[:1], on_step=look)
        assert counts == [own, 3]
        look()
        assert counts == [3, 3]


def in_fork(translator: nmt.Translator) -> str:
    """Return the text of a line, or the error, of a fork of this process."""
    from_fork, to_parent = os.pipe()
    if not (process := os.fork()):
        try:
            answer = translator.translate(LINES[:1])[0].text
        except UsageError as error:
            answer = str(error)
        os.write(to_parent, answer.encode())
        os._exit(0)
    os.close(to_parent)
    try:
        has_answer, _, _ = select.select([from_fork], [], [], 60)
        return os.read(from_fork, 1_000).decode() if has_answer else "no answer"
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(from_fork)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_fork_after_the_first_translation_gets_an_answer_or_an_error(model_file: Path) -> None:
    torch.set_num_threads(2)
    torch.ones(1_000, 1_000).sum()  # starts them
    translator = nmt.Translator.load(model_file, OPTIONS)
    (translation,) = translator.translate(LINES[:1])
    assert in_fork(translator) == translation.text
    assert "load it after the fork" in in_fork(nmt.Translator.load(model_file, OPTIONS, threads=2))


def test_the_server_of_the_manual_answers(model_file: Path, here: Path) -> None:
    page = (Path(nmt.__file__).parent / "translate/README.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (program,) = (program for program in programs if "def application" in program)
    shutil.copy(model_file, here / "averaged.safetensors")
    server: dict[str, Any] = {}
    exec(program, server)
    answers: list[Any] = []
    body = b"<b>a cat</b>\n\na dog"
    request = {"CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
    (answer,) = server["application"](request, lambda *status: answers.append(status))
    assert answers[0][0] == "200 OK"
    first, blank, _ = answer.decode().split("\n")
    assert (re.findall("<.*?>", first), blank) == (["<b>", "</b>"], "")

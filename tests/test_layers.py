"""The house rules that reading the source can prove: who may import whom, by which door, and names.

Imports count wherever they stand, also inside functions and under TYPE_CHECKING: a dependency is
one whenever it is loaded.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

GUIDE = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
STAGES = re.findall(r"^\| `nmt/(\w+)` \|", GUIDE, re.MULTILINE)
"""In the order of the data, as its map has them: a stage imports itself and stages before it."""

ONLY_FROM = {"scoring": {"system", "config", "data", "tables", "markup", "scoring"}}
"""Stages that are held closer than their place in the order."""

GROUND_FLOOR = {path.stem for path in (ROOT / "nmt").glob("[!_]*.py")}
"""Modules that every stage stands on, and that therefore know none."""

DOORS: dict[str, str | tuple[str, ...]] = {
    "typer": "nmt/cli/",
    "click": "",
    "rich": "nmt/console.py",
    "tqdm": "nmt/console.py",
    "matplotlib": ("nmt/system/plot.py", "nmt/translate/attention_picture.py"),
    "sentencepiece": "nmt/data/vocabulary.py",
    "sacrebleu": "nmt/scoring/",
    "sacremoses": "nmt/data/moses.py",
    "langcodes": "nmt/data/languages.py",
    "pyarrow": "nmt/tables/parquet.py",
    "python_calamine": "nmt/tables/xlsx.py",
    "fasttext": "nmt/prepare/language_id.py",
    "simplemma": "nmt/lexical/lemmas.py",
    "backports.zstd": "nmt/data/compressed.py",
    "ray": "nmt/system/ray_workers.py",
    "fsspec": "nmt/system/remote.py",
    "ctranslate2.Translator": "nmt/translate/load_export.py",
    "ctranslate2.specs": "nmt/interchange/ctranslate2.py",
    "tensorboard": "",
    "torch.distributed": ("nmt/system/distributed.py", "nmt/system/launch.py"),
    "torch.utils.tensorboard": "nmt/runs/report.py",
    # A model file from a stranger must not run code: weights and state are safetensors.
    **dict.fromkeys(("pickle", "cloudpickle", "dill", "marshal", "shelve"), ""),
    **dict.fromkeys(("allow_pickle", "torch.save"), ""),
    # With weights_only, of other people's models.
    "torch.load": "nmt/interchange/importers/huggingface_files.py",
    "yaml": (
        "nmt/interchange/importers/marian.py",
        "nmt/interchange/importers/yaml_settings.py",
        "nmt/interchange/marian_export.py",
    ),
}
"""Third-party interface -> the only files or folder that may use it; empty: none may."""

SEARCH_SEES = {"base", "registry", "model_file", "ensemble", "device", "kernels", "tensor_file"}
"""What speaks of every architecture alike; everything else in nmt/models/ is one of them."""

VAGUE_NAMES = {"common", "helper", "helpers", "lib", "misc", "stuff", "tools", "util", "utils"}

SHARED_FILE_NAMES = {"options.py", "prepare.py", "train.py", "translate.py"}
"""File names of several folders, where the files do the same job for each."""

MOST_FILES = 22
"""In a folder of nmt."""

WITHOUT_TORCH = ["nmt.data.folder", "nmt.prepare.prepare", "nmt.models.model_file"]
WITHOUT_TORCH += ["nmt.config.presets", "nmt.scoring.metrics", "nmt.jobs.job"]
WITHOUT_TORCH += ["nmt.runs.run_folder", "nmt.training.choose_recipe"]
"""Modules that load no torch, nor does what they load; it takes seconds. What CTranslate2, the
journal, locks and finished jobs need is behind `nmt.jobs.job`."""


@cache
def sources(*folders: str) -> dict[str, str]:
    """Return the text of each file of Python in some folders, by its path from the root."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


parsed = cache(ast.parse)


def names_used(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, dotted name) of what a module imports or reaches through a module.

    package: the package that relative imports start from. `from a import b` gives `a.b`, whether b
    is a module or not, and the expression `torch.distributed.init` gives itself.
    """
    for node in ast.walk(parsed(source)):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield node.lineno, alias.name
            case ast.ImportFrom():
                start = package.split(".")
                above = ".".join(start[: len(start) - node.level + 1]) if node.level else ""
                base = ".".join(part for part in (above, node.module) if part)
                for alias in node.names:
                    yield node.lineno, f"{base}.{alias.name}"
            case ast.Attribute():
                yield node.lineno, ast.unparse(node)
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=False)):
                pass
            case ast.keyword(arg="allow_pickle"):
                yield node.value.lineno, "allow_pickle"


@cache
def uses() -> list[tuple[str, int, str]]:
    """Return (file, line number, dotted name) of all that nmt uses."""
    found = []
    for file, source in sources("nmt").items():
        package = file.rpartition("/")[0].replace("/", ".")
        found += [(file, *use) for use in names_used(source, package)]
    return found


def within(name: str, interface: str) -> bool:
    return name == interface or name.startswith(f"{interface}.")


def allowed_stages(file: str) -> set[str]:
    """Return the stages that a file may import: nmt/prepare/block.py gives data and prepare."""
    _, folder, *rest = Path(file).with_suffix("").parts
    if folder in GROUND_FLOOR and not rest:
        return set()
    if folder in STAGES:
        return ONLY_FROM.get(folder, set(STAGES[: STAGES.index(folder) + 1]))
    return set(STAGES)


def goes_up(file: str, name: str) -> bool:
    """A stage imports only itself and stages before it, and the ground floor imports none."""
    package, folder, *_ = (*name.split("."), "")
    return package == "nmt" and folder in set(STAGES) - allowed_stages(file)


def misses_the_door(file: str, name: str) -> bool:
    """A third-party interface is used through one door, and pickle never."""
    doors = [door for interface, door in DOORS.items() if within(name, interface)]
    return any(not (door and file.startswith(door)) for door in doors)


def knows_a_model(file: str, name: str) -> bool:
    """Search sees any model through what speaks of all of them."""
    if not (file.startswith("nmt/search/") and within(name, "nmt.models")):
        return False
    return not any(within(name, f"nmt.models.{one}") for one in SEARCH_SEES)


def leaves_the_kernels(file: str, name: str) -> bool:
    """Kernels compute for any model, and know none."""
    kernels = "nmt.models.kernels"
    of_models = within(name, "nmt.models") and not within(name, kernels)
    return file.startswith(f"{kernels.replace('.', '/')}/") and of_models


@pytest.mark.parametrize("is_fault", [goes_up, misses_the_door, knows_a_model, leaves_the_kernels])
def test_imports_keep_the_rules(is_fault: Callable[[str, str], bool]) -> None:
    assert {file.split("/")[1] for file, _, _ in uses()} >= set(STAGES)
    faults = [f"{file}:{line} uses {name}" for file, line, name in uses() if is_fault(file, name)]
    if faults:
        pytest.fail("\n  ".join([f"{is_fault.__doc__}", *sorted(set(faults))]), pytrace=False)


def test_no_two_classes_have_one_name() -> None:
    """Private ones count, too."""
    files = defaultdict[str, list[str]](list)
    for file, source in sources("nmt").items():
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(file)
    assert {name: where for name, where in files.items() if len(where) > 1} == {}


def imported_file(name: str) -> str:
    """Return the file that a dotted name is in, from the root; empty if it is not of nmt."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path = Path(*parts[:length])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if parts[0] == "nmt" and (ROOT / file).is_file():
                return file.as_posix()
    return ""


def test_no_files_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for file, _, name in uses():
        graph.setdefault(file, set()).update({imported_file(name)} - {file, ""})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])), pytrace=False)


def test_folders_are_small_and_file_names_mean_one_thing() -> None:
    paths = [Path(file) for file in sources("nmt")]
    folders, names = (Counter(path.parent for path in paths), Counter(path.name for path in paths))
    assert not {folder for folder, count in folders.items() if count > MOST_FILES}
    shared = {name for name, count in names.items() if count > 1} - {"__init__.py"}
    assert not shared - SHARED_FILE_NAMES


def code_lines(source: str) -> int:
    """Count the lines other than comments, docstrings and blank ones. A string counts whole."""
    lines = enumerate(map(str.strip, source.split("\n")), start=1)
    code = {number for number, line in lines if line and not line.startswith("#")}
    docstrings = set[int]()
    for node in ast.walk(parsed(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), end_lineno=int(end)):
                docstrings.update(range(node.lineno, end + 1))
            case ast.Constant(end_lineno=int(end)) | ast.JoinedStr(end_lineno=int(end)):
                code.update(range(node.lineno, end + 1))
    return len(code - docstrings)


def test_comments_docstrings_and_blank_lines_are_no_lines_of_code() -> None:
    source = '''"""A module
of two lines."""

LIMIT = 3  # code
"""What an attribute is."""
# no code
TEXT = """all four lines,

# of a string
count"""
'''
    assert code_lines(source) == 1 + 4


@pytest.mark.parametrize("folder", ["nmt", "tests"])
def test_a_folder_has_at_most_so_many_lines_of_code(folder: str) -> None:
    (bound,) = re.findall(rf"`{folder}`(?:\s+has)?\s+at\s+most\s+(\d+,\d+)", GUIDE)
    assert sum(map(code_lines, sources(folder).values())) <= int(bound.replace(",", ""))


def test_names_say_what_a_module_is() -> None:
    paths = map(Path, sources("nmt", "tests", "examples"))
    parts = {path: {part.strip("_") for part in path.with_suffix("").parts} for path in paths}
    assert not [path for path in parts if VAGUE_NAMES & parts[path]]


def test_docstrings_are_plain_sentences() -> None:
    """One line per argument (`path: the file.`), and sentences such as "UsageError if ..."."""
    header = re.compile(r"^\s+(?:Args|Arguments|Returns|Yields|Raises):$", re.MULTILINE)
    texts = sources("nmt", "tests", "examples")
    assert not [file for file, text in texts.items() if header.search(text)]


def test_the_wording_of_messages_stands_in_one_table() -> None:
    """Which is in `cli/test_wrong_inputs.py`; elsewhere, `match=` names what a message names."""
    prose = re.compile(r"(?:\b[a-z']+,? ){3}[a-z']+\b")
    wordings = [
        f"{file}: {text}"
        for file, source in sources("tests").items()
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.keyword) and node.arg == "match"
        for constant in ast.walk(node.value)
        if isinstance(constant, ast.Constant) and prose.search(text := str(constant.value))
    ]
    assert wordings == []


def test_lists_are_not_packed_by_stars() -> None:
    """`*("a", "b")` in a list only saves lines. A star is for what has a name or is computed."""
    found = [
        f"{file}:{node.lineno}"
        for file, text in sources("nmt", "tests", "examples").items()
        if re.search(r"\*\s*[(\[]", text)
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List)
    ]
    assert found == []


def test_no_group_of_a_pattern_is_possessive() -> None:
    # Python before 3.11.5 goes too far then: \d+(?:[.,]\d+)*+ takes the full stop of "1,000.", too.
    # \d+(?>(?:[.,]\d+)*) is right.
    possessive = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+")
    texts = sources("nmt", "examples")
    assert not [file for file, text in texts.items() if possessive.search(text)]


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        (
            "from nmt.cli import application; application()",
            ("torch", "numpy", "sentencepiece", "sacrebleu"),
        ),
        ("import nmt; nmt.__version__", ("torch",)),
        (f"import {', '.join(WITHOUT_TORCH)}", ("torch",)),
    ],
    ids=["nmt --help", "import nmt", "without torch"],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(program: str, heavy: tuple[str, ...]) -> None:
    # What loads it: python -X importtime -c PROGRAM
    program = f"import sys; {program}; print(*({set(heavy)} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.stdout, done.stderr) == ("\n", "")

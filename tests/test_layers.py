"""The house rules that reading the source can prove: who may import whom, and by which door.

Imports count wherever they stand, also inside functions and under TYPE_CHECKING: a dependency is
one whenever it is loaded.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "nmt"
SOURCES = sorted(PACKAGE.rglob("*.py"))

STAGES = (
    *("data", "prepare", "models", "interchange", "search", "translate", "scoring", "runs"),
    *("training", "cli"),
)
"""In the order of the data: a stage imports itself and stages before it."""

ONLY_FROM = {"scoring": {"data", "scoring"}}
"""Stages that are held closer than their place in the order."""

GROUND_FLOOR = (
    "errors",
    "files",
    "console",
    "config",
    "cpu",
    "distributed",
    "model_config",
    "plot",
    "values",
    "workers",
)
"""Modules that every stage stands on, and that therefore know none."""

DOORS = {
    "typer": "nmt/cli/",
    "click": "",
    "rich": "nmt/console.py",
    "sentencepiece": "nmt/data/vocabulary.py",
    "sacrebleu": "nmt/scoring/",
    "sacremoses": "nmt/data/moses.py",
    "langcodes": "nmt/data/languages.py",
    "ctranslate2.Translator": "nmt/translate/ctranslate2_engine.py",
    "ctranslate2.specs": "nmt/interchange/ctranslate2.py",
    "tensorboard": "",
    "torch.distributed": "nmt/distributed.py",
    "torch.utils.tensorboard": "nmt/runs/report.py",
}
"""Third-party interface -> the only file or folder that may use it; empty: none may."""

MODELS_THAT_SEARCH_MAY_SEE = (
    *("base", "registry", "model_file", "ensemble", "device", "kernels", "tensor_file"),
)
"""What speaks of every architecture alike; everything else in nmt/models/ is one of them."""

VAGUE_NAMES = {"common", "helper", "helpers", "lib", "misc", "stuff", "tools", "util", "utils"}

HEAVY = ("torch", "numpy", "sentencepiece", "sacrebleu")

WITHOUT_TORCH = (
    *("nmt.data.folder", "nmt.prepare.prepare", "nmt.models.model_file", "nmt.models.presets"),
    *("nmt.scoring.metrics", "nmt.translate.job", "nmt.runs.run_folder"),
)
"""Modules that load no torch, nor does what they load; it takes seconds. What CTranslate2, the
journal, locks and finished jobs need is behind `nmt.translate.job`."""


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """nmt/data/shards.py -> nmt.data.shards; nmt/data/__init__.py -> nmt.data."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def names_used(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, dotted name) of what a module imports or reaches through a module.

    package: the package that relative imports start from. `from a import b` gives `a.b`, whether b
    is a module or not, and the expression `torch.distributed.init` gives itself.
    """
    for node in ast.walk(ast.parse(source)):
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


def used(path: Path) -> Iterator[tuple[int, str]]:
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return names_used(path.read_text(encoding="utf-8"), package)


def within(name: str, interface: str) -> bool:
    return name == interface or name.startswith(f"{interface}.")


def stage_of(name: str) -> str | None:
    """nmt.data.shards.Shard -> data; None for what belongs to no stage."""
    parts = name.split(".")
    return parts[1] if parts[0] == "nmt" and len(parts) > 1 and parts[1] in STAGES else None


def check(faults: list[str], rule: str) -> None:
    if faults:
        pytest.fail(f"{rule}:\n  " + "\n  ".join(sorted(set(faults))), pytrace=False)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import torch.distributed as dist", ["torch.distributed"]),
        ("from torch import distributed", ["torch.distributed"]),
        ("def f():\n    import rich", ["rich"]),
        ("from nmt.models import transformer", ["nmt.models.transformer"]),
        ("from . import beam", ["nmt.search.beam"]),
        ("from .beam import Beam", ["nmt.search.beam.Beam"]),
        ("from ..models import x", ["nmt.models.x"]),
        ("torch.load(path)", ["torch.load"]),
    ],
)
def test_the_reader_sees_every_kind_of_import(source: str, names: list[str]) -> None:
    assert [name for _, name in names_used(source, "nmt.search")] == names


def test_there_is_something_to_read() -> None:
    assert {path.parent.name for path in SOURCES} >= {"nmt", *STAGES}


def test_stages_import_only_stages_before_them() -> None:
    faults = []
    for path in SOURCES:
        stage = stage_of(module_name(path))
        if stage is None:
            continue
        allowed = ONLY_FROM.get(stage, set(STAGES[: STAGES.index(stage) + 1]))
        faults += [
            f"{place(path)}:{line} uses {name}, but nmt/{stage}/ may import only from "
            + ", ".join(one for one in STAGES if one in allowed)
            for line, name in used(path)
            if (other := stage_of(name)) is not None and other not in allowed
        ]
    check(faults, f"a stage imports only itself and stages before it ({' < '.join(STAGES)})")


def test_the_ground_floor_imports_no_stage() -> None:
    faults = [
        f"{place(path)}:{line} uses {name}"
        for path in SOURCES
        if path.parent == PACKAGE and path.stem in GROUND_FLOOR
        for line, name in used(path)
        if stage_of(name) is not None
    ]
    check(faults, f"{', '.join(GROUND_FLOOR)} stand below all stages and import none")


def test_every_third_party_interface_has_one_door() -> None:
    faults = [
        f"{place(path)}:{line} uses {name}; {interface} is for {door or 'no module yet'}"
        for path in SOURCES
        for line, name in used(path)
        for interface, door in DOORS.items()
        if within(name, interface) and not (door and place(path).startswith(door))
    ]
    check(faults, "a third-party interface is used through one door")


def test_search_knows_no_concrete_model() -> None:
    faults = [
        f"{place(path)}:{line} uses {name}"
        for path in (PACKAGE / "search").rglob("*.py")
        for line, name in used(path)
        if within(name, "nmt.models")
        and not any(within(name, f"nmt.models.{module}") for module in MODELS_THAT_SEARCH_MAY_SEE)
    ]
    allowed = ", ".join(f"nmt.models.{module}" for module in MODELS_THAT_SEARCH_MAY_SEE)
    check(faults, f"search sees any model through {allowed} alone")


def test_nothing_is_pickled() -> None:
    # torch.load and torch.save are pickle; a model file from a stranger must not run code.
    forbidden = ("pickle", "cloudpickle", "dill", "marshal", "shelve", "torch.load", "torch.save")
    faults = [
        f"{place(path)}:{line} uses {name}"
        for path in SOURCES
        for line, name in used(path)
        if any(within(name, one) for one in forbidden)
    ]
    faults += [
        f"{place(path)} passes allow_pickle"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword)
        and node.arg == "allow_pickle"
        and not (isinstance(node.value, ast.Constant) and node.value.value is False)
    ]
    check(faults, "no pickle is ever read or written; weights and state are safetensors")


def test_names_say_what_a_module_is() -> None:
    folders = [folder for folder in (PACKAGE, ROOT / "tests", ROOT / "examples") if folder.is_dir()]
    faults = [
        place(path)
        for folder in folders
        for path in folder.rglob("*.py")
        if VAGUE_NAMES & {part.strip("_") for part in path.relative_to(ROOT).with_suffix("").parts}
    ]
    check(faults, f"a module is named after its concept, never {', '.join(sorted(VAGUE_NAMES))}")


def loaded_with(path: Path) -> Iterator[str]:
    """Yield the names that a module imports when it is loaded itself."""
    waiting: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                yield str(node.module)
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.FunctionDef():
                pass  # not run yet
            case _:
                children = ast.iter_child_nodes(node)
                waiting += [child for child in children if isinstance(child, ast.stmt)]


def test_torch_is_loaded_only_where_it_computes() -> None:
    files = {module_name(path): path for path in SOURCES}
    faults = []
    for name in WITHOUT_TORCH:
        ways = {name: name}  # each module that is loaded, and by way of which others
        waiting = [name]
        while waiting:
            module = waiting.pop()
            for other in loaded_with(files[module]):
                if within(other, "torch"):
                    faults.append(f"{ways[module]} loads torch")
                elif other in files and other not in ways:
                    ways[other] = f"{ways[module]} -> {other}"
                    waiting.append(other)
    check(faults, f"{', '.join(WITHOUT_TORCH)} load no torch; import it inside functions")


def test_the_command_line_starts_light() -> None:
    program = "import sys; from nmt.cli import application; application(); "
    program += f"print(*(m for m in {HEAVY!r} if m in sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = answer.stdout.split()
    check(
        [f"{name} (see `python -X importtime -m nmt --help`)" for name in loaded],
        "`nmt --help` loads nothing heavy; import inside the command's body",
    )

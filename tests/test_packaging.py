"""What is installed: the versions that were tested, and what is built for an index."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from example_runs import needs_make
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PLACES = ("nmt", "tests", "examples", ".github")
LOCKS = {path.stem.removeprefix("python"): path for path in sorted(ROOT.glob(".locks/*"))}


def test_every_python_that_we_name_is_locked_and_tested() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if one.startswith(prefix)]
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    assert list(LOCKS) == named
    assert workflow["jobs"]["locked"]["strategy"]["matrix"]["python"] == named
    assert f"Python {named[0]} to {named[-1]} " in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("python", LOCKS)
def test_a_lock_holds_versions_of_all_that_is_installed_but_torch(python: str) -> None:
    lines = LOCKS[python].read_text(encoding="utf-8").splitlines()
    assert "make lock" in lines[0]
    # So there is no address, option or path among them either.
    found = [re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines[1:]]
    versions = {match[1]: match[2] for match in found if match}
    assert len(versions) == len(lines) - 1
    assert not [name for name in versions if name.startswith(("torch", "triton", "nvidia", "cuda"))]
    extras = PROJECT["optional-dependencies"]
    listed = [*PROJECT["dependencies"], *extras["dev"]]
    names = "arrow ctranslate2 fix langid plot tensorboard terms xlsx zstd"
    for extra in names.split():
        listed += extras[extra]
    for requirement in map(Requirement, listed):
        marker = requirement.marker
        is_needed = marker is None or marker.evaluate({"python_version": python})
        if is_needed and requirement.name not in ("torch", PROJECT["name"]):
            version = versions[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), requirement


def test_hints_to_install_name_packages_that_exist() -> None:
    """Our own name is in no registry: whoever took it would be installed by such a hint."""
    for pattern in ("*.md", "*.py", "*.sh", "*.toml", "*.yml", "Makefile"):
        files = [path for place in PLACES for path in (ROOT / place).rglob(pattern)]
        files += [path for path in ROOT.glob(pattern) if path.name != "pyproject.toml"]
        assert not [path for path in files if PROJECT["name"] in path.read_text(encoding="utf-8")]

    extras = PROJECT["optional-dependencies"].values()
    ours = {re.split(r"[>;]", requirement)[0] for extra in extras for requirement in extra}
    hints = set[str]()
    for path in ROOT.glob("nmt/**/*.py"):
        code = re.sub(r'"\n\s+"', "", path.read_text(encoding="utf-8"))  # literals side by side
        hints |= set(re.findall(r"`pip install ([^`]*)`", code))
    assert len(hints) > 9
    for hint in hints - {"'sacrebleu[{tokenizer[:2]}]'"}:
        assert hint in ours


def run(*command: str | Path, **options: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def write_index(index: Path, *versions: str) -> None:
    """Make a folder that pip takes for an index with these versions of a made-up torch."""
    (index / "torch").mkdir(parents=True)
    for version in versions:
        info = f"torch-{version}.dist-info"
        with zipfile.ZipFile(index / "torch" / f"torch-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr("torch/__init__.py", f"__version__ = {version!r}\n")
            wheel.writestr(f"{info}/METADATA", f"Name: torch\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    links = (f'<a href="{path.name}">{path.name}</a>' for path in (index / "torch").iterdir())
    (index / "torch/index.html").write_text("\n".join(links), encoding="utf-8")


@pytest.fixture(scope="module")
def installing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with our Makefile, a fresh .venv, and PyTorch's index and the usual one."""
    folder = tmp_path_factory.mktemp("installing")
    shutil.copy(ROOT / "Makefile", folder)
    venv.create(folder / ".venv", with_pip=True, symlinks=True)
    write_index(folder / "pytorch", "2.12.0+cpu", "2.13.0+cpu")
    write_index(folder / "usual", "2.12.0", "2.13.0")
    return folder


def make_torch(folder: Path, **variables: str) -> str:
    """Run `make torch` with these variables in the environment, and return what it printed."""
    for path in folder.glob(".venv/lib/python*/site-packages/torch*"):
        shutil.rmtree(path)
    # Neither the machine's settings for pip nor its uv, which looks on the network.
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    uv = bin_folder / "uv"
    uv.write_text('#!/bin/sh\nfor one; do echo "uv was given $one"; done\nfalse\n')
    uv.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "TORCH", "MAKE"))}
    settings = kept | {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": (folder / "usual").as_uri(),
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "TORCH_CPU_INDEX": (folder / "pytorch").as_uri(),
        "TORCH_WAIT": "600",
        "GPU": "",
    }
    return run("make", "torch", cwd=folder, env=settings | variables)


def installed_torch(printed: str) -> str:
    match = re.search(r"^torch (\S+): \.venv takes \d+ MB so far$", printed, flags=re.MULTILINE)
    assert match, printed
    return match[1]


@needs_make
@pytest.mark.parametrize(
    ("variables", "version"),
    [
        ({}, "2.13.0+cpu"),
        ({"GPU": "/usr/bin/nvidia-smi"}, "2.13.0"),
        ({"TORCH_CPU_INDEX": "file:///nowhere"}, "2.13.0"),
        ({"TORCH_CPU_INDEX": "http://127.0.0.1:9"}, "2.13.0"),  # nobody listens
        ({"TORCH": "torch==2.12.0"}, "2.12.0"),
    ],
    ids=["no-gpu", "gpu", "no-index", "no-answer", "user"],
)
def test_a_machine_without_a_gpu_gets_torch_without_cuda_unless_the_user_chooses(
    installing: Path, variables: dict[str, str], version: str
) -> None:
    assert installed_torch(make_torch(installing, **variables)) == version


@needs_make
def test_uv_chooses_the_build_of_torch_where_it_is_installed(installing: Path) -> None:
    given = re.findall("^uv was given (.*)$", make_torch(installing), flags=re.MULTILINE)
    assert given[:2] == ["pip", "install"]
    assert given[given.index("--torch-backend") + 1] == "auto"


@needs_make
def test_an_nvidia_gpu_is_seen_by_its_program(installing: Path, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    # Exactly what the Makefile finds out by itself.
    question = 'include Makefile\nshow:\n\t@echo "GPU is $(GPU)"\n'
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {k: v for k, v in os.environ.items() if k != "GPU"} | {"PATH": path}
    shown = run("make", "-f", "-", "show", input=question, cwd=installing, env=environment)
    assert str(program) in shown


@needs_make
@pytest.mark.slow
def test_the_wheel_and_the_source_install_and_run(tmp_path: Path) -> None:
    listed = run("git", "ls-files", "-z", "nmt", cwd=ROOT).split("\0")
    modules = {name for name in listed if name.endswith((".py", "py.typed"))}
    # From a copy, since a build writes into the folder of its source.
    source = tmp_path / "source"
    run("git", "clone", "--quiet", "--no-local", ROOT, source, cwd=tmp_path)
    run("make", "wheel", f"VENV={sys.prefix}", "-o", f"{sys.prefix}/installed", cwd=source)
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", source, cwd=tmp_path)
    (wheel,), (archive,) = (source / "dist").glob("*.whl"), (source / "dist").glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive, cwd=tmp_path)
    assert modules <= set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(archive) as members:
        names = {name.partition("/")[2] for name in members.getnames()}
    assert modules | {"LICENSE", "README.md"} <= names

    # The environment is empty but for this build of torch: pip fetches what that and nmt need.
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    own = run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=tmp_path).strip()
    for path in Path(torch.__file__).parents[1].iterdir():
        if path.name.startswith(("torch", "nvidia", "triton", "cuda")):
            (Path(own) / path.name).symlink_to(path)
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    probe = (*pip, "download", "--no-deps", "filelock")
    if subprocess.run(probe, cwd=tmp_path, check=False).returncode:
        pytest.skip("needs a package index")
    run(*pip, "install", wheel, cwd=tmp_path)
    nmt = python.with_name("nmt")
    assert "transformer_base" in run(nmt, "models", cwd=tmp_path)
    assert "0." in run(nmt, "--version", cwd=tmp_path)

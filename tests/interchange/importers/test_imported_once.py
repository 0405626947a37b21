"""Folders of Hugging Face as models: imported once, and again if they have changed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import QUICK, Nmt, write
from foreign_models import MarianMT, import_huggingface, text
from safetensors.torch import load_file, save_file

from nmt import Translator
from nmt.errors import UsageError
from nmt.interchange.importers import huggingface
from nmt.interchange.importers.imported_once import model_of


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "source", text("source", 4))


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were imported."""
    folders = []
    real = huggingface.import_huggingface

    def record(folder: Path, *words: object, **options: object) -> object:
        folders.append(folder)
        return real(folder, *words, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(huggingface, "import_huggingface", record)
    return folders


def test_a_folder_is_imported_once_and_translates_as_its_import(
    nmt: Nmt, tmp_path: Path, source: Path, imports: list[Path]
) -> None:
    folder = MarianMT().write(tmp_path / "opus")
    done = [nmt("translate", folder, "--input", source, *QUICK) for _ in range(2)]
    assert len(imports) == 1
    (imported,) = folder.glob("imported-by-nmt-*")
    assert [str(imported) in answer.stderr for answer in done] == [True, False]
    wanted = nmt("translate", import_huggingface(nmt, folder), "--input", source, *QUICK).stdout
    assert [answer.stdout for answer in done] == [wanted, wanted]
    assert len(set(wanted.splitlines())) > 1


def test_a_folder_that_has_changed_is_imported_again(tmp_path: Path, imports: list[Path]) -> None:
    folder = MarianMT().write(tmp_path / "opus")
    first = model_of(folder)
    (folder / "README.md").touch()
    assert model_of(folder) == first
    before = (folder / "model.safetensors").stat()
    weights = load_file(folder / "model.safetensors")
    weights["model.shared.weight"][5] += 1
    save_file(weights, folder / "model.safetensors")
    os.utime(folder / "model.safetensors", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert model_of(folder) != first and not first.exists()
    assert len(imports) == 2


def test_a_folder_that_cannot_be_written_is_refused_with_the_command_that_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports: list[Path]
) -> None:
    folder = MarianMT().write(tmp_path / "opus")
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, _: path != folder)
        with pytest.raises(UsageError, match=f"nmt import huggingface {folder} OUT"):
            model_of(folder)
    imported = model_of(folder)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert model_of(folder) == imported
    assert len(imports) == 1


@pytest.mark.parametrize("run", [model_of, Translator.load])
def test_a_refused_folder_leaves_nothing(tmp_path: Path, run: Callable[[Path], object]) -> None:
    folder = MarianMT(config={"scale_embedding": False}).write(tmp_path / "opus")
    files = sorted(folder.iterdir())
    with pytest.raises(Exception, match="scale_embedding"):
        run(folder)
    assert sorted(folder.iterdir()) == files


def test_an_import_that_is_damaged_may_be_deleted(nmt: Nmt, tmp_path: Path, source: Path) -> None:
    folder = MarianMT().write(tmp_path / "opus")
    assert nmt("translate", folder, "--input", source, *QUICK).status == 0
    (imported,) = folder.glob("imported-by-nmt-*")
    for content in (imported.read_bytes()[:-1] + b"?", b""):
        imported.write_bytes(content)
        line = nmt("translate", folder, "--input", source, *QUICK).refusal(1)
        assert f"{imported}: damaged" in line and "delete this file" in line
    imported.unlink()
    assert nmt("translate", folder, "--input", source, *QUICK).status == 0

"""Folders of Hugging Face as models: imported once, and again if they have changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import QUICK, Nmt
from foreign_models import MarianMT, import_huggingface, text
from safetensors.torch import load_file, save_file

from nmt import Translator
from nmt.interchange import huggingface
from nmt.interchange.imported_once import model_of


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_text("".join(f"{line}\n" for line in text("source", 4)), encoding="utf-8")
    return path


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
    model = import_huggingface(nmt, folder)
    wanted = nmt("translate", model, "--input", source, *QUICK).stdout
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
    second = model_of(folder)
    assert second != first and not first.exists()
    assert len(imports) == 2


def test_a_folder_that_cannot_be_written_is_imported_to_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports: list[Path]
) -> None:
    folder = MarianMT().write(tmp_path / "opus")
    files = sorted(folder.iterdir())
    monkeypatch.setattr(os, "access", lambda path, _: path != folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert model_of(folder) == model_of(folder)
    assert model_of(folder).is_relative_to(tmp_path / "cache" / "nmt")
    assert sorted(folder.iterdir()) == files
    assert len(imports) == 1


def test_what_another_has_put_under_the_name_of_an_import_is_made_anew(
    tmp_path: Path, model_file: Path, imports: list[Path]
) -> None:
    folder = MarianMT().write(tmp_path / "opus")
    imported = model_of(folder)
    made = imported.read_bytes()
    imported.write_bytes(model_file.read_bytes())  # a whole model, of other weights
    assert model_of(folder) == imported
    assert imported.read_bytes() == made and len(imports) == 2


def test_imports_that_nobody_uses_leave_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    kinds = ("swish", "relu", "gelu")
    folders = [MarianMT(activation=kind).write(tmp_path / kind) for kind in kinds]
    unused, used = map(model_of, folders[:2])
    for imported in (unused, used):
        os.utime(f"{imported}.made", (0, 0))
    assert model_of(folders[1]) == used
    new = model_of(folders[2])
    names = {path.name for path in (used, new)}
    assert {path.name for path in new.parent.iterdir()} == {
        name + end for name in names for end in ("", ".made")
    }


@pytest.mark.parametrize("run", [model_of, Translator.load])
def test_a_folder_that_is_refused_leaves_nothing(
    tmp_path: Path, run: Callable[[Path], object]
) -> None:
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

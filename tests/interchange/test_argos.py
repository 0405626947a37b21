"""Packages for Argos Translate, and what argostranslate itself makes of them."""

import json
import os
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Nmt
from toy_training import pairs

from nmt.models.model_file import ModelCard, write_model

WRITTEN = Path(__file__).parents[1] / "written_before" / "model.safetensors"
AS_ARGOS = ("--length-penalty", "0.2", "--no-guard", "--max-tokens", "256", "--workers", "1")
CLIENT = Path(__file__).with_name("argos_client.py")

pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")


def write(path: Path, card: ModelCard) -> Path:
    write_model(path, card, dict(card.build().named_parameters()))
    return path


def test_a_package_is_one_folder_of_all_that_argos_needs(nmt: Nmt, tmp_path: Path) -> None:
    out = tmp_path / "en_de.argosmodel"
    assert nmt("export", "argos", WRITTEN, out, "--package-version", "2.10").status == 0
    with zipfile.ZipFile(out) as package:
        root = "translate-en_de-2_10"
        assert {Path(name).parts[0] for name in package.namelist()} == {root}
        names = {"metadata.json", "README.md", "sentencepiece.model", "model/model.bin"}
        assert {f"{root}/{name}" for name in names} <= set(package.namelist())
        metadata = json.loads(package.read(f"{root}/metadata.json"))
    codes = {"from_code": "en", "from_name": "English", "to_code": "de", "to_name": "German"}
    assert codes.items() <= metadata.items()
    assert metadata["package_version"] == "2.10"
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize(
    ("src", "tgt", "root"),
    [
        ("eng_Latn", "zho_Hant", "translate-en_zt-1_0"),
        ("pt-BR", "nb", "translate-pb_nb-1_0"),
        ("en", "en-GB", None),
        ("../en", "de", None),
        ("en", "x-mine", None),
    ],
)
def test_languages_have_argos_codes_or_are_refused(
    nmt: Nmt, tmp_path: Path, card: ModelCard, src: str, tgt: str, root: str | None
) -> None:
    model = write(tmp_path / "model", replace(card, src_lang=src, tgt_lang=tgt))
    done = nmt("export", "argos", model, tmp_path / "a.argosmodel")
    if root is None:
        assert "model: " in done.refusal(2)
        assert not (tmp_path / "a.argosmodel").exists()
    else:
        with zipfile.ZipFile(tmp_path / "a.argosmodel") as package:
            assert all(name.startswith(f"{root}/") for name in package.namelist())


def test_a_private_code_is_taken_with_its_name(nmt: Nmt, tmp_path: Path, card: ModelCard) -> None:
    model = write(tmp_path / "model", replace(card, src_lang="qnh", tgt_lang="en"))
    words = ("export", "argos", model, tmp_path / "a.argosmodel")
    assert "--src-name" in nmt(*words).refusal(2)
    assert "--src-name" in nmt(*words, "--src-name", " ").refusal(2)
    assert nmt(*words, "--src-name", "Northern Hills", "--tgt-name", "my English").status == 0
    with zipfile.ZipFile(tmp_path / "a.argosmodel") as package:
        metadata = json.loads(package.read("translate-qnh_en-1_0/metadata.json"))
    names = {"from_code": "qnh", "from_name": "Northern Hills", "to_name": "my English"}
    assert names.items() <= metadata.items()
    assert "argos\tyes\t" in nmt("export", model).stdout.splitlines()


@pytest.mark.slow  # installs argostranslate, which takes a minute
@pytest.mark.parametrize("quantization", ["int8", "float32"])
def test_argostranslate_gives_our_translations(
    nmt: Nmt, tmp_path: Path, python_with: Callable[[str], Path], quantization: str
) -> None:
    """Its splitter of sentences is replaced, because it would download a model."""
    python = python_with("argostranslate==1.11.0")
    exact = ("--quantization", quantization)
    package, folder = tmp_path / "en_de.argosmodel", tmp_path / "fast"
    assert nmt("export", "argos", WRITTEN, package, *exact).status == 0
    assert nmt("export", "ctranslate2", WRITTEN, folder, *exact).status == 0
    lines = "".join(f"{source} .\n" for source, _ in pairs(200, seed=1))
    (tmp_path / "in").write_text(lines)
    environment = os.environ | {"HOME": str(tmp_path), "ARGOS_COMPUTE_TYPE": quantization}
    options: Any = {"input": lines, "capture_output": True, "text": True, "env": environment}
    client = subprocess.run([python, CLIENT, package], check=True, **options)
    ours = nmt("translate", folder, "--input", tmp_path / "in", *AS_ARGOS)
    # A last piece that is only a space stays one there.
    assert [line.rstrip(" ") for line in client.stdout.splitlines()] == ours.stdout.splitlines()

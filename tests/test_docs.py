"""README.md is true: its tables are those of the code, and its tour runs as it is written."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nmt.config import TrainingConfig, resolve_recipe, resumable_keys
from nmt.config_text import explanation
from nmt.data.rules import RULES
from nmt.model_config import MODEL_CONFIGS
from nmt.models.presets import FAMILIES, preset_values
from nmt.models.registry import count_parameters

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL_BLOCKS = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)


def config_table() -> str:
    rows = ["| key | default | what it is |", "|---|---:|---|"]
    sections: dict[str, Any] = {
        f"[model]** of `{name}`": cls for name, cls in MODEL_CONFIGS.items()
    }
    for section, cls in (sections | {"[training]**": TrainingConfig}).items():
        rows.append(f"| **{section} | | |")
        for spec in dataclasses.fields(cls):
            default = str(spec.default).lower() if spec.default in (True, False) else spec.default
            rows.append(f"| `{spec.name}` | {default} | {explanation(spec)} |")
    return "\n".join(rows)


def models_table() -> str:
    rows = ["| preset | what it is | parent and what differs | parameters |", "|---|---|---|---:|"]
    for title, family in FAMILIES.items():
        rows.append(f"| **{title}** | | | |")
        for name, preset in family.items():
            model = resolve_recipe(name, preset.architecture, [(name, preset_values(name))]).model
            count = count_parameters(preset.architecture, model, 37_000, 37_000)
            changes = ", ".join(f"{key}={value}" for key, value in preset.changes.items())
            parent = f"`{preset.parent}`" if preset.parent else "class defaults"
            differs = f"{parent}: {changes}" if changes else parent
            rows.append(f"| `{name}` | {preset.summary} | {differs} | {count / 1e6:.1f}M |")
    return "\n".join(rows)


def test_the_readme_holds_every_value_of_the_configuration() -> None:
    assert config_table() in README


def test_the_readme_holds_the_registry() -> None:
    assert models_table() in README


def test_the_readme_names_what_may_change_on_resuming() -> None:
    assert ", ".join(f"`{key}`" for key in sorted(resumable_keys())) in README


def test_the_readme_names_every_cleaning_rule() -> None:
    assert all(f"`{rule}`" in README for rule in RULES)


def test_every_local_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_tour_runs_as_it_is_written(real_text: Callable[[str], Path], tmp_path: Path) -> None:
    """Every command of the tour, with text and training cut short, in an empty folder."""
    text = real_text("multi30k")
    (tmp_path / "multi30k").mkdir()
    for path in text.glob("*.gz"):
        length = 6_000 if path.name.startswith("train") else 60
        with gzip.open(path) as file, gzip.open(tmp_path / "multi30k" / path.name, "w") as part:
            part.writelines(itertools.islice(file, length))
    tour = "\n".join(block for block in SHELL_BLOCKS if "nmt " in block and "make" not in block)
    assert "nmt train" in tour
    # The last checkpoints of the short run take the place of those of the long one.
    short = re.sub(r"--max-updates \d+", "--max-updates 6", tour)
    # On a CPU without bf16 instructions, six updates in it take minutes.
    short = short.replace("--precision bf16", "--precision fp32")
    short = re.sub(r"(save_every|validate_every)=\d+", r"\1=2", short)
    script = f'nmt() {{ {shlex.quote(sys.executable)} -m nmt "$@"; }}\n{short}'
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        text=True,
        env=os.environ | {"NMT_DATA": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "BLEU" in done.stdout

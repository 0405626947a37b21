"""What a release has written is still read as it was meant, from version 0.1.0 on.

`written_before` holds a file of each format, of sentences such as "the old dog sees the red bird."
`written_before/make.sh` wrote them, and says by which commands. If a format changes after a
release, what `make.sh` writes then goes into a folder beside this one, and both must be read.

- model.safetensors, its translation valid.out.de of the valid text in data, and data: 60 pairs
- models.tar.xz: SSRU (pre-norm, RMSNorm, SwiGLU, relative positions), LSTMs and convolutions that
  learnt 900 pairs; held.ssru.de and so on are their translations of held.en
- exported.tar.xz: such a Transformer for CTranslate2, in float32
- table, languages, documents and terms.tar.xz: data folders, and in .tsv files what `nmt data
  --show` said of some pairs
- run.tar.xz: three updates on `table` from that Transformer
- job.tar.xz: a translation of held.en, twice, by that run, which was killed after four lines
"""

import json
import tarfile
import tomllib
from pathlib import Path

import pytest
from command_line import Nmt
from listed import listed
from toy_training import metrics, status

from nmt.runs.run_folder import _checksum

WRITTEN = Path(__file__).parent / "written_before"
ONE_WORKER = ("--workers", "1", "--threads", "1", "--quiet")
TINY = listed(
    "d_model=8 d_ff=16 num_heads=2 num_encoder_layers=1 num_decoder_layers=1 max_updates=1"
    " threads=1 device=cpu precision=fp32 tie_embeddings=decoder sample_translations=0"
)


# They work in a folder as that in which these files were written: `unpack` puts them there.
pytestmark = pytest.mark.usefixtures("here")


def unpack(name: str) -> Path:
    """Put what is packed under a name into this folder."""
    with tarfile.open(WRITTEN / f"{name}.tar.xz") as file:
        # Python before 3.11.4 has no filters, and 3.12 and 3.13 want to be told of one.
        if hasattr(tarfile, "data_filter"):
            file.extractall(filter="data")
        else:
            file.extractall()
    return Path(name)


def read(name: str) -> str:
    return (WRITTEN / name).read_text(encoding="utf-8")


def translate(nmt: Nmt, *words: str | Path) -> str:
    return nmt("translate", *words, *ONE_WORKER).succeeded().stdout


def test_a_model_file_written_before_translates_to_the_same_text(nmt: Nmt) -> None:
    found = translate(nmt, WRITTEN / "model.safetensors", "--input", WRITTEN / "data" / "valid.en")
    assert found == read("valid.out.de")


MODELS = [f"models/{kind}.safetensors" for kind in ("ssru", "lstm", "convolutional")]


@pytest.mark.parametrize("model", [*MODELS, "run", "exported"])
def test_models_written_before_translate_to_the_same_text(nmt: Nmt, model: str) -> None:
    if model == "exported":
        pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    unpack(Path(model).parts[0])
    found = translate(nmt, model, "--input", WRITTEN / "held.en")
    assert found == read(f"held.{Path(model).stem}.de")


def test_a_job_stopped_before_goes_on(nmt: Nmt) -> None:
    run, job = unpack("run"), unpack("job")
    search = ("--beam-size", "2", "--length-penalty", "0.8")
    translate(nmt, run, "--input", job / "twice.en", "--output", job / "twice.de", *search)
    whole = translate(nmt, run, "--input", job / "twice.en", *search)
    assert (job / "twice.de").read_text(encoding="utf-8") == whole


def test_a_run_stopped_before_goes_on(nmt: Nmt) -> None:
    run, data = unpack("run"), unpack("table")
    before = metrics(run)
    nmt("train", data, "--out", run, "--max-updates", "4").succeeded()
    assert status(run)["update"] == 4
    assert metrics(run)[: len(before)] == before
    assert metrics(run, "valid")[-1]["chrf"] > 90


def with_keys(run: Path, **lines: str) -> Path:
    """Put lines into sections of a run's config.toml, as if the run had been written with them."""
    path = run / "config.toml"
    text = path.read_text(encoding="utf-8")
    for section, line in lines.items():
        text = text.replace(f"[{section}]\n", f"[{section}]\n{line}\n")
    values = tomllib.loads(text)
    before = values.pop("run")["checksum"]
    path.write_text(text.replace(before, _checksum(values)), encoding="utf-8")
    return run


def test_a_run_with_keys_that_are_gone_goes_on_translates_and_is_evaluated(nmt: Nmt) -> None:
    run, data = unpack("run"), unpack("table")
    with_keys(run, model="attention_window = 0", training="cuda_graphs = false")
    assert translate(nmt, run, "--input", WRITTEN / "held.en") == read("held.run.de")
    nmt("train", data, "--out", run, "--max-updates", "4").succeeded()
    assert json.loads(nmt("evaluate", run, "--json").succeeded().stdout)
    assert status(run)["update"] == 4


def test_a_run_that_did_what_is_gone_is_refused(nmt: Nmt) -> None:
    run, data = with_keys(unpack("run"), training="cuda_graphs = true"), unpack("table")
    answer = nmt("train", data, "--out", run, "--max-updates", "4")
    assert answer.status == 2
    assert f"{run / 'config.toml'}: cuda_graphs is true" in answer.stderr


@pytest.mark.parametrize("name", ["table", "languages", "documents", "terms"])
def test_data_folders_written_before_are_shown_and_trained_on(nmt: Nmt, name: str) -> None:
    data = unpack(name)
    assert nmt("data", data, "--verify", "--quiet").status == 0
    expected = read(f"{name}.tsv").splitlines()
    pairs = ",".join(dict.fromkeys(line.partition("\t")[0] for line in expected))
    shown = nmt("data", data, "--show", pairs)
    assert (shown.status, shown.stderr) == (0, "")
    assert [line for line in shown.stdout.splitlines() if " tokens\t" not in line] == expected
    settings = [f"--set={value}" for value in TINY]
    nmt("train", data, "--out", "run", "--model", "transformer_tiny", *settings).succeeded()

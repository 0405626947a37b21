"""The options of `nmt translate`, besides those of search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import UsageError
from nmt.markup.tags import FORMS
from nmt.models.device import DEVICES, PRECISIONS
from nmt.search.options import MBR_METRICS
from nmt.values import check, value


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """What is read and written, how, and on which machine."""

    inputs: tuple[str, ...] = value(
        (),
        "Text to translate: a file, folder, glob or URL such as s3://bucket/file, plain or "
        "compressed (.gz, .xz, .bz2, .zst). You can repeat it.",
        option="--input",
        metavar="PATH|URL",
        shown="stdin",
    )
    output: str | None = value(
        None,
        "Where to write. A file appears when it is complete, compressed if its name ends in .gz, "
        ".xz, .bz2 or .zst. If --input is a folder, a glob or several files, name a folder.",
        metavar="PATH|URL",
        shown="stdout",
    )
    src_lang: str | None = value(
        None,
        "Language of the input, for a model that knows several.",
        option="--from",
        metavar="LANG",
        shown="the model's",
    )
    tgt_lang: str | None = value(
        None,
        "Language of the translations, for a model that knows several.",
        option="--to",
        metavar="LANG",
        shown="the model's",
    )
    n_best: int | None = value(
        None,
        "Write N translations of each line, best first, as `LINE ||| TEXT ||| SCORE` (the Moses "
        "form). Samples come as they are drawn. Lines count from 0. In jsonl they are under "
        "`others`.",
        minimum=1,
    )
    format: str = value(
        "text",
        "jsonl writes a JSON object for each line, with tokens and log-probabilities.",
        choices=("text", "jsonl"),
    )
    terms: Path | None = value(
        None,
        "Translate terms as a file says, which has `SOURCE<TAB>TARGET` on each line. Further "
        "columns are other forms of the target. Search forces one of them. But a model of `nmt "
        "prepare --terms` reads the first one, and inflects it.",
        metavar="FILE",
    )
    markup: str | None = value(
        None,
        "Lines have tags, such as `Click <b>here</b>`. They come back around the translation of "
        "their words. Code, placeholders, addresses and numbers stay as they are. Files .html and "
        ".xlf become the same documents, translated.",
        choices=FORMS,
        shown="text, unless --input is .html or .xlf",
    )
    device: str = value("auto", "Where to compute.", choices=DEVICES)
    context: int = value(
        0,
        "Translate each line together with up to N lines before it, by a model of `nmt prepare "
        "--documents`. A blank line ends a document, and so does the end of a file.",
        minimum=0,
        maximum=99,
        metavar="N",
        shown="each line by itself",
    )
    split: bool = value(
        False,
        "Split each line into sentences, translate them one by one, and join them.",
    )
    sample: bool = value(
        False,
        "Sample instead of searching for the best translation. With --n-best N, sample N for each "
        "line.",
    )
    forbid: Path | None = value(
        None,
        "Words and phrases that no translation may contain, one on each line.",
        metavar="FILE",
    )
    workers: str = value(
        "auto",
        "Number of processes. auto is one for each available core, or for each GPU. ray takes the "
        "cluster that RAY_ADDRESS names.",
        metavar="auto|N|ray",
        panel="Machine",
    )
    ensemble: tuple[Path, ...] = value(
        (),
        "Average the probabilities with those of this model, which has the same vocabularies. You "
        "can repeat it.",
        metavar="MODEL_OR_RUN",
        panel="Search",
    )
    shortlist: Path | None = value(
        None,
        "Use only the target tokens on a shortlist, which can be faster. `nmt export shortlist` "
        "writes one.",
        metavar="FILE",
        shown="all tokens",
        panel="Search",
    )
    mbr: bool = value(
        False,
        "Write the one of the N translations of --n-best that agrees most with all N (minimum "
        "Bayes risk). Try it with --sample.",
        panel="Text",
    )
    mbr_metric: str = value(
        "chrf", "How --mbr measures agreement.", choices=MBR_METRICS, panel="Text"
    )
    scores: bool = value(False, "Write `SCORE<TAB>TEXT`.", panel="Text")
    alignment: bool = value(
        False,
        "Write word alignments after the text, for example ` ||| 0-0 1-2`. They come from "
        "attention, and words count from 0. jsonl adds the attention.",
        panel="Text",
    )
    attention: str | None = value(
        None,
        "Draw the attention of the first line with letters. Only for output to stdout.",
        metavar="FILE.svg",
        panel="Text",
    )
    prefixes: bool = value(
        False, "Read `SOURCE<TAB>PREFIX`. The translation begins with PREFIX.", panel="Text"
    )
    encoding: str = value(
        "utf-8",
        "Encoding of the input, unless it begins with a byte-order mark. Output is UTF-8.",
        panel="Text",
    )
    strict: bool = value(False, "Fail at the first line that is not in the encoding.", panel="Text")
    lock: Path | None = value(
        None,
        "Lock this file while running. If it is locked already, stop with status 75.",
        metavar="FILE",
        panel="Unattended",
    )
    deadline: str | None = value(
        None,
        "Stop at this time of day with status 75. Needs --input and --output.",
        metavar="HH:MM",
        panel="Unattended",
    )
    shard: str = value(
        "1/1",
        "Translate part I of N of a file's lines, for job arrays. Concatenate the outputs in "
        "order. Needs --input FILE, because the lines of a pipe cannot be counted first.",
        metavar="I/N",
        panel="Unattended",
    )
    precision: str = value(
        "auto",
        "Precision of matrix products. fp16 needs a GPU. auto takes bf16 on GPUs since Ampere and "
        "fp32 elsewhere, and an export keeps its own, such as int8.",
        choices=("auto", *PRECISIONS["cuda"], "int8"),
        metavar="|".join(("auto", *PRECISIONS["cuda"])),
        panel="Machine",
    )
    threads: int | None = value(
        None,
        "CPU threads of each process.",
        minimum=1,
        maximum=1_024,
        shown="the cores, shared out; at most OMP_NUM_THREADS; 1 on Ray",
        panel="Machine",
    )
    batch_tokens: int | None = value(
        None,
        "Source tokens in a batch, padding included. Fewer are taken if there are more than 4 "
        "hypotheses for a line, or if memory is short.",
        minimum=1,
        maximum=1_000_000_000,
        shown="4096 on a CPU, 16384 on a GPU; 1024 for each worker of an export",
        panel="Machine",
    )
    pool_lines: int = value(
        4_096,
        "Read and sort at most this many lines at a time. Fewer are taken if they would take some "
        "seconds, or if a pipe pauses.",
        minimum=1,
        panel="Machine",
    )

    def __post_init__(self) -> None:
        check(self)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the combination of options."""
        if self.markup is not None and self.prefixes:
            yield "--prefixes does not go with --markup: a prefix has no place among the tags"
        if self.context and self.prefixes:
            yield "--prefixes does not go with --context; leave one of them out"
        if self.mbr_metric != "chrf" and not self.mbr:
            yield "--mbr-metric is for --mbr; add it"
        if self.format == "jsonl":
            if self.scores:
                yield "--scores is for text; jsonl has them"
        elif sum((self.writes_list, self.scores, self.alignment)) > 1:
            yield (
                "--n-best, --scores and --alignment each have a form of their own; for all of them "
                "use --format jsonl"
            )

    @property
    def writes_list(self) -> bool:
        """Whether the output is an n-best list."""
        return self.n_best is not None and not self.mbr

    @property
    def form(self) -> str:
        """The form of the output, a key of `nmt.translate.output.RENDERS`."""
        if self.format == "jsonl":
            return "jsonl"
        chosen = {"n-best": self.writes_list, "scores": self.scores, "alignment": self.alignment}
        return next((form for form, given in chosen.items() if given), "text")


def check_for_documents(options: TranslateOptions) -> None:
    """Refuse options that a document has no place for.

    Raises:
        UsageError: naming one.
    """
    needing_text = {
        "--format jsonl": options.format == "jsonl",
        "--n-best": options.n_best is not None and not options.mbr,
        "--scores": options.scores,
        "--alignment": options.alignment,
        "--attention": options.attention is not None,
        "--prefixes": options.prefixes,
        "--context": options.context > 0,
        "--shard": options.shard != "1/1",
    }
    for option, is_given in needing_text.items():
        if is_given:
            raise UsageError(f"{option} is for lines of text; a document has no place for it")

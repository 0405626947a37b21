"""A small folder of archives, laid out as WMT14's are, to rehearse the recipes with.

Every archive of the catalogue is there under its name, with the members that it really has under
their names: tar in gzip, gzip in tar, SGML. Their text is other, shorter text: no figure that comes
out of it says anything about WMT14. The folder's own `wmt14.toml` holds sizes, checksums and lines,
of those archives alone that have published ones.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import tarfile
from html import escape
from pathlib import Path

from catalogue import FILE_NAME, Archive, Catalogue, ParallelText

from nmt.data.corpus import Encoding, read_lines
from nmt.data.corpus import ParallelText as TextFiles

STAND_INS = {
    "europarl-v7": {"en-de": "europarl-en-de-20k/train", "en-fr": "europarl-en-fr/train"},
    "commoncrawl": {"en-de": "tatoeba-en-de/train", "en-fr": "tatoeba-en-fr/train"},
    "news-commentary-v9": {
        "en-de": "wmt-news/newstest2011.en-de",
        "en-fr": "wmt-news/newstest2011.en-fr",
    },
    "un": {"en-fr": "europarl-en-fr/valid"},
    "giga-fren": {"en-fr": "multi30k/train"},
    "newstest2013": {
        "en-de": "wmt-news/newstest2013.en-de",
        "en-fr": "wmt-news/newstest2013.en-fr",
    },
    "newstest2014": {
        "en-de": "wmt-news/newstest2012.en-de",
        "en-fr": "wmt-news/newstest2012.en-fr",
    },
}
"""Text and pair to what takes its place: a prefix below NMT_DATA."""

NEWS = ("newstest2013", "newstest2014")
TRAIN_LINES, NEWS_LINES, DOCUMENT_LINES = 300, 20, 20


def make_mirror(catalogue: Catalogue, data: Path, out: Path) -> None:
    """Write all archives of a catalogue, and one of their own, into a folder.

    Args:
        catalogue: the real one.
        data: the folder that `STAND_INS` are in.
        out: where to.
    """
    out.mkdir(parents=True, exist_ok=True)
    members: dict[str, dict[str, bytes]] = {name: {} for name in catalogue.archives}
    entries = []
    for pair, texts in catalogue.texts.items():
        for text in texts.values():
            lines = NEWS_LINES if text.name in NEWS else TRAIN_LINES
            sides = _read(data / STAND_INS[text.name][pair], pair, lines)
            for language, side in sides.items():
                member = text.members[language]
                members[text.archive][member] = _content(member, language, side)
            entries.append(_text_entry(text, pair, len(sides[language])))
    for name, archive in catalogue.archives.items():
        content = _tar(members[name])
        if name.endswith(".tgz"):
            content = gzip.compress(content, mtime=0)
        (out / name).write_bytes(content)
        entries.append(_archive_entry(archive, content))
    (out / FILE_NAME).write_text("\n".join(entries), encoding="utf-8")


def _read(prefix: Path, pair: str, count: int) -> dict[str, list[str]]:
    """Return the first lines of a text by language."""
    src, tgt = pair.split("-")
    files = TextFiles.find(str(prefix), src, tgt)
    utf8 = Encoding.find("utf-8")
    return {
        language: [line.decode() for line in itertools.islice(read_lines(path, utf8), count)]
        for language, path in ((src, files.src), (tgt, files.tgt))
    }


def _content(member: str, language: str, lines: list[str]) -> bytes:
    if member.endswith(".sgm"):
        return _sgml(member, language, lines).encode()
    text = "".join(f"{line}\n" for line in lines).encode()
    return gzip.compress(text, mtime=0) if member.endswith(".gz") else text


def _sgml(member: str, language: str, lines: list[str]) -> str:
    kind, side = ("srcset", "") if "-src." in member else ("refset", f' trglang="{language}"')
    name = Path(member).name.partition("-src.")[0].partition("-ref.")[0]
    text = [f'<{kind} setid="{name}" srclang="any"{side}>\n']
    for number, start in enumerate(range(0, len(lines), DOCUMENT_LINES), start=1):
        text.append(f'<doc sysid="ref" docid="{number}" genre="news" origlang="en">\n<p>\n')
        for segment, line in enumerate(lines[start : start + DOCUMENT_LINES], start=1):
            text.append(f'<seg id="{segment}">{escape(line, quote=False)}</seg>\n')
        text.append("</p>\n</doc>\n")
    return "".join([*text, f"</{kind}>\n"])


def _tar(members: dict[str, bytes]) -> bytes:
    """Return a tar of files and their folders; the same bytes for the same members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in sorted({name.rpartition("/")[0] for name in members} - {""}):
            entry = tarfile.TarInfo(f"{folder}/")
            entry.type = tarfile.DIRTYPE
            tar.addfile(entry)
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _archive_entry(archive: Archive, content: bytes) -> str:
    lines = [f'[archives."{archive.name}"]', "addresses = []"]
    if archive.size is not None:
        lines.append(f"size = {len(content)}")
    for name in archive.checksums:
        lines.append(f'{name} = "{hashlib.new(name, content).hexdigest()}"')
    return "\n".join([*lines, 'source = "the mirror"', ""])


def _text_entry(text: ParallelText, pair: str, lines: int) -> str:
    members = [f'{language} = "{member}"' for language, member in text.members.items()]
    head = [f"[texts.{text.name}.{pair}]", f'archive = "{text.archive}"']
    return "\n".join([*head, *members, f"lines = {lines}", ""])

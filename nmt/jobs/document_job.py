"""A document in a job: its units are translated, and everything else stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nmt import console
from nmt.console import counted
from nmt.data.corpus import Encoding
from nmt.jobs.counts import Counts, translate_whole
from nmt.jobs.lines import Line
from nmt.jobs.parallel import Translators
from nmt.markup.documents import Document
from nmt.markup.file_types import FileType
from nmt.markup.json_catalogues import lacks_plurals


def translate_document(
    source: Path,
    content: bytes,
    *,
    kind: FileType,
    encoding: Encoding,
    pool_lines: int,
    start: Callable[[], Translators],
) -> tuple[bytes, Counts]:
    """Translate a document, `pool_lines` units at a time.

    A unit without a translation stays, and so does an ICU message, which has no segments.

    content: its bytes; kind: its type.
    encoding: of a document that does not say itself which it has.
    start: returns translators, when the document has been read.
    Returns the bytes of the translation, and the counts of its units.
    """
    document = Document.read(source, kind, content, encoding)
    if document.translated:
        console.notice(
            f"{source}: {counted(document.translated, 'unit has', 'units have')} a translation "
            "already, which stays"
        )
    if document.key:
        console.warning(
            f"{source}: most of its sources look like keys, such as {document.key}, and not like "
            "text; export it with the text as source"
        )
    if document.lacks_language:
        console.warning(f"{source}: has no trgLang, which XLIFF 2 needs for targets; add it")
    lines = [Line(unit.line, unit=unit.marked) for unit in document.units]
    translations, counts, language_pair = translate_whole(lines, pool_lines, start, "units")
    if kind.name == "JSON" and lacks_plurals(
        content.decode(errors="replace"), tgt_lang := language_pair.languages[1]
    ):
        console.notice(
            f"{source}: {tgt_lang} has more plural forms than its keys; add those that you need"
        )
    texts = (
        None if translation.error or not translation.segments else translation.text
        for translation in translations
    )
    written = document.write(texts, language_pair.languages)
    if written.refused:
        console.warning(
            f"{source}: {counted(written.refused, 'translation was', 'translations were')} left "
            "out, because placeholders such as %s changed in a way that their programs do not allow"
        )
    if written.changed:
        console.warning(
            f"{source}: {counted(len(written.changed), 'translation has', 'translations have')} "
            f"lost what may be a placeholder, such as {written.changed[0]}; compare them"
        )
    return written.content, counts

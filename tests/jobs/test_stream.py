"""What a stream of translations looks like: as many lines as came in, ended as they were."""

import pytest

from nmt.data.corpus import Encoding
from nmt.jobs.counts import Counts
from nmt.jobs.lines import LineReader
from nmt.jobs.stream import translate_stream
from nmt.system.prefetch import Pause
from nmt.translate.output import BLANK, render_text


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"a\nb\n", b"\n\n"), (b"a\r\nb\n", b"\r\n\n"), (b"a\nb", b"\n "), (b"", b"")],
)
def test_an_empty_translation_is_a_line(data: bytes, expected: bytes) -> None:
    written = bytearray()
    translate_stream(
        lambda pools: ([BLANK] * len(pool) for pool in pools if not isinstance(pool, Pause)),
        LineReader(iter([data]), name="news", encoding=Encoding.find("utf-8")),
        lambda _read, output, _counts: written.extend(output),
        Counts(),
        render=render_text,
        pool_lines=10,
        composes=True,
    )
    assert written == expected

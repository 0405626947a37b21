"""The characters that XML does not allow: exactly those at which the parser stops."""

from pathlib import Path
from xml.parsers import expat

import pytest

from nmt.markup.xml_files import legal_xml

BORDERS: tuple[int, ...] = (0, 9, 11, 13, 14, 31, 32, 127, 0xD7FF, 0xD800, 0xDFFF, 0xE000)
BORDERS += (0xFDCF, 0xFDF0, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x1FFFE, 0x10FFFF, 0x110000, 10**18)


def is_refused(xml: bytes) -> bool:
    try:
        expat.ParserCreate("utf-8").Parse(xml, True)
    except expat.ExpatError:
        return True
    return False


@pytest.mark.parametrize("form", ["&#{};", "&#x{:x};", "&#x00{:X};", "&#0{};", "{:c}"])
def test_only_what_the_parser_refuses_is_replaced(tmp_path: Path, form: str) -> None:
    for code in BORDERS if "#" in form else BORDERS[:-2]:
        xml = f"<a>{form.format(code)}</a>".encode(errors="surrogatepass")
        (tmp_path / "a.xml").write_bytes(xml)
        found = b"".join(legal_xml(tmp_path / "a.xml", bytes))
        assert not is_refused(found)
        assert (found != xml) == is_refused(xml), form.format(code).encode(errors="replace")

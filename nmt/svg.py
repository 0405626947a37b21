"""What all SVG pictures have in common: their frame, their text and their colours.

A picture is plain text: no plotting library to install on a GPU machine, and a browser, an editor
or a README shows it. The background is drawn, so that it reads on white and on dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

INK, FAINT, GRID = "#1f2328", "#59636e", "#e4e7eb"
# Okabe and Ito's, which readers with any colour vision can tell apart; yellow left out.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"


def document(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Return the document of a picture, in pixels, with its title in the top left corner."""
    size = f'width="{width:g}" height="{height:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" {size} '
            f'font-family="{_FONT}" font-size="12" role="img">',
            f"<title>{escape(legible(title))}</title>",
            f'<rect {size} rx="6" fill="#ffffff"/>',
            text(24, 34, title, size=19, bold=True),
            *parts,
            "</svg>\n",
        ]
    )


def text(
    x: float,
    y: float,
    content: str,
    *,
    size: int = 12,
    bold: bool = False,
    anchor: str = "start",
    colour: str = INK,
    more: str = "",
) -> str:
    """Return a line of text, whose base line begins, ends or has its middle at (x, y).

    anchor: start, end or middle; more: elements behind the content.
    """
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:.1f}" font-size="{size}"{weight} text-anchor="{anchor}" '
        f'fill="{colour}">{escape(legible(content))}{more}</text>'
    )


def legible(content: str) -> str:
    """Return text with `<U+000A>` for what nobody sees, or what XML cannot hold."""
    return "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in content)

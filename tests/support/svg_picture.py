"""What stands where in an SVG picture."""

import re
from xml.etree import ElementTree

from nmt.system.plot import PALETTE

SVG = "{http://www.w3.org/2000/svg}"


def places(picture: ElementTree.Element) -> list[list[tuple[float, float]]]:
    """The corners of each curve, in points from the top left corner of the picture."""
    curves = [
        re.findall(r"[ML] (\S+) (\S+)", path.get("d", ""))
        for path in picture.iter(f"{SVG}path")
        if path.get("clip-path") and any(f"stroke: {c}" in path.get("style", "") for c in PALETTE)
    ]
    return [[(float(x), float(y)) for x, y in curve] for curve in curves]


def texts(picture: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in picture.iter(f"{SVG}text")]


def titles(picture: ElementTree.Element) -> list[str]:
    bold = (text for text in picture.iter(f"{SVG}text") if "font-weight" in text.get("style", ""))
    return [text.text or "" for text in bold]

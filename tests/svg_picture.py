"""What stands where in an SVG picture."""

from __future__ import annotations

from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def places(picture: ElementTree.Element) -> list[list[tuple[float, float]]]:
    """The corners of each line, in pixels from the top left corner of its plot."""
    return [
        [
            (float(x), float(y))
            for x, y in (pair.split(",") for pair in line.get("points", "").split())
        ]
        for line in picture.iter(f"{SVG}polyline")
    ]


def texts(picture: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]


def titles(picture: ElementTree.Element) -> list[str]:
    return [
        text.text or "" for text in picture.iter(f"{SVG}text") if text.get("font-weight") == "bold"
    ]

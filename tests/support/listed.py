"""Long lists of short texts, written as one text."""

_SIGNS = str.maketrans("␣␉␍␊", " \t\r\n")


def listed(text: str) -> list[str]:
    """Return what white space parts. In it, ␣ stands for a space, ␉ ␍ ␊ for tab and line ends."""
    return [one.translate(_SIGNS) for one in text.split()]

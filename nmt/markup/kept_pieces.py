"""Pieces of running text that stay as they are: placeholders, addresses, numbers and signs.

There are two kinds of signs. A symbol, such as `€` or `½`, may be written as a word. A sign, such
as an emoji or an arrow, never is. Adjacent signs are one piece. An emoji is all that makes it up,
such as its skin tone, and what a joiner joins to it.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

_SYMBOLS = "¢£¥৳฿￠￡￥￦§¬±¶¼-¾×÷₠-\u20cf℃℅℉№℮⅐-⅟↉∀-∑∓-⋿⟀-⟥⦀-⧗⧜-⧻⧾-⫿"
_SIGNS = (
    "©®†-‣※⁂℗℠™←-⇿⌀-⌨⌫-⏿␀-⓿─-❧➔-➿⟰-⟿⤀-⥿⬀-⯿〄〒〓〠〶〷㈀-㏿\ue000-\uf8ff\ufffc"
    "\U0001d000-\U0001d24f\U0001f000-\U0001fbff\U000f0000-\U0010fffd"
)
_AFTER_SIGN = "\u20e3\ufe0e\ufe0f\U000e0020-\U000e007f"  # skin tones are signs

SIGN_CHARACTERS = f"{_SIGNS}{_AFTER_SIGN}\u200d"
"""What signs are made of, to be put between brackets."""
_SIGN_PATTERN = (
    rf"(?=[{_SIGNS}{_SYMBOLS}°0-9#*‼⁉ℹ〰])"  # to find out quickly
    rf"(?:(?P<sign>(?:(?:[{_SIGNS}]|[0-9#*]\ufe0f?\u20e3|[‼⁉ℹ〰]\ufe0f)[{_AFTER_SIGN}]*\u200d?)+"
    rf"(?<!\u200d))|(?P<symbol>[{_SYMBOLS}]|(?<![nN])°))"
)
_VALUE = r"(?:\"[^\"\]]{0,200}\"|'[^'\]]{0,200}'|[^\s\"'\]]{1,200})"
_NAMED = (
    r"\$\([\w.:-]{1,100}\)|\[\[[\w.:-]{1,100}\]\]|\{\$[^{}]{1,200}\}"
    r"|(?<!\w)__[A-Z0-9][A-Z0-9_]{0,99}?__(?!\w)"
    r"|(?<!#)(?:##[\w.:-]{1,100}##|###[\w.:-]{1,100}###)(?!#)"
    rf"|\[[a-z][\w-]{{0,50}}(?:\s{{1,9}}[\w-]{{1,50}}={_VALUE}){{1,20}}\s{{0,9}}/?\]"
    r"|\[/[a-z][\w-]{0,50}\]"
)
"""Placeholders with signs on both sides, and the short codes of WordPress."""
_MESSAGE = r"\{\s{0,9}[^\s{},'][^{},']{0,100},\s{0,9}(?:plural|select|selectordinal|choice)\s{0,9},"
"""How an ICU message with branches begins."""
_NO_PERCENTAGE = r"(?<![\w%])(?<!\d[- \xa0\u202f])"  # 100 % and 100-%ig
_NAME = r"[A-Za-z_]\w{1,99}(?:-[a-z]\w{0,99}){0,5}"
_LOOSE = (
    r"%(?:L\d{1,2}|\d{1,2}%|[1-9])(?![\w$]|[.,]\d)"  # Turkish writes 50 % as %50
    rf"|{_NO_PERCENTAGE}%(?:[A-Za-z](?!\w)|(?![ds][A-Za-z]{{1,2}}(?!\w)){_NAME})"  # not %dth
    rf"|(?<![\w@.])@{_NAME}"
    rf"|{_NO_PERCENTAGE}%<(?!\w)|(?<!\d)%>(?!\w)"
)
"""Placeholders that begin with a sign: of Qt, Boost and Drupal, and the quotes of GCC."""
PIECE = (
    rf"(?P<placeholder>{_NAMED}"
    r"|\{\{\{[^{}]{0,200}\}\}\}|\{\{[^{}]{0,200}\}\}|[$#%]\{[^{}]{0,200}\}"
    r"|\{%.{0,200}?%\}|\[%.{0,200}?%\]|\*\|[^|*]{1,200}\|\*"
    r"|\{\s{0,9}/?[\w.:!,$\[\]<>=^+#%*-]{0,200}\s{0,9}/?\}"
    r"|\{\s{0,9}\w{1,100}\s{0,9},\s{0,9}(?:number|date|time|spellout|ordinal|duration)\b[^{}]{0,200}\}"
    rf"|{_MESSAGE}(?s:[^{{}}]+[{{}}].*)"  # a message, up to the next tag
    r"|[{}]|(?<![\w$])\$[A-Za-z_]\w{0,99}|(?<![\w%])%%[A-Za-z_]\w{1,99}%%(?!\w)"
    r"|(?<![\w%])%(?!l{0,2}[a-zX]%%)[A-Za-z_]\w{0,99}(?:\.\w{1,99}){0,5}%(?![\w>])|%%"
    r"|%(?:\(\w{1,100}\)|\d{1,3}\$|<\w{1,100}>|\[\d{1,3}\])?[-+#0,]*\d{0,4}(?:\.\d{1,4})?(?:hh?|ll?|[Lqjzt])?"
    rf"(?:[sdifuxXeEgGc@]|t[A-Za-z])(?!\w)|{_LOOSE}"
    r"|(?<![^\s(\"'\[«“„])(?::[a-z_]\w{1,99}+:?|:[A-Z_]{3,100}+)(?![\w:])|(?<!\\)\\[nrt](?![a-z]))"
    r"|(?P<address>(?<!\w)(?:https?://|ftp://|mailto:|www\.)[^\s<>\"']+(?<![.,;:!?)\]}'’»”])"
    r"|(?<![\w.+-])[\w.+-]{1,64}+@[\w-]{1,100}(?:\.[\w-]{1,100})+(?!\w))"
    r"|(?P<number>(?:(?<![^\s(])[-−+±])?(?<!\w)(?<!\d[.,:/-])\d+(?>(?:[.,:/-]\d+)*)"
    r"(?!\w|\ufe0f?\u20e3))"
    rf"|{_SIGN_PATTERN}"
)
"""A pattern of what stays as it is in running text."""
SIGN = re.compile(_SIGN_PATTERN)
_LIKE_PLACEHOLDER = re.compile(
    rf"(?<![\w!])![a-z][\w-]{{0,99}}|{_NO_PERCENTAGE}%[^\w\s%<&;[(]{{0,5}}\w{{1,99}}"
    r"|(?<!\w)__\w{1,99}__(?!\w)|(?<!\w)[A-Za-z]\w{0,99}_\w{1,99}|(?:(?<!\w)[~^]|&amp;)\d(?!\w)"
)
_PERCENTAGE = re.compile(r"%\d+")


@cache  # compiled when it is needed, which most starts do not
def piece_pattern() -> re.Pattern[str]:
    """Return what matches `PIECE`."""
    return re.compile(PIECE)


def find_message(text: str) -> re.Match[str] | None:
    """Return the beginning of the first ICU message with branches, such as `{n, plural, ...}`.

    What has one is not translated: its branches would have to be those of the other language.
    """
    return re.search(_MESSAGE, text) if "{" in text else None


def may_be_placeholders(text: str) -> Counter[str]:
    """Count what may be a placeholder, or only text, such as `!link` and `user_name`."""
    found = _LIKE_PLACEHOLDER.findall(text)
    is_numbered = "%1" in found  # else %10 is a percentage in Turkish
    others = (each for each in found if not piece_pattern().fullmatch(each))
    return Counter(each for each in others if is_numbered or not _PERCENTAGE.fullmatch(each))

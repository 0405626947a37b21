"""Tags in running text, besides those of its form.

They are escaped tags of HTML, such as `&lt;b&gt;`, numbered ones, such as `<0>here</0>` and
`{1>two words<1}`, BBCode, such as `[b]here[/b]`, and `**here**`. They count in pairs only, except
for those that have no content, such as `<1/>` and `&lt;br&gt;`, and for escaped ones with a name of
HTML. Code between backticks stays as it is, and a literal `\\n` is a break if it parts two lines.
Signs that are escaped as in Markdown, such as `\\[` and `\\#`, are like tags without content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from nmt.data.words import is_in_word

VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
"""Elements of HTML without a closing tag."""
HTML = re.compile(
    "a|abbr|b|big|blockquote|body|br|button|caption|center|cite|code|col|dd|del|details|dfn|div|dl|"
    "dt|em|embed|fieldset|figcaption|figure|font|footer|form|h[1-6]|head|header|hr|html|i|iframe|"
    "img|input|ins|kbd|label|legend|li|link|main|mark|meta|nav|ol|optgroup|option|p|param|pre|q|s|"
    "samp|script|section|select|small|source|span|strike|strong|style|su[bp]|summary|svg|table|"
    "tbody|td|textarea|tfoot|th|thead|title|tr|tt|u|ul|var|video|wbr"
)
"""Names of HTML that text may have tags of."""
_BBCODE = "b|i|u|s|url|img|quote|code|list|size|color|font|center|left|right|email|sub|sup|spoiler"
_LESS, _GREATER = "(?:<|&lt;)", "(?:>|&gt;)"
_VALUE = (
    r"""(?:"[^"<>]{0,1000}"|'[^'<>]{0,1000}'|&quot;(?:(?!&quot;)[^<>]){0,1000}&quot;"""
    r"""|&apos;(?:(?!&apos;)[^<>]){0,1000}&apos;|[^\s"'<>&=]{1,1000})"""
)
_ATTRIBUTE = rf"\s{{0,9}}[A-Za-z_:@][\w:.@-]{{0,50}}(?:\s{{0,9}}=\s{{0,9}}{_VALUE})?"
TEXT_TAG = re.compile(
    rf"&lt;/?(?P<escaped>[A-Za-z][\w:.-]{{0,50}})(?:\s{_ATTRIBUTE}){{0,50}}\s{{0,9}}/?" + _GREATER
    + rf"|{_LESS}/?(?P<number>\d{{1,4}})\s?/?{_GREATER}"
    + rf"|\{{(?P<begins>\w{{1,9}}){_GREATER}|{_LESS}(?P<ends>\w{{1,9}})\}}"
    + rf"|\[/?(?P<bbcode>(?i:{_BBCODE}))(?:=[^\[\]<>]{{1,300}})?\]"
    + r"|(?<!\*)(?P<stars>\*\*)(?!\*)"
    + r"|(?<![`\w])`(?P<code>[^`\s](?:[^`<>]{0,200}[^`\s])?)`(?![`\w])"
    + r"|(?<![\w\\])(?P<word>\w{1,50}(?:\\_\w{1,50})+)"
    + r"|(?<!\\)(?P<escape>\\(?:[][{}#*_`|~+<>]|&[lg]t;))"
    + r"|(?P<path>(?<!\w)[A-Za-z]:\\\S+)|(?<!\\)(?P<line_end>(?:\\r)?(?:\\n)+)"
)  # fmt: skip


class TextTag(NamedTuple):
    """What may be a tag, and where it stands in a text."""

    start: int
    end: int
    kind: str  # open, close, empty or kept, as of a token
    name: str  # what a pair has in common; a name of HTML only in XML, since HTML shows these tags
    needs_partner: bool


def text_tags(text: str, form: str, *, is_in_stars: bool) -> Iterator[TextTag]:
    """Yield what may be tags in a text without other tags.

    is_in_stars: whether it may begin inside `**` and `**`.
    """
    for tag in TEXT_TAG.finditer(text):
        group, start, end = tag.lastgroup or "", tag.start(), tag.end()
        name = tag[group].lower()
        before, after = text[max(0, start - 1) : start], text[end : end + 1]
        is_empty = tag[0].endswith(("/>", "/&gt;")) or (group == "escaped" and name in VOID)
        is_close = tag[0].startswith(("</", "&lt;/", "[/")) or group == "ends"
        kind, needs_partner = "close" if is_close else "empty" if is_empty else "open", True
        if group == "escaped":
            needs_partner = not HTML.fullmatch(name)
            name = f"&{name}" if form == "html" else name
        elif group == "number":
            needs_partner = not is_empty
        elif group == "stars":
            is_beside_space = (before if is_in_stars else after).isspace()
            if is_beside_space or (is_in_word(before) and is_in_word(after)):
                continue
            kind = "close" if is_in_stars else "open"
            is_in_stars = not is_in_stars
        elif group in ("code", "path", "word"):
            kind, needs_partner = "kept", False
        elif group == "escape":
            kind, name, needs_partner = "empty", "\\", False
        elif group == "line_end":
            is_apart = not before.strip() and not after.strip()
            if is_apart or (is_in_word(before) and after.islower()):
                continue
            kind, name, needs_partner = "empty", "br", False
        prefix = {"begins": "{", "ends": "{", "bbcode": "["}.get(group, "")
        yield TextTag(start, end, kind, prefix + name, needs_partner)

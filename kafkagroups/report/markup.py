"""HTML elements, built by functions. A text is data until one of these functions has escaped it.

`Html` marks what is markup. Every other string is escaped, and control and format characters are made visible
(kafkagroups/visible_text.py). So no name from a log can become markup, an attribute, or a terminal's command.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as escape_html

from kafkagroups.visible_text import escape

_VOID = ("meta", "br", "rect", "line", "path")
"""Elements that this package never gives content."""


class Html(str):
    """Markup. Only the functions of this module, and constants, make objects of this class."""

    __slots__ = ()


Content = Html | str | int


def text(content: Content) -> Html:
    """Return content as markup: strings are escaped, and markup stays as it is."""
    if isinstance(content, Html):
        return content
    return Html(escape_html(escape(str(content)), quote=True))


def join(*parts: Content) -> Html:
    """Return several pieces of content, one after the other."""
    return Html("".join(text(part) for part in parts))


def element(tag: str, *content: Content, **attributes: str | int | None) -> Html:
    """Return an element. The attribute `class_` is `class`, and "_" stands for "-". None leaves an attribute out."""
    pairs = [
        f' {name.rstrip("_").replace("_", "-")}="{text(value)}"'
        for name, value in attributes.items()
        if value is not None
    ]
    start = f"<{tag}{''.join(pairs)}>"
    if tag in _VOID and not content:
        return Html(start if tag in ("meta", "br") else f"{start}</{tag}>")
    return Html(f"{start}{join(*content)}</{tag}>")


def command(line: str) -> Html:
    """Return a command of a shell, as text in its own box."""
    return element("pre", element("code", line), class_="command")


def paragraph(*content: Content) -> Html:
    return element("p", *content)


def details(summary: Content, *content: Content) -> Html:
    """Return content that is closed at first."""
    return element("details", element("summary", summary), *content)


def table(columns: Sequence[str], rows: Iterable[Sequence[Content]], caption: str) -> Html:
    """Return a table. On a narrow screen, each row becomes a block whose cells name their columns."""
    head = element("tr", *[element("th", column, scope="col") for column in columns])
    body = [
        element("tr", *[element("td", cell, data_label=column) for column, cell in zip(columns, row, strict=True)])
        for row in rows
    ]
    return element("table", element("caption", caption), element("thead", head), element("tbody", *body))


def fact_list(facts: Iterable[tuple[str, Content]]) -> Html:
    """Return names of facts, each with its value."""
    pairs = [join(element("dt", name), element("dd", value)) for name, value in facts]
    return element("dl", *pairs, class_="facts")


def limited_table(columns: Sequence[str], rows: Sequence[Sequence[Content]], caption: str, top: int) -> Html:
    """Return a table of the first `top` rows, and a line that says how many rows are left out."""
    shown = table(columns, rows[:top], caption)
    if len(rows) <= top:
        return shown
    return join(shown, element("p", f"Only the first {top} of {len(rows)} rows are shown.", class_="cut"))

"""Text for people, in which control and format characters are visible.

Names and metadata in a log can contain any character. Control characters begin a terminal's commands, and format
characters such as U+202E reverse the text after them.
"""

from __future__ import annotations

from unicodedata import category

_ESCAPED_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of control characters, format characters, surrogates, line and paragraph separators."""


def escape(text: str) -> str:
    r"""Return the text with control and format characters escaped, as Python's `repr` does.

    >>> escape("a\nb")
    'a\\nb'
    """
    if text.isprintable():
        return text
    return "".join(_escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    if category(character) not in _ESCAPED_CATEGORIES:
        return character
    return character.encode("unicode_escape").decode()

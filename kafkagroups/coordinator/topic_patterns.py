"""The regular expressions of consumer groups: RE2 patterns of topic names.

A broker uses RE2/J. With the package google-re2 (the extra `re2`), this module uses RE2 itself. Without it, Python's
`re` stands in: it accepts the same patterns in practice, because what RE2 does not know (looking around, references
back, possessive repeats) is refused here too. A topic name has ASCII letters, digits, ".", "_" and "-" only, so the
differences of the two on other texts do not matter.

The text of an error is the one of RE2/J, which the client gets.
Source: TopicRegexResolver, Utils.throwIfRegularExpressionIsInvalid (4.3.1); com.google.re2j.Parser (1.8).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.refusal import Refusal

_ERRORS = (
    ("missing closing ]", r"missing \]|unterminated character set"),
    ("missing closing )", r"missing \)|unterminated subpattern"),
    ("regexp/syntax: internal error", r"unexpected \)|unbalanced parenthesis"),
    ("missing argument to repetition operator", r"no argument for repetition|nothing to repeat"),
    ("invalid nested repetition operator", r"bad repetition operator|multiple repeat"),
    ("invalid repeat count", r"invalid repetition size|repeat"),
    ("invalid character class range", r"invalid character class|bad character range"),
    ("trailing backslash at end of expression", r"trailing \\|bad escape \(end"),
    ("invalid escape sequence", r"invalid escape|bad escape|escape"),
    ("duplicate capture group name", r"duplicate capture group name"),
    ("invalid named capture", r"named capture"),
    ("invalid or unsupported Perl syntax", r""),
)
"""The texts of RE2/J, and what the texts of RE2 and of Python's `re` for the same error contain."""
_PERL_ONLY = re.compile(r"\(\?(?:[=!>(#]|P[=>])")
_NAMED_GROUP = re.compile(r"\(\?P?<(?:(\w+)>)?")
_UNKNOWN_ESCAPE = re.compile(r"\\[1-9Z]")
_REPEAT = r"(?:[*+?]|\{\d+(?:,\d*)?\})"
_DOUBLE_REPEAT = re.compile(rf"{_REPEAT}(?:\?{_REPEAT}|[*+]|\{{\d+(?:,\d*)?\}})")
_MAX_REPEAT = 1000
_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"._\-",
    "upper": "A-Z",
    "word": r"\w",
}
_ESCAPED_OR_CLASS = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]", re.DOTALL)


def check_pattern(pattern: str) -> None:
    """Raise Refusal if the text is not a pattern."""
    try:
        _compile(pattern)
    except ValueError as error:
        raise Refusal(
            Errors.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        ) from None


def resolve_patterns(patterns: Iterable[str], topics: Iterable[str]) -> dict[str, list[str]]:
    """Return the topics that match each pattern as a whole, sorted. A text that is no pattern matches nothing."""
    names = sorted(topics)
    resolved: dict[str, list[str]] = {}
    for pattern in patterns:
        try:
            matches = _compile(pattern)
        except ValueError:
            resolved[pattern] = []
        else:
            resolved[pattern] = [name for name in names if matches(name)]
    return resolved


def _compile(pattern: str) -> Callable[[str], Any]:
    """Return a function that says whether a whole text matches. Raises ValueError with the text of RE2/J."""
    engine, text = _choose_engine(pattern)
    try:
        return engine.compile(text).fullmatch  # type: ignore[no-any-return]
    except (engine.error, OverflowError, RecursionError) as error:
        message = str(error)
    raise ValueError(next(text for text, sign in _ERRORS if re.search(sign, message)))


def _choose_engine(pattern: str) -> tuple[Any, str]:
    """Return RE2 and the pattern, or Python's `re` and the pattern in its syntax."""
    try:
        return import_module("re2"), pattern
    except ImportError:
        return re, _translate(pattern)


def _translate(pattern: str) -> str:
    """Return an RE2 pattern in the syntax of Python's `re`. Raises ValueError for what only Perl knows."""
    bare = _ESCAPED_OR_CLASS.sub("x", pattern)
    names = _NAMED_GROUP.findall(bare)
    if "" in names:
        raise ValueError("invalid named capture")
    if len(set(names)) < len(names):
        raise ValueError("duplicate capture group name")
    if _PERL_ONLY.search(bare):
        raise ValueError("invalid or unsupported Perl syntax")
    if _UNKNOWN_ESCAPE.search(pattern):
        raise ValueError("invalid escape sequence")
    if _DOUBLE_REPEAT.search(bare):
        raise ValueError("invalid nested repetition operator")
    if any(int(count) > _MAX_REPEAT for bounds in re.findall(r"\{(\d+),?(\d*)\}", bare) for count in bounds if count):
        raise ValueError("invalid repeat count")
    text = re.sub(r"\\Q(.*?)(?:\\E|$)", lambda quoted: re.escape(quoted[1]), pattern, flags=re.DOTALL)
    text = re.sub(r"\[:(\w+):\]", _find_posix_class, text)
    return _NAMED_GROUP.sub("(", text).replace(r"\z", r"\Z")


def _find_posix_class(name: re.Match[str]) -> str:
    """Return the characters of a POSIX class that a topic name can contain. Raises ValueError for an unknown class."""
    if name[1] not in _POSIX_CLASSES:
        raise ValueError("invalid character class range")
    return _POSIX_CLASSES[name[1]]

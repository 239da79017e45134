"""The patterns of consumer groups: RE2 expressions of topic names, as a broker compiles and resolves them.

A broker uses RE2/J. With the package google-re2 (the extra `re2`), this module uses RE2 itself. Without it, Python's
`re` stands in, after a translation: what RE2 does not know (looking around, references back, possessive repeats, the
flags of Python) is refused, and flags in the middle of a pattern hold until their group ends. A topic name has ASCII
letters, digits, ".", "_" and "-" only, so the differences of the two on other texts do not matter.

The text of an error is the one of RE2/J, which the client gets.
Source: TopicRegexResolver, Utils.throwIfRegularExpressionIsInvalid (4.3.1); com.google.re2j.Parser (1.8).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

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
    ("invalid or unsupported Perl syntax", r""),
)
"""The texts of RE2/J, and what the texts of RE2 and of Python's `re` for the same error contain."""
_PERL_ONLY = re.compile(r"\(\?(?!P?<|[imsU]*(?:-[imsU]+)?[:)])")
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
_ESCAPED_OR_CLASS = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]", re.DOTALL)
_TOKEN = re.compile(rf"{_ESCAPED_OR_CLASS.pattern}|\(\?[imsU-]+[:)]|.", re.DOTALL)


def resolve_patterns(patterns: Iterable[str], topics: Iterable[str]) -> dict[str, list[str]]:
    """Return the topics that match each pattern as a whole. A text that is no pattern matches nothing."""
    names = sorted(topics)
    resolved: dict[str, list[str]] = {}
    for pattern in patterns:
        try:
            matches = compile_pattern(pattern)
        except ValueError:
            resolved[pattern] = []
        else:
            resolved[pattern] = [name for name in names if matches(name)]
    return resolved


def compile_pattern(pattern: str) -> Callable[[str], Any]:
    """Return a function that says whether a whole text matches. Raises ValueError with the text of RE2/J."""
    names = _NAMED_GROUP.findall(_ESCAPED_OR_CLASS.sub("x", pattern))
    if "" in names:
        raise ValueError("invalid named capture")
    if len(set(names)) < len(names):
        raise ValueError("duplicate capture group name")
    engine: Any = re
    try:
        engine = import_module("re2")
    except ImportError:
        arguments: tuple[Any, ...] = (_translate(pattern),)
    else:
        options = engine.Options()
        options.log_errors = False
        arguments = (pattern, options)
    try:
        return engine.compile(*arguments).fullmatch  # type: ignore[no-any-return]
    except (engine.error, OverflowError, RecursionError) as error:
        message = str(error)
    raise ValueError(next(text for text, sign in _ERRORS if re.search(sign, message)))


def _translate(pattern: str) -> str:
    """Return an RE2 pattern in the syntax of Python's `re`. Raises ValueError for what only Perl knows."""
    bare = _ESCAPED_OR_CLASS.sub("x", pattern)
    if _PERL_ONLY.search(bare):
        raise ValueError("invalid or unsupported Perl syntax")
    if _UNKNOWN_ESCAPE.search(pattern):
        raise ValueError("invalid escape sequence")
    if _DOUBLE_REPEAT.search(bare):
        raise ValueError("invalid nested repetition operator")
    if any(int(count) > _MAX_REPEAT for bounds in re.findall(r"\{(\d+),?(\d*)\}", bare) for count in bounds if count):
        raise ValueError("invalid repeat count")
    text = re.sub(r"\\Q(.*?)(?:\\E|$)", lambda quoted: re.escape(quoted[1]), pattern, flags=re.DOTALL)
    text = re.sub(r"\[:(\^?)(\w+):\]", _find_posix_class, text)
    return _scope_flags(_NAMED_GROUP.sub("(", text).replace(r"\z", r"\Z"))


def _find_posix_class(name: re.Match[str]) -> str:
    if name[2] not in _POSIX_CLASSES:
        raise ValueError("invalid character class range")
    characters = _POSIX_CLASSES[name[2]]
    if not name[1]:
        return characters
    return "".join(re.escape(chr(code)) for code in range(128) if not re.match(f"[{characters}]", chr(code)))


def _scope_flags(pattern: str) -> str:
    """Write flags such as (?i), which hold until their group ends, as a group in each alternative until there."""
    text = ""
    # For each group around this place: the flags that its next alternative begins with.
    scopes: list[list[str]] = [[]]
    for token in _TOKEN.findall(pattern):
        flags = token.replace("U", "").replace("-:", ":").replace("-)", ")")
        if token.startswith("(?") and token.endswith(")"):
            scopes[-1].append(flags[:-1] + ":")
            text += scopes[-1][-1]
        elif token.startswith("("):
            scopes.append([])
            text += flags
        elif token == "|":
            text += ")" * len(scopes[-1]) + token + "".join(scopes[-1])
        elif token == ")" and len(scopes) > 1:
            text += ")" * len(scopes.pop()) + token
        else:
            text += token
    return text + ")" * len(scopes[0])

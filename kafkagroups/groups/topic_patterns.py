"""The patterns of consumer groups: RE2 expressions of topic names, as a broker compiles and resolves them.

A broker uses RE2/J. This module reads a pattern as RE2/J does, refuses what it refuses with the same text, and writes
the pattern in the syntax that Python's `re` and RE2 share: each character and each class becomes the set of ASCII
characters that it matches, because topic names have no others. The package google-re2 (the extra `re2`) then matches
in a time that grows with the length of the name only; without it, Python's `re` gives the same answer.

Of Unicode's scripts, `\\p{…}` knows Latin and Common, and it refuses the others, which have no ASCII character.
Source: TopicRegexResolver, Utils.throwIfRegularExpressionIsInvalid (4.3.1); com.google.re2j.Parser (1.8).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NoReturn

_ASCII = frozenset(map(chr, range(128)))
_MAX_REPEAT = 1000
_CATEGORIES = "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
_NAMED_CLASSES = {
    "alnum": r"0-9A-Za-z",
    "alpha": r"A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": r"0-9",
    "graph": r"!-~",
    "lower": r"a-z",
    "print": r" -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t-\r ",
    "upper": r"A-Z",
    "word": r"0-9A-Za-z_",
    "xdigit": r"0-9A-Fa-f",
}
_PERL_CLASSES = {"d": "digit", "s": "space", "w": "word"}
_CONTROLS = dict(zip("afnrtv", "\a\f\n\r\t\v", strict=True))

_NUMBER = "(0|[1-9][0-9]*)"
_REPEAT = re.compile(rf"(?:[*+?]|\{{{_NUMBER}(?:,{_NUMBER}?)?\}})")
_NAMED_GROUP = re.compile(r"\(\?P?<(?:([0-9A-Za-z_]+)>)?")
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_POSITION = re.compile(r"\\[AbBz]")
_PERL_CLASS = re.compile(r"\\([dswDSW])")
_UNICODE_CLASS = re.compile(r"\\([pP])(?:\{(\^?)([^}]*)\}|([^{]))", re.DOTALL)
_POSIX_CLASS = re.compile(r"\[(?=:)(:\^)?:?(.*?):\]", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:([1-7][0-7]{1,2}|0[0-7]{0,2})|x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]+)\}|([afnrtv])|([^0-9A-Za-z]))", re.DOTALL
)


def find_matches(pattern: str, topics: Iterable[str]) -> tuple[str, ...]:
    """Return the topics that match the pattern as a whole. A text that is no pattern matches nothing."""
    try:
        matches = compile_pattern(pattern)
    except ValueError:
        return ()
    return tuple(name for name in sorted(topics) if matches(name))


def compile_pattern(pattern: str) -> Callable[[str], Any]:
    """Return a function that says whether a whole topic name matches. Raises ValueError with the text of RE2/J."""
    text = _Translation(pattern).translate()
    try:
        return import_module("re2").compile(text).fullmatch  # type: ignore[no-any-return]
    except ImportError:
        return re.compile(text).fullmatch


@dataclass
class _Group:
    """A group that is open: its alternatives so far, each a list of parts, and whether case was folded before it."""

    folds_case: bool
    alternatives: list[list[str]] = field(default_factory=lambda: [[]])

    def join(self) -> str:
        return "|".join("".join(parts) for parts in self.alternatives)


class _Translation:
    """A pattern that is read from left to right, as RE2/J reads it, so that its first error is RE2/J's."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self.folds_case = False
        self.group_names: set[str] = set()
        self.groups = [_Group(folds_case=False)]

    def translate(self) -> str:
        was_repeat = False
        while self.position < len(self.pattern):
            # RE2/J takes a brace for a repetition here even if it is a character of the name.
            is_repeat = self.pattern[self.position] in "*+?{"
            repeat = self._take(_REPEAT)
            if repeat:
                self._add_repeat(repeat, was_repeat=was_repeat)
            else:
                self._add_next()
            was_repeat = is_repeat
        if len(self.groups) > 1:
            raise ValueError("missing closing )")
        return self.groups[0].join()

    def _take(self, sign: re.Pattern[str]) -> re.Match[str] | None:
        found = sign.match(self.pattern, self.position)
        if found:
            self.position = found.end()
        return found

    @property
    def _parts(self) -> list[str]:
        return self.groups[-1].alternatives[-1]

    def _add_repeat(self, repeat: re.Match[str], *, was_repeat: bool) -> None:
        least, most = (int(count or 0) for count in repeat.groups())
        if max(least, most) > _MAX_REPEAT or (repeat[2] and least > most):
            raise ValueError("invalid repeat count")
        if self.pattern.startswith("?", self.position):
            self.position += 1  # Whether a repetition is greedy does not change whether the whole name matches.
        if was_repeat:
            raise ValueError("invalid nested repetition operator")
        if not self._parts:
            raise ValueError("missing argument to repetition operator")
        self._parts[-1] = f"(?:{self._parts[-1]}){repeat[0]}"

    def _add_next(self) -> None:
        character = self.pattern[self.position]
        self.position += character not in "([\\"  # What these begin is read as a whole.
        if character == "(":
            self._open_group()
        elif character == "[":
            self._parts.append(_write(self._read_class()))
        elif character == "\\":
            self._add_escape()
        elif character == ")":
            self._close_group()
        elif character == "|":
            self.groups[-1].alternatives.append([])
        elif character in "^$.":
            self._parts.append(character)
        else:
            self._add_literal(character)

    def _add_literal(self, character: str) -> None:
        self._parts.append(_write(self._fold({character})))

    def _fold(self, characters: Iterable[str]) -> set[str]:
        return {other for each in characters for other in (each, each.swapcase() if self.folds_case else each)}

    def _open_group(self) -> None:
        before = self.folds_case
        if not self.pattern.startswith("(?", self.position):
            self.position += 1
        elif named := self._take(_NAMED_GROUP):
            if named[1] is None:
                raise ValueError("invalid named capture")
            if named[1] in self.group_names:
                raise ValueError("duplicate capture group name")
            self.group_names.add(named[1])
        elif flags := self._take(_FLAGS):
            self.folds_case = "i" in flags[1] or (before and "i" not in (flags[2] or ""))
            if flags[3] == ")":
                return
        else:
            raise ValueError("invalid or unsupported Perl syntax")
        self.groups.append(_Group(before))

    def _close_group(self) -> None:
        if len(self.groups) == 1:
            raise ValueError("regexp/syntax: internal error")
        group = self.groups.pop()
        self.folds_case = group.folds_case
        self._parts.append(f"(?:{group.join()})")

    def _add_escape(self) -> None:
        if quoted := self._take(_QUOTED):
            for character in quoted[1]:
                self._add_literal(character)
        elif position := self._take(_POSITION):
            self._parts.append({r"\A": "^", r"\z": "$"}.get(position[0], position[0]))
        else:
            characters = self._read_group()
            self._parts.append(_write(self._fold({self._read_escape()}) if characters is None else characters))

    def _read_group(self) -> set[str] | None:
        """Return the characters of a class such as \\d or \\p{L}; None if there is none here."""
        if perl := self._take(_PERL_CLASS):
            characters = _find_characters(_PERL_CLASSES[perl[1].lower()])
            is_negative = perl[1].isupper()
        elif self.pattern.startswith((r"\p", r"\P"), self.position):
            unicode = self._take(_UNICODE_CLASS)
            if not unicode:
                raise ValueError("invalid character class range")
            characters = _find_unicode_characters(unicode[3] if unicode[4] is None else unicode[4])
            is_negative = (unicode[1] == "P") != bool(unicode[2])
        else:
            return None
        characters = self._fold(characters)
        return set(_ASCII - characters) if is_negative else characters

    def _read_class(self) -> set[str]:
        self.position += 1
        is_negative = self.pattern.startswith("^", self.position)
        self.position += is_negative
        characters: set[str] = set()
        first = self.position
        while not self.pattern.startswith("]", self.position) or self.position == first:
            if posix := self._take(_POSIX_CLASS):
                named = self._fold(_find_characters(posix[2]))
                characters |= _ASCII - named if posix[1] else named
            elif (group := self._read_group()) is not None:
                characters |= group
            else:
                characters |= self._fold(self._read_range())
        self.position += 1
        return set(_ASCII - characters) if is_negative else characters

    def _read_range(self) -> set[str]:
        lowest = highest = self._read_character()
        if self.pattern.startswith("-", self.position) and not self.pattern.startswith("-]", self.position):
            self.position += 1
            highest = self._read_character()
            if highest < lowest:
                _refuse_class()
        return {lowest, highest} | {each for each in _ASCII if lowest <= each <= highest}

    def _read_character(self) -> str:
        if self.position >= len(self.pattern):
            raise ValueError("missing closing ]")
        if self.pattern[self.position] == "\\":
            return self._read_escape()
        self.position += 1
        return self.pattern[self.position - 1]

    def _read_escape(self) -> str:
        if self.position + 1 == len(self.pattern):
            raise ValueError("trailing backslash at end of expression")
        escape = self._take(_ESCAPE)
        if not escape:
            raise ValueError("invalid escape sequence")
        octal, two_digits, digits, control, mark = escape.groups()
        if mark or control:
            return mark or _CONTROLS[control]
        code = int(octal, 8) if octal else int(two_digits or digits, 16)
        if code > 0x10FFFF:
            raise ValueError("invalid escape sequence")
        return chr(code)


def _find_characters(name: str) -> set[str]:
    if name not in _NAMED_CLASSES:
        _refuse_class()
    return {each for each in _ASCII if re.match(f"[{_NAMED_CLASSES[name]}]", each)}


def _find_unicode_characters(name: str) -> set[str]:
    if name == "Any":
        return set(_ASCII)
    letters = _find_characters("alpha")
    if name in ("Latin", "Common"):
        return letters if name == "Latin" else set(_ASCII - letters)
    if name not in _CATEGORIES.split():
        _refuse_class()
    return {each for each in _ASCII if unicodedata.category(each).startswith(name)}


def _refuse_class() -> NoReturn:
    raise ValueError("invalid character class range")


def _write(characters: set[str]) -> str:
    """Return a part that matches one of these characters. Without any, it matches nothing that a topic name has."""
    if not characters:
        return r"[^\x00-\x7f]"
    if len(characters) == 1:
        return re.escape(*characters)
    return "[" + "".join(map(re.escape, sorted(characters))) + "]"

"""The exercises of lesson 07."""

from __future__ import annotations

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.records.wire import utf16_length

# Exercise `fits`: may a client commit this text as metadata? The text must have at most `limit` UTF-16 units. Java
# stores a character as one or two of these units.
# `_check_metadata_length` is correct. The functions after it contain mistakes of learners.


def _check_metadata_length(metadata: str, limit: int) -> bool:
    return utf16_length(metadata) <= limit


def _exclude_the_limit(metadata: str, limit: int) -> bool:
    return utf16_length(metadata) < limit


def _count_characters(metadata: str, limit: int) -> bool:
    return len(metadata) <= limit


def _count_utf8_bytes(metadata: str, limit: int) -> bool:
    return len(metadata.encode()) <= limit


_UNKNOWN = "UNKNOWN_MEMBER_ID"
_ILLEGAL = "ILLEGAL_GENERATION"
_FITS_SOLUTION = """\
def fits(metadata, limit):
    return len(metadata.encode("utf-16-le")) // 2 <= limit"""

EXERCISES = (
    Exercise(
        name="fits",
        correct=_check_metadata_length,
        solution=_FITS_SOLUTION,
        hints=(
            "Java counts UTF-16 units. Most characters have one unit, but 𝄞 has two.",
            'metadata.encode("utf-16-le") has two bytes for each unit.',
        ),
        cases=(("till", 4), ("tills", 4), ("", 0), ("ü" * 4, 4), ("𝄞𝄞", 4), ("𝄞𝄞𝄞", 4)),
        known_mistakes={
            'a text of exactly `limit` units fits: use <=, not <. Use "utf-16-le", because "utf-16" adds a mark': (
                _exclude_the_limit
            ),
            "your function counts characters; 𝄞 is one character, but it has two units": _count_characters,
            "your function counts UTF-8 bytes; ü has two bytes, but only one unit": _count_utf8_bytes,
        },
    ),
    # Exercise `three_refusals`: which errors did a 3.9.2 broker answer? The cases are requests 44, 42 and 28 of the
    # conversation 3.9.2-commits, with other names.
    Exercise(
        name="three_refusals",
        correct=(_UNKNOWN, _ILLEGAL, _UNKNOWN),
        solution='three_refusals = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID")',
        hints=(
            "Go through the table from top to bottom. The first check that fails gives the answer.",
            "In the table, the member comes before its generation. An Empty group accepts only the generation −1.",
        ),
        known_mistakes={
            "1: the member is checked before its generation": (_ILLEGAL, _ILLEGAL, _UNKNOWN),
            "3: the group exists and is Empty, so the answer is not the one for an unknown group": (
                _UNKNOWN,
                _ILLEGAL,
                _ILLEGAL,
            ),
            "2: the member is known. Only its generation is wrong": (_UNKNOWN, _UNKNOWN, _UNKNOWN),
            "1: the member is checked before its generation. 3: an Empty group has no generation to compare": (
                _ILLEGAL,
                _ILLEGAL,
                _ILLEGAL,
            ),
            "3: the group `g5` exists. And a broker of Kafka 3.9 never answers a commit with GROUP_ID_NOT_FOUND": (
                _UNKNOWN,
                _ILLEGAL,
                "GROUP_ID_NOT_FOUND",
            ),
            "2: `sub` is Stable, so no rebalance is in progress": (_UNKNOWN, "REBALANCE_IN_PROGRESS", _UNKNOWN),
            "1: the commit has no instance id. So only the member id and the generation are checked": (
                "FENCED_INSTANCE_ID",
                _ILLEGAL,
                _UNKNOWN,
            ),
            "1 and 2 are exchanged: `stranger` is no member of `sub`, and `member-a` is one": (
                _ILLEGAL,
                _UNKNOWN,
                _UNKNOWN,
            ),
        },
    ),
    # Exercise `copied`: which group instance id do two processes use? The learner sees the group records that
    # `course.run_duplicate_static_member` writes.
    Exercise(
        name="copied",
        correct="van-2",
        solution='copied = "van-2"',
        hints=(
            "The records have the same generation, so there was no rebalance. What differs between two records?",
            "Which instance id has a new member id in each of these records?",
        ),
        known_mistakes={
            "the member id of van-1 is the same in every record, so no other process joins as van-1": "van-1",
            "van-3 joined later, but only once, and its member id does not change": "van-3",
        },
    ),
)

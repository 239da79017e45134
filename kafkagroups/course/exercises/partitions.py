"""The exercises of lesson 02."""

from __future__ import annotations

from collections.abc import Iterable

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.log.segment_file import partition_for
from kafkagroups.records.wire import java_hash

# Exercise `hash_of`: which hash does Java compute for a text? Java computes the hash from the UTF-16 units of the text:
# one or two 16-bit numbers for each character.
# `java_hash` is correct. `_hash_units` is a helper. The other functions contain mistakes of learners.


def _hash_units(units: Iterable[int]) -> int:
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def _forget_overflow(text: str) -> int:
    value = 0
    for character in text:
        value = 31 * value + ord(character)
    return value


def _forget_sign(text: str) -> int:
    return java_hash(text) & 0xFFFFFFFF


def _hash_characters(text: str) -> int:
    return _hash_units(map(ord, text))


def _hash_utf8_bytes(text: str) -> int:
    return _hash_units(text.encode())


_HASH_OF_SOLUTION = """\
def hash_of(text):
    data = text.encode("utf-16-be")
    value = 0
    for i in range(0, len(data), 2):
        unit = int.from_bytes(data[i:i + 2], "big")
        value = (31 * value + unit) & 0xFFFFFFFF   # keep 32 bits
    return value - 2**32 if value >= 2**31 else value"""

EXERCISES = (
    Exercise(
        name="hash_of",
        correct=java_hash,
        solution=_HASH_OF_SOLUTION,
        hints=(
            "Begin with 0. For each unit of the text: value = 31 * value + unit.",
            "Java's int has 32 bits: keep 32 bits with & 0xFFFFFFFF. A result of 2**31 or more is a negative int.",
            "Units are UTF-16 units, not characters: ☕ has one unit, 🥐 has two units. "
            'text.encode("utf-16-be") has 2 bytes for each unit.',
        ),
        cases=(("billing",), ("",), ("dashboard",), ("fraud-check",), ("café-☕",), ("🥐",), ("polygenelubricants",)),
        known_mistakes={
            "Java's int overflows: keep 32 bits after each step": _forget_overflow,
            "Java's int is signed: subtract 2**32 from a result of 2**31 or more": _forget_sign,
            "🥐 is one character, but it has two UTF-16 units": _hash_characters,
            "Java computes the hash from UTF-16 units, not from UTF-8 bytes": _hash_utf8_bytes,
        },
    ),
    Exercise(
        name="two_partitions",
        correct=(partition_for("reports"), partition_for("barista")),
        solution="two_partitions = (1094603199 % 50, 333401174 % 50)   # without the minus sign",
        hints=(
            "Two steps: the absolute value, then the remainder of the division by 50.",
            "For the remainder, the last two digits are enough, because 100 is a multiple of 50.",
        ),
        known_mistakes={
            "Take the absolute value first. Python's % gives another remainder for a negative number": (49, 26),
            "A partition is never negative: take the absolute value first": (49, -24),
            "99 and 74 are the last two digits. Divide them by 50 and take the remainder": (99, 74),
        },
    ),
    Exercise(
        name="after_widening",
        correct="C",
        solution='after_widening = "C"   # the old offsets are in the log of the old partition',
        hints=(
            "Where are the old records of the group now, and which partition does a broker look in?",
            "A number of partitions can only grow, and a broker reads the setting only when it creates the topic.",
        ),
        known_mistakes={
            "A broker reads this setting only when it creates the topic. Afterwards, it counts the partitions": "A",
            "Compaction works within one partition. It never moves a record to another partition": "B",
            "The new partition is right for this name, but a group with a new name has no offsets": "D",
        },
    ),
)

"""Exercises of lesson 02: Java's hash of a group id, and the partition of a group.

Each key of `known_mistakes` is the correction that the learner sees. Its value is the wrong answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.log.partitioning import partition_for
from kafkagroups.records.text import java_hash

# Exercise `hash_of`: which hash does Java compute for a text? Java computes the hash from the UTF-16 units of the text:
# one or two 16-bit numbers for each character.
# `java_hash` is correct. `_hash_units` is a helper. The other functions contain mistakes of learners.


def _hash_units(units: Iterable[int]) -> int:
    """Return the hash that Java computes for a text with these UTF-16 units."""
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


# Exercise `partition_of`: which partition stores a group? `partitions` is the number of partitions of the topic.
# `partition_for` is correct. The functions below contain mistakes of learners.


def _always_use_50(group: str, partitions: int) -> int:
    return partition_for(group, 50)


def _mask_sign_bit(group: str, partitions: int) -> int:
    return (java_hash(group) & 0x7FFFFFFF) % partitions


def _forget_abs(group: str, partitions: int) -> int:
    return java_hash(group) % partitions


def _use_python_abs(group: str, partitions: int) -> int:
    return abs(java_hash(group)) % partitions


_HASH_OF_SOLUTION = """\
def hash_of(text):
    data = text.encode("utf-16-be")
    value = 0
    for i in range(0, len(data), 2):
        unit = int.from_bytes(data[i:i + 2], "big")
        value = (31 * value + unit) & 0xFFFFFFFF   # keep 32 bits
    return value - 2**32 if value >= 2**31 else value"""

_PARTITION_OF_SOLUTION = """\
def partition_of(group, partitions):
    value = hash_of(group)
    if value == -2**31:
        return 0                                   # Java's int cannot represent its absolute value
    return abs(value) % partitions"""

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
        name="partition_of",
        correct=partition_for,
        solution=_PARTITION_OF_SOLUTION,
        hints=(
            "Take the absolute value of the hash. Then take the remainder of a division by the number of partitions.",
            "Java's int cannot represent the absolute value of -2**31. Kafka uses 0 in this case.",
        ),
        # The hash of "polygenelubricants" is -2**31.
        cases=(("billing", 50), ("dashboard", 50), ("café-☕", 50), ("mailer", 7), ("polygenelubricants", 50)),
        known_mistakes={
            "use `partitions`, not 50": _always_use_50,
            "& 0x7FFFFFFF removes the sign bit, but the result is not the absolute value": _mask_sign_bit,
            "take the absolute value of the hash before you compute the remainder": _forget_abs,
            "abs(-2**31) does not fit into Java's int; Kafka uses 0": _use_python_abs,
        },
    ),
)

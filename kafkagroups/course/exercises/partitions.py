"""The exercises of lesson 02: Java's hash and what follows from it."""

from __future__ import annotations

from typing import Any

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.log.partitioning import partition_for
from kafkagroups.records.text import java_hash


def _hash_of(units: Any) -> int:
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def _no_overflow(text: str) -> int:
    value = 0
    for character in text:
        value = 31 * value + ord(character)
    return value


def _unsigned_hash(text: str) -> int:
    return java_hash(text) & 0xFFFFFFFF


def _without_abs(group: str, partitions: int) -> int:
    return java_hash(group) % partitions


def _abs_of_the_least(group: str, partitions: int) -> int:
    return abs(java_hash(group)) % partitions


JAVA_HASH = """\
def hash_of(text):
    data = text.encode("utf-16-be")
    value = 0
    for i in range(0, len(data), 2):
        unit = int.from_bytes(data[i:i + 2], "big")
        value = (31 * value + unit) & 0xFFFFFFFF   # only 32 bits stay
    return value - 2**32 if value >= 2**31 else value"""

PARTITION_OF = """\
def partition_of(group, partitions):
    value = hash_of(group)
    if value == -2**31:
        return 0                                   # its absolute value is no int in Java
    return abs(value) % partitions"""

EXERCISES = (
    Exercise(
        "hash_of",
        java_hash,
        JAVA_HASH,
        (
            "value = 31 * value + unit, for each unit of the text, beginning with 0.",
            "Java's int has 32 bits: keep them with & 0xFFFFFFFF, and from 2**31 on it is negative.",
            'Units are UTF-16, not characters: ☕ is one, 🥐 two. text.encode("utf-16-be") gives 2 bytes a unit.',
        ),
        cases=(("billing",), ("",), ("dashboard",), ("fraud-check",), ("café-☕",), ("🥐",), ("polygenelubricants",)),
        known_mistakes={
            "Java's numbers overflow: keep 32 bits after each step": _no_overflow,
            "an int of Java is signed: from 2**31 on, take 2**32 away": _unsigned_hash,
            "🥐 is one character and two UTF-16 units": lambda text: _hash_of(map(ord, text)),
            "Java counts UTF-16 units, not UTF-8 bytes": lambda text: _hash_of(text.encode()),
        },
    ),
    Exercise(
        "partition_of",
        partition_for,
        PARTITION_OF,
        (
            "Take the hash's absolute value, then the remainder by the number of partitions.",
            "One int of Java has no absolute value: -2**31. Kafka takes 0 for it.",
        ),
        cases=(("billing", 50), ("dashboard", 50), ("café-☕", 50), ("mailer", 7), ("polygenelubricants", 50)),
        known_mistakes={
            "use `partitions`, not 50": lambda group, partitions: partition_for(group, 50),
            "& 0x7FFFFFFF is another way to lose the sign, not the absolute value": lambda group, partitions: (
                (java_hash(group) & 0x7FFFFFFF) % partitions
            ),
            "the absolute value comes first; Python's % of a negative number is no Java's": _without_abs,
            "abs(-2**31) does not fit into Java's int; Kafka takes 0": _abs_of_the_least,
        },
    ),
)

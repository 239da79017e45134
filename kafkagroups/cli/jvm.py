"""What the texts of Kafka's tools owe to the JVM: Jackson's JSON, Scala's Option and the order of its HashMap.

A mutable HashMap keeps its entries in buckets, 16 at first and twice as many whenever three quarters are taken, and
tells them bucket by bucket. Up to Scala 2.12 the hash is scrambled, the buckets are told from the last to the first,
and the entry that came last stands first in its bucket; in 2.13 buckets ascend, and so do the hashes in one. Kafka's
own build has Scala 2.13 since 2.6.
Source: scala.collection.mutable.HashTable (2.11.12), HashMap (2.13.5); gradle.properties (2.5.1, 2.6.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from kafkagroups.records.text import java_hash

Version = tuple[int, ...]
SCALA_2_13 = (2, 6)
"""The first Kafka whose default build has it."""
_UINT32 = 0xFFFFFFFF


class ToolDied(Exception):
    """Kafka's tool ends here, with all that it had still to do."""


def jackson(value: Any) -> str:
    """JSON as Jackson prints it: without spaces, other characters than ASCII as they are, \\u escapes in capitals."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"(?<!\\)((?:\\\\)*\\u)([0-9a-f]{4})", lambda m: m[1] + m[2].upper(), text)


def option(value: object) -> str:
    """Scala's text of an Option: `Some(…)`, or `None`."""
    return "None" if value is None else f"Some({value})"


def string(value: object) -> str:
    """Java's text of a reference: `null` for none."""
    return "null" if value is None else str(value)


def hexadecimal(data: bytes) -> str:
    """Bytes as one unsigned number in capitals: leading zeros are lost, no bytes are no digits."""
    return f"{int.from_bytes(data, 'big'):X}" if data else ""


def hash_map_order(keys: Iterable[str], kafka: Version) -> list[str]:
    """The keys that were put into a mutable HashMap one after the other, in the order in which it tells them."""
    different = list(dict.fromkeys(keys))
    return _since_2_13(different) if kafka >= SCALA_2_13 else _up_to_2_12(different)


def _up_to_2_12(keys: list[str]) -> list[str]:
    buckets: list[list[str]] = [[] for _ in range(16)]
    for count, key in enumerate(keys, 1):
        buckets[_bucket(key, len(buckets))].insert(0, key)
        if count > len(buckets) * 3 // 4:
            wider: list[list[str]] = [[] for _ in range(2 * len(buckets))]
            for moved in _told(buckets):
                wider[_bucket(moved, len(wider))].insert(0, moved)
            buckets = wider
    return _told(buckets)


def _told(buckets: list[list[str]]) -> list[str]:
    return [key for bucket in reversed(buckets) for key in bucket]


def _bucket(key: str, buckets: int) -> int:
    scrambled = java_hash(key) * 0x9E3775CD & _UINT32
    scrambled = int.from_bytes(scrambled.to_bytes(4, "little"), "big") * 0x9E3775CD & _UINT32
    rotated = (scrambled >> 4 | scrambled << 28) & _UINT32
    return rotated >> 33 - buckets.bit_length()


def _since_2_13(keys: list[str]) -> list[str]:
    buckets = 16
    while len(keys) >= buckets * 3 // 4:
        buckets *= 2

    def place(key: str) -> tuple[int, int]:
        code = java_hash(key) & _UINT32
        code ^= code >> 16
        return code & buckets - 1, code - (1 << 32) if code >> 31 else code

    return sorted(keys, key=place)

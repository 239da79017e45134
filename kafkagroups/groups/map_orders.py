"""Iteration order of the JVM hash maps that decide leaders, votes and record order.

- Scala's mutable HashMap holds the classic coordinator's members. It has 16 buckets at first, and twice as many
  whenever three quarters are full. It is iterated bucket by bucket.
- Up to Scala 2.12 the hash is scrambled and the buckets are iterated from the last to the first. In a bucket, the
  newest entry is first.
- In Scala 2.13 buckets ascend, and in a bucket the hashes ascend. Kafka's own build has Scala 2.13 since 2.6.
- Java's HashMap holds the new coordinator's classic members. It has the same buckets as Scala 2.13. In a bucket, the
  oldest entry is first.

Source: scala.collection.mutable.HashTable (2.11.12), HashMap (2.13.5); gradle.properties (2.5.1, 2.6.0);
java.util.HashMap; BaseHashTable, SnapshottableHashTable (Kafka 4.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kafkagroups.records.text import java_hash

Key = TypeVar("Key")

Version = tuple[int, ...]
SCALA_2_13 = (2, 6)
"""The first Kafka whose default build has Scala 2.13."""
_UINT32 = 0xFFFFFFFF


def hash_map_order(keys: Iterable[Key], kafka: Version, hash_of: Callable[[Any], int] = java_hash) -> list[Key]:
    """Return the iteration order of a Scala mutable HashMap into which the keys were put in this order."""
    codes = {key: hash_of(key) for key in keys}
    return _since_2_13(codes) if kafka >= SCALA_2_13 else _up_to_2_12(codes)


def topic_partition_hash(partition: tuple[str, int]) -> int:
    """Return Java's hash of a TopicPartition (org.apache.kafka.common.TopicPartition.hashCode)."""
    return 31 * (31 + partition[1]) + java_hash(partition[0])


def immutable_map_order(keys: Iterable[str], kafka: Version) -> list[str]:
    """Return the iteration order of the immutable Map that `groupBy` makes of a mutable one.

    Up to Scala 2.12 a map of at most four keys keeps their order. In 2.13 it is a trie with five bits of the scrambled
    hash per level. On each level, keys come before branches. Source: Iterable.groupBy, immutable.HashMap.
    """
    ordered = hash_map_order(keys, kafka)
    return ordered if kafka < SCALA_2_13 else _trie_order({key: _improve(key) for key in ordered}, 0)


def _trie_order(codes: dict[str, int], shift: int) -> list[str]:
    places: dict[int, list[str]] = {}
    for key, code in codes.items():
        places.setdefault(code >> shift & 31, []).append(key)
    ordered = [places[at][0] for at in sorted(places) if len(places[at]) == 1]
    for at in sorted(places):
        if len(places[at]) > 1:
            same = {key: codes[key] for key in places[at]}
            ordered += _trie_order(same, shift + 5) if shift < 30 else places[at]
    return ordered


def _improve(key: str) -> int:
    code = java_hash(key)
    code = code + ~(code << 9) & _UINT32
    code ^= code >> 14
    code = code + (code << 4) & _UINT32
    return code ^ code >> 10


def _up_to_2_12(codes: dict[Key, int]) -> list[Key]:
    buckets: list[list[Key]] = [[] for _ in range(16)]
    for count, key in enumerate(codes, 1):
        buckets[_bucket(codes[key], len(buckets))].insert(0, key)
        if count > len(buckets) * 3 // 4:
            wider: list[list[Key]] = [[] for _ in range(2 * len(buckets))]
            for moved in _iterate(buckets):
                wider[_bucket(codes[moved], len(wider))].insert(0, moved)
            buckets = wider
    return _iterate(buckets)


def _iterate(buckets: list[list[Key]]) -> list[Key]:
    return [key for bucket in reversed(buckets) for key in bucket]


def _bucket(code: int, buckets: int) -> int:
    scrambled = code * 0x9E3775CD & _UINT32
    scrambled = int.from_bytes(scrambled.to_bytes(4, "little"), "big") * 0x9E3775CD & _UINT32
    rotated = (scrambled >> 4 | scrambled << 28) & _UINT32
    return rotated >> 33 - buckets.bit_length()


def _since_2_13(codes: dict[Key, int]) -> list[Key]:
    buckets = 16
    while len(codes) >= buckets * 3 // 4:
        buckets *= 2
    spread = {key: _spread(code) for key, code in codes.items()}
    signed = {key: code - (1 << 32) if code >> 31 else code for key, code in spread.items()}
    return sorted(codes, key=lambda key: (spread[key] & buckets - 1, signed[key]))


def java_map_order(keys: Iterable[str]) -> list[str]:
    """Return the iteration order of a java.util.HashMap into which the keys were put in this order."""
    different = list(dict.fromkeys(keys))
    buckets = 16
    while len(different) > buckets * 3 // 4:
        buckets *= 2
    return sorted(different, key=lambda key: _spread(java_hash(key)) & buckets - 1)


def _spread(code: int) -> int:
    code &= _UINT32
    return code ^ code >> 16


def timeline_map_order(keys: Iterable[str]) -> list[str]:
    """Return the iteration order of Kafka's TimelineHashMap into which the keys were put in this order."""
    different = list(dict.fromkeys(keys))
    bits = 1
    while len(different) * 0.75 > 2**bits:
        bits += 1
    slots: dict[int, list[str]] = {}
    for key in different:
        slots.setdefault((java_hash(key) * -7046029254386353131 & 2**64 - 1) >> 64 - bits, []).append(key)
    return [key for slot in sorted(slots) for key in reversed(slots[slot])]

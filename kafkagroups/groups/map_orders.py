"""The iteration order of the JVM hash maps that decide leaders, votes and record order.

- Scala's mutable HashMap holds the classic coordinator's members. It begins with 16 buckets. The number of
  buckets is doubled when the number of entries is more than three quarters of the number of buckets (in Scala 2.13: at
  least three quarters). The map is iterated bucket by bucket.
- Up to Scala 2.12 the hash is scrambled, and the buckets are iterated from the last to the first. In a bucket, the
  newest entry is first.
- In Scala 2.13 the buckets are iterated from the first to the last. In a bucket, the smallest hash is first. Kafka's
  own builds use Scala 2.13 since 2.6.
- Java's HashMap holds the new coordinator's classic members. It has the same buckets as Scala 2.13. In a bucket, the
  oldest entry is first.
- Kafka's TimelineHashMap holds the votes for an assignor in the new coordinator. In a bucket, the newest entry is
  first.

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
"""The first Kafka version whose default build uses Scala 2.13."""
_UINT32 = 0xFFFFFFFF
_TIMELINE_FACTOR = -7046029254386353131
"""The factor with which Kafka's BaseHashTable scrambles a hash."""


def hash_map_order(keys: Iterable[Key], kafka: Version, hash_of: Callable[[Any], int] = java_hash) -> list[Key]:
    """Return the iteration order of a Scala mutable HashMap into which the keys were put in the given order.

    `kafka` is the broker's version: it decides the Scala version. `hash_of` returns Java's hash of a key.
    """
    hashes = {key: hash_of(key) for key in keys}
    return _order_in_2_13(hashes) if kafka >= SCALA_2_13 else _order_up_to_2_12(hashes)


def topic_partition_hash(partition: tuple[str, int]) -> int:
    """Return Java's hash of a TopicPartition (org.apache.kafka.common.TopicPartition.hashCode)."""
    return 31 * (31 + partition[1]) + java_hash(partition[0])


def immutable_map_order(keys: Iterable[str], kafka: Version) -> list[str]:
    """Return the iteration order of the immutable Map that Scala's `groupBy` builds from a mutable map.

    Up to Scala 2.12 a map of at most four keys keeps the order of the mutable map. In 2.13 the map is a trie with five
    bits of the scrambled hash per level. On each level, keys come before branches.
    Source: Iterable.groupBy, immutable.HashMap.
    """
    ordered_keys = hash_map_order(keys, kafka)
    return ordered_keys if kafka < SCALA_2_13 else _trie_order({key: _scramble(key) for key in ordered_keys}, 0)


def _trie_order(hashes: dict[str, int], shift: int) -> list[str]:
    """Return the order of the keys in one branch of the trie. The branch uses the five hash bits from `shift` on."""
    slots: dict[int, list[str]] = {}
    for key, code in hashes.items():
        slots.setdefault(code >> shift & 31, []).append(key)
    ordered_keys = [slots[index][0] for index in sorted(slots) if len(slots[index]) == 1]
    for index in sorted(slots):
        if len(slots[index]) > 1:
            branch = {key: hashes[key] for key in slots[index]}
            # The sixth level uses the last bits of the hash.
            ordered_keys += _trie_order(branch, shift + 5) if shift < 30 else slots[index]
    return ordered_keys


def _scramble(key: str) -> int:
    """Return the hash of a key in Scala 2.13's immutable HashMap (scala.collection.Hashing.improve)."""
    code = java_hash(key)
    code = code + ~(code << 9) & _UINT32
    code ^= code >> 14
    code = code + (code << 4) & _UINT32
    return code ^ code >> 10


def _order_up_to_2_12(hashes: dict[Key, int]) -> list[Key]:
    buckets: list[list[Key]] = [[] for _ in range(16)]
    for count, key in enumerate(hashes, 1):
        buckets[_bucket_index(hashes[key], len(buckets))].insert(0, key)
        if count > len(buckets) * 3 // 4:
            wider: list[list[Key]] = [[] for _ in range(2 * len(buckets))]
            for moved in _iterate(buckets):
                wider[_bucket_index(hashes[moved], len(wider))].insert(0, moved)
            buckets = wider
    return _iterate(buckets)


def _iterate(buckets: list[list[Key]]) -> list[Key]:
    return [key for bucket in reversed(buckets) for key in bucket]


def _bucket_index(code: int, bucket_count: int) -> int:
    """Return the bucket of a hash: the upper bits of the hash after Scala 2.12's HashUtils.improve scrambled it."""
    scrambled = code * 0x9E3775CD & _UINT32
    scrambled = int.from_bytes(scrambled.to_bytes(4, "little"), "big") * 0x9E3775CD & _UINT32
    rotated = (scrambled >> 4 | scrambled << 28) & _UINT32
    return rotated >> 33 - bucket_count.bit_length()


def _order_in_2_13(hashes: dict[Key, int]) -> list[Key]:
    bucket_count = 16
    while len(hashes) >= bucket_count * 3 // 4:
        bucket_count *= 2
    spread = {key: _spread(code) for key, code in hashes.items()}
    # Scala compares the hashes in a bucket as signed 32-bit integers.
    signed = {key: code - (1 << 32) if code >> 31 else code for key, code in spread.items()}
    return sorted(hashes, key=lambda key: (spread[key] & bucket_count - 1, signed[key]))


def java_map_order(keys: Iterable[str]) -> list[str]:
    """Return the iteration order of a java.util.HashMap into which the keys were put in the given order."""
    distinct_keys = list(dict.fromkeys(keys))
    bucket_count = 16
    while len(distinct_keys) > bucket_count * 3 // 4:
        bucket_count *= 2
    return sorted(distinct_keys, key=lambda key: _spread(java_hash(key)) & bucket_count - 1)


def _spread(code: int) -> int:
    """Mix the upper bits of a hash into its lower bits, as Java's HashMap and Scala 2.13 do. Return the new hash."""
    code &= _UINT32
    return code ^ code >> 16


def timeline_map_order(keys: Iterable[str]) -> list[str]:
    """Return the iteration order of Kafka's TimelineHashMap into which the keys were put in the given order."""
    distinct_keys = list(dict.fromkeys(keys))
    bits = 1
    while len(distinct_keys) * 0.75 > 2**bits:
        bits += 1
    buckets: dict[int, list[str]] = {}
    for key in distinct_keys:
        scrambled = java_hash(key) * _TIMELINE_FACTOR & 2**64 - 1
        buckets.setdefault(scrambled >> 64 - bits, []).append(key)
    return [key for index in sorted(buckets) for key in reversed(buckets[index])]

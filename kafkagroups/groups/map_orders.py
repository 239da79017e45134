"""The iteration order of the JVM hash maps that decide leaders, votes and record order.

The hash of a key decides its bucket, and a map is iterated bucket by bucket.

- Scala's mutable HashMap contains the classic coordinator's members. A new map has 16 buckets. The number of buckets is
  doubled when entries > 3/4 * buckets (up to Scala 2.12) or entries >= 3/4 * buckets (Scala 2.13).
- Up to Scala 2.12 the buckets are iterated from the last to the first. In a bucket, the newest entry is first.
- In Scala 2.13 the buckets are iterated from the first to the last. In a bucket, the smallest hash is first. Kafka's
  own builds use Scala 2.13 since 2.6.
- Java's HashMap contains the new coordinator's classic members. The buckets are iterated as in Scala 2.13. In a bucket,
  the oldest entry is first.
- Kafka's TimelineHashMap contains the votes for an assignor in the new coordinator. In a bucket, the newest entry is
  first.

Source: scala.collection.mutable.HashTable (2.11.12), HashMap (2.13.5); gradle.properties (2.5.1, 2.6.0);
java.util.HashMap; BaseHashTable, SnapshottableHashTable (Kafka 4.3.1).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from kafkagroups.records.releases import FIRST_WITHOUT_CLASSIC_COORDINATOR, Version
from kafkagroups.records.wire import java_hash, signed32, uuid_bytes

Key = TypeVar("Key")

FIRST_WITH_SCALA_2_13 = (2, 6)
"""The first Kafka version whose default build uses Scala 2.13."""
_UINT32_MASK = 0xFFFFFFFF
_INITIAL_BUCKET_COUNT = 16
_BITS_PER_LEVEL = 5
_SCALA_2_12_FACTOR = 0x9E3775CD
_TIMELINE_FACTOR = -7046029254386353131


def hash_map_order(keys: Iterable[Key], kafka: Version, hash_of: Callable[[Any], int] = java_hash) -> list[Key]:
    """Return the iteration order of the hash map of a group's members, with Scala's version, or since 4.0 Java's
    map.
    """
    if kafka >= FIRST_WITHOUT_CLASSIC_COORDINATOR:
        return java_map_order(keys, hash_of)
    hashes = {key: hash_of(key) for key in keys}
    if kafka >= FIRST_WITH_SCALA_2_13:
        return _order_in_2_13(hashes)
    return _order_in_growing_table(hashes, 4, lambda bucket_count: bucket_count * 3 // 4, _fill_buckets)


def hash_set_order(keys: Iterable[str], kafka: Version) -> list[str]:
    """Return the iteration order of a Scala mutable HashSet of strings, which were put into it in the given order.

    In Scala 2.13 it is the order of a HashMap. Up to 2.12 the set is one table: a key whose slot is taken goes to the
    next free one, and the table is doubled when 45 % of its slots are taken.
    Source: scala.collection.mutable.FlatHashTable (2.11.12), HashSet (2.13.5).
    """
    hashes = {key: java_hash(key) for key in keys}
    if kafka >= FIRST_WITH_SCALA_2_13:
        return _order_in_2_13(hashes)
    return _order_in_growing_table(hashes, 5, lambda slot_count: slot_count * 45 // 100 - 1, _fill_slots)


def _order_in_growing_table(
    hashes: dict[Key, int],
    index_bits: int,
    find_limit: Callable[[int], int],
    fill: Callable[[list[Key], dict[Key, int], int], list[Key]],
) -> list[Key]:
    """Return the order of a table that is doubled when it has more keys than its limit.

    `fill` returns the order of keys that are put into an empty table, whose size is a power of two.
    """
    ordered_keys: list[Key] = []
    for key in hashes:
        ordered_keys.append(key)
        if len(ordered_keys) > find_limit(2**index_bits):
            ordered_keys = fill(ordered_keys, hashes, index_bits)
            index_bits += 1
    return fill(ordered_keys, hashes, index_bits)


def _fill_slots(keys: list[Key], hashes: dict[Key, int], index_bits: int) -> list[Key]:
    slots: dict[int, Key] = {}
    for key in keys:
        index = _slot_up_to_2_12(hashes[key], index_bits, index_bits)
        while index in slots:
            index = (index + 1) % 2**index_bits
        slots[index] = key
    return [slots[index] for index in sorted(slots)]


def _fill_buckets(keys: list[Key], hashes: dict[Key, int], index_bits: int) -> list[Key]:
    buckets: dict[int, list[Key]] = {}
    for key in keys:
        buckets.setdefault(_slot_up_to_2_12(hashes[key], 4, index_bits), []).insert(0, key)
    return [key for index in sorted(buckets, reverse=True) for key in buckets[index]]


def topic_partition_hash(partition: tuple[str, int]) -> int:
    """Return Java's hash of a TopicPartition (org.apache.kafka.common.TopicPartition.hashCode)."""
    topic, number = partition
    return 31 * (31 + number) + java_hash(topic)


def uuid_hash(uuid: str) -> int:
    """Return Java's hash of a Uuid (org.apache.kafka.common.Uuid.hashCode)."""
    high, low = struct.unpack(">QQ", uuid_bytes(uuid))
    folded = high ^ low
    return int((folded >> 32) ^ folded) & _UINT32_MASK


def immutable_map_order(keys: Iterable[str], kafka: Version) -> list[str]:
    """Return the iteration order of the immutable Map that Scala's `groupBy` builds from a mutable map.

    Since 4.0 the coordinator is written in Java, and the map is a java.util.HashMap.

    Up to Scala 2.12 an immutable map of at most four keys keeps the order of the mutable map. The order of more keys is
    not reproduced, because the members of a group rarely vote for more than four protocols.

    In Scala 2.13 the map is a tree: five bits of the scrambled hash choose one of 32 slots in a node, and keys with the
    same slot share a subtree, where the next five bits decide. The iteration of a node begins with the slots of single
    keys, and continues with the subtrees.
    Source: Iterable.groupBy, immutable.HashMap.
    """
    ordered_keys = hash_map_order(keys, kafka)
    if kafka < FIRST_WITH_SCALA_2_13 or kafka >= FIRST_WITHOUT_CLASSIC_COORDINATOR:
        return ordered_keys
    return _trie_order({key: _immutable_map_hash(key) for key in ordered_keys}, 0)


def _trie_order(hashes: dict[str, int], shift: int) -> list[str]:
    slots: dict[int, list[str]] = {}
    for key, code in hashes.items():
        slots.setdefault((code >> shift) & (2**_BITS_PER_LEVEL - 1), []).append(key)
    single_keys = []
    keys_of_subtrees = []
    is_last_level = shift + _BITS_PER_LEVEL >= 32
    for index in sorted(slots):
        keys = slots[index]
        if len(keys) == 1:
            single_keys += keys
        elif is_last_level:
            keys_of_subtrees += keys
        else:
            keys_of_subtrees += _trie_order({key: hashes[key] for key in keys}, shift + _BITS_PER_LEVEL)
    return single_keys + keys_of_subtrees


def _immutable_map_hash(key: str) -> int:
    code = java_hash(key)
    code = (code + ~(code << 9)) & _UINT32_MASK
    code ^= code >> 14
    code = (code + (code << 4)) & _UINT32_MASK
    return code ^ (code >> 10)


def _slot_up_to_2_12(code: int, rotation: int, index_bits: int) -> int:
    scrambled = (code * _SCALA_2_12_FACTOR) & _UINT32_MASK
    reversed_bytes = int.from_bytes(scrambled.to_bytes(4, "little"), "big")
    scrambled = (reversed_bytes * _SCALA_2_12_FACTOR) & _UINT32_MASK
    rotated = ((scrambled >> rotation) | (scrambled << (32 - rotation))) & _UINT32_MASK
    return rotated >> (32 - index_bits)


def _order_in_2_13(hashes: dict[Key, int]) -> list[Key]:
    bucket_count = _INITIAL_BUCKET_COUNT
    while len(hashes) >= bucket_count * 3 // 4:
        bucket_count *= 2
    spread_hashes = {key: _spread(code) for key, code in hashes.items()}

    def sort_key(key: Key) -> tuple[int, int]:
        code = spread_hashes[key]
        # Scala compares the hashes in a bucket as signed 32-bit integers.
        return code & (bucket_count - 1), signed32(code)

    return sorted(hashes, key=sort_key)


def java_map_order(
    keys: Iterable[Key], hash_of: Callable[[Any], int] = java_hash, *, capacity: int = _INITIAL_BUCKET_COUNT
) -> list[Key]:
    """Return the iteration order of a java.util.HashMap into which the keys were put in the given order.

    The `capacity` of the map matters for a copy of n keys: a HashMap is created with n / 0.75 + 1, a HashSet with at
    least 16.
    """
    distinct_keys = list(dict.fromkeys(keys))
    bucket_count = 1
    while bucket_count < capacity or len(distinct_keys) > bucket_count * 3 // 4:
        bucket_count *= 2
    return sorted(distinct_keys, key=lambda key: _spread(hash_of(key)) & (bucket_count - 1))


def java_set_order(keys: Collection[Key], hash_of: Callable[[Any], int] = java_hash) -> list[Key]:
    """Return the iteration order of a java.util.HashSet that is a copy of these keys."""
    return java_map_order(keys, hash_of, capacity=max(len(keys) * 4 // 3 + 1, _INITIAL_BUCKET_COUNT))


def _spread(code: int) -> int:
    """Return the hash of a key in Java's HashMap and Scala 2.13's mutable HashMap."""
    code &= _UINT32_MASK
    return code ^ (code >> 16)


def timeline_map_order(
    keys: Iterable[Key], hash_of: Callable[[Any], int] = java_hash, *, largest_size: int = 0
) -> list[Key]:
    """Return the iteration order of Kafka's TimelineHashMap into which the keys were put in the given order.

    It never gets smaller, so `largest_size` is the largest number of keys that it has had.
    """
    distinct_keys = list(dict.fromkeys(keys))
    index_bits = 1
    while max(len(distinct_keys), largest_size) * 0.75 > 2**index_bits:
        index_bits += 1
    buckets: dict[int, list[Key]] = {}
    for key in distinct_keys:
        scrambled = (hash_of(key) * _TIMELINE_FACTOR) & (2**64 - 1)
        buckets.setdefault(scrambled >> (64 - index_bits), []).append(key)
    return [key for index in sorted(buckets) for key in reversed(buckets[index])]

"""The topics of the cluster, as a group coordinator sees them: names, ids and partition counts.

A consumer group stores a hash of the topics that its members subscribe to. If the hash of the present topics differs, a
topic was created, deleted or expanded, and the group needs new targets.

Simpler than Kafka: brokers have no racks, so the hash contains none. A version of the topics is only their number.
Source: CoordinatorMetadataImage, Utils.computeTopicHash and computeGroupHash (4.3.1), hash4j.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from xxhash import xxh3_64_digest

from kafkagroups.records.text import utf16_length, uuid_bytes


class TopicImage:
    """The topics that exist. `partition_counts` and `ids` are by topic name; the caller changes them."""

    def __init__(self, partition_counts: Mapping[str, int], ids: Mapping[str, str]) -> None:
        self.partition_counts = partition_counts
        self.ids = ids

    def id_of(self, name: str) -> str | None:
        """Return the id of a topic; None if the topic does not exist."""
        return self.ids.get(name) if name in self.partition_counts else None

    def ids_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the ids of those topics that exist."""
        return tuple(topic_id for name in names if (topic_id := self.id_of(name)) is not None)

    def names_by_id(self) -> dict[str, str]:
        """Return the names of the topics, by id."""
        return {self.ids[name]: name for name in self.partition_counts if name in self.ids}

    def counts_by_id(self) -> dict[str, int]:
        """Return the partition counts of the topics, by id."""
        return {topic_id: self.partition_counts[name] for topic_id, name in self.names_by_id().items()}

    def snapshot(self) -> dict[str, tuple[str, int]]:
        """Return the id and the partition count of each topic as it is now, by name."""
        return {name: (self.ids[name], count) for name, count in self.partition_counts.items() if name in self.ids}

    def hash_of(self, names: Iterable[str]) -> int:
        """Return the hash of those topics that exist; 0 if there are none."""
        hashes = [self._hash_topic(name) for name in sorted(names, key=_java_order) if self.id_of(name) is not None]
        return _hash(b"".join(struct.pack("<q", each) for each in hashes)) if hashes else 0

    def _hash_topic(self, name: str) -> int:
        high, low = struct.unpack(">QQ", uuid_bytes(self.ids[name]))
        count = self.partition_counts[name]
        return _hash(
            b"\0"  # the version of this layout
            + struct.pack("<QQ", high, low)
            + name.encode("utf-16-le", "surrogatepass")
            + struct.pack(f"<{count + 2}i", utf16_length(name), count, *range(count))
        )


def _hash(data: bytes) -> int:
    """Return the hash XXH3 of 64 bits, as Java's signed long."""
    return int.from_bytes(xxh3_64_digest(data), signed=True)


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")

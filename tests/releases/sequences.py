"""Seeded random sequences of records of all types: few groups, members, topics and epochs, so that everything meets."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from kafkagroups import Record, UsageError, dialect, encode
from kafkagroups.records.offset_commit import LegacyOffsetCommitValue
from kafkagroups.records.serde import RECORD_TYPES
from kafkagroups.records.structs import Message
from kafkagroups.records.wire import UUID
from tests.handmade import (
    CONTROL,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    ControlType,
    GroupMetadataKey,
    GroupMetadataValue,
    LogRecord,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    consumer_group as consumer,
    encode_batch,
    encode_control_key,
    encode_end_transaction_marker,
    share_group as share,
    streams_group as streams,
)

GROUPS = ("g", "h")
MEMBERS = ("m1", "m2", "m3")
INSTANCES = (None, None, "i1", "i2")
TOPIC_IDS = ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg")
TOPICS = ("t", "u")
SUBTOPOLOGIES = ("0", "1")
PROCESSES = ("p1", "p2", "")
PATTERNS = ("a.*", "b.*")
SUBSCRIPTIONS = (
    bytes.fromhex("000000000001000174ffffffff"),
    bytes.fromhex("0001000000010001740000000000000000"),
    b"",
    bytes.fromhex("0000ffffffff"),
)
GROUP_TYPES = {"consumer": (3, 4, 5, 6, 7, 8, 8, 8, 16), "share": (9, 10, 11, 12, 13, 14, 14, 15)} | {
    "streams": (17, 19, 19, 20, 21, 22, 22, 22, 23)
}
"""The record types of each kind of group. A type that appears twice here is chosen twice as often."""
NEWEST_WRITER = dialect("new", "4.4.0")
RELEASES = ("3.9.2", "4.0.1", "4.0.2", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.2.2", "4.3.1", "4.4.0")
"""Every release that fails on other records than the release before it."""


class Event(NamedTuple):
    """A record, or with `kind` "commit" or "abort" the marker that ends a producer's transaction."""

    kind: str
    producer_id: int
    key: bytes | None
    value: bytes | None


def random_sequence(seed: int) -> list[Event]:
    """Return the events of a log. The same seed gives the same events."""
    return _Sequence(random.Random(seed)).events()


def encode_log(events: list[Event]) -> bytes:
    """Return the segment in which each event is a batch. The offset of an event is its index."""
    out = bytearray()
    for offset, event in enumerate(events):
        transactional = TRANSACTIONAL if event.producer_id != NO_PRODUCER_ID else 0
        if event.kind == "record":
            record = LogRecord(offset, 1000 + offset, event.key, event.value)
            attributes = transactional
        else:
            kind = ControlType.COMMIT if event.kind == "commit" else ControlType.ABORT
            record = LogRecord(offset, 1000 + offset, encode_control_key(kind), encode_end_transaction_marker(0))
            attributes = TRANSACTIONAL | CONTROL
        epoch = 0 if event.producer_id != NO_PRODUCER_ID else -1
        out += encode_batch([record], attributes=attributes, producer_id=event.producer_id, producer_epoch=epoch)
    return bytes(out)


class _Sequence:
    """One sequence while it is made. Epochs mostly rise, and most records fit the ones before."""

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.epoch = random.choice((0, 1, 1, 5))
        self.writer = dialect("new", random.choice(("4.4.0", "4.4.0", "4.4.0", "4.2.1", "4.1.2", "4.0.2")))
        self.odd = random.choice((0.0, 0.0, 0.02, 0.1))
        """How often a value is one that no broker writes."""
        self.tombstones = random.choice((0.05, 0.15, 0.3))
        self.transactions = random.choice((0.0, 0.2))
        self.foreign = random.choice((0.0, 0.0, 0.05, 0.3))
        """How often a record belongs to another kind of group."""
        kinds = (*GROUP_TYPES, "classic", "offsets")
        self.kinds = {group: random.choice(kinds) for group in GROUPS}
        self.groups = random.choice((("g",), ("g",), GROUPS))

    def events(self) -> list[Event]:
        events = []
        for _ in range(self.random.choice((2, 3, 4, 6, 9, 14, 25, 40))):
            if self.transactions and self.random.random() < self.transactions / 2:
                kind = self.random.choice(("commit", "abort"))
                events.append(Event(kind, self.random.choice((1, 2)), None, None))
            else:
                events.append(self._record())
            if self.random.random() < 0.4:
                self.epoch += 1
        return events

    def _record(self) -> Event:
        group = self.random.choice(self.groups)
        kind = self.kinds[group]
        if self.random.random() < self.foreign:
            kind = self.random.choice((*GROUP_TYPES, "classic", "offsets"))
        number = self._type_of(kind)
        key = self._key(number, group)
        value = None
        version = 0
        if self.random.random() >= self.tombstones:
            value, version = self._value(number)
        producer = self.random.choice((1, 2)) if self.random.random() < self.transactions else NO_PRODUCER_ID
        record = Record(number, key, value, None if value is None else version)
        try:
            key_bytes, value_bytes = encode(record, self.writer)
        except UsageError:  # This writer does not have one of the fields.
            key_bytes, value_bytes = encode(record, NEWEST_WRITER)
        if value_bytes is not None and self.random.random() < self.odd:
            value_bytes = self._damage(value_bytes)
        if self.random.random() < self.odd / 10:
            unknown = self.random.choice((18, 24, 99)).to_bytes(2, "big") + key_bytes[2:]
            key_bytes = self.random.choice((unknown, unknown, key_bytes + b"tail", key_bytes[:-1]))
        return Event("record", producer, key_bytes, value_bytes)

    def _type_of(self, kind: str) -> int:
        chance = self.random.random()
        if kind == "offsets" or chance < 0.08:
            return self.random.choice((1, 1, 1, 1, 1, 0))
        if kind == "classic" or chance < 0.1:
            return 2 if self.random.random() < 0.6 else 1
        return self.random.choice(GROUP_TYPES[kind])

    def _key(self, number: int, group: str) -> Message:
        kind = RECORD_TYPES[number].key
        if kind is OffsetCommitKey:
            return kind(group, self.random.choice(TOPICS), self.random.choice((0, 1)))
        if kind is GroupMetadataKey:
            return kind(group)
        if kind is consumer.ConsumerGroupRegularExpressionKey:
            return kind(group, self.random.choice(PATTERNS))
        if number in (5, 7, 8, 10, 13, 14, 19, 21, 22):
            return kind(group, self._member())
        return kind(group)

    def _value(self, number: int) -> tuple[Message, int]:
        makers: dict[int, Callable[[], Message]] = {
            2: self._classic_group,
            3: lambda: consumer.ConsumerGroupMetadataValue(self._epoch(), self.random.choice((0, 7))),
            4: lambda: consumer.ConsumerGroupPartitionMetadataValue(self._topics_seen()),
            5: self._consumer_member,
            6: lambda: consumer.ConsumerGroupTargetAssignmentMetadataValue(self._epoch(), self._time()),
            7: lambda: consumer.ConsumerGroupTargetAssignmentMemberValue(self._topic_partitions()),
            8: self._consumer_assignment,
            9: lambda: share.ShareGroupPartitionMetadataValue(self._topics_seen()),
            10: self._share_member,
            11: lambda: share.ShareGroupMetadataValue(self._epoch(), self.random.choice((0, 0, 7))),
            12: lambda: share.ShareGroupTargetAssignmentMetadataValue(self._epoch(), self._time()),
            13: lambda: share.ShareGroupTargetAssignmentMemberValue(self._topic_partitions()),
            14: self._share_assignment,
            15: self._share_states,
            16: self._resolved_pattern,
            17: self._streams_group,
            19: self._streams_member,
            20: lambda: streams.StreamsGroupTargetAssignmentMetadataValue(self._epoch(), self._time()),
            21: lambda: streams.StreamsGroupTargetAssignmentMemberValue(*(self._target_tasks() for _ in range(3))),
            22: self._streams_assignment,
            23: self._topology,
        }
        if number == 0:
            if self.random.random() < 0.8:
                return LegacyOffsetCommitValue(self.random.randrange(9), "note", 1000), 0
            return self._offset(), self.random.choice((1, 2, 3))
        if number == 1:
            return self._offset(), self.random.choice((0, 1, 2, 3, 3, 4, 4))
        if number == 2:
            return makers[2](), self.random.choice((0, 1, 2, 3, 3, 3, 4))
        return makers[number](), 0

    def _offset(self) -> OffsetCommitValue:
        topic_id = self.random.choice((UUID.default, TOPIC_IDS[0]))
        expire = self.random.choice((-1, 5000))
        offset = self.random.randrange(-1, 99)
        return OffsetCommitValue(offset, self.random.choice((-1, 3)), "note", 1000, expire, topic_id)

    def _classic_group(self) -> GroupMetadataValue:
        consumers = self.random.random() < 0.7
        names = self._rarely(self.random.choice(((), ("m1",), ("m1", "m2"), MEMBERS)), ("m1", "m1", "m2"))
        members = tuple(
            MemberMetadata(
                name,
                self._rarely(self.random.choice(INSTANCES), f"i-{name}"),
                "c",
                "/h",
                self.random.choice((-1, 300)),
                self._rarely(100, self.random.choice((0, -1))),
                self._rarely(self.random.choice(SUBSCRIPTIONS[:2]), self.random.choice(SUBSCRIPTIONS)),
                b"a",
            )
            for name in names
        )
        has_protocol = bool(names) or self.random.random() < 0.1
        return GroupMetadataValue(
            self.random.choice(("consumer", "consumer", "")) if consumers else "connect",
            self._rarely(self.random.randrange(4), -1),
            "range" if has_protocol else None,
            self.random.choice(names or ("m1",)) if has_protocol else None,
            self.random.choice((-1, 1000)),
            members,
        )

    def _topics_seen(self) -> tuple[consumer.TopicMetadata, ...]:
        found = []
        for index in self._some(2):
            racks = (consumer.PartitionMetadata(0, ("r1",)),) * self.random.choice((0, 0, 0, 1, 2))
            name = self._rarely(TOPICS[index], "")
            topic_id = self._rarely(TOPIC_IDS[index], UUID.default)
            found.append(consumer.TopicMetadata(topic_id, name, self._rarely(3, -1), racks))
        return tuple(found)

    def _consumer_member(self) -> consumer.ConsumerGroupMemberMetadataValue:
        protocols = tuple(
            consumer.ClassicProtocol(self._rarely(name, "range"), self.random.choice(SUBSCRIPTIONS))
            for name in ("range", "sticky")[: self._few()]
        )
        classic = self.random.choice((None, None, consumer.ClassicMemberMetadata(4000, protocols)))
        return consumer.ConsumerGroupMemberMetadataValue(
            self.random.choice(INSTANCES),
            self.random.choice((None, "r1")),
            "c",
            "/h",
            self.random.choice(((), ("t",), ("t", "u"), ("t", "t"))),
            self._rarely(self.random.choice((None, None, "", *PATTERNS)), "("),
            self.random.choice((-1, 300)),
            self.random.choice((None, None, "range", "uniform")),
            classic,
        )

    def _topic_partitions(self) -> tuple[consumer.TopicPartition, ...]:
        return tuple(consumer.TopicPartition(TOPIC_IDS[index], self._partitions()) for index in self._some(2))

    def _consumer_assignment(self) -> consumer.ConsumerGroupCurrentMemberAssignmentValue:
        def topics() -> tuple[consumer.TopicPartitions, ...]:
            found = []
            for index in self._some(2):
                partitions = self._partitions()
                found.append(consumer.TopicPartitions(TOPIC_IDS[index], partitions, self._epochs(len(partitions))))
            return tuple(found)

        state = self._rarely(self.random.choice((0, 0, 1, 2)), self.random.choice((3, 127, -1)))
        pending = topics() if self.random.random() < 0.2 else ()
        return consumer.ConsumerGroupCurrentMemberAssignmentValue(
            self._member_epoch(), self.random.choice((0, self.epoch)), state, topics(), pending
        )

    def _share_member(self) -> share.ShareGroupMemberMetadataValue:
        topics = self.random.choice(((), ("t",), ("t", "u")))
        return share.ShareGroupMemberMetadataValue(self.random.choice((None, "r1")), "c", "/h", topics)

    def _share_assignment(self) -> share.ShareGroupCurrentMemberAssignmentValue:
        state = self._rarely(0, self.random.choice((1, 2, 127)))
        return share.ShareGroupCurrentMemberAssignmentValue(
            self._member_epoch(), self.random.choice((0, self.epoch)), state, self._topic_partitions()
        )

    def _share_states(self) -> share.ShareGroupStatePartitionMetadataValue:
        def topics() -> tuple[share.TopicPartitionsInfo, ...]:
            return tuple(
                share.TopicPartitionsInfo(TOPIC_IDS[index], TOPICS[index], self._partitions())
                for index in self._some(2)
            )

        deleting = tuple(share.TopicInfo(TOPIC_IDS[index], TOPICS[index]) for index in self._some(2))
        return share.ShareGroupStatePartitionMetadataValue(topics(), topics(), deleting)

    def _resolved_pattern(self) -> consumer.ConsumerGroupRegularExpressionValue:
        topics = self.random.choice(((), ("t",), ("t", "u"), ("t", "t")))
        return consumer.ConsumerGroupRegularExpressionValue(topics, self._rarely(5, -1), self._time())

    def _streams_group(self) -> streams.StreamsGroupMetadataValue:
        configs = tuple(
            streams.LastAssignmentConfig(self._rarely(name, "a"), "1") for name in ("a", "b")[: self._few()]
        )
        return streams.StreamsGroupMetadataValue(
            self._epoch(),
            self.random.choice((0, 7)),
            self.random.choice((-1, 0, 1, 1, 2)),
            self.random.choice((None, configs, ())),
            self.random.choice((-1, -1, 1)),
            self.random.choice((-1, -1, 1)),
        )

    def _streams_member(self) -> streams.StreamsGroupMemberMetadataValue:
        tags = tuple(streams.KeyValue(self._rarely(name, "a"), "1") for name in ("a", "b")[: self._few()])
        return streams.StreamsGroupMemberMetadataValue(
            self.random.choice(INSTANCES),
            self.random.choice((None, "r1")),
            "c",
            "/h",
            self.random.choice((-1, 300)),
            self.random.choice((0, 1, 1, 2)),
            self._rarely(self.random.choice(PROCESSES[:2]), ""),
            self.random.choice((None, None, streams.Endpoint("e", 80))),
            tags,
        )

    def _target_tasks(self) -> tuple[streams.TargetTaskIds, ...]:
        return tuple(streams.TargetTaskIds(SUBTOPOLOGIES[index], self._partitions()) for index in self._some(2))

    def _streams_assignment(self) -> streams.StreamsGroupCurrentMemberAssignmentValue:
        def tasks(chance: float) -> tuple[streams.TaskIds, ...]:
            if self.random.random() >= chance:
                return ()
            found = []
            for index in self._some(2):
                partitions = self._partitions()
                found.append(streams.TaskIds(SUBTOPOLOGIES[index], partitions, self._epochs(len(partitions))))
            return tuple(found)

        state = self._rarely(self.random.choice((1, 1, 2, 3)), self.random.choice((0, 4, 127, -1)))
        chances = (0.8, 0.3, 0.2, 0.2, 0.1, 0.1)
        return streams.StreamsGroupCurrentMemberAssignmentValue(
            self._member_epoch(), self.random.choice((0, self.epoch)), state, *(tasks(chance) for chance in chances)
        )

    def _topology(self) -> streams.StreamsGroupTopologyValue:
        def topics(count: int) -> tuple[str, ...]:
            return tuple(self.random.choice(TOPICS) for _ in range(count))

        def internal_topics() -> tuple[streams.TopicInfo, ...]:
            configs = tuple(streams.TopicConfig(self._rarely(name, "a"), "1") for name in ("a", "b")[: self._few()])
            count = self._rarely(1, -1)
            return tuple(
                streams.TopicInfo(name, count, 1, configs) for name in topics(self.random.choice((0, 0, 1, 2)))
            )

        def copartitions() -> tuple[streams.CopartitionGroup, ...]:
            return (streams.CopartitionGroup((0,), (), (self._rarely(0, 9),)),) * self.random.choice((0, 0, 0, 1))

        parts = tuple(
            streams.Subtopology(
                SUBTOPOLOGIES[index],
                topics(self._few()),
                PATTERNS[: self.random.choice((0, 0, 1))],
                internal_topics(),
                topics(self.random.choice((0, 0, 1))),
                internal_topics(),
                copartitions(),
            )
            for index in self._some(2)
        )
        return streams.StreamsGroupTopologyValue(self._rarely(self.random.choice((0, 1, 1, 2)), -1), parts)

    def _member(self) -> str:
        return self._rarely(self.random.choice(MEMBERS), "")

    def _epoch(self) -> int:
        return self._rarely(self.epoch, self.random.choice((-2, -1, 0, 2**31 - 1)))

    def _time(self) -> int:
        return self._rarely(self.random.choice((0, 99)), self.random.choice((-1, -(2**63), 2**63 - 1)))

    def _member_epoch(self) -> int:
        if self.random.random() < 0.2:
            return self.random.choice((0, 1, -2, self.epoch - 1, self.epoch + 1))
        return self._rarely(self.epoch, self.random.choice((-1, -3, -(2**31))))

    def _epochs(self, count: int) -> tuple[int, ...] | None:
        """Assignment epochs, mostly as many as there are partitions."""
        if self.random.random() < 0.3:
            return None
        count = self._rarely(count, self.random.choice((0, count + 1)))
        return tuple(self.random.choice((self.epoch, 1)) for _ in range(count))

    def _partitions(self) -> tuple[int, ...]:
        return self.random.choice(((0,), (0,), (1,), (0, 1), (2,), (), (2, 0), (0, 0)))

    def _some(self, most: int) -> tuple[int, ...]:
        """Indices of topics: one, two, none, or rarely one of them twice."""
        return self._rarely(self.random.choice(((0,), (0,), (1,), (0, 1), (1, 0), ()))[:most], (0, 0))

    def _few(self) -> int:
        return self.random.choice((0, 1, 1, 2))

    def _rarely(self, usual: Any, other: Any) -> Any:
        return other if self.random.random() < max(self.odd, 0.01) else usual

    def _damage(self, value: bytes) -> bytes:
        """A value with another version, with bytes too many or too few, with unknown or too many tags."""
        chance = self.random.randrange(5)
        if chance == 0:
            return self.random.choice((b"\x00\x01", b"\x00\x05", b"\xff\xff")) + value[2:]
        if chance == 1:
            return value[: self.random.randrange(len(value))]
        if chance == 2:
            return value + b"tail"
        if chance == 3 and value.endswith(b"\x00"):
            return value[:-1] + self.random.choice((b"\x01\x09\x01\x07", b"\xff\xff\xff\xff\x0f", b"\x02\x09\x00"))
        place = self.random.randrange(2, len(value)) if len(value) > 2 else 0
        return value[:place] + bytes([self.random.randrange(256)]) + value[place + 1 :]

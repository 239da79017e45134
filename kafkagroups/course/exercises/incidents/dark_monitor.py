"""Incident 4: a monitor shows old offsets. Upgraded brokers write value version 4, which the monitor cannot read."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.course.exercises.incidents.incident_log import IncidentLog
from kafkagroups.course.small_logs import DAY_MS, MINUTE_MS, encode_pair
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record
from kafkagroups.records.wire import uuid_text

START_MS = 1_773_738_000_000  # Tuesday, 2026-03-17 09:00 UTC
MINUTES = 150
FIRST_MINUTE = {9: 66, 42: 109}
"""The minute in which the upgraded broker writes for the first time, by partition."""
OLD_CLIENT_GROUP = "price-mail"
TRANSACTIONAL_GROUP = "receipt-map"
NIGHT_GROUP = "sugar-check"
NOTED_GROUP = "queue-view"
NOTE = "till-07"
GROUPS = {
    9: {"till-sync": 3, "order-check": 2, NOTED_GROUP: 1, OLD_CLIENT_GROUP: 1, TRANSACTIONAL_GROUP: 1, NIGHT_GROUP: 1},
    42: {"oven-view": 2, "stock-watch": 1, "scale-sync": 2, "staff-view": 1},
}
"""The number of partitions that each group commits, by the partition that stores the group."""
PRODUCER_ID = 3007
LEADER_EPOCH = 6


def write(folder: Path, seed: int) -> None:
    random = Random(seed)
    topics = {group.split("-")[0] for groups in GROUPS.values() for group in groups}
    topic_ids = {topic: uuid_text(random.randbytes(16)) for topic in sorted(topics)}
    positions = {group: random.randint(5_000, 50_000) for groups in GROUPS.values() for group in groups}
    with IncidentLog(folder) as log:
        for minute in range(MINUTES):
            for partition, groups in GROUPS.items():
                is_upgraded = minute >= FIRST_MINUTE[partition]
                for number, (group, count) in enumerate(groups.items()):
                    if group == NIGHT_GROUP and minute >= 30:
                        continue
                    time_ms = START_MS + minute * MINUTE_MS + 3000 + number * 7000 + random.randrange(5000)
                    positions[group] += random.randint(1, 30)
                    values = _make_values(group, count, positions[group], time_ms, is_upgraded, topic_ids)
                    producer = (PRODUCER_ID, 0) if group == TRANSACTIONAL_GROUP else None
                    log.append_pairs(partition, list(map(encode_pair, values)), time_ms, producer)
                    if group == TRANSACTIONAL_GROUP:
                        log.append_marker(partition, PRODUCER_ID, 0, commits=True, timestamp=time_ms + 1500)


def _make_values(
    group: str, count: int, position: int, time_ms: int, is_upgraded: bool, topic_ids: dict[str, str]
) -> list[Record]:
    topic = group.split("-")[0] + "s"
    note = NOTE if group == NOTED_GROUP else ""
    version = 4 if is_upgraded else 3
    value = OffsetCommitValue(position, LEADER_EPOCH, note, time_ms)
    if group == OLD_CLIENT_GROUP:
        version = 1
        value = OffsetCommitValue(position, -1, note, time_ms, time_ms + 30 * DAY_MS)
    elif is_upgraded and group != TRANSACTIONAL_GROUP:
        value = OffsetCommitValue(position, LEADER_EPOCH, note, time_ms, topic_id=topic_ids[group.split("-")[0]])
    return [Record(1, OffsetCommitKey(group, topic, number), value, version) for number in range(count)]

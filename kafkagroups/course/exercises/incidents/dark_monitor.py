"""Incident 6: a monitor shows old offsets. Upgraded brokers write value version 4, which the monitor cannot read."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.coordinator import NewBatch
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.chart import Chart
from kafkagroups.course.exercises.incidents.incident import Incident, Question, Step
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog
from kafkagroups.log.batch import TRANSACTIONAL
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.wire import uuid_text

KAFKA = "4.1.0"
START_MS = 1_773_738_000_000  # Tuesday, 2026-03-17 09:00 UTC
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
MINUTES = 150
FIRST_MINUTE = {9: 66, 42: 109}
"""The minute in which the upgraded broker writes for the first time, by partition."""
OLD_CLIENT_GROUP = "price-mail"
TRANSACTIONAL_GROUP = "receipt-map"
NIGHT_GROUP = "sugar-check"
NOTED_GROUP = "queue-view"
NOTE = "till-07"
GROUPS = {
    9: {
        "till-sync": 3,
        "order-check": 2,
        NOTED_GROUP: 1,
        OLD_CLIENT_GROUP: 1,
        TRANSACTIONAL_GROUP: 1,
        NIGHT_GROUP: 1,
    },
    42: {"oven-view": 2, "stock-watch": 1, "scale-sync": 2, "staff-view": 1},
}
"""The number of partitions that each group commits, by the partition that stores the group."""
PRODUCER_ID = 3007
LEADER_EPOCH = 6


def write(folder: Path, seed: int) -> None:
    """Write partitions 9 and 42. Each group commits once a minute. The leaders change to upgraded brokers."""
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
                    _append(log, partition, group, values, time_ms)


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


def _append(log: IncidentLog, partition: int, group: str, values: list[Record], time_ms: int) -> None:
    pairs = [(key, value) for key, value in map(encode, values) if key is not None]
    if group != TRANSACTIONAL_GROUP:
        log.append(partition, NewBatch(pairs, time_ms))
        return
    batch = NewBatch(
        pairs, time_ms, base_sequence=0, producer_id=PRODUCER_ID, producer_epoch=0, attributes=TRANSACTIONAL
    )
    log.append(partition, batch)
    log.end_transaction(partition, PRODUCER_ID, time_ms + 1500, commits=True)


_FIRST_OFFSET = 624
_HINTS = (
    "Compare the last commit that the monitor shows with the first commit that it does not show. What is new?",
    "`kafkagroups stats PARTITION` shows which versions of Kafka can have written the records, and "
    "`kafkagroups stats PARTITION --by type` shows their value versions. `kafkagroups dump PARTITION` shows the "
    "version of each value.",
    "In the last table of `stats`, look at `from offset`. In the lines of `dump`, look at `v1`, `v3` and `v4`. For the "
    "length, write the first bytes of the value on paper, as in lesson 01.",
)

INCIDENT = Incident(
    number=6,
    name="dark_monitor",
    level=2,
    title="The monitor goes dark",
    kafka=KAFKA,
    complaint="""\
Between 10:00 and 11:00 we upgraded the brokers from Kafka 4.0.1 to 4.1.0, one after the other. Since then, `lag-board`
shows a growing lag for almost every group, and the alarms ring. The services work normally, and
`kafka-consumer-groups.sh --describe` shows almost no lag.

`lag-board` is our own program, written in 2021. It is a consumer of `__consumer_offsets` that decodes the records
itself. We restarted it with more memory. It begins at the end of the topic, and now it does not show most groups at
all. For a few groups, its numbers are still right. Their owners say that they have changed nothing for years.

The folder has two partitions of the topic.
""",
    server_log=(
        "2026-03-17 10:20:00 WARN lag-board: skipped 1204 records in 10 minutes: not enough bytes",
        "2026-03-17 11:20:00 WARN lag-board: skipped 9377 records in 10 minutes: not enough bytes",
    ),
    chart=Chart(
        "Groups with a correct lag on lag-board",
        ("09:45", "10:00", "10:15", "10:30", "10:45", "11:00", "11:15"),
        (180, 180, 121, 118, 64, 9, 9),
    ),
    questions=(
        Question(
            "At which offset of partition 9 is the first record that `lag-board` cannot read?",
            Exercise(
                "dark_first_offset",
                _FIRST_OFFSET,
                f"dark_first_offset = {_FIRST_OFFSET}",
                _HINTS,
                known_mistakes={
                    "This is a record of partition 42.": 654,
                    "This is a marker. `lag-board` is a consumer, and consumers skip markers.": _FIRST_OFFSET - 1,
                },
            ),
        ),
        Question(
            "In which minute was the first record of partition 42 written that `lag-board` cannot read? Write a text "
            'such as `"2026-03-17 12:00"`, in UTC.',
            Exercise(
                "dark_second_start",
                "2026-03-17 10:49",
                'dark_second_start = "2026-03-17 10:49"',
                _HINTS,
                known_mistakes={
                    "This is the minute of partition 9. Each partition has its own leader, and the leaders were "
                    "upgraded one after the other.": "2026-03-17 10:06",
                    "In this minute is the last commit of the old version. Look at the next one.": "2026-03-17 10:48",
                },
            ),
        ),
        Question(
            "Which group of partition 9 commits until 11:29, and `lag-board` can read all its commits?",
            Exercise(
                "dark_readable_group",
                OLD_CLIENT_GROUP,
                f'dark_readable_group = "{OLD_CLIENT_GROUP}"',
                _HINTS,
                known_mistakes={
                    "This group has not committed since 09:29. So its last commit is an old record.": NIGHT_GROUP,
                    "The commits of this group have no topic id, but they have the new version, too.": (
                        TRANSACTIONAL_GROUP
                    ),
                },
            ),
        ),
        Question(
            f"The commits of `{NOTED_GROUP}` have the metadata `{NOTE}`. `lag-board` reads the last of them by the "
            "rules of version 3. Which number does it take as the length of the metadata?",
            Exercise(
                "dark_length",
                0x0874,
                "dark_length = 0x0874",
                _HINTS,
                known_mistakes={
                    "This is the length of the metadata. Which two bytes are at the place of the length?": 7,
                    "Version 4 stores this number in one byte. Version 3 reads two bytes.": 8,
                },
            ),
        ),
    ),
    write=write,
    worked_solution=(
        Step(
            "A new kind of record begins in each partition. Records that only Kafka 4.1 and newer releases write begin "
            "at offset 624 of partition 9, and at offset 654 of partition 42. This kind is value version 4.",
            "kafkagroups stats .",
            shows=" part. from offset",
            lines=6,
        ),
        Step(
            "`--by type` shows the versions, and when each of them begins. At 10:49, an upgraded broker is the leader "
            "of partition 42.",
            "kafkagroups stats __consumer_offsets-42 --by type",
            shows=" type         version",
            lines=4,
        ),
        Step(
            f"`{OLD_CLIENT_GROUP}` still commits, and its commits have an expire time. Only value version 1 has this "
            "field. `lag-board` knows this version.",
            f"kafkagroups explain __consumer_offsets-9 --group {OLD_CLIENT_GROUP} --since-time 2026-03-17T11:27",
            lines=15,
        ),
        Step(
            "In version 4, the length of `till-07` is one byte: 7 + 1, so `08`. The next byte is the letter `t`, `74`. "
            "In version 3, the length has two bytes, here `08 74`. That is 2164, and the value has fewer bytes.",
            f"kafkagroups load __consumer_offsets-9 --group {NOTED_GROUP}",
            shows=" group      committed",
            lines=4,
        ),
    ),
    cause="Kafka 4.1.0 is the first release that writes value version 4. Each partition changes when an upgraded "
    "broker becomes its leader. `lag-board` knows the versions 0 to 3, and skips the new values. So the lag seems to "
    f"grow. The old client of `{OLD_CLIENT_GROUP}` asks for a retention time. For this kind of commit, every release "
    "since 0.9 writes version 1.",
    prevention=(
        "Ask the brokers for offsets instead of reading the topic: `Admin.listConsumerGroupOffsets`, or an exporter "
        "that uses it.",
        "A program that reads the topic must compare the version first, and raise an alarm if it does not know it.",
        "Before an upgrade, test such a program with the records of a broker of the new version. The offsets formatter "
        "of Kafka 3.9 already reads version 4, without the topic id.",
    ),
)

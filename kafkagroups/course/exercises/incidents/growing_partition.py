"""Incident 1: one partition fills a disk. A group commits after every record, and nothing is cleaned."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.chart import Chart
from kafkagroups.course.exercises.incidents.incident import Incident, Question, Step
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog

KAFKA = "3.9.2"
BUSY_GROUP = "price-ticker"
QUIET_GROUPS = {"order-copy": 6, "billing-cache": 4, "label-stats": 3, "promo-feed": 2, "oven-copy": 2}
"""The number of topic-partitions that each of the other groups commits."""
BUSY_PARTITIONS = 8
MINUTES = 1200
START_MS = 1_772_409_600_000  # 2026-03-02 00:00 UTC
MINUTE_MS = 60_000
SEGMENT_BYTES = 256 * 1024


def write(folder: Path, seed: int) -> None:
    """Write partition 12. `price-ticker` commits each of its partitions every few seconds, in a batch of its own."""
    random = Random(seed)
    positions = dict.fromkeys(range(BUSY_PARTITIONS), 0)
    with IncidentLog(folder, segment_bytes=SEGMENT_BYTES) as log:
        for minute in range(MINUTES):
            time_ms = START_MS + minute * MINUTE_MS
            for second in range(0, 60, 3):
                partition = random.randrange(BUSY_PARTITIONS)
                positions[partition] += random.randint(1, 3)
                log.commit(BUSY_GROUP, {f"prices-{partition}": positions[partition]}, time_ms + second * 1000)
            for group, partitions in QUIET_GROUPS.items():
                if random.random() < 0.1:
                    topic = group.split("-")[0]
                    offsets = {f"{topic}-{number}": minute * 5 + number for number in range(partitions)}
                    log.commit(group, offsets, time_ms + 59_000)


_HINTS = (
    "A partition grows if records are written faster than the cleaner removes them. Ask for both: who writes, and "
    "what the cleaner has done.",
    "`kafkagroups stats .` counts the records and bytes of each group. It also shows how far each partition was "
    "cleaned.",
    "Look at the second table of `kafkagroups stats .`: the columns `bytes`, `dead` and `live`.",
)
_BUSY_RECORDS = MINUTES * 20
_LIVE_RECORDS = BUSY_PARTITIONS + sum(QUIET_GROUPS.values())

INCIDENT = Incident(
    number=1,
    name="growing_partition",
    level=1,
    title="One partition fills the disk",
    kafka=KAFKA,
    complaint="""\
On Sunday, the disk of broker 2 was full. 49 of the 50 partitions of `__consumer_offsets` are small. Partition 12 is
not, and it grew by the same amount every day. The folder has twenty hours of it, from our small test cluster.

The team on call says: "We only have six groups there, and they have few partitions. We do not understand it."
""",
    server_log=(
        "2026-03-08 18:00:04 disk-monitor: broker 2, /var/lib/kafka/data: 97% used, limit 95%",
        "2026-03-08 23:10:12 disk-monitor: broker 2, /var/lib/kafka/data: 100% used, limit 95%",
    ),
    chart=Chart(
        "Size of partition 12, in GB",
        ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Mon"),
        (136, 272, 408, 544, 680, 816, 952, 952),
    ),
    questions=(
        Question(
            "Which group writes most of the bytes?",
            Exercise(
                "growing_group",
                BUSY_GROUP,
                f'growing_group = "{BUSY_GROUP}"',
                _HINTS,
                known_mistakes={
                    "This group has many topic-partitions, but it commits rarely. Compare the bytes.": "order-copy",
                    "This group has the second most live records. Compare all bytes, dead ones too.": "billing-cache",
                },
            ),
        ),
        Question(
            "How many records of the partition are live? A broker answers from a live record.",
            Exercise(
                "growing_live_records",
                _LIVE_RECORDS,
                f"growing_live_records = {_LIVE_RECORDS}",
                _HINTS,
                known_mistakes={
                    "These are the records of the busy group alone. Count the other groups too.": (BUSY_PARTITIONS),
                    "This is the number of groups. Each key has one live record.": len(QUIET_GROUPS) + 1,
                },
            ),
        ),
        Question(
            "How many records has the cleaner removed from this copy so far?",
            Exercise(
                "growing_removed_records",
                0,
                "growing_removed_records = 0",
                _HINTS,
                known_mistakes={
                    "These records are dead, but they are still in the log.": _BUSY_RECORDS - BUSY_PARTITIONS,
                    "These are records of the busy group. A removed record leaves a gap in the offsets. Is there "
                    "one?": _BUSY_RECORDS,
                },
            ),
        ),
    ),
    write=write,
    worked_solution=(
        Step(
            "Ask first who writes. `price-ticker` wrote nearly all records, and almost all of them are dead: "
            "a newer commit replaced them.",
            "kafkagroups stats .",
            shows=" group",
        ),
        Step(
            "The last columns are empty: no segment of this partition was ever cleaned.",
            "kafkagroups stats .",
            shows=" part. stops at",
            lines=9,
        ),
        Step(
            "Clean a copy. It loads to the same groups, with one record for each key.",
            "kafkagroups compact __consumer_offsets-12 --out cleaned/__consumer_offsets-12",
        ),
    ),
    cause="`price-ticker` commits after every record, one topic-partition at a time. That alone is not enough to fill "
    "a disk: the cleaner would keep one record for each key. But the cleaner never ran on this partition.",
    prevention=(
        "Alert on the size of each partition of `__consumer_offsets`. It should stay below a few segments.",
        "Never set `log.cleaner.enable=false` on a broker of this topic.",
        "Commit every few seconds, and all topic-partitions in one request.",
    ),
)

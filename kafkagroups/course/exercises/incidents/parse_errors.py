"""Incident 7: a program logs 20 GB of parse errors a night. It reads markers of transactions as keys."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.chart import Chart
from kafkagroups.course.exercises.incidents.incident import Incident, Question, Step
from kafkagroups.course.exercises.incidents.incident_log import IncidentLog

KAFKA = "3.9.2"
PARTITION = 30
START_MS = 1_776_189_600_000  # Tuesday, 2026-04-14 18:00 UTC
MINUTE_MS = 60_000
MINUTES = 360
FIRST_GROUP = "invoice-map"
SECOND_GROUP = "voucher-copy"
FIRST_MINUTE = {FIRST_GROUP: 181, SECOND_GROUP: 255}
"""The minute in which a group begins to commit in transactions, by group."""
PRODUCER_IDS = {FIRST_GROUP: 4011, SECOND_GROUP: 4025}
ABORTED = {FIRST_GROUP: 11, SECOND_GROUP: 4}
GROUPS = {FIRST_GROUP: 2, "oven-sync": 2, "scale-view": 1, SECOND_GROUP: 1, "milk-check": 1, "staff-count": 3}
"""The number of partitions that each group commits."""
_MARKER_DELAY_MS = 17_000
FIRST_OFFSET = FIRST_MINUTE[FIRST_GROUP] * sum(GROUPS.values()) + GROUPS[FIRST_GROUP] + GROUPS["oven-sync"] + 1
MARKERS = {group: MINUTES - minute for group, minute in FIRST_MINUTE.items()}


def write(folder: Path, seed: int) -> None:
    """Write partition 30. Each group commits once a minute; two groups begin to use transactions."""
    random = Random(seed)
    positions = {group: random.randint(1_000, 90_000) for group in GROUPS}
    aborted = {
        group: set(random.sample(range(FIRST_MINUTE[group] + 1, MINUTES), count)) for group, count in ABORTED.items()
    }
    with IncidentLog(folder) as log:
        for minute in range(MINUTES):
            start_ms = START_MS + minute * MINUTE_MS
            events = [(start_ms + 2000 + number * 8000, group, False) for number, group in enumerate(GROUPS)]
            for group, first_minute in FIRST_MINUTE.items():
                if minute >= first_minute:
                    [commit_ms] = [time_ms for time_ms, each, _ in events if each == group]
                    events.append((commit_ms + _MARKER_DELAY_MS, group, True))
            for time_ms, group, is_marker in sorted(events):
                at_ms = time_ms + random.randrange(700)
                if is_marker:
                    log.end_transaction(
                        PARTITION, PRODUCER_IDS[group], at_ms, commits=minute not in aborted[group], producer_epoch=3
                    )
                    continue
                positions[group] += random.randint(1, 25)
                topic = group.split("-")[0] + "s"
                offsets = {f"{topic}-{number}": positions[group] for number in range(GROUPS[group])}
                if minute >= FIRST_MINUTE.get(group, MINUTES):
                    log.commit(group, offsets, at_ms, producer_id=PRODUCER_IDS[group], producer_epoch=3)
                else:
                    log.commit(group, offsets, at_ms)


_HINTS = (
    "Most records can be read. Which records of this log are neither commits nor groups?",
    "`kafkagroups stats . --by writer` shows which groups write in which way. `kafkagroups explain . --group GROUP` "
    "and `kafkagroups timeline . --group GROUP` show what belongs to a group.",
    "In `stats --by writer`, look for `t`. In the output of `explain`, look for markers. The lines of `timeline` say "
    "`aborted`.",
)
_ALL = sum(MARKERS.values())
_ALL_ABORTED = sum(ABORTED.values())

INCIDENT = Incident(
    number=7,
    name="parse_errors",
    level=2,
    title="20 GB of parse errors a night",
    kafka=KAFKA,
    complaint="""\
`offset-archive` is our own program. Each night it copies the segment files of `__consumer_offsets`, reads every record,
and writes the commits into a database. It worked for two years. On 14 April, the disk of its server was full: 20 GB of
errors in one night. Each error comes with a dump of the whole segment.

The folder has the first of the partitions with errors, from 18:00 to 24:00. We compared its checksum with the files of
all three brokers: the files are equal. The brokers have no errors in their logs, and no broker or client was upgraded
in April. All lags in our monitoring are right.
""",
    server_log=(
        "2026-04-15 01:04:17 ERROR offset-archive: __consumer_offsets-30: record skipped: "
        "commit of key version 0: group: expected 1 byte, found 0",
        "2026-04-15 01:04:17 ERROR offset-archive: __consumer_offsets-30: record skipped: "
        "commit of key version 0: topic: expected 2 bytes, found 0",
    ),
    chart=Chart(
        "Errors of offset-archive in each night",
        ("9 Apr", "10 Apr", "11 Apr", "12 Apr", "13 Apr", "14 Apr", "15 Apr"),
        (0, 0, 0, 0, 0, 20_381, 41_206),
    ),
    questions=(
        Question(
            "At which offset is the first record that `offset-archive` cannot read?",
            Exercise(
                "parse_first_offset",
                FIRST_OFFSET,
                f"parse_first_offset = {FIRST_OFFSET}",
                _HINTS,
                known_mistakes={
                    "This is the first commit in a transaction. Its key and its value have the usual form.": (
                        FIRST_OFFSET - GROUPS[FIRST_GROUP] - GROUPS["oven-sync"] - 1
                    ),
                    "This record is the last one that can be read. Look at the next one.": FIRST_OFFSET - 1,
                },
            ),
        ),
        Question(
            "This record ends a transaction. The offsets of which group are in the transaction?",
            Exercise(
                "parse_group",
                FIRST_GROUP,
                f'parse_group = "{FIRST_GROUP}"',
                _HINTS,
                known_mistakes={
                    "The commit of this group is directly before the record, but it has no producer id.": "scale-view",
                    "This group began later.": SECOND_GROUP,
                },
            ),
        ),
        Question(
            "How many records of this copy can `offset-archive` not read?",
            Exercise(
                "parse_unreadable",
                _ALL,
                f"parse_unreadable = {_ALL}",
                _HINTS,
                known_mistakes={
                    "These are the records of one producer. There is a second one.": MARKERS[FIRST_GROUP],
                    "Some of these records end a transaction with an abort. Their keys cannot be read, either.": (
                        _ALL - _ALL_ABORTED
                    ),
                },
            ),
        ),
        Question(
            "How many of these records cause the second message of the log (`topic: expected 2 bytes, found 0`)?",
            Exercise(
                "parse_second_message",
                _ALL_ABORTED,
                f"parse_second_message = {_ALL_ABORTED}",
                _HINTS,
                known_mistakes={
                    "These records cause the first message. Their keys end with `00 01`. The program reads this as the "
                    "length of a group id.": _ALL - _ALL_ABORTED,
                    "`timeline` has a line for each offset. A marker can end the commits of two partitions.": (
                        2 * ABORTED[FIRST_GROUP] + ABORTED[SECOND_GROUP]
                    ),
                    "These are the records of one producer. There is a second one.": ABORTED[FIRST_GROUP],
                },
            ),
        ),
    ),
    write=write,
    worked_solution=(
        Step(
            f"Ask who writes what. Two groups began to commit in transactions (`t`): `{FIRST_GROUP}` after 21:00, and "
            f"`{SECOND_GROUP}` after 22:14.",
            "kafkagroups stats . --by writer",
            shows=" group        part. epoch",
            lines=10,
        ),
        Step(
            "The first transaction ends with a marker at offset 1815. Its key is `00 00 00 01`. The program takes "
            "`00 00` as key version 0, and `00 01` as the length of a group id. No group id follows.",
            f"kafkagroups explain . --group {FIRST_GROUP} --since-time 2026-04-14T20:59:30 "
            "--until-time 2026-04-14T21:01:30",
            lines=8,
        ),
        Step(
            "`stats` counts the markers. They belong to no group.",
            "kafkagroups stats .",
            shows=" group              part.",
            lines=9,
        ),
        Step(
            "The key of an abort marker is `00 00 00 00`. The program reads an empty group id, and then the topic is "
            f"missing. `{SECOND_GROUP}` has {ABORTED[SECOND_GROUP]} abort markers.",
            f"kafkagroups timeline . --group {SECOND_GROUP}",
        ),
        Step(
            f"`{FIRST_GROUP}` commits two partitions at a time, so each abort marker has two lines. The offset after "
            f"`30:` is the same in both. That makes {ABORTED[FIRST_GROUP]} abort markers.",
            f"kafkagroups timeline . --group {FIRST_GROUP}",
            shows="2026-04-14 21",
            lines=4,
        ),
    ),
    cause=f"`{FIRST_GROUP}` and then `{SECOND_GROUP}` began to commit their offsets in transactions. At the end of "
    "each transaction, a broker appends a marker, which is a record in a control batch. `offset-archive` does not look "
    "at the header of the batch. It reads the key of the marker as the key of a commit.",
    prevention=(
        "A program that reads the files must skip control batches: bit 5 (`20`) of the attributes.",
        "It is better to use a consumer with `isolation.level=read_committed`. It skips markers. It also skips the "
        "commits of aborted transactions, which do not count.",
        "Limit the size of error messages, and alert on their number.",
    ),
)

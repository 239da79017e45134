"""Incident 5: a program logs 20 GB of parse errors a night. It reads markers of transactions as keys."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.course.exercises.incidents.incident_log import IncidentLog
from kafkagroups.course.small_logs import MINUTE_MS

PARTITION = 30
START_MS = 1_776_189_600_000  # Tuesday, 2026-04-14 18:00 UTC
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


def write(folder: Path, seed: int) -> None:
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
                    commits = minute not in aborted[group]
                    log.append_marker(PARTITION, PRODUCER_IDS[group], 3, commits=commits, timestamp=at_ms)
                    continue
                positions[group] += random.randint(1, 25)
                topic = group.split("-")[0] + "s"
                offsets = {f"{topic}-{number}": positions[group] for number in range(GROUPS[group])}
                in_transaction = minute >= FIRST_MINUTE.get(group, MINUTES)
                log.commit(group, offsets, at_ms, (PRODUCER_IDS[group], 3) if in_transaction else None)

"""Incident 1: one partition fills a disk. A group commits after every record, and nothing is cleaned."""

from __future__ import annotations

from pathlib import Path
from random import Random

from kafkagroups.course.exercises.incidents.incident_log import IncidentLog
from kafkagroups.course.small_logs import MINUTE_MS

BUSY_GROUP = "price-ticker"
QUIET_GROUPS = {"order-copy": 6, "billing-cache": 4, "label-stats": 3, "promo-feed": 2, "oven-copy": 2}
"""The number of topic-partitions that each of the other groups commits."""
BUSY_PARTITIONS = 8
MINUTES = 1200
START_MS = 1_772_409_600_000  # 2026-03-02 00:00 UTC
SEGMENT_BYTES = 256 * 1024


def write(folder: Path, seed: int) -> None:
    random = Random(seed)
    positions = dict.fromkeys(range(BUSY_PARTITIONS), 0)
    with IncidentLog(folder, segment_bytes=SEGMENT_BYTES) as log:
        for minute in range(MINUTES):
            time_ms = START_MS + minute * MINUTE_MS
            for second in range(0, 60, 3):
                partition = random.randrange(BUSY_PARTITIONS)
                positions[partition] += 1
                log.commit(BUSY_GROUP, {f"prices-{partition}": positions[partition]}, time_ms + second * 1000)
            for group, partitions in QUIET_GROUPS.items():
                if random.random() < 0.1:
                    topic = group.split("-")[0]
                    offsets = {f"{topic}-{number}": minute * 5 + number for number in range(partitions)}
                    log.commit(group, offsets, time_ms + 59_000)

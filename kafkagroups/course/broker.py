"""A coordinator for a lesson: quiet, the same at every run (ids, clock), and it owns every partition."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from kafkagroups.coordinator import (
    Answer,
    Clock,
    DiskLogs,
    GroupCoordinator,
    NewBatch,
    OffsetCommit,
    OffsetsLogs,
    TopicPartition,
)
from kafkagroups.coordinator.gate import Authorizer, allow_all
from kafkagroups.coordinator.logs import Appended
from kafkagroups.coordinator.results import CommitErrors, OffsetFetchResult
from kafkagroups.course.folders import make_scratch_folder
from kafkagroups.course.lesson_clock import START
from kafkagroups.course.log_lines import Lines, read_batch_lines
from kafkagroups.errors import UsageError
from kafkagroups.log.batch import Batch
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import decode
from kafkagroups.replay.config import settings

SHOP = {"orders": 3, "payments": 2, "stock": 1, "promo-spring": 1}
"""Harbour Coffee's topics and their partitions."""

logging.getLogger("kafkagroups.coordinator").addHandler(logging.NullHandler())


def coordinator(
    logs: OffsetsLogs | str | Path | None = None,
    kafka: str = "3.9.2",
    *,
    now_ms: int = START,
    topics: Mapping[str, int] | None = SHOP,
    authorize: Authorizer = allow_all,
    **changed: Any,
) -> GroupCoordinator:
    """A coordinator that has loaded every partition of `logs`: logs, a copy of a folder of them, or none yet (None).

    `changed` are settings (`kafkagroups.coordinator.Settings`) that are not that Kafka's defaults. Member ids are the
    client's name and a number. UsageError for a version without a classic coordinator.
    """
    chosen = replace(settings(kafka, {}), **changed)
    ids = count(1)
    if logs is None or isinstance(logs, str | Path):
        folder = make_scratch_folder()
        for log in () if logs is None else Path(logs).glob("__consumer_offsets-*"):
            shutil.copytree(log, folder / log.name)  # what the coordinator writes must not change a lesson's data
        logs = DiskLogs(folder, chosen.offsets_topic_compression_codec, fences=chosen.since(2, 0))
    made = GroupCoordinator(
        logs,
        Clock(now_ms),
        chosen,
        new_member_id=lambda name: f"{name}-{next(ids)}",
        topics=topics,
        authorize=authorize,
    )
    for partition in range(chosen.offsets_topic_num_partitions):
        made.elect(partition)
    return made


def crashed(dead: GroupCoordinator) -> GroupCoordinator:
    """The broker died: a new coordinator on the same logs, at the same time, with the same settings.

    What the dead one knew besides its log is gone, and whoever waited for it hears nothing any more.
    """
    dead.clock.forget()
    logs = getattr(dead.manager.logs, "logs", dead.manager.logs)  # what was held back died with it
    heir = coordinator(
        logs, now_ms=dead.clock.now_ms, topics=dead.topics, authorize=dead.authorize, **vars(dead.settings)
    )
    heir.zookeeper = dead.zookeeper
    return heir


class Replica:
    """What another broker has of one partition's log: its batches below offset `end` (None: all). It takes nothing."""

    def __init__(self, logs: OffsetsLogs, partition: int, end: int | None = None) -> None:
        self.partition = partition
        self.batches = [batch for batch in logs.read(partition) if end is None or batch.base_offset < end]

    def magic(self, partition: int) -> int | None:
        return 2

    def append(self, partition: int, batch: NewBatch, appended: Appended) -> None:
        raise UsageError("nothing is appended to a replica")

    def read(self, partition: int) -> Iterable[Batch]:
        return self.batches if partition == self.partition else ()


def follower(broker: GroupCoordinator, group: str, end: int | None = None) -> GroupCoordinator:
    """The coordinator that would come after this one now, with that group's partition up to offset `end` (None: all).

    Unlike `crashed` it leaves the broker alone.
    """
    manager = broker.manager
    replica = Replica(manager.logs, manager.partition_for(group), end)
    return coordinator(replica, broker.settings.kafka, now_ms=broker.clock.now_ms)


def written(broker: GroupCoordinator, group: str) -> Lines:
    """The lines of the partition in which the group lives."""
    log = broker.manager.logs.read(broker.manager.partition_for(group))
    return Lines(line for batch in log for line in read_batch_lines(batch))


def commit_again(broker: GroupCoordinator, batch: Batch) -> Answer[CommitErrors]:
    """Commits what a batch of offset records says, at its time. UsageError when it holds anything else."""
    offsets, groups = {}, set()
    for record in (decode(each.key, each.value) for each in batch.records):
        if not isinstance(record.key, OffsetCommitKey) or not isinstance(record.value, OffsetCommitValue):
            raise UsageError(f"a batch of committed offsets was expected at {batch.base_offset}")
        value = record.value
        partition = TopicPartition(record.key.topic, record.key.partition)
        offsets[partition] = OffsetCommit(value.offset, value.metadata, value.leader_epoch)
        groups.add(record.key.group)
    broker.clock.advance_to(batch.records[0].timestamp)
    return broker.offset_commit(groups.pop(), offsets)


class CountedLogs:
    """Logs that count the records which are read from them."""

    def __init__(self, logs: OffsetsLogs | str | Path) -> None:
        self.logs = DiskLogs(logs) if isinstance(logs, str | Path) else logs
        self.records_read = 0

    def magic(self, partition: int) -> int | None:
        return self.logs.magic(partition)

    def append(self, partition: int, batch: NewBatch, appended: Appended) -> None:
        self.logs.append(partition, batch, appended)

    def read(self, partition: int) -> Iterator[Batch]:
        for batch in self.logs.read(partition):
            self.records_read += batch.count
            yield batch


def answered(result: OffsetFetchResult) -> dict[str, Any]:
    """A fetch as data/harbour tells it: of each partition offset, leader epoch, metadata, or the name of an error."""
    return {
        str(partition): there.error.name
        if there.error
        else {"offset": there.offset, "leader_epoch": there.leader_epoch, "metadata": there.metadata}
        for partition, there in result.offsets.items()
    }

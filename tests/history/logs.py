"""Logs to ask about, made by hand or by a running coordinator, and what `stats` finds in them."""

import kafkagroups as kg
from kafkagroups.coordinator import Clock, Consumer, OffsetCommit, Settings, TopicPartition, open_logs, start_broker
from tests.handmade import LogRecord, LogWriter, OffsetCommitKey, OffsetCommitValue, encode_batch

START = 1_700_000_000_000
"""The time of the first record: 2023-11-14 22:13:20 UTC."""
SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
VERSIONS = ("3.9.2", "4.3.1")
"""A release with the classic coordinator, and one with the new one."""
ENGINES = ("python", "auto")


def rules_of(version):
    return {"coordinator": "classic" if version < "4" else "new", "kafka": version}


def find(path, kind=None, **rules):
    """Return what `stats` finds, of one kind or of all. It does not depend on the engine."""
    found, same = (kg.stats(path, engine=engine, **rules).findings for engine in ENGINES)
    assert found == same
    return [finding for finding in found if kind in (None, finding.kind)]


def find_and_check(path, **rules):
    """Return what `stats` finds, if `check` finds the same with both engines."""
    found = find(path, **rules)
    assert all(kg.check(path, engine=engine, **rules).findings == found for engine in ENGINES)
    return found


def commit(offset, time, group="g", partition=0, topic="orders", metadata="", version=3):
    key = OffsetCommitKey(group, topic, partition)
    value = OffsetCommitValue(offset=offset, metadata=metadata, commit_timestamp=time)
    return LogRecord(offset, time, *kg.encode(kg.Record(1, key, value, version)))


def write(folder, batches, segment_bytes=1 << 30, partition=0):
    """Append batches to the log of a partition below a folder, and return its path."""
    path = folder / f"__consumer_offsets-{partition}"
    with LogWriter(path, segment_bytes=segment_bytes) as log:
        for batch in batches:
            log.append(batch)
    return path


def write_each(folder, records, partition=0, **fields):
    """As `write`, with a batch for each record."""
    return write(folder, [encode_batch([record], **fields) for record in records], partition=partition)


class Broker:
    """A running coordinator of one partition, whose records are those of real brokers (tests/coordinator)."""

    def __init__(self, folder, version, clock=None, **world):
        self.path = folder
        self.clock = clock or Clock(START)
        self.rules = rules_of(version)
        settings = Settings(version, offsets_topic_num_partitions=1)
        self.logs = open_logs(folder, settings)
        self.coordinator = start_broker(self.logs, self.clock, settings, **world)

    def join(self, client_id, partitions=6, group="app", **options):
        """Return a consumer of the topic `orders`, which the next polls make a member."""
        return Consumer(self.coordinator, group, client_id, ["orders"], {"orders": partitions}, **options)

    def commit(self, offsets, group="app", seconds=0, **identity):
        """Commit offsets of the topic `orders`, by partition, and let some time pass."""
        commits = {
            TopicPartition("orders", number): each if isinstance(each, OffsetCommit) else OffsetCommit(each)
            for number, each in offsets.items()
        }
        self.coordinator.offset_commit(group, commits, **identity)
        self.clock.advance(seconds * SECOND)

    def poll(self, *consumers, times=1, seconds=4, commits=False):
        """Let consumers poll some times, each time with some seconds after it."""
        for _ in range(times):
            for consumer in consumers:
                consumer.poll()
                if commits:
                    consumer.commit()
            self.clock.advance(seconds * SECOND)

    def find(self, kind=None):
        self.logs.close()
        return find(self.path, kind, **self.rules)

    def timeline(self):
        self.logs.close()
        return kg.timeline(self.path, "app", **self.rules)

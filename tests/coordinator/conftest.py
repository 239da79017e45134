"""A coordinator of 3.9.2 on a clock, over a log on disk with one partition; `broker(…)` makes others."""

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import (
    Clock,
    DiskLogs,
    Errors,
    HeldLogs,
    OffsetCommit,
    Settings,
    TopicPartition,
    start_broker,
)
from kafkagroups.coordinator.coordinator import number_member_ids
from tests.coordinator.world import NOW, World, subscription

ORDERS = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
CLICKS = TopicPartition("clicks", 0)
TOPICS = {"orders": 3, "clicks": 3}
TOO_LARGE = "m" * 4097
"""Metadata above the limit."""


class Broker(World):
    """A broker with short methods for a client's requests."""

    def commit(self, group, offset, *partitions, **member):
        """Send an OffsetCommit of one offset for these partitions (orders-0); return the response."""
        return self.coordinator.offset_commit(
            group, {each: OffsetCommit(offset) for each in partitions or (ORDERS,)}, **member
        )

    def txn_commit(self, group, offset, *partitions, producer=7, **member):
        return self.coordinator.txn_offset_commit(
            group,
            {each: OffsetCommit(offset) for each in partitions or (ORDERS,)},
            transactional_id="t",
            producer_id=producer,
            producer_epoch=0,
            **member,
        )

    def end(self, producer=7, *, commits=True):
        """Append the transaction's marker, and complete the transaction in the coordinator."""
        self.logs.logs.append_marker(0, producer, 0, commits=commits, timestamp=self.clock.now_ms)
        self.coordinator.transaction_completed(producer, [0], commits=commits)

    def fetch(self, group, *partitions, stable=False):
        """Return the offset or the error's name by partition, for these partitions or for all."""
        response = self.coordinator.offset_fetch(group, partitions or None, require_stable=stable).value.offsets
        return {each: it.error.name if it.error else it.offset for each, it in response.items()}

    def join(self, group, member_id="", topics=("orders",), session_ms=10_000, rebalance_ms=20_000, **more):
        """Send a JoinGroup, again with the member id that was handed out (KIP-394); return the response."""
        options = {"protocols": [("range", subscription(*topics))], "client_id": "c", **more}
        times = {"session_timeout_ms": session_ms, "rebalance_timeout_ms": rebalance_ms}
        answer = self.coordinator.join_group(group, member_id=member_id, **times, **options)
        if answer.done and answer.value.error is Errors.MEMBER_ID_REQUIRED:
            answer = self.coordinator.join_group(group, member_id=answer.value.member_id, **times, **options)
        return answer

    def stable(self, group, assignment=b"mine", **options):
        """Make a new Stable group with one member; return its member id."""
        joined = self.join(group, **options).value
        member_id = joined.member_id
        generation = joined.generation
        self.coordinator.sync_group(group, generation, member_id, {member_id: assignment})
        assert self.state(group) == "Stable"
        return member_id

    def state(self, group):
        (response,) = self.coordinator.describe_groups([group])
        return response.state

    def listed(self):
        return {each.group_id for each in self.coordinator.list_groups()[1]}

    def records(self):
        """Return by batch: the partition or group of each record, and its offset or generation (None: tombstone)."""
        found = []
        for batch in self.read(0):
            rows = []
            for record in () if batch.is_control else batch.records:
                read = kg.decode(record.key, record.value)
                value = read.value
                name = f"{read.key.topic}-{read.key.partition}" if read.type == 1 else read.key.group
                number = None
                if value is not None:
                    number = value.offset if read.type == 1 else value.generation
                rows.append((name, number))
            found.append(["marker"] if batch.is_control else rows)
        return found


class NewBroker(Broker):
    """A broker of 4.x with one partition of the offsets topic. `logs` holds and fails its appends."""

    def __init__(self, folder, version="4.3.1", **options):
        self.clock = Clock(NOW)
        self.settings = Settings(version, offsets_topic_num_partitions=1, **options)
        self.new_member_id = number_member_ids()
        self.folder = folder
        self.disk = DiskLogs(folder)
        self.start()

    def start(self):
        self.clock.clear_timers()
        self.logs = HeldLogs(self.disk, holds_answers=False)
        self.coordinator = start_broker(
            self.logs, self.clock, self.settings, topics=TOPICS, new_member_id=self.new_member_id
        )

    def hold(self):
        self.logs.holds_answers = True

    def fail(self, error=Errors.NOT_ENOUGH_REPLICAS):
        self.logs.append_error = error

    def error(self, response):
        return set(response.value.values())


@pytest.fixture
def broker(tmp_path):
    """Return a function that starts a broker of a version with settings; the initial rebalance delay is 0."""

    def make(version="3.9.2", topics=TOPICS, **settings):
        return Broker(tmp_path / version, version, topics, **{"group_initial_rebalance_delay_ms": 0, **settings})

    return make


@pytest.fixture
def kafka(broker):
    return broker()


@pytest.fixture
def make_new(tmp_path):
    """Return a function that starts a broker of 4.x; the initial rebalance delay is 0."""
    return lambda **options: NewBroker(tmp_path / "log", **{"group_initial_rebalance_delay_ms": 0, **options})


@pytest.fixture
def new_kafka(make_new):
    return make_new()

"""A coordinator of 3.9.2 on a clock, over a log on disk with one partition; `broker(…)` makes others."""

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import Errors, OffsetCommit, TopicPartition
from tests.coordinator.world import World, subscription

ORDERS = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
CLICKS = TopicPartition("clicks", 0)
TOPICS = {"orders": 3, "clicks": 3}


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


@pytest.fixture
def broker(tmp_path):
    """Return a function that starts a broker of a version with settings; the initial rebalance delay is 0."""

    def make(version="3.9.2", topics=TOPICS, **settings):
        return Broker(tmp_path / version, version, topics, **{"group_initial_rebalance_delay_ms": 0, **settings})

    return make


@pytest.fixture
def kafka(broker):
    return broker()

"""A broker loads the log that our coordinator wrote, and answers what a coordinator of ours answers that loads it.

The log holds every state that a log can tell: groups Stable (dynamic and static members) and Empty, simple groups,
transactional commits committed, aborted, pending and fenced by a plain one, deleted offsets and groups.
"""

import pytest

from kafkagroups.coordinator import Clock, OffsetCommit, Settings, TopicPartition, start_broker
from tests.broker.broker import CLASSIC, VERSIONS
from tests.broker.material import PARTITIONS, name
from tests.coordinator.world import NOW, subscription
from tests.handmade import CompressionType

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client

pytestmark = [pytest.mark.broker, pytest.mark.parametrize("broker", VERSIONS, indirect=True, scope="module")]

ORDERS = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
SESSION_MS = 1_800_000
LIVING = ("stable", "static", "two-members")
ALWAYS_EMPTY = ("left", "simple", "grüße", "committed", "aborted", "between", "over", "pending")
ALWAYS_GONE = ("deleted", "simple-deleted", "nobody")
EMPTY = {"3.9.2": (*ALWAYS_EMPTY, "reborn"), "4.3.1": (*ALWAYS_EMPTY, "joined-only", "only-aborted")}
"""In 4.x, the first JoinGroup writes a record, and so does the deletion of a pending offset."""
GONE = {"3.9.2": (*ALWAYS_GONE, "joined-only", "only-aborted"), "4.3.1": (*ALWAYS_GONE, "reborn")}
ALL = (*LIVING, *EMPTY[CLASSIC], *GONE[CLASSIC])


def start(folder, version, codec=CompressionType.NONE):
    """A coordinator of ours with all partitions, which has just loaded that log."""
    settings = Settings(version, PARTITIONS, offsets_topic_compression_codec=codec, group_initial_rebalance_delay_ms=0)
    return start_broker(folder, Clock(NOW), settings)


def write(folder, version):
    """The story: what clients asked a coordinator whose log is that folder."""
    it = start(folder, version, CompressionType.GZIP)

    def join(group, member_id="", instance=None):
        protocols = [("range", subscription("orders"))]
        options = {"group_instance_id": instance, "session_timeout_ms": SESSION_MS, "client_id": "client"}
        answer = it.join_group(group, protocols=protocols, member_id=member_id, **options)
        if answer.done and answer.value.error.name == "MEMBER_ID_REQUIRED":
            answer = it.join_group(group, protocols=protocols, member_id=answer.value.member_id, **options)
        return answer

    def stable(group, instance=None):
        joined = join(group, instance=instance).value
        it.sync_group(group, joined.generation, joined.member_id, {joined.member_id: b"\0\0\0\0\0\0\xff\xff\xff\xff"})
        return joined.member_id

    def commit(group, offset, *partitions, **member):
        offsets = {each: OffsetCommit(offset, f"of {group}", 3) for each in partitions or (ORDERS,)}
        assert not any(it.offset_commit(group, offsets, **member).value.values())

    def txn(group, offset, *partitions, producer):
        offsets = {each: OffsetCommit(offset) for each in partitions or (ORDERS,)}
        identity = {"transactional_id": "t", "producer_id": producer, "producer_epoch": 0}
        assert not any(it.txn_offset_commit(group, offsets, **identity).value.values())

    def end(producer, *groups, commits):
        partitions = {it.manager.partition_for(group) for group in groups}
        for partition in sorted(partitions):
            it.manager.logs.append_marker(partition, producer, 0, commits=commits, timestamp=NOW)
        it.transaction_completed(producer, partitions, commits=commits)

    commit("stable", 5, ORDERS, ORDERS_1, generation=1, member_id=stable("stable"))
    stable("static", "instance")
    join("static", instance="instance")  # under another member id, in the same generation
    first = stable("two-members")
    second = join("two-members")
    join("two-members", first)
    assignments = {first: b"\0\0\0\0\0\0\xff\xff\xff\xff", second.value.member_id: b""}
    it.sync_group("two-members", 2, first, assignments)
    left = stable("left")
    commit("left", 6, generation=1, member_id=left)
    it.leave_group("left", [left])
    commit("simple", 7, ORDERS, ORDERS_1)
    commit("simple", 8, ORDERS)
    it.offset_delete("simple", [ORDERS_1])
    commit("grüße", -1)
    txn("committed", 10, ORDERS, ORDERS_1, producer=1)
    end(1, "committed", commits=True)
    commit("aborted", 5)
    txn("aborted", 6, producer=2)
    txn("only-aborted", 6, producer=2)
    end(2, "aborted", "only-aborted", commits=False)
    txn("between", 60, producer=3)
    commit("between", 61)
    end(3, "between", commits=True)
    commit("over", 70)
    txn("over", 71, producer=4)
    txn("pending", 72, producer=4)
    deleted = stable("deleted")
    commit("deleted", 80, generation=1, member_id=deleted)
    it.leave_group("deleted", [deleted])
    commit("simple-deleted", 81)
    it.delete_groups(["deleted", "simple-deleted"])
    txn("reborn", 90, producer=5)
    it.delete_groups(["reborn"])
    end(5, "reborn", commits=True)
    join("joined-only")
    it.manager.logs.close()


@pytest.fixture(scope="module")
def ask(broker, tmp_path_factory):
    """Asks a broker that has just loaded our log."""
    folder = tmp_path_factory.mktemp("coordinator")
    write(folder, broker.version)
    for partition in range(PARTITIONS):  # what other tests left there goes
        (folder / name(partition)).mkdir(exist_ok=True)
    broker.place(folder)
    broker.start()
    try:
        broker.wait_until_loaded()
        assert broker.failed() == set()
        with client.asking(broker.address) as ask:
            yield ask
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def ours(broker, tmp_path_factory):
    """A second coordinator of ours, started on the same story told again: ids and times are arguments."""
    folder = tmp_path_factory.mktemp("ours")
    write(folder, broker.version)
    return start(folder, broker.version)


@pytest.mark.parametrize("stable", [False, True])
def test_committed_offsets(broker, ours, ask, stable):
    """OffsetFetch of all topics, of every group, known or not."""
    theirs = client.offsets(ask, ALL, stable=stable)
    for group in ALL:
        told = ours.offset_fetch(group, require_stable=stable).value.offsets
        mine = {str(each): int(it.error) or (it.offset, it.leader_epoch, it.metadata) for each, it in told.items()}
        assert mine == theirs[group], group
    assert theirs["between"]["orders-0"] == (61, 3, "of between")
    assert [offset for offset, _, _ in theirs["reborn"].values()] == ([90] if broker.version == CLASSIC else [])


def test_unstable_offsets(broker, ours, ask):
    """OffsetFetch with requireStable of partitions that are named."""
    empty = EMPTY[broker.version]
    named = {group: ["orders-0", "orders-1"] for group in empty}
    theirs = client.named_offsets(ask, named)
    for group in empty:
        told = ours.offset_fetch(group, [ORDERS, ORDERS_1], require_stable=True).value.offsets
        mine = {str(each): int(it.error) or (it.offset, it.leader_epoch, it.metadata) for each, it in told.items()}
        assert mine == theirs[group], group
    assert {group for group in empty if theirs[group]["orders-0"] == client.UNSTABLE} == {"over", "pending"}


def test_described_groups(broker, ours, ask):
    """DescribeGroups: states, protocols, members with their bytes."""
    theirs = client.describe(ask, ALL)
    for told in ours.describe_groups(ALL):
        answer = theirs[told.group_id]
        assert (told.state, told.protocol_type, told.protocol) == (
            answer.group_state,
            answer.protocol_type,
            answer.protocol_data,
        )
        mine = [
            (it.member_id, it.group_instance_id, it.client_id, it.client_host, it.metadata, it.assignment)
            for it in told.members
        ]
        members = [
            (it.member_id, it.group_instance_id, it.client_id, it.client_host, it.member_metadata, it.member_assignment)
            for it in answer.members
        ]
        assert sorted(mine) == sorted(members)
    assert {group: theirs[group].group_state for group in ALL} == {
        **dict.fromkeys(LIVING, "Stable"),
        **dict.fromkeys(EMPTY[broker.version], "Empty"),
        **dict.fromkeys(GONE[broker.version], "Dead"),
    }


def test_listed_groups(broker, ours, ask):
    """ListGroups: the living and the Empty ones, with state and type."""
    theirs = client.listed(ask)
    _, listed = ours.list_groups()
    assert {it.group_id: (it.protocol_type, it.state, "classic") for it in listed} == theirs
    assert theirs.keys() == {*LIVING, *EMPTY[broker.version]}

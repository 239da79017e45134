"""Events of a coordinator that no other test shows: see docs/facts/events.yaml."""

import json

import kafkagroups as kg
from kafkagroups.coordinator import Errors
from tests import cases
from tests.captured import captured
from tests.coordinator.conftest import ORDERS
from tests.coordinator.consumer_world import World, owned
from tests.coordinator.world import subscription

MEMBER_ID_REQUIRED = 79
GROUP_RECORD = 2


def test_a_commit_on_its_way_when_the_partition_moves(kafka):
    """ReplicaManager completes it with NOT_LEADER_OR_FOLLOWER before GC.onResignation. The next load has its record."""
    kafka.commit("g", 1)
    kafka.logs.holds_answers = True
    answer = kafka.commit("g", 2)
    kafka.logs.release(0, Errors.NOT_LEADER_OR_FOLLOWER)
    assert answer.value == {ORDERS: Errors.NOT_COORDINATOR}
    kafka.coordinator.resign(0)
    assert kafka.coordinator.offset_fetch("g", (ORDERS,)).value.error is Errors.NOT_COORDINATOR
    kafka.elect(1)
    assert kafka.fetch("g") == {ORDERS: 2}


def test_the_first_join_writes_a_record_in_4_x_only():
    """3.9.2-deletes and 4.3.1-deletes: the JoinGroup that is answered MEMBER_ID_REQUIRED."""
    for version in ("3.9.2", "4.3.1"):
        folder = captured("conversations") / "conversations" / f"{version}-deletes"
        lines = (folder / "conversation.jsonl").read_text(encoding="utf-8").splitlines()
        steps = [json.loads(line) for line in lines]
        first = next(step for step in steps if step.get("response", {}).get("errorCode") == MEMBER_ID_REQUIRED)
        with cases.case(version):
            assert first["api"] == "JoinGroup"
            assert bool(first["appended"]) == (version == "4.3.1")
    partition = first["appended"][0]["partition"]
    batch = next(iter(kg.open_log(folder / "log" / f"__consumer_offsets-{partition}")))
    (record,) = (kg.decode(each.key, each.value) for each in batch.records)
    assert (record.type, record.value.generation, record.value.members) == (GROUP_RECORD, 0, ())


def test_the_leaders_sync_writes_the_group_in_4_x():
    """4.3.1-deletes: the first SyncGroup is answered NONE, and the group has its member in the log."""
    folder = captured("conversations") / "conversations" / "4.3.1-deletes"
    steps = [json.loads(line) for line in (folder / "conversation.jsonl").read_text(encoding="utf-8").splitlines()]
    sync = next(step for step in steps if step.get("api") == "SyncGroup")
    assert (sync["response"]["errorCode"], sync["appended"]) == (0, [{"partition": 0, "first": 1, "last": 1}])
    group = kg.load(folder / "log" / "__consumer_offsets-0", until=2)[sync["request"]["groupId"]]
    assert (group.state.value, group.generation, list(group.members)) == ("Stable", 1, [sync["request"]["memberId"]])


def test_the_batches_of_a_retention_check():
    """Runs `expiry`: 4.3.1 writes one batch for all groups of a partition, 3.9.2 one for each group.

    `g-pending` has a committed offset of t-0, and a pending commit for it. 4.3.1 keeps it, 3.9.2 deletes it.
    """
    groups = {version: read_tombstones(version) for version in ("3.9.2", "4.3.1")}
    assert max(len({group for group, _ in batch}) for batch in groups["3.9.2"]) == 1
    assert max(len({group for group, _ in batch}) for batch in groups["4.3.1"]) == 2
    pending = {
        version: {partition for batch in batches for group, partition in batch if group == "g-pending"}
        for version, batches in groups.items()
    }
    assert pending == {"3.9.2": {0, 1}, "4.3.1": {1}}
    simple = {version: [None for batch in groups[version] if ("g-simple", None) in batch] for version in groups}
    assert (len(simple["3.9.2"]), len(simple["4.3.1"])) == (0, 1)


def test_the_records_of_members_that_join_follow_and_leave(tmp_path):
    """The numbers are record types; a tombstone is negative. 4.4 also writes the assignment epoch of an Empty group."""
    for kafka, last in (("4.3.1", [-8, -7, -5, 3]), ("4.4.0", [-8, -7, -5, 3, 6])):
        world = World(tmp_path / kafka, kafka)
        world.join("a")
        assert world.written() == [[5, 3, 7, 6, 8]]
        world.join("b")
        assert world.written() == [[5, 3, 7, 7, 6, 8]]
        kept = world.send("a", 2, topic_partitions=owned(0, 1, 2)).assignment
        assert world.written() == [[8]]
        assert world.send("a", 2, topic_partitions=kept).member_epoch == 3
        assert world.written() == [[8]]
        world.send("b", -1)
        assert world.written() == [[-8, -7, -5, 3]]
        world.clock.advance(45_000)
        assert (world.written(), world.describe().state) == ([last], "Empty")


def test_a_group_changes_its_type(tmp_path):
    """A heartbeat makes a classic group a consumer group; when only classic members are left, it is classic again."""
    world = World(tmp_path / "log")
    classic = {"protocols": [("range", subscription("orders"))], "require_known_member_id": False}
    joined = world.coordinator.join_group("g", **classic)
    world.clock.advance(3_000)
    member_id = joined.value.member_id
    world.coordinator.sync_group("g", 1, member_id, {member_id: b""})
    world.written()
    assert world.join("a").error is Errors.NONE
    [upgrade] = world.written()
    assert upgrade[:2] == [-2, 5] and {3, 6, 7, 8} <= set(upgrade)
    assert world.coordinator.heartbeat("g", 1, member_id).value is Errors.REBALANCE_IN_PROGRESS
    world.send("a", -1)
    [downgrade] = world.written()
    assert downgrade[-1] == 2 and {-3, -4, -5, -6, -7, -8} == set(downgrade[:-1])


def read_tombstones(version):
    """Return the group and the partition of each tombstone, by batch. The partition of a group's tombstone is None."""
    found = []
    for log in (captured("runs") / "runs" / f"{version}-expiry" / "log").iterdir():
        for batch in kg.open_log(log):
            decoded = [kg.decode(each.key, None) for each in batch.records if not batch.is_control and not each.value]
            keys = [record.key for record in decoded if record.type in (1, GROUP_RECORD)]
            if keys:
                found.append([(key.group, getattr(key, "partition", None)) for key in keys])
    return found

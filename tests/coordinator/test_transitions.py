"""The transitions of a classic group in docs/facts/transitions.yaml: a running coordinator makes each of them.

Sources: GroupCoordinator.scala, GroupMetadata.scala (3.9), and the golden script 23_transitions.
"""

import pytest

from kafkagroups.coordinator import Errors
from tests.coordinator.conftest import ORDERS
from tests.coordinator.world import note_changes
from tools.handbook_pages.facts import read_transitions

TWO_PROTOCOLS = [("range", b""), ("roundrobin", b"")]
UNLOADED = "Another broker becomes the coordinator, so the group is unloaded"
NO_SYNC = "A member sends no SyncGroup within the rebalance timeout (since 2.8.1)"


SCENARIOS = {}
"""What causes each change of the state: by the change, and by its trigger in the table."""


def scenario(change, trigger):
    def add(function):
        SCENARIOS[change, trigger] = function
        return function

    return add


@pytest.fixture
def kafka(broker, monkeypatch):
    """A broker whose groups note each change of their state in `kafka.changes`."""
    kafka = broker(group_max_size=2)
    kafka.changes = note_changes(monkeypatch)
    return kafka


def make_completing(kafka, **options):
    """Make a group of one member that waits for its leader's assignment; return the member id."""
    return kafka.join("g", **options).value.member_id


@scenario("S-P", "A new member joins")
def make_preparing(kafka):
    """Make a Stable group, and let a second member join: the group waits for the first member."""
    member_id = kafka.stable("g")
    kafka.join("g")
    return member_id


def unload(kafka):
    kafka.coordinator.resign(0)


@scenario("E-P", "A member joins")
@scenario("P-C", "The initial delay of the first rebalance is over")
def first_member(kafka):
    make_completing(kafka)


@scenario("E-D", "DeleteGroups deletes the group")
def delete_group(kafka):
    kafka.commit("g", 1)
    kafka.coordinator.delete_groups(["g"])


@scenario("E-D", "The last offset is deleted: it expires, OffsetDelete deletes it, or its topic is deleted")
def delete_last_offset(kafka):
    kafka.commit("g", 1)
    kafka.coordinator.offset_delete("g", [ORDERS])


@scenario("E-D", UNLOADED)
def unload_empty(kafka):
    kafka.commit("g", 1)
    unload(kafka)


@scenario("P-C", "All members have joined again")
def all_joined(kafka):
    member_id = make_preparing(kafka)
    kafka.join("g", member_id)


@scenario("P-C", "The rebalance timeout is over, and the members that have not joined are removed")
def join_timeout(kafka):
    make_preparing(kafka)
    kafka.clock.advance(20_000)


@scenario("P-E", "The join phase ends, and no member is left")
def nobody_left(kafka):
    member_id = kafka.stable("g")
    kafka.coordinator.leave_group("g", [member_id])


@scenario("P-D", UNLOADED)
def unload_preparing(kafka):
    make_preparing(kafka)
    unload(kafka)


@scenario("C-S", "The leader sends SyncGroup, and the group's record is appended")
def leader_syncs(kafka):
    kafka.stable("g")


@scenario("C-P", "A new member joins")
def join_while_completing(kafka):
    make_completing(kafka)
    kafka.join("g")


@scenario("C-P", "A member joins again with other protocols")
def rejoin_while_completing(kafka):
    member_id = make_completing(kafka)
    kafka.join("g", member_id, protocols=[("range", b"other")])


@scenario("C-P", "A member leaves, or its session times out")
def leave_while_completing(kafka):
    member_id = make_completing(kafka)
    kafka.coordinator.leave_group("g", [member_id])


@scenario("C-P", "A static member is replaced")
def replace_while_completing(kafka):
    make_completing(kafka, group_instance_id="i")
    kafka.join("g", group_instance_id="i")


@scenario("C-P", "The append of the group's record fails")
def append_fails(kafka):
    member_id = make_completing(kafka)
    kafka.logs.append_error = Errors.NOT_ENOUGH_REPLICAS
    kafka.coordinator.sync_group("g", 1, member_id, {member_id: b""})


@scenario("C-P", NO_SYNC)
def no_sync_while_completing(kafka):
    member_id = make_completing(kafka, session_ms=60_000)
    kafka.clock.advance(20_000)
    assert member_id not in kafka.coordinator.manager.groups["g"].members


@scenario("C-D", UNLOADED)
def unload_completing(kafka):
    make_completing(kafka)
    unload(kafka)


@scenario("S-P", "The leader joins again")
def leader_rejoins(kafka):
    kafka.join("g", kafka.stable("g"))


def make_two_members(kafka, second_syncs=True):
    """Make a Stable group of two members; return the ids of the leader and of the other member."""
    first = kafka.stable("g", session_ms=60_000)
    joining = kafka.join("g", session_ms=60_000)
    kafka.join("g", first, session_ms=60_000)
    second = joining.value.member_id
    leader = kafka.group("g").leader
    other = second if leader == first else first
    kafka.coordinator.sync_group("g", 2, leader, {})
    if second_syncs:
        kafka.coordinator.sync_group("g", 2, other, {})
    kafka.changes.clear()
    return leader, other


@scenario("S-P", "Another member joins again with other protocols")
def follower_rejoins(kafka):
    _, other = make_two_members(kafka)
    kafka.join("g", other)
    assert kafka.changes == []  # Its protocols are the same.
    kafka.join("g", other, protocols=[("range", b"other")])


@scenario("S-P", "A member leaves, or its session times out")
def session_timeout(kafka):
    kafka.stable("g")
    kafka.changes.clear()
    kafka.clock.advance(10_000)


@scenario("S-P", "A static member is replaced, and the members now agree on another protocol")
def replace_with_another_protocol(kafka):
    kafka.stable("g", group_instance_id="i", protocols=TWO_PROTOCOLS)
    kafka.changes.clear()
    answer = kafka.join("g", group_instance_id="i", protocols=[("roundrobin", b"")])
    assert (answer.value.generation, answer.value.protocol) == (2, "roundrobin")


@scenario("S-P", NO_SYNC)
def no_sync_while_stable(kafka):
    make_two_members(kafka, second_syncs=False)
    kafka.clock.advance(20_000)


@scenario("S-P", "After a load, the group has more members than group.max.size")
def large_group_is_loaded(kafka):
    make_two_members(kafka)
    kafka.settings = type(kafka.settings)("3.9.2", offsets_topic_num_partitions=1, group_max_size=1)
    kafka.start()


@scenario("S-D", UNLOADED)
def unload_stable(kafka):
    kafka.stable("g")
    kafka.changes.clear()
    unload(kafka)


@scenario("D-D", "A group that was deleted while its partition was not on this broker is unloaded")
def unload_dead(kafka):
    kafka.commit("g", 1)
    kafka.logs.magic = lambda partition: None
    kafka.coordinator.delete_groups(["g"])
    kafka.changes.clear()
    unload(kafka)


STATES = {"E": "Empty", "P": "PreparingRebalance", "C": "CompletingRebalance", "S": "Stable", "D": "Dead"}


def states(pair):
    """Return the names of the states before and after a change."""
    return STATES[pair[0]], STATES[pair[-1]]


def test_every_transition_has_a_scenario():
    """test_stateful.py shows that a group makes no other."""
    declared = [(each.change, each.when) for each in read_transitions().transitions["classic"]]
    assert sorted((states(pair), trigger) for pair, trigger in SCENARIOS) == sorted(declared)


@pytest.mark.parametrize(("pair", "trigger"), SCENARIOS)
def test_a_trigger_causes_the_transition(kafka, pair, trigger):
    """The scenario ends, or passes through, the change of the state that the table has for its trigger."""
    SCENARIOS[pair, trigger](kafka)
    assert states(pair) in kafka.changes

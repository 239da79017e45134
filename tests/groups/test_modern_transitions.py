"""docs/facts/transitions.yaml: the transitions in the logs of real brokers, and those that the records allow.

A transition in a log is the change of a group's state from one batch to the next.
"""

import re

import pytest

import kafkagroups as kg
from kafkagroups import dialect
from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.modern_group import MEMBER_STATES, ModernGroup, ModernMember, ModernState
from kafkagroups.groups.modern_replay import create_group
from kafkagroups.groups.replay import NewShard
from kafkagroups.records.streams_group import StreamsGroupTopologyValue
from tests.captured import captured
from tools.handbook_pages.facts import NO_GROUP, read_transitions

FAMILIES = ("new_conversations", "new_expiry", "runs", "releases", "v440")
RELEASE = re.compile(r"4\.\d\.\d")
STABLE_MEMBER = {"consumer": 0, "share": 0, "streams": 1}
MODERN = ("consumer", "share", "streams")
FACTS = read_transitions()
TRANSITIONS = [(group_type, each) for group_type in MODERN for each in FACTS.transitions[group_type]]


def list_logs():
    """Return the captured partitions of brokers of 4.x, with the release of each."""
    logs = []
    for family in FAMILIES:
        root = captured(family)
        for folder in sorted({path.parent for path in root.rglob("*.log")}):
            release = RELEASE.search(str(folder.relative_to(root)))
            if family == "v440":
                logs.append((folder, "4.4.0"))
            elif release:
                logs.append((folder, release[0]))
    return logs


def describe(group):
    """Return the type and the state of a group; None if the group does not exist."""
    return None if group is None else (group.type, group.state.value)


@pytest.fixture(scope="module")
def recorded():
    """Every pair of (type, state) before and after a batch of a captured log that changes them."""
    pairs = set()
    for folder, release in list_logs():
        log = kg.open_log(folder)
        shard = NewShard(log.partition, dialect("new", release))
        try:
            for batch in log:
                before = {group_id: describe(group) for group_id, group in shard.groups.items()}
                shard.replay([batch])
                after = {group_id: describe(group) for group_id, group in shard.groups.items()}
                pairs |= {(before.get(each), after.get(each)) for each in before.keys() | after.keys()}
        except (LoadFailed, BadBytes):
            continue  # The broker does not load this log either.
    return {(before, after) for before, after in pairs if before != after}


def test_the_recorded_transitions_are_those_of_the_table(recorded):
    """Every change of the state of a modern group in a captured log has a row, and every recorded row was seen."""
    seen = set()
    for before, after in recorded:
        group_type, *_ = after or before
        is_conversion = before and after and before[0] != after[0]
        if group_type in MODERN and not is_conversion:
            seen.add((group_type, before[1] if before else NO_GROUP, after[1] if after else NO_GROUP))
    declared = {(group_type, *each.change) for group_type, each in TRANSITIONS if each.seen}
    assert len(seen) > 20
    assert seen == declared


def test_the_recorded_conversions_are_those_of_the_table(recorded):
    seen = {(" ".join(before), " ".join(after)) for before, after in recorded if before and after}
    seen = {(before, after) for before, after in seen if before.split()[0] != after.split()[0]}
    assert seen == {each.change for each in FACTS.conversions}


def make_group(group_type, state):
    """Return a group in a state: with its epochs, its topology and the state of its member."""
    group = create_group("g", 0, group_type, dialect("new", "4.3.1"))
    change_state(group, state)
    return group


def change_state(group, state):
    """Set what records set, so that the group is in this state."""
    stable = STABLE_MEMBER[group.type]
    group.group_epoch = group.assignment_epoch = 5
    group.members = {"m": ModernMember("m", member_epoch=5, state=stable)}
    group.topology = StreamsGroupTopologyValue(epoch=1)
    group.validated_topology_epoch = 1
    if state is ModernState.EMPTY:
        group.members = {}
    elif state is ModernState.NOT_READY:
        group.validated_topology_epoch = -1
    elif state is ModernState.ASSIGNING:
        group.group_epoch = 6
    elif state is ModernState.RECONCILING:
        group.members = {"m": ModernMember("m", member_epoch=4, state=stable)}


@pytest.mark.parametrize(
    ("group_type", "change"), [(group_type, each.change) for group_type, each in TRANSITIONS if not each.seen]
)
def test_a_transition_that_is_not_recorded_is_possible(group_type, change):
    """ConsumerGroup, ShareGroup, StreamsGroup.maybeUpdateGroupState (4.3.1): the records give both states."""
    before, after = (ModernState(name) for name in change)
    group = make_group(group_type, before)
    assert group.state is before
    change_state(group, after)
    assert group.state is after


def test_every_state_of_each_type_has_transitions():
    """A share group is Empty or Stable, a consumer group is never NotReady."""
    states = {each: set() for each in MODERN}
    for group_type, transition in TRANSITIONS:
        states[group_type] |= {ModernState(name) for name in transition.change if name != NO_GROUP}
    assert states["streams"] == set(ModernState)
    assert states["consumer"] == set(ModernState) - {ModernState.NOT_READY}
    assert states["share"] == {ModernState.EMPTY, ModernState.STABLE}


def test_every_state_of_a_member_has_a_meaning():
    assert set(FACTS.member_states) == {name for names in MEMBER_STATES.values() for name in names.values()}
    assert ModernGroup.name_state(make_group("streams", ModernState.STABLE), ModernMember("m", state=9)) == "Unknown"

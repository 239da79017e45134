"""A group of `Groups` is a plain object, and behaves the same whichever engine loaded it."""

import copy
import dataclasses
import pickle

import pytest
from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups import TopicPartition

LOG = "data/harbour/3.9.2"
ORDERS = TopicPartition("orders", 0)


@pytest.fixture(params=["python", "compiled"])
def groups(request):
    return kg.load(LOG, "classic", engine=request.param)


def test_a_group_can_be_replaced_copied_and_pickled(groups):
    """Every copy equals the group and is shown as the group is, whichever engine loaded it."""
    group = groups["billing"]
    copies = [
        dataclasses.replace(group),
        dataclasses.replace(group, generation=group.generation),
        copy.copy(group),
        copy.deepcopy(group),
        pickle.loads(pickle.dumps(group)),
    ]
    for copied in copies:
        assert type(copied) is type(group) is kg.load(LOG, "classic", engine="python")["billing"].__class__
        assert copied == group and repr(copied) == repr(group)
    assert repr(group) == repr(kg.load(LOG, "classic", engine="python")["billing"])
    assert dataclasses.replace(group, generation=99).generation == 99
    assert dataclasses.asdict(group)["generation"] == group.generation


def test_offsets_are_plain_dicts_that_can_be_changed(groups):
    """A change stays in this group of this result; a second load does not have it."""
    group = groups["billing"]
    assert type(group.offsets) is dict and group is groups["billing"] is groups.groups["billing"]
    removed = group.offsets.pop(ORDERS)
    assert ORDERS not in groups["billing"].offsets
    group.offsets[ORDERS] = replace(removed, offset=1)
    assert groups["billing"].offsets[ORDERS].offset == 1
    assert kg.load(LOG, "classic")["billing"].offsets[ORDERS] == removed
    frame = groups.offsets_frame()
    row = frame[(frame.group == "billing") & (frame.topic == "orders") & (frame.partition == 0)]
    assert row.offset.tolist() == [1]


def test_a_whole_result_can_be_copied_and_pickled(groups):
    """Copies equal the result, whether its groups were built or not."""
    for copied in (pickle.loads(pickle.dumps(groups)), copy.deepcopy(groups), dataclasses.replace(groups)):
        assert copied == groups and list(copied) == list(groups)
    assert groups["billing"] == pickle.loads(pickle.dumps(groups))["billing"]


@pytest.mark.engine
def test_names_are_listed_without_decoding_a_group(monkeypatch):
    """Iterating, counting and asking for a name read no group record of the native engine."""
    groups = kg.load(LOG, "classic", engine="compiled")

    def refuse(self):
        raise AssertionError("a group was decoded")

    monkeypatch.setattr("kafkagroups.groups.group.UndecodedGroup.decode", refuse)
    assert "billing" in groups and len(groups) == len(list(groups)) and "nobody" not in groups
    with pytest.raises(AssertionError, match="decoded"):
        groups["billing"]


def test_groups_are_shown_in_one_order_by_both_engines():
    """Offsets and pending commits of a group stand in one order, so that its text does not depend on the engine."""
    for folder in ("data/harbour/1.0.1", "data/harbour/4.3.1", "data/crafted/d-c-gt"):
        read, compiled = (kg.load(folder, engine=engine) for engine in ("python", "auto"))
        assert [repr(read[name]) for name in read] == [repr(compiled[name]) for name in read]
        assert repr(read.orphans) == repr(compiled.orphans)

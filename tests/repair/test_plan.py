"""`plan_rescue`: the offsets are those of `load`, and what is left out follows from the fates of the records."""

import struct

import pytest

import kafkagroups as kg
from kafkagroups import UsageError
from tests.captured import LONG, captured, some_folders
from tests.cases import case
from tests.engine.random_logs import random_log
from tests.groups.small_logs import START, offset_record
from tests.handmade import (
    TRANSACTIONAL,
    ControlType,
    LogRecord,
    OffsetCommitValue,
    encode_batch,
    encode_marker,
    write_segment,
)

DATA = "data/harbour"
GROUP_TYPES = {*range(18), *range(19, 24)}
"""The record types of a group coordinator, in all versions of Kafka."""
ORDER = ["pending", "aborted", "hidden", "share group", "other partition", "load failed", "ignored"]


PLANNED = ("offset", "metadata", "leader_epoch", "record_offset")
"""The fields of an offset that a plan has."""


def without_details(offsets):
    return {key: {name: offset[name] for name in PLANNED} for key, offset in offsets.items()}


def loaded_offsets(group):
    """The offsets of a loaded group, with the fields that a plan has too."""
    return {str(key): {name: getattr(offset, name) for name in PLANNED} for key, offset in group.offsets.items()}


def as_in_load(entries):
    """The entries of a plan with the keys of `load --json`, where a negative partition is `foo--1`."""
    return {str(kg.TopicPartition.parse(key)): entry for key, entry in entries.items()}


def check_against_load(plan, groups):
    """Every offset of `load` is in the plan, and nothing else. Pending and hidden commits are left out."""
    planned = plan.to_json()["groups"]
    for group in planned.values():
        group.update({name: as_in_load(group[name]) for name in ("offsets", "left_out")})
    assert set(groups.partitions_of) <= set(planned)
    for name, group in planned.items():
        loaded = groups.get(name)
        orphan = groups.orphans.get(name)
        answered = orphan if orphan is not None and orphan.is_answered else loaded
        assert (group["why"] is None) == (answered is not None)
        if loaded is None:
            assert (group["type"], group["state"]) == (None, None)
        if answered is None:
            assert group["offsets"] == {}
            continue
        assert without_details(group["offsets"]) == loaded_offsets(answered)
        assert loaded is None or (group["type"], group["state"]) == (loaded.type, loaded.state.value)
        loaded = answered
        assert all(offset["partition"] == loaded.partition for offset in group["offsets"].values())
    for name, holder in [*groups.items(), *groups.orphans.items()]:
        left_out = planned[name]["left_out"] if holder.pending or holder.offsets else {}
        pending = {str(key) for offsets in holder.pending.values() for key in offsets}
        assert {key for key, entry in left_out.items() if entry["why"] == "pending"} == pending
        if name in groups.orphans and not holder.is_answered:
            hidden = set(map(str, holder.offsets))
            assert {key for key, entry in left_out.items() if entry["why"] == "hidden"} == hidden - pending


def name_in_key(key):
    """The record type and the group in the bytes of a key: an int16, and a text with an int16 for its size.

    Source: the schemas of Kafka's keys. Every key of these types begins like this. None: it is no such key.
    """
    try:
        record_type, size = struct.unpack_from(">hh", key)
        name = key[4 : 4 + size].decode()
    except (struct.error, UnicodeDecodeError):
        return None
    is_whole = len(key) >= 4 + size and size >= 0
    return (record_type, name) if record_type in GROUP_TYPES and is_whole else None


def offset_key_of(key):
    """The group and the topic-partition in the bytes of a key of type 0 or 1; None for other bytes."""
    named = name_in_key(key)
    if named is None or named[0] > 1:
        return None
    rest = key[4 + len(named[1].encode()) :]
    try:
        (size,) = struct.unpack_from(">h", rest)
        return named[1], f"{rest[2 : 2 + size].decode()}-{struct.unpack_from('>i', rest, 2 + size)[0]}"
    except (struct.error, UnicodeDecodeError):
        return None


def unreadable_commits(folder, rows, groups):
    """The commits whose key can be read, but not their value: by group and topic-partition, (partition, offset)."""
    keys = kg.record_table(folder, table="records", coordinator=groups.coordinator).read_all().to_pylist()
    found = {}
    for row, record in zip(rows, keys, strict=True):
        named = record["key"] and offset_key_of(record["key"])
        partition = None if row["partition"] == -1 else row["partition"]
        if not named or row["control"] or partition not in groups.failed:
            continue
        if row["error"]:
            found[partition, *named] = row["offset"]
        else:
            found.pop((partition, *named), None)
    return {(group, key): (partition, offset) for (partition, group, key), offset in found.items()}


def named_groups(folder, groups):
    """Every group that a key of the log names, from the bytes of the keys."""
    table = kg.record_table(folder, table="records", coordinator=groups.coordinator).read_all()
    names = set()
    for row in table.to_pylist():
        named = None if row["control"] or not row["key"] else name_in_key(row["key"])
        if named and (named[0] > 1 or offset_key_of(row["key"])):
            names.add(named[1])
    return names


def left_out_by_fates(rows, groups, coordinator):
    """What the table `fates` says, by group and topic-partition: why, committed offset, partition, record offset."""
    effects = {}
    commits = []
    for row in rows:
        if row["type"] not in (0, 1) or row["topic"] is None or row["error"]:
            continue
        partition = None if row["partition"] == -1 else row["partition"]
        key = (partition, row["group"], f"{row['topic']}-{row['topic_partition']}")
        is_pending = row["transactional"] if coordinator == "classic" else row["producer_id"] is not None
        if not is_pending or row["fate"] == "wins":
            effects[key] = row["offset"]
        if row["committed_offset"] is not None:
            commits.append((key, row))
    found = {}
    for (partition, group, key), row in commits:
        why = row["fate"]
        if why in ("aborted", "ignored") and row["offset"] < effects.get((partition, group, key), -1):
            continue
        if why == "ignored":
            loaded = groups.get(group)
            if partition in groups.failed:
                why = "load failed"
            elif loaded is None or loaded.partition != partition:
                why = "other partition"
            elif loaded.type == "share":
                why = "share group"
        if why in ORDER:
            entry = (ORDER.index(why), -row["offset"], why, row["committed_offset"], partition, row["offset"])
            found.setdefault(group, {}).setdefault(key, []).append(entry)
    return {group: {key: min(entries)[2:] for key, entries in keys.items()} for group, keys in found.items()}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("family", ["runs", "crafted", "cleaner", "releases"])
def test_captured_logs(family):
    """Every captured log, for both coordinators, against `load` and the table `fates`, with both engines."""
    whys = set()
    for folder in some_folders(family):
        for coordinator in ("classic", "new"):
            with case((folder.relative_to(captured(family)), coordinator)):
                groups = kg.load(folder, coordinator, engine="auto")
                plan = kg.plan_rescue(folder, coordinator, engine="python")
                check_against_load(plan, groups)
                assert kg.plan_rescue(folder, coordinator, engine="auto").to_json() == plan.to_json()
                assert plan.problems == groups.problems
                whys |= {entry.why for group in plan.groups.values() for entry in group.left_out.values()}
                rows = kg.record_table(folder, coordinator=coordinator, engine="auto").read_all().to_pylist()
                wanted = left_out_by_fates(rows, groups, coordinator)
                given = {
                    name: {
                        str(key): (entry.why.value, entry.offset, entry.partition, entry.record_offset)
                        for key, entry in group.left_out.items()
                        if entry.offset is not None
                    }
                    for name, group in plan.groups.items()
                }
                assert {name: entries for name, entries in given.items() if entries} == wanted
                assert set(plan.groups) == named_groups(folder, groups)
                unreadable = {
                    place: offsets
                    for place, offsets in unreadable_commits(folder, rows, groups).items()
                    if place[1] not in wanted.get(place[0], {})
                }
                assert unreadable == {
                    (name, str(key)): (entry.partition, entry.record_offset)
                    for name, group in plan.groups.items()
                    for key, entry in group.left_out.items()
                    if entry.why.name == "UNREADABLE"
                }
    names = {why.name for why in whys}
    assert "PENDING" in names
    if family == "crafted":
        assert {"UNREADABLE", "LOAD_FAILED"} <= names


def test_every_group_of_a_failed_partition_is_listed():
    """Source: data/crafted/answers.json. The records of this log name three groups, and the last one is unreadable."""
    for coordinator in ("classic", "new"):
        groups = kg.plan_rescue("data/crafted/f-txn-after", coordinator).to_json()["groups"]
        assert {name: group["why"] for name, group in groups.items()} == {
            "f-txn-after.g.eg": "load failed",
            "f-txn-after.h.8k": "load failed",
            "f-txn-after.k.fl": "load failed",
        }
        assert groups["f-txn-after.h.8k"]["left_out"] == {}
        unreadable = {"why": "unreadable", "offset": None, "partition": 379, "record_offset": 4}
        assert groups["f-txn-after.k.fl"]["left_out"] == {"t-0": unreadable}


def commit(offset, committed, *, producer=-1, group="g", topic_partition=0):
    record = offset_record(topic_partition, OffsetCommitValue(committed, commit_timestamp=START), group)
    return encode_one(offset, *record, producer=producer)


def tombstone(offset):
    return encode_one(offset, *offset_record(0, None, "g"))


def encode_one(offset, key, value, *, producer=-1):
    attributes = TRANSACTIONAL if producer != -1 else 0
    return encode_batch([LogRecord(offset, START, key, value)], attributes=attributes, producer_id=producer)


def abort(offset, producer=7):
    return encode_marker(offset, producer, ControlType.ABORT)


@pytest.fixture
def plan_group(tmp_path):
    """Plan a log of batches, with the classic coordinator. Return the JSON of group g."""

    def call(*batches, coordinator="classic", **options):
        folder = write_segment(tmp_path, b"".join(batches), 3)
        return kg.plan_rescue(folder, coordinator, **options).to_json()["groups"]["g"]

    return call


@pytest.fixture
def plan_log(plan_group):
    """Plan a log of batches. Return the offset of group g for t-0, and what is left out."""

    def call(*batches, **options):
        group = plan_group(*batches, **options)
        offset = group["offsets"].get("t-0")
        return offset and offset["offset"], group["left_out"].get("t-0")

    return call


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_a_newer_commit_that_does_not_count_is_left_out(plan_log, coordinator):
    """A key with a committed offset has a newer aborted or pending commit: both are in the plan."""
    aborted = plan_log(commit(0, 5), commit(1, 9, producer=7), abort(2), coordinator=coordinator)
    assert aborted == (5, {"why": "aborted", "offset": 9, "partition": 3, "record_offset": 1})
    pending = plan_log(commit(0, 5), commit(1, 9, producer=7), coordinator=coordinator)
    assert pending == (5, {"why": "pending", "offset": 9, "partition": 3, "record_offset": 1})
    both = plan_log(commit(0, 5, producer=7), commit(1, 6, producer=8), abort(2, producer=8), coordinator=coordinator)
    assert both == (None, {"why": "pending", "offset": 5, "partition": 3, "record_offset": 0})


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_an_aborted_commit_before_a_record_that_counts_is_history(plan_log, coordinator):
    """A later commit or tombstone of the key took effect, before or after the marker: nothing is left out."""
    transaction = commit(0, 9, producer=7)
    other = commit(9, 1, topic_partition=1)
    assert plan_log(transaction, abort(1), commit(2, 5), coordinator=coordinator) == (5, None)
    assert plan_log(transaction, commit(1, 5), abort(2), coordinator=coordinator) == (5, None)
    assert plan_log(transaction, abort(1), commit(2, 5), tombstone(3), other, coordinator=coordinator) == (None, None)
    second = (commit(2, 5, producer=8), encode_marker(3, 8))
    assert plan_log(transaction, abort(1), *second, coordinator=coordinator) == (5, None)


def test_only_the_newest_aborted_commit_is_left_out(plan_log):
    """Two aborted transactions of the key: the plan has the newer commit."""
    batches = [commit(0, 5, producer=7), abort(1), commit(2, 6, producer=7), abort(3)]
    assert plan_log(*batches) == (None, {"why": "aborted", "offset": 6, "partition": 3, "record_offset": 2})


def test_records_in_a_partition_that_does_not_answer(plan_log):
    """The home of group g is another partition of 49, so the new coordinator does not answer for it."""
    given = plan_log(commit(0, 5), coordinator="new", partitions=49)
    assert given == (None, {"why": "other partition", "offset": 5, "partition": 3, "record_offset": 0})


def test_a_group_without_records_that_count_is_listed(plan_group):
    """Its offset is deleted, or only another partition answers for it: the plan has the group, and says why."""
    assert plan_group(commit(0, 5), tombstone(1))["why"] == "no group"
    assert plan_group(tombstone(0), coordinator="new", partitions=49)["why"] == "other partition"
    assert plan_group(commit(0, 5, producer=7), abort(1))["why"] == "aborted"
    assert plan_group(commit(0, 5))["why"] is None


def test_an_unreadable_commit_before_a_tombstone_is_history(plan_log):
    """Of a key with an unreadable commit, only a later record tells that the commit does not matter."""
    key, value = offset_record(0, OffsetCommitValue(5, commit_timestamp=START), "g")
    unreadable = encode_one(0, key, b"\0\x09" + value[2:])
    left_out = {"why": "unreadable", "offset": None, "partition": 3, "record_offset": 0}
    assert plan_log(unreadable, commit(1, 5, topic_partition=1)) == (None, left_out)
    assert plan_log(unreadable, tombstone(1)) == (None, None)
    later = {"why": "load failed", "offset": 6, "partition": 3, "record_offset": 1}
    assert plan_log(unreadable, commit(1, 6)) == (None, later)


def test_share_groups_have_no_offsets():
    """The partitions of a share group are named, from its record of type 15. Their progress is in another topic."""
    group = kg.plan_rescue(f"{DATA}/4.3.1").to_json()["groups"]["tasters"]
    assert (group["type"], group["offsets"]) == ("share", {})
    assert group["left_out"] == {"stock-0": {"why": "share group", "offset": None, "partition": 26, "record_offset": 6}}


def test_the_moment_before_a_mistake():
    """With a time, the plan has the offsets of `load` at this time."""
    earlier = kg.load(f"{DATA}/3.9.2", "classic", until_time=(time := first_time_of_last_commit()))
    plan = kg.plan_rescue(f"{DATA}/3.9.2", "classic", until_time=time)
    check_against_load(plan, earlier)
    assert plan.to_json()["groups"] != kg.plan_rescue(f"{DATA}/3.9.2", "classic").to_json()["groups"]
    assert plan.made_from["until_time_ms"] == time


def first_time_of_last_commit():
    offsets = kg.load(f"{DATA}/3.9.2", "classic")["billing"].offsets.values()
    return max(offset.commit_timestamp for offset in offsets) - 1


def test_patterns_and_renames():
    """Only the groups that match are in the plan. Offsets of other topics are left out. Groups can get new ids."""
    plan = kg.plan_rescue(
        f"{DATA}/3.9.2", "classic", groups=["bill*", "dash?oard"], topics=["ord*"], renames={"billing": "b2"}
    )
    assert sorted(plan.groups) == ["billing", "dashboard"]
    assert {*plan.other_groups, *plan.groups} == set(kg.load(f"{DATA}/3.9.2", "classic").partitions_of)
    billing = plan.groups["billing"].to_json()
    assert billing["to"] == "b2" and set(billing["offsets"]) == {"orders-0", "orders-1", "orders-2"}
    assert {key: entry["why"] for key, entry in billing["left_out"].items()} == {
        "payments-0": "filtered",
        "payments-1": "filtered",
    }
    loaded = kg.load(f"{DATA}/3.9.2", "classic")["billing"].offsets
    assert billing["left_out"]["payments-0"]["offset"] == loaded[kg.TopicPartition("payments", 0)].offset


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_groups_of_a_partition_that_does_not_load_get_ids_of_a_healthy_one(tmp_path, coordinator, run):
    """A group's partition is the hash of its id (GroupMetadataManager.partitionFor, 3.9.2), so another id has another.

    Of three partitions, only the second one loads. An id of the log, or of another proposal, is never proposed.
    """
    names = ["a", "b", "c", "d", *(f"{group}-{number}" for group in "abcd" for number in (2, 3))]
    homes = {name: kg.partition_for(name, 3) for name in names}
    key, value = offset_record(0, OffsetCommitValue(5, commit_timestamp=START), "a")
    unreadable = encode_one(99, key, b"\0\x09" + value[2:])
    for number in range(3):
        commits = [commit(at, 5, group=name) for at, name in enumerate(names) if homes[name] == number]
        write_segment(tmp_path, b"".join(commits) + (b"" if number == 1 else unreadable), number)
    plan = kg.plan_rescue(tmp_path, coordinator, partitions=3)
    proposed = plan.proposed_ids
    assert proposed.keys() == {name for name in names if homes[name] != 1}
    assert {kg.partition_for(name, 3) for name in proposed.values()} == {1}
    assert len({*proposed.values(), *names}) == len(proposed) + len(names)
    assert kg.plan_rescue(tmp_path, coordinator, partitions=3, renames=proposed).proposed_ids == {}
    _, out, _ = run("rescue", "plan", tmp_path, "--coordinator", coordinator, "--partitions", 3, "--all")
    printed = " ".join(out.split())
    assert all(f"--rename={name}={proposed[name]}" in printed for name in proposed)
    write_segment(tmp_path, unreadable, 1)
    assert kg.plan_rescue(tmp_path, coordinator, partitions=3).proposed_ids == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": ["nobody*"]}, "no group matches 'nobody\\*'"),
        ({"topics": ["no-topic"]}, "no topic of a planned group matches 'no-topic'"),
        ({"renames": {"nobody": "x"}}, "the plan has no group 'nobody' to rename"),
        ({"renames": {"billing": "shipping"}}, "'billing' and 'shipping' would both become 'shipping'"),
    ],
)
def test_requests_that_fit_no_group(options, message):
    """A typing error must not give an empty plan."""
    with pytest.raises(UsageError, match=message):
        kg.plan_rescue(f"{DATA}/3.9.2", "classic", **options)


@pytest.mark.thorough
@pytest.mark.slow
def test_random_logs(tmp_path):
    """Random logs with all kinds of records, markers and damage: both engines give the same plan, that of `load`."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    left_out = 0
    for seed in range(20_000 if LONG else 400):
        (folder / f"{0:020}.log").write_bytes(random_log(seed))
        for coordinator in ("classic", "new"):
            with case((seed, coordinator)):
                plan = kg.plan_rescue(folder, coordinator, engine="python")
                check_against_load(plan, kg.load(folder, coordinator))
                assert kg.plan_rescue(folder, coordinator, engine="auto").to_json() == plan.to_json()
                left_out += sum(len(group.left_out) for group in plan.groups.values())
    assert left_out > 100

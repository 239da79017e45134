"""What a running coordinator has after it wrote a tombstone: the rows of docs/facts/tombstones.yaml.

The classic coordinator of this package writes the logs of the rows. For Kafka 4.x, a recorded conversation shows that
a running coordinator answers as a load of its log.
"""

import json

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import Errors
from tests import cases
from tests.captured import captured
from tests.coordinator.conftest import ORDERS, ORDERS_1
from tests.groups.tombstones import ROWS, describe
from tests.handmade import ControlType, GroupMetadataKey, decode_control_key

NEVER_WRITTEN = {"U", "U2", "W"}
"""The words that no request makes a broker write."""


@pytest.mark.parametrize("log", [log for log, row in ROWS.items() if row.running is not None])
def test_the_running_classic_coordinator_has_what_the_row_says(kafka, log):
    """The requests write exactly the batches of the row, and leave what the row says."""
    play(kafka, log)
    assert read_written_words(kafka) == log.split()
    assert read_running(kafka, log) == ROWS[log].running


@pytest.mark.parametrize("log", [log for log, row in ROWS.items() if row.running is None])
def test_no_classic_coordinator_writes_the_other_rows(kafka, log):
    if NEVER_WRITTEN.isdisjoint(log.split()):
        play(kafka, log)
        assert read_written_words(kafka) != log.split()


def play(kafka, log):
    """Send the requests that write the batches of the words. The commit of word n has the offset 100 + n."""
    for number, word in enumerate(log.split()):
        if word == "C":
            kafka.commit("g", 100 + number)
        elif word in "XY":
            kafka.txn_commit("g", 100 + number, ORDERS if word == "X" else ORDERS_1)
        elif word in "MA":
            kafka.end(commits=word == "M")
        elif word == "T":
            kafka.coordinator.offset_delete("g", [ORDERS])
        elif word == "E":
            kafka.coordinator.leave_group("g", [kafka.stable("g")])
        else:
            assert word in "DK"
            assert kafka.coordinator.delete_groups(["g"]).value == {"g": Errors.NONE}


def read_written_words(kafka):
    """Return the words of the log. The record that a group with a member writes has no word."""
    words = []
    for batch in kafka.read(0):
        if batch.is_control:
            (marker,) = batch.records
            words.append("M" if decode_control_key(marker.key) is ControlType.COMMIT else "A")
            continue
        of_batch = "".join(name_record(batch, kg.decode(each.key, each.value)) for each in batch.records)
        if of_batch:
            words.append("K" if of_batch == "TD" else of_batch)
    return words


def name_record(batch, record):
    """Return the word of one record. In a batch with both tombstones, the two words are "T" and "D"."""
    if isinstance(record.key, GroupMetadataKey):
        if record.value is None:
            return "D"
        return "" if record.value.members else "E"
    if record.value is None:
        return "T"
    if not batch.is_transactional:
        return "C"
    return "X" if record.key.partition == 0 else "Y"


def read_running(kafka, log):
    """Return what the coordinator has of the group in its memory."""
    group = kafka.group("g")
    if group is None:
        return describe(has_group=False)
    words = {100 + number: word for number, word in enumerate(log.split())}
    pending = [it for offsets in group.offsets.transactions.values() for it in offsets.values()]
    committed = [words[each.offset] for each in group.offsets.committed.values()]
    return describe(has_group=True, committed=committed, pending=[words[each.offset] for each in pending])


def test_a_running_new_coordinator_answers_as_a_load_of_its_log():
    """4.3.1-deletes: every OffsetFetch and DescribeGroups, before and after the restart of the broker."""
    folder = captured("conversations") / "conversations" / "4.3.1-deletes"
    next_offsets = dict.fromkeys(range(4), 0)
    seen = []
    for line in (folder / "conversation.jsonl").read_text(encoding="utf-8").splitlines()[1:]:
        step = json.loads(line)
        if step.get("api") in ("OffsetFetch", "DescribeGroups"):
            with cases.case(step["n"]):
                seen += check_answer(step, folder / "log", next_offsets)
        for appended in step.get("appended", ()):
            next_offsets[appended["partition"]] = appended["last"] + 1
    assert {("OffsetFetch", each) for each in ("simple", "sub", "s2", "pend", "pend2", "pend3")} <= set(seen)
    assert {("DescribeGroups", each) for each in ("simple", "s2", "pend", "pend2", "pend3")} <= set(seen)


def check_answer(step, folder, next_offsets):
    """Compare the answer of a broker with a load of the log that it has written so far."""
    for answer in step["response"]["groups"]:
        group_id = answer["groupId"]
        partition = kg.partition_for(group_id, len(next_offsets))
        log = folder / f"__consumer_offsets-{partition}"
        group = kg.load(log, "new", until=next_offsets[partition]).get(group_id) if next_offsets[partition] else None
        if step["api"] == "DescribeGroups":
            assert (group.state.value if group else "Dead") == answer["groupState"]
        else:
            offsets = {(each.topic, each.partition): it.offset for each, it in group.offsets.items()} if group else {}
            assert offsets == {
                (topic["name"], each["partitionIndex"]): each["committedOffset"]
                for topic in answer["topics"]
                for each in topic["partitions"]
                if each["committedOffset"] != -1
            }
        yield step["api"], group_id

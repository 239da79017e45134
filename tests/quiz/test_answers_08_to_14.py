"""The answers of the quizzes, lessons 08 to 14.

The bytes and the tables are read from the quiz itself. The package or the solution of an exercise computes the answer.
"""

import re
from types import SimpleNamespace

import kafkagroups as kg
from kafkagroups import course
from tests.handmade import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, consumer_group
from tests.quiz.pages import find_answer, read_bytes, read_quiz, read_table, solve, write_log


def test_08_offsets_in_transactions():
    """The solution of lesson 08 replays the table. One producer has no marker."""
    lines = []
    producers = set()
    for offset, text in read_table("08", 1):
        producer = re.search(r"producer (\d)", text)
        number = int(producer[1]) if producer else None
        kind = {"committed": "commit", "aborted": "abort"}.get(text.split()[-1], "offset")
        value = int(re.search(r"of (\d+)", text)[1]) if kind == "offset" else None
        producers ^= {number} if number else set()
        lines.append(SimpleNamespace(record_offset=int(offset), record_type=kind, value=value, producer=number))
    for line in lines:
        line.group = "g"
        line.partition = "orders-0"
    assert producers == {3}
    offset = solve("replay_transactions", lines)["g", "orders-0"]
    assert find_answer("08", 1) == f"{offset}, and `UNSTABLE_OFFSET_COMMIT`"


def test_09_the_day_of_the_deletion():
    with_member = course.find_deletion_day("3.9.2", commit_day=0, leaves_on=3, retention=7)
    simple = SimpleNamespace(state="Empty", type="", read_topics=[], state_start=0, offsets={"orders-0": (0, None)})
    days = [day for day in range(20) if solve("expired", simple, day, 7)]
    assert find_answer("09", 1) == f"`mailer` on day {with_member}, `dashboard` on day {days[0]}"


def test_09_tombstones_and_protected_topics(billing):
    """The rules of 3.9.2. The coordinator of 4.3.1 always writes the tombstone of the group, too."""
    partitions = [kg.TopicPartition("orders", 0), kg.TopicPartition("payments", 0)]
    errors = billing.coordinator.offset_delete("billing", partitions).value.partitions.values()
    assert find_answer("09", 4) == " and ".join(f"`{error.name}`" for error in errors)
    billing.commit("billing-1", {"payments-0": 8})
    billing.leave("billing-1")
    count = len(billing.log_lines)
    billing.delete()
    written = billing.log_lines[count:]
    assert find_answer("09", 2).split()[0] == str(len(written))
    assert all(line.value is None for line in written)


def test_10_what_remains():
    lines = read_quiz("10")[1].splitlines()
    offsets = [int(number) for number in re.findall(r"\d+", next(line for line in lines if line.startswith("offset")))]
    values = re.findall(r"([A-C])=(\d|∅)", "\n".join(lines))
    records = [
        (offset, key, None if value == "∅" else value) for offset, (key, value) in zip(offsets, values, strict=True)
    ]
    *first, last = map(str, solve("survivors", records, 6))
    assert find_answer("10", 1) == f"{', '.join(first)} and {last}"


def test_10_passes_and_horizons():
    """A horizon is the time of a pass plus 24 hours. The first later pass at or after it removes the record."""
    passes = (6, 20, 29, 31, 60)
    removed_by = next(number for number, hour in enumerate(passes, 1) if hour >= passes[0] + 24)
    assert find_answer("10", 3) == str(removed_by)
    passes = (0, 10, 20, 40)
    removed_by = next(number for number, hour in enumerate(passes, 1) if hour >= passes[1] + 24)
    assert find_answer("10", 4) == str(removed_by)


def encode_commit(group, offset):
    return kg.encode(kg.Record(1, OffsetCommitKey(group, "t", 0), OffsetCommitValue(offset), 3))


def test_11_both_coordinators_load_the_log(tmp_path):
    """Record 3 is the tombstone of a group without the tombstone of its offset."""
    group = kg.encode(kg.Record(2, GroupMetadataKey("g"), GroupMetadataValue("consumer", 1, "range", None, 0, ()), 3))
    deleted = kg.encode(kg.Record(2, GroupMetadataKey("g"), None, None))
    batches = [[encode_commit("g", 5)], [group], [encode_commit("g", 7)], [deleted]]
    folder = write_log(tmp_path / "__consumer_offsets-0", batches)
    partition = kg.TopicPartition("t", 0)
    found = {}
    for coordinator in ("new", "classic"):
        loaded = kg.load(folder, coordinator=coordinator).get("g")
        found[coordinator] = loaded.offsets[partition].offset if loaded else "−1"
    assert find_answer("11", 2) == f"4.x: {found['new']}. Classic: {found['classic']}"


def test_11_and_12_seconds():
    per_second = 0.4
    assert find_answer("11", 1) == f"{(1.2 + 0.4 + 2.0) / per_second:.0f}"
    assert find_answer("11", 3) == str(9 + 45)
    assert find_answer("12", 1) == f"{10 * 0.4 / per_second:.0f} seconds, and {2 * 0.4 / per_second:.0f} seconds"
    assert find_answer("12", 3) == str(1_000_000 // 250_000)
    assert find_answer("12", 4) == f"{18 / (1 / 5 - 1 / 50):.0f}"


def test_12_merged_parts():
    left = {"k1": (3, 10), "k2": (5, None)}
    right = {"k1": (7, None), "k3": (6, 4)}
    merged = solve("merge", left, right)
    assert find_answer("12", 2) == ", ".join(f"`{key}` = {value}" for key, (_, value) in merged.items() if value)
    assert merged["k2"] == (5, None)


def test_13_a_current_assignment_in_hex():
    record = kg.decode(*read_bytes("13", 1))
    assert find_answer("13", 1) == f"Type {record.type}, epoch {record.value.member_epoch}, state {record.value.state}"


def test_13_the_states_of_three_groups():
    states = []
    for line in re.findall(r"^\d\. group epoch (.+)$", read_quiz("13")[2], re.M):
        group_epoch, assignment_epoch, *members = map(int, re.findall(r"\d+", line))
        pairs = list(zip(members[::2], members[1::2], strict=True))
        states.append(solve("group_state", group_epoch, assignment_epoch, pairs))
    assert find_answer("13", 2) == ", ".join(states)


def test_13_the_order_of_tombstones(tmp_path):
    """Only the order of one partition loads."""
    member = consumer_group.ConsumerGroupMemberMetadataValue(client_id="c", client_host="/h")
    target = consumer_group.ConsumerGroupTargetAssignmentMemberValue()
    current = consumer_group.ConsumerGroupCurrentMemberAssignmentValue(2, 1, 0, (), ())
    keys = {
        5: consumer_group.MemberIdKey("g", "m"),
        3: consumer_group.GroupIdKey("g"),
        7: consumer_group.MemberIdKey("g", "m"),
        6: consumer_group.GroupIdKey("g"),
        8: consumer_group.MemberIdKey("g", "m"),
    }
    values = {
        5: member,
        3: consumer_group.ConsumerGroupMetadataValue(2),
        7: target,
        6: consumer_group.ConsumerGroupTargetAssignmentMetadataValue(2),
        8: current,
    }
    created = [kg.encode(kg.Record(number, keys[number], values[number], 0)) for number in keys]
    loaded = []
    for letter, order in re.findall(r"^- ([A-C]): ([\d, ]+)$", read_quiz("13")[4], re.M):
        deleted = [kg.encode(kg.Record(int(number), keys[int(number)], None, None)) for number in order.split(", ")]
        folder = write_log(tmp_path / letter / "__consumer_offsets-0", [created, *([pair] for pair in deleted)])
        if not kg.load(folder, coordinator="new").failed:
            loaded.append(letter)
    assert loaded == [find_answer("13", 4)]


def test_14_records_in_a_day():
    assert find_answer("14", 2) == f"{40 * 24 * 60 * 60 // 5:,}"
    rows = re.findall(r"^ ([a-z-]+) +(\d+) +\d+ +(\d+)$", read_quiz("14")[1], re.M)
    largest = max(rows, key=lambda row: int(row[1]))[0]
    assert find_answer("14", 1) == f"`{largest}`, {sum(int(row[2]) for row in rows)} records"

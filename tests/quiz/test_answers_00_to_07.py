"""The answers of the quizzes, lessons 00 to 07.

The bytes and the tables are read from the quiz itself. The package or the solution of an exercise computes the answer.
"""

import re

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import Errors, OffsetCommit, TopicPartition, offset_for_leader_epoch
from tests.handmade import CONTROL, TRANSACTIONAL, ControlType, encode_control_key
from tests.quiz.pages import find_answer, read_bytes, read_quiz, solve

ORDERS_0 = TopicPartition("orders", 0)


def test_00_the_partitions_of_three_groups():
    assert [kg.partition_for(group) for group in ("billing", "fraud-check", "shipping")] == [9, 9, 8]
    assert find_answer("00", 5) == "`billing` and `fraud-check`"


def test_01_a_commit_in_hex():
    record = kg.decode(*read_bytes("01", 1))
    value = record.value
    assert find_answer("01", 1) == f"`{record.key.group}`, offset {value.offset}, leader epoch {value.leader_epoch}"


def test_01_the_tombstone_of_a_group():
    record = kg.decode(*read_bytes("01", 2), None)
    assert (record.type, record.key.group, record.value) == (2, "tea", None)


def test_01_empty_metadata_can_be_read_and_null_metadata_cannot():
    key, value = read_bytes("01", 1)
    length_and_text = bytes.fromhex("00 02 6f 6b")
    assert kg.decode(key, value.replace(length_and_text, b"\x00\x00")).value.metadata == ""
    with pytest.raises(kg.InvalidRecord):
        kg.decode(key, value.replace(length_and_text, b"\xff\xff"))


def test_01_key_type_0_with_value_version_3():
    """Kafka 4.3.1 refuses this record, and 3.9.2 reads it."""
    key, value = read_bytes("01", 1)
    with pytest.raises(kg.InvalidRecord):
        kg.decode(b"\x00\x00" + key[2:], value)


def test_02_hash_and_partition():
    assert find_answer("02", 1) == str(kg.partition_for("ab", 50))
    assert find_answer("02", 2) == str(abs(-1234567) % 50)
    stays = [hash_ for hash_ in (1205, 1255) if hash_ % 50 == hash_ % 60]
    assert find_answer("02", 3) == f"Only the group with the hash {stays[0]}"
    assert len(stays) == 1
    name = "🥐tea"
    assert find_answer("02", 4) == f"{len(name.encode('utf-16-be')) // 2} steps, length {len(name.encode())}"


def test_03_the_next_batch():
    [header] = read_bytes("03", 1)
    offset = int.from_bytes(header[:8], "big")
    length = int.from_bytes(header[8:], "big")
    assert find_answer("03", 1) == f"Offset {offset}, byte {500 + 12 + length}"


def test_03_varints():
    numbers = [solve("read_varint", data, 0)[0] for data in (b"\xd2\x01", b"\x03")]
    assert find_answer("03", 2) == f"{numbers[0]} and {numbers[1]}".replace("-", "−")


def test_03_attributes_and_markers():
    """zstd is 4. The key of an abort marker has the type 0."""
    zstd = 4
    assert TRANSACTIONAL | zstd == 0x14
    assert TRANSACTIONAL | CONTROL == 0x30
    assert encode_control_key(ControlType.ABORT) == bytes(4)


@pytest.mark.parametrize("kafka", ["3.9.2", "4.3.1"])
def test_04_the_record_later_in_the_log_is_returned(kafka):
    broker = course.start_broker(kafka=kafka, holds_answers=True)
    for offset, error in ((10, Errors.NONE), (12, Errors.REQUEST_TIMED_OUT), (11, Errors.NONE)):
        broker.offset_commit("g", {ORDERS_0: OffsetCommit(offset)})
        broker.manager.logs.release(error=error)
    assert find_answer("04", 1) == str(_fetch(course.start_follower(broker, "g")))


@pytest.mark.parametrize("kafka", ["3.9.2", "4.3.1"])
def test_04_two_commits_in_flight(kafka):
    broker = course.start_broker(kafka=kafka, holds_answers=True)
    fetched = []
    for offset in (5, 6, 7):
        broker.offset_commit("g", {ORDERS_0: OffsetCommit(offset)})
        if offset == 5:
            broker.manager.logs.release()
    for _ in range(2):
        fetched.append(str(_fetch(broker)))
        broker.manager.logs.release()
    fetched.append(str(_fetch(broker)))
    assert find_answer("04", 2) == ", ".join(fetched)


def _fetch(broker):
    return broker.offset_fetch("g").value.offsets[ORDERS_0].offset


def test_05_where_an_epoch_ends():
    epochs = [(0, 0), (4, 50), (7, 80)]
    starts = []
    for offset, epoch in ((60, 4), (90, 4), (70, 5)):
        _, end = offset_for_leader_epoch(epochs, 130, epoch)
        starts.append(str(min(offset, end)))
    assert find_answer("05", 1) == ", ".join(starts)


def test_05_stable_answers():
    asked = ["orders-0", "orders-1", "orders-2"]
    answers = solve("get_offsets", {"orders-0": 10}, {"orders-0", "orders-1"}, asked, True)
    texts = [f"`{answer}`" if isinstance(answer, str) else "−1" for answer in answers.values()]
    assert find_answer("05", 2) == ", ".join(texts)


def test_06_the_vote():
    lists = [part.split(", ") for part in re.findall(r"`([a-z, ]+)`", read_quiz("06")[3])]
    assert len(lists) == 3
    assert find_answer("06", 3) == f"`{solve('select_protocol', lists)}`"


def test_06_the_last_sign_of_life():
    assert find_answer("06", 1) == str(10 + 45)


def test_06_the_end_of_the_join_phase():
    """A coordinator with the rules of Kafka 3.9 gets the three JoinGroups of the question."""
    life = course.GroupLife("g")
    timeouts = {"a": 60, "b": 120, "c": 40}

    def join(name):
        life.join(name, session_s=200, rebalance_s=timeouts[name])

    for name in timeouts:
        join(name)
        join(name)
    life.wait(9)
    life.sync("a")
    life.sync("b")
    life.sync("c")
    assert life.read_state_name() == "Stable"
    join("a")
    life.wait(10)
    join("c")
    life.wait(89)
    assert life.read_state_name() == "PreparingRebalance"
    life.wait(1)
    join("b")
    assert life.read_state_name() == "CompletingRebalance"
    assert len(life.group.members) == 3
    assert find_answer("06", 2) == "At 100 s. No member is removed"


def test_07_three_refused_commits(billing):
    [member] = billing.consumers.values()
    generation = billing.group.generation
    orders_0 = kg.TopicPartition("orders", 0)
    errors = []
    for member_id, number in (("m-9", generation), (member.member_id, generation - 1), ("", -1)):
        answer = billing.coordinator.offset_commit(
            "billing", {orders_0: OffsetCommit(9)}, generation=number, member_id=member_id
        )
        errors.append(f"`{answer.value[orders_0].name}`")
    assert find_answer("07", 1) == ", ".join(errors)


def test_07_a_wrong_partition_and_a_wrong_generation(billing):
    [member] = billing.consumers.values()
    offsets = {
        kg.TopicPartition(topic, number): OffsetCommit(9)
        for topic, number in (("orders", 0), ("orders", 1), ("orderz", 0))
    }
    counts = []
    for generation in (member.generation, member.generation - 1):
        answer = billing.coordinator.offset_commit(
            "billing", offsets, generation=generation, member_id=member.member_id
        )
        counts.append(list(answer.value.values()).count(Errors.NONE))
    assert find_answer("07", 3) == f"{counts[0]}, and {counts[1]}"


def test_07_the_length_of_the_metadata():
    options = re.findall(r"^- ([A-C]): ([\d,]+) times `(.)`", read_quiz("07")[2], re.M)
    texts = {letter: character * int(count.replace(",", "")) for letter, count, character in options}
    broker = course.start_broker(kafka="4.3.1")
    answers = {
        letter: broker.offset_commit(letter, {ORDERS_0: OffsetCommit(1, text)}) for letter, text in texts.items()
    }
    refused = [letter for letter, answer in answers.items() if answer.value[ORDERS_0] is not Errors.NONE]
    assert refused == [find_answer("07", 2)]
